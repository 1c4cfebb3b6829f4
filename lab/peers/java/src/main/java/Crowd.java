import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

/** Threads that wait for a lock that is held; each has it once. */
final class Crowd {
    private final Contender contender;
    private final String key;
    private final Object first;
    private final List<Turn> order = Collections.synchronizedList(new ArrayList<>());
    private final List<Thread> threads = new ArrayList<>();

    private record Turn(int number, long acquired, long released) {
    }

    /** Returns when all wait. */
    Crowd(Contender contender, int count, String key) throws Exception {
        this.contender = contender;
        this.key = key;
        first = contender.acquire(key);
        for (int n = 0; n < count; n++) {
            int number = n;
            Thread thread = new Thread(() -> once(number));
            thread.start();
            threads.add(thread);
            Thread.sleep(1);
        }
        Thread.sleep(300);
    }

    /** In the thread that made the crowd. */
    String open() throws Exception {
        List<String> lines = new ArrayList<>(List.of("0 " + System.nanoTime()));
        contender.release(first);
        for (Thread thread : threads) {
            thread.join();
        }
        long most = 0;
        for (int place = 0; place < order.size(); place++) {
            Turn turn = order.get(place);
            most = Math.max(most, order.subList(0, place).stream().filter(other -> other.number() > turn.number()).count());
            lines.add(turn.acquired() + " " + turn.released());
        }
        lines.add(most + " 0");
        return String.join("\n", lines);
    }

    private void once(int number) {
        try {
            Object held = contender.acquire(key);
            long acquired = System.nanoTime();
            Thread.sleep(1);
            order.add(new Turn(number, acquired, System.nanoTime()));
            contender.release(held);
        } catch (Exception error) {
            error.printStackTrace();
            System.exit(1);
        }
    }
}
