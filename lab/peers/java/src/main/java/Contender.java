/** A way to lock, and to do so as one process. */
interface Contender extends AutoCloseable {
    /** Waits for the lock as long as it takes. */
    Object acquire(String key) throws Exception;

    /** In the thread that acquired it. */
    void release(Object held) throws Exception;

    /** A contender with connections of its own, like another process; it uses the threads of this one. */
    Contender another();

    /** Does what is recorded: see {@link Recorded}. */
    default void record(String key) throws Exception {
        throw new UnsupportedOperationException("only Redisson is recorded");
    }

    @Override
    void close();
}
