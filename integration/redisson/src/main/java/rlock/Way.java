package rlock;

/** One way to take a lock again and again, and to give it back. For one thread, in which it has to be made: Redisson's owner is that. */
interface Way extends AutoCloseable {
    /** Takes it, however long that takes; the fencing token, or 0. */
    long take() throws Exception;

    /** Whether others may have it at the same time. */
    boolean shared();

    void giveBack() throws Exception;
}
