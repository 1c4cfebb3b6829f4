package rlock.fleet;

/** A kind of lock. */
enum Kind {
    PLAIN("plain"),
    FAIR("fair"),
    READ_WRITE("read/write");

    final String text;

    Kind(String text) {
        this.text = text;
    }
}
