package rlock;

/** Something that has to hold, with the name that says what. */
record Scenario(String name, Body body) {
    /** Throws if it does not hold; returns what it measured, or nothing. */
    interface Body {
        String run(World world) throws Exception;
    }

    /** A scenario that measures nothing. */
    static Scenario of(String name, Silent body) {
        return new Scenario(name, world -> {
            body.run(world);
            return "";
        });
    }

    interface Silent {
        void run(World world) throws Exception;
    }
}
