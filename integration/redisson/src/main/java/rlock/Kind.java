package rlock;

import java.util.List;
import java.util.Locale;
import java.util.function.BiFunction;
import org.redisson.api.LockOptions;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/** A kind of lock on either side. */
enum Kind {
    PLAIN(RedissonClient::getLock),
    /** A plain one to the server. It listens to nothing, and asks again and again. */
    SPIN((redisson, key) -> redisson.getSpinLock(key, new LockOptions.ConstantBackOff().delay(20))),
    FENCED(RedissonClient::getFencedLock, "FENCED"),
    FAIR(RedissonClient::getFairLock, "FAIR"),
    READ((redisson, key) -> redisson.getReadWriteLock(key).readLock(), "READ"),
    WRITE((redisson, key) -> redisson.getReadWriteLock(key).writeLock(), "WRITE");

    private final BiFunction<RedissonClient, String, RLock> lock;
    /** The words of RLOCK.ACQUIRE. */
    private final String[] words;

    Kind(BiFunction<RedissonClient, String, RLock> lock, String... words) {
        this.lock = lock;
        this.words = words;
    }

    RLock of(RedissonClient redisson, String key) {
        return lock.apply(redisson, key);
    }

    /** The words of RLOCK.ACQUIRE, with others behind. */
    String[] and(String... others) {
        return Native.with(words, others);
    }

    /** The word of the other commands. */
    String[] mode() {
        return isOfReadWrite() ? words : new String[0];
    }

    boolean isOfReadWrite() {
        return this == READ || this == WRITE;
    }

    /** The kinds that nobody else acquires beside this one; the first waits for it where one is enough. */
    List<Kind> excluded() {
        return switch (this) {
            case READ -> List.of(WRITE);
            case WRITE -> List.of(WRITE, READ);
            default -> List.of(this);
        };
    }

    /** The channel to which all waiters listen; those of a fair lock have a channel each. */
    String channel(String key) {
        return World.prefixed(isOfReadWrite() ? "redisson_rwlock" : "redisson_lock__channel", key);
    }

    @Override
    public String toString() {
        return name().toLowerCase(Locale.ROOT);
    }
}
