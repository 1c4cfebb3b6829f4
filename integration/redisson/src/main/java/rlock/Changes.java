package rlock;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RedissonClient;

/**
 * A cluster whose slots move, and whose primaries fail or are replaced, under locks of every kind that are held, awaited and taken
 * in turn. Never two holders, what is held is kept, and everybody goes on.
 *
 * <p>A slot that moves takes away the subscriptions of those who wait, and Redisson does not subscribe again: they sleep until the lease
 * that they were told of; after that their client cannot wait for this lock any more, only try. Control shows that it is the same on
 * servers without the module. So here threads try for the locks that are taken again and again while a slot moves; and unlock may throw
 * IllegalMonitorStateException then. RFencedLock is only held then: to ask for it at such a moment has never returned, now and then.
 */
final class Changes {
    private static final int MOVES = 6;
    /** Longer than a slot needs to move: it is moved all the way round for longer than that. */
    private static final long LEASE_MS = 9_000;
    /**
     * Redisson renews each third of a lease. A renewal that fails it repeats for some seconds, on a busy machine for longer; where that
     * did not help, it waits for the next third. So a third is longer than it takes Redisson to find the new primary: by agreement that
     * is soon.
     */
    private static final long LONG_MS = 15_000;
    /** The repeats, of up to 7 s, may all come before the replica has taken over: locks with 15 s were lost by that. */
    private static final long LONGEST_MS = 30_000;

    private Changes() {
    }

    /** Other slots stay, and what is in them is not disturbed. */
    static List<Scenario> beside() {
        return List.of(new Scenario("a slot that moves keeps its locks", Changes::moves));
    }

    static List<Scenario> alone() {
        return List.of(
            new Scenario("a primary that is replaced leaves its locks", Changes::replaced),
            new Scenario("a primary that is killed leaves its locks", Changes::killed));
    }

    private interface Change {
        void happens() throws Exception;
    }

    /** All the way round, for longer than the leases are. */
    private static String moves(World world) throws Exception {
        String place = world.placeOn(0);
        List<Change> moves = new ArrayList<>();
        for (int i = 0; i < MOVES; i++) {
            int from = i % 3;
            moves.add(() -> {
                Thread.sleep(LEASE_MS / MOVES);
                world.order("move", place, from, (from + 1) % 3);
            });
        }
        return under(world, place, LEASE_MS, true, moves);
    }

    /** There and back. */
    private static String replaced(World world) throws Exception {
        Change change = () -> world.order("fail-over", 1);
        return under(world, world.placeOn(1), LONG_MS, false, List.of(change, change));
    }

    private static String killed(World world) throws Exception {
        return under(world, world.placeOn(2), LONGEST_MS, false, List.of(() -> world.order("kill", 2)));
    }

    /** What it was like for those with locks in the place. */
    private static String under(World world, String place, long leaseMs, boolean moving, List<Change> changes) throws Exception {
        List<RedissonClient> redissons = List.of(world.redisson(leaseMs), world.redisson(leaseMs));
        try (Kept kept = new Kept(world, redissons, place, leaseMs, moving)) {
            Turmoil turmoil = new Turmoil(world, place, World.WATCHDOG_MS, moving).redissons().natives().rustClients();
            turmoil.goOn(2);
            long longest = 0;
            for (Change change : changes) {
                change.happens();
                longest = Math.max(longest, turmoil.goOn(1));
                kept.check();
            }
            kept.awaitRenewals();
            String found = turmoil.end();
            return found + "; each had another turn within " + longest + " ms; " + kept.end();
        } finally {
            redissons.forEach(redisson -> redisson.shutdown(0, 0, TimeUnit.SECONDS));
        }
    }
}
