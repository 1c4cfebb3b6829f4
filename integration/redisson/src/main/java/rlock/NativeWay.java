package rlock;

import java.util.List;

/** A native client's locks. */
final class NativeWay extends Way {
    private final World world;
    private final long leaseMs;
    private final boolean durable;
    private final String[] wait;
    private final Native client;
    private String owner;

    /**
     * @param durable it takes no lock for its own that its primary alone knows of
     * @param wait for how long each command waits
     */
    NativeWay(World world, List<Kind> kinds, String key, long leaseMs, boolean durable, String... wait) {
        super(kinds, key);
        this.world = world;
        this.leaseMs = leaseMs;
        this.durable = durable;
        this.wait = wait;
        this.client = world.client(key);
    }

    @Override
    long takeIt() throws Exception {
        while (true) {
            owner = world.owner();
            long token = client.token(key, owner, leaseMs, Native.with(kind.and("HOLDS", "1"), wait));
            if (token < 0) {
                Thread.sleep(1);
            } else if (!durable || client.isReplicated(key, owner, leaseMs, kind.mode())) {
                return token;
            } else {
                giveBack();
            }
        }
    }

    @Override
    void giveBack() {
        Long holds = client.release(key, owner, Native.with(kind.mode(), "HOLDS", "0"));
        // Where it had to ask twice, the first may have released it.
        Check.that(world.isChanging() || Long.valueOf(1).equals(holds), key + " was not released: " + holds);
    }

    @Override
    public void close() {
        client.close();
    }
}
