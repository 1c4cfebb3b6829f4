package rlock;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/** Every kind of client takes the same locks, all at once, for some seconds: never two holders, nobody left behind. */
final class Contention {
    private static final long SECONDS = 3;

    private Contention() {
    }

    static List<Scenario> scenarios() {
        return List.of(new Scenario("all kinds of clients at once, never two holders", Contention::allAtOnce));
    }

    /** One way to take and release the lock. */
    private interface Way {
        /** The fencing token, or 0: got without one; or -1: not acquired. */
        long take() throws Exception;

        void giveBack();
    }

    private static String allAtOnce(World world) throws Exception {
        List<Resource> resources = new ArrayList<>();
        List<Future<Long>> threads = new ArrayList<>();
        long end = System.nanoTime() + SECONDS * 1_000_000_000;
        for (int i = 0; i < 2; i++) {
            Resource resource = new Resource(world.key("contended"));
            resources.add(resource);
            for (Callable<Way> way : ways(world, resource.key)) {
                threads.add(Check.start(() -> work(world, resource, way.call(), end)));
            }
        }
        long longest = 0;
        for (Future<Long> thread : threads) {
            longest = Math.max(longest, thread.get(SECONDS + 30, TimeUnit.SECONDS));
        }
        long taken = 0;
        try (Native client = world.client()) {
            for (Resource resource : resources) {
                taken += resource.check(client);
            }
        }
        return taken + " times in " + SECONDS + " s, longest wait " + longest + " ms";
    }

    /** What each thread on one lock does; made in the thread, since Redisson's owner is the thread. */
    private static List<Callable<Way>> ways(World world, String key) {
        List<Callable<Way>> ways = new ArrayList<>();
        for (RedissonClient redisson : world.clients()) {
            ways.add(() -> redissons(redisson.getLock(key)));
            ways.add(() -> redissonsTry(redisson.getLock(key)));
            ways.add(() -> redissonsFenced(redisson.getFencedLock(key)));
        }
        ways.add(() -> natives(world, key, "BLOCK", "60000"));
        ways.add(() -> natives(world, key, "BLOCK", "60000"));
        ways.add(() -> natives(world, key, "BLOCK", "2"));
        ways.add(() -> natives(world, key, "FENCED", "BLOCK", "60000"));
        ways.add(() -> natives(world, key, "HOLDS", "1"));
        return ways;
    }

    private static Way way(Callable<Long> take, Runnable giveBack) {
        return new Way() {
            @Override
            public long take() throws Exception {
                return take.call();
            }

            @Override
            public void giveBack() {
                giveBack.run();
            }
        };
    }

    private static Way redissons(RLock lock) {
        return way(() -> {
            lock.lock();
            return 0L;
        }, lock::unlock);
    }

    private static Way redissonsTry(RLock lock) {
        return way(() -> lock.tryLock(3, Check.LONG_LEASE_MS, TimeUnit.MILLISECONDS) ? 0L : -1L, lock::unlock);
    }

    private static Way redissonsFenced(RFencedLock lock) {
        return way(lock::lockAndGetToken, lock::unlock);
    }

    private static Way natives(World world, String key, String... words) {
        Native client = world.client();
        String[] owner = new String[1];
        return way(() -> {
            owner[0] = world.owner();
            return client.token(key, owner[0], Check.LONG_LEASE_MS, words);
        }, () -> Check.equal(1L, client.release(key, owner[0]), "release"));
    }

    /** Takes the lock again and again; the longest wait in ms. */
    private static long work(World world, Resource resource, Way way, long end) throws Exception {
        long longest = 0;
        try (Native client = world.client()) {
            long start = System.nanoTime();
            while (System.nanoTime() < end) {
                long token = way.take();
                if (token < 0) {
                    Thread.sleep(1);
                    continue;
                }
                longest = Math.max(longest, Check.millisSince(start));
                resource.use(client, token);
                way.giveBack();
                start = System.nanoTime();
            }
        }
        return longest;
    }

    /** What the lock protects: it notices when two use it at once. */
    private static final class Resource {
        final String key;
        private final String count;
        private final AtomicLong inside = new AtomicLong();
        private final AtomicLong uses = new AtomicLong();
        private long lastToken;

        Resource(String key) {
            this.key = key;
            this.count = "count:" + key;
        }

        /** Counts in the server by reading and writing, which loses counts as soon as two do it at once. */
        void use(Native client, long token) {
            Check.equal(1L, inside.incrementAndGet(), "users of " + key);
            if (token > 0) {
                Check.that(token > lastToken, "token " + token + " after " + lastToken);
                lastToken = token;
            }
            String counted = client.at(count).get(count);
            client.at(count).set(count, Long.toString(counted == null ? 1 : Long.parseLong(counted) + 1));
            uses.incrementAndGet();
            inside.decrementAndGet();
        }

        /** How many times it was used; nothing may be left of the lock. */
        long check(Native client) {
            Check.equal(Long.toString(uses.get()), client.at(count).get(count), "counted");
            Check.equal("none", client.info(key).get("kind"), "kind");
            Check.equal(0L, client.waiters(key), "waiters");
            Check.that(uses.get() > 0, "never taken");
            return uses.get();
        }
    }
}
