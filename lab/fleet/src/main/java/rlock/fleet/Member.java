package rlock.fleet;

import java.time.Duration;
import java.util.List;
import java.util.Random;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;

/** A thread of the fleet, which holds one lock again and again. Between two holds it may change its service. */
final class Member extends Thread {
    private final Resource resource;
    private final Load load;
    private final Random random;
    private volatile Service service;
    private volatile boolean over;
    private volatile Throwable failure;
    final AtomicLong holds = new AtomicLong();
    /** In ns. */
    private final AtomicLong longestWait = new AtomicLong();
    /** When it began to wait; 0: it does not. */
    private volatile long waitingSince;

    /**
     * How it works.
     *
     * @param limit of each wait
     * @param holdUs at most for so long
     * @param pauseUs likewise, after each hold
     */
    record Load(Duration limit, int holdUs, int pauseUs) {}

    Member(String name, Resource resource, Load load, long seed, Service first) {
        super(name);
        this.resource = resource;
        this.load = load;
        this.random = new Random(seed);
        this.service = first;
        setDaemon(true);
    }

    /** Takes effect when it asks for the lock the next time. */
    void change(Service next) {
        service = next;
    }

    boolean isNative() {
        return service.isNative();
    }

    @Override
    public void run() {
        try {
            Service now = null;
            List<Side> sides = null;
            while (!over) {
                if (service != now) {
                    now = service;
                    sides = now.sides(resource.kind, resource.key);
                }
                hold(sides, now);
            }
        } catch (InterruptedException | RuntimeException | Error failed) {
            failure = failed;
        }
    }

    private void hold(List<Side> sides, Service now) throws InterruptedException {
        int number = random.nextInt(sides.size());
        boolean shared = number == 1;
        long asked = System.nanoTime();
        waitingSince = asked;
        if (!sides.get(number).acquire(load.limit)) {
            throw new AssertionError(
                resource.key + " was not acquired within " + load.limit + (now.isNative() ? " by a native" : " by Redisson"));
        }
        longestWait.accumulateAndGet(System.nanoTime() - asked, Math::max);
        waitingSince = 0;
        resource.enter(shared);
        sleep(load.holdUs);
        resource.leave(shared);
        sides.get(number).release();
        holds.incrementAndGet();
        sleep(load.pauseUs);
    }

    private void sleep(int mostUs) {
        if (mostUs > 0) {
            LockSupport.parkNanos(1_000L * (mostUs / 2 + random.nextInt(mostUs / 2 + 1)));
        }
    }

    /** Its longest wait in ns since this was last asked, up to now. */
    long takeLongestWait() {
        long since = waitingSince;
        return Math.max(longestWait.getAndSet(0), since == 0 ? 0 : System.nanoTime() - since);
    }

    /** Throws what went wrong in it. */
    void check() {
        if (failure != null) {
            throw new AssertionError(getName() + ": " + failure, failure);
        }
    }

    /** Ends after its hold. */
    void end() {
        over = true;
    }

    void await(Duration limit) throws InterruptedException {
        join(limit.toMillis());
        check();
        if (isAlive()) {
            throw new AssertionError(getName() + " still waits for " + resource.key);
        }
    }
}
