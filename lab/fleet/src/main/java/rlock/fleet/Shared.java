package rlock.fleet;

import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;
import rlock.client.Client;
import rlock.client.Guard;
import rlock.client.RlockException.Denied;
import rlock.client.RlockException.NotALock;

/** What a service and its successor share, and what not, as docs/clients/from-redisson.md says. */
final class Shared {
    private Shared() {}

    static void run(String url) throws InterruptedException {
        Config config = new Config();
        config.useSingleServer().setAddress(url);
        RedissonClient redisson = Redisson.create(config);
        try (Client client = new Client(url)) {
            tokens(redisson, client);
            nested(redisson, client);
            permits(redisson, client);
        } finally {
            redisson.shutdown();
        }
        System.out.println("tokens are shared, permits and call paths are not");
    }

    /** Each continues the tokens of the other. */
    private static void tokens(RedissonClient redisson, Client client) throws InterruptedException {
        RFencedLock lock = redisson.getFencedLock("shared:fenced");
        long first = lock.lockAndGetToken();
        lock.unlock();
        long second;
        try (Guard held = client.lock(lock.getName()).fenced().acquire()) {
            second = held.token();
        }
        long third = lock.lockAndGetToken();
        lock.unlock();
        check(first < second && third == second + 1, "tokens " + first + ", " + second + ", " + third);
    }

    /** A thread of Redisson is another owner to the native client, and the other way. */
    private static void nested(RedissonClient redisson, Client client) throws InterruptedException {
        RLock lock = redisson.getLock("shared:path");
        lock.lock();
        check(!client.javaLock(lock.getName()).tryLock(50, TimeUnit.MILLISECONDS), "acquired inside");
        lock.unlock();
        try (Guard held = client.lock(lock.getName()).acquire()) {
            check(!lock.tryLock(), "acquired inside " + held);
        }
    }

    /** Neither takes the other's permits for its own. */
    private static void permits(RedissonClient redisson, Client client) throws InterruptedException {
        RPermitExpirableSemaphore theirs = redisson.getPermitExpirableSemaphore("shared:permits");
        theirs.trySetPermits(2);
        try {
            client.semaphore(theirs.getName(), 2).tryAcquire();
            throw new AssertionError("a permit of a Redisson semaphore");
        } catch (NotALock expected) {
            // The error says to choose another name.
        }
        // The split of the page: a permit less there, and one here.
        theirs.addPermits(-1);
        String permit = theirs.tryAcquire();
        check(permit != null && theirs.tryAcquire() == null, "more permits than are left");
        theirs.release(permit);
        try (Guard held = client.semaphore("shared:permits:native", 1).tryAcquire()) {
            client.semaphore(held.name(), 1).tryAcquire();
            throw new AssertionError("a second permit");
        } catch (Denied expected) {
            // The only one is out.
        }
        theirs.delete();
        try (Guard held = client.semaphore("shared:permits", 1).tryAcquire()) {
            check(refused(redisson.getPermitExpirableSemaphore(held.name())), "a permit of a native semaphore");
        }
    }

    private static boolean refused(RPermitExpirableSemaphore semaphore) {
        try {
            semaphore.tryAcquire();
            return false;
        } catch (RuntimeException error) {
            return String.valueOf(error.getMessage()).contains("WRONGTYPE");
        }
    }

    private static void check(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }
}
