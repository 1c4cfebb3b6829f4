package rlock;

import java.util.List;

/**
 * One way to take a lock again and again, of several kinds each in turn, and to give it back. For one thread, in which it has to be made:
 * Redisson's owner is that.
 */
abstract class Way implements AutoCloseable {
    final String key;
    private final List<Kind> kinds;
    private int number;
    /** That of this turn. */
    Kind kind;

    Way(List<Kind> kinds, String key) {
        this.kinds = kinds;
        this.key = key;
    }

    /** Takes it, however long that takes; the fencing token, or 0. */
    final long take() throws Exception {
        kind = kinds.get(number++ % kinds.size());
        return takeIt();
    }

    abstract long takeIt() throws Exception;

    abstract void giveBack() throws Exception;
}
