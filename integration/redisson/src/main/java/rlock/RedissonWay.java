package rlock;

import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/** Redisson's locks. After an error of the library, the thread asks again. */
final class RedissonWay extends Way {
    /** It waits as long as it takes. */
    static final long FOR_EVER = -1;

    private final RedissonClient redisson;
    private final long leaseMs;
    private final long waitMs;
    private final AtomicLong errors;
    private RLock lock;
    private long began;

    /**
     * @param waitMs 0: it tries again and again; more: it waits for so long each time
     * @param errors where it counts what Redisson throws
     */
    RedissonWay(RedissonClient redisson, List<Kind> kinds, String key, long leaseMs, long waitMs, AtomicLong errors) {
        super(kinds, key);
        this.redisson = redisson;
        this.leaseMs = leaseMs;
        this.waitMs = waitMs;
        this.errors = errors;
    }

    @Override
    long takeIt() throws Exception {
        lock = kind.of(redisson, key);
        while (true) {
            began = System.nanoTime();
            try {
                Long token = attempt();
                if (token != null) {
                    return token;
                }
                WakeUps.aMoment();
            } catch (RuntimeException error) {
                letGo();
            }
        }
    }

    /** Null: not acquired. */
    private Long attempt() throws InterruptedException {
        if (lock instanceof RFencedLock fenced) {
            return waitMs == FOR_EVER ? fenced.lockAndGetToken() : fenced.tryLockAndGetToken();
        }
        if (waitMs == FOR_EVER) {
            lock.lock();
            return 0L;
        }
        boolean acquired = waitMs == 0 ? lock.tryLock() : lock.tryLock(waitMs, leaseMs, TimeUnit.MILLISECONDS);
        return acquired ? 0L : null;
    }

    @Override
    void giveBack() throws Exception {
        try {
            lock.unlock();
        } catch (IllegalMonitorStateException lost) {
            // Its way back took longer than the lease; or its slot was moving: see Control.
            boolean slow = Check.millisSince(began) > leaseMs;
            Check.that(slow || waitMs == 0, key + " was lost: " + lost);
            errors.incrementAndGet();
        } catch (RuntimeException error) {
            letGo();
        }
    }

    /** After an error nobody knows whether this thread has the lock: it gives back what it has. */
    private void letGo() throws Exception {
        long deadline = System.nanoTime() + Turmoil.BOUND_MS * 1_000_000;
        while (true) {
            errors.incrementAndGet();
            try {
                while (lock.isHeldByCurrentThread()) {
                    lock.unlock();
                }
                return;
            } catch (RuntimeException again) {
                // It may also have been released by an earlier attempt, or by the end of the lease.
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
