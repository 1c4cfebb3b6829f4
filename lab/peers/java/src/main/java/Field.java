import java.lang.Thread.State;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.LongStream;

/**
 * Many that want one lock, again and again: each holds it for a while, releases it and asks for it at once. Between two measurements
 * the holder keeps it.
 */
final class Field {
    /** A measurement is longer where it has fewer hand-offs, but never ten times as long. */
    private static final int FEWEST = 20;

    private final String key;
    private final long holdMs;
    private final List<Contender> contenders = new ArrayList<>();
    private final List<Thread> threads = new ArrayList<>();
    private final List<Long> times = new ArrayList<>();
    private boolean open;
    private boolean over;
    private boolean kept;
    private int holder = -1;
    private long again;
    private long released;

    /** @param processes how many have connections of their own, like processes, with this number of threads each */
    Field(Contender contender, int processes, int threads, long holdMs, String key) throws InterruptedException {
        this.key = key;
        this.holdMs = holdMs;
        for (int process = 0; process < processes; process++) {
            Contender own = processes == 1 ? contender : contender.another();
            if (own != contender) {
                contenders.add(own);
            }
            for (int n = 0; n < threads; n++) {
                int number = this.threads.size();
                this.threads.add(new Thread(() -> contend(own, number)));
            }
        }
        this.threads.forEach(Thread::start);
        awaitQuiet();
    }

    /** All sleep, and have slept for a while: one keeps the lock, the others wait for it. */
    private void awaitQuiet() throws InterruptedException {
        for (int quiet = 0; quiet < 5; quiet++) {
            Thread.sleep(20);
            if (threads.stream().map(Thread::getState).anyMatch(state -> state != State.WAITING && state != State.TIMED_WAITING)) {
                quiet = -1;
            }
        }
    }

    private void contend(Contender own, int number) {
        try {
            while (true) {
                Object held = own.acquire(key);
                boolean last = acquired(number);
                if (!last && holdMs > 0) {
                    Thread.sleep(holdMs);
                }
                releases();
                own.release(held);
                if (last) {
                    return;
                }
            }
        } catch (Exception error) {
            error.printStackTrace();
            // Nobody waits for an answer that never comes.
            System.exit(1);
        }
    }

    /** Whether everything is over. */
    private synchronized boolean acquired(int number) throws InterruptedException {
        if (open && released != 0) {
            times.add(System.nanoTime() - released);
            again += number == holder ? 1 : 0;
        }
        holder = number;
        while (!open && !over) {
            kept = true;
            notifyAll();
            wait();
        }
        kept = false;
        return over;
    }

    private synchronized void releases() {
        released = System.nanoTime();
    }

    /**
     * Lets the lock be handed around for a while. Answers with the number of hand-offs, those to the one that had just released it,
     * the time and CPU time of all in ns, and the median time from a release to the next holder.
     */
    synchronized String span(long ms) throws InterruptedException {
        times.clear();
        again = 0;
        released = 0;
        long begin = System.nanoTime();
        long cpu = Worker.cpu();
        kept = false;
        open = true;
        notifyAll();
        long end = begin + ms * 1_000_000;
        long latest = begin + 10 * ms * 1_000_000;
        while (System.nanoTime() < end || times.size() < FEWEST && System.nanoTime() < latest) {
            wait(5);
        }
        open = false;
        long wall = System.nanoTime() - begin;
        while (!kept) {
            wait();
        }
        cpu = Worker.cpu() - cpu;
        long[] sorted = times.stream().mapToLong(Long::longValue).sorted().toArray();
        long median = sorted.length == 0 ? 0 : sorted[sorted.length / 2];
        return LongStream.of(sorted.length, again, wall, cpu, median).mapToObj(Long::toString).reduce((a, b) -> a + " " + b).orElseThrow();
    }

    /** Each has the lock once more. */
    void end() throws InterruptedException {
        synchronized (this) {
            over = true;
            notifyAll();
        }
        for (Thread thread : threads) {
            thread.join();
        }
        contenders.forEach(Contender::close);
    }
}
