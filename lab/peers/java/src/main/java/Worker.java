import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.util.Objects;

/**
 * One process that is measured: told by lines on its standard input, answering by lines, as lab/src/clients/process.rs and
 * lab/src/redisson/process.rs say.
 *
 * <p>{@code java -cp … Worker OfRedisson | OfRlock URL}
 */
public final class Worker {
    private final Contender contender;
    private Field field;
    private Crowd crowd;
    private Object held;

    private Worker(Contender contender) {
        this.contender = contender;
    }

    public static void main(String[] arguments) throws Exception {
        Class<?> way = Class.forName(arguments[0]);
        Worker worker = new Worker((Contender) way.getDeclaredConstructor(String.class).newInstance(arguments[1]));
        try (BufferedReader input = new BufferedReader(new InputStreamReader(System.in))) {
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                String[] words = line.split(" ");
                System.out.println(worker.work(words[0], words));
            }
        }
        System.exit(0);
    }

    /** The CPU time of all threads of this process in ns. The JVM itself only tells hundredths of a second. */
    static long cpu() {
        long sum = 0;
        for (File thread : Objects.requireNonNull(new File("/proc/self/task").listFiles())) {
            try {
                sum += Long.parseLong(Files.readString(thread.toPath().resolve("schedstat")).split(" ")[0]);
            } catch (IOException ended) {
                // A thread that has ended since it was listed counts no more.
            }
        }
        return sum;
    }

    private String work(String what, String[] words) throws Exception {
        switch (what) {
            case "pairs":
                return pairs(Integer.parseInt(words[1]), words[2]);
            case "take":
                held = contender.acquire(words[2]);
                return System.nanoTime() + " 0";
            case "give":
                long released = System.nanoTime();
                contender.release(held);
                return released + " 0";
            case "wait":
                crowd = new Crowd(contender, Integer.parseInt(words[1]), words[2]);
                return "0 0";
            case "open":
                return crowd.open();
            case "record":
                contender.record(words[1]);
                return "0 0";
            case "field":
                field = new Field(contender, Integer.parseInt(words[1]), Integer.parseInt(words[2]), Long.parseLong(words[3]), words[4]);
                return "0 0";
            case "span":
                return field.span(Long.parseLong(words[1]));
            case "end":
                field.end();
                return "0 0";
            default:
                throw new IllegalArgumentException(what);
        }
    }

    private String pairs(int count, String key) throws Exception {
        long wall = System.nanoTime();
        long cpu = cpu();
        for (int n = 0; n < count; n++) {
            contender.release(contender.acquire(key));
        }
        return System.nanoTime() - wall + " " + (cpu() - cpu);
    }
}
