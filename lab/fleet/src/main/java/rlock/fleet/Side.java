package rlock.fleet;

import java.time.Duration;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Lock;
import rlock.client.Guard;
import rlock.client.Handle;
import rlock.client.RlockException.Timeout;

/** A lock, or one side of a read/write lock, for one thread. */
interface Side {
    /** Waits for the lock; false: not acquired within this time. */
    boolean acquire(Duration limit) throws InterruptedException;

    void release();

    /** A lock of Redisson, or the view of a native one: the code of both is the same. */
    static Side of(Lock lock) {
        return new Side() {
            @Override
            public boolean acquire(Duration limit) throws InterruptedException {
                return lock.tryLock(limit.toMillis(), TimeUnit.MILLISECONDS);
            }

            @Override
            public void release() {
                lock.unlock();
            }
        };
    }

    /** A native lock, by guards. */
    static Side of(Handle<?, ?> lock) {
        return new Side() {
            private Guard held;

            @Override
            public boolean acquire(Duration limit) throws InterruptedException {
                try {
                    held = lock.acquire(limit);
                    return true;
                } catch (Timeout late) {
                    return false;
                }
            }

            @Override
            public void release() {
                held.release();
            }
        };
    }
}
