package rlock;

import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RReadWriteLock;
import org.redisson.api.RedissonClient;

/** Redisson's locks; of a read/write lock one and the other in turn. An error of Redisson's ends nothing: the thread asks again. */
final class RedissonWay implements Way {
    private final List<RLock> locks;
    private final RFencedLock fenced;
    private final long leaseMs;
    private final boolean tries;
    private final AtomicLong errors;
    private long number;
    private RLock lock;
    private long began;

    /**
     * @param tries it tries again and again instead of waiting
     * @param errors where it counts what Redisson throws
     */
    RedissonWay(RedissonClient redisson, String kind, String key, long leaseMs, boolean tries, AtomicLong errors) {
        this.leaseMs = leaseMs;
        this.tries = tries;
        this.errors = errors;
        RReadWriteLock page = redisson.getReadWriteLock(key);
        fenced = kind.equals("fenced") ? redisson.getFencedLock(key) : null;
        locks = switch (kind) {
            case "plain" -> List.of(redisson.getLock(key));
            case "fenced" -> List.of(fenced);
            case "fair" -> List.of(redisson.getFairLock(key));
            default -> List.of(page.readLock(), page.writeLock());
        };
    }

    @Override
    public long take() throws Exception {
        lock = locks.get((int) (number++ % locks.size()));
        while (true) {
            began = System.nanoTime();
            try {
                Long token = tries ? attempt() : waitForIt();
                if (token != null) {
                    return token;
                }
                WakeUps.aMoment();
            } catch (RuntimeException error) {
                letGo(error);
            }
        }
    }

    /** Null: not acquired. */
    private Long attempt() {
        if (fenced != null) {
            return fenced.tryLockAndGetToken();
        }
        return lock.tryLock() ? 0L : null;
    }

    private Long waitForIt() {
        if (fenced != null) {
            return fenced.lockAndGetToken();
        }
        lock.lock();
        return 0L;
    }

    @Override
    public boolean shared() {
        return lock == locks.get(0) && locks.size() == 2;
    }

    @Override
    public void giveBack() throws Exception {
        try {
            lock.unlock();
        } catch (IllegalMonitorStateException lost) {
            // Its way back took longer than the lease; or its slot was moving: see Control.
            boolean slow = Check.millisSince(began) > leaseMs;
            Check.that(slow || tries, lock.getName() + " was lost: " + lost);
            errors.incrementAndGet();
        } catch (RuntimeException error) {
            letGo(error);
        }
    }

    /** After an error nobody knows whether this thread has the lock: it gives back what it has. */
    private void letGo(RuntimeException error) throws Exception {
        long deadline = System.nanoTime() + Turmoil.BOUND_MS * 1_000_000;
        RuntimeException last = error;
        while (true) {
            errors.incrementAndGet();
            try {
                while (lock.isHeldByCurrentThread()) {
                    lock.unlock();
                }
                return;
            } catch (RuntimeException again) {
                // It may also have been released by an earlier attempt, or by the end of the lease.
                last = again;
                if (System.nanoTime() > deadline) {
                    throw again;
                }
                Thread.sleep(10);
            }
        }
    }

    @Override
    public void close() {
        // Its client goes on.
    }
}
