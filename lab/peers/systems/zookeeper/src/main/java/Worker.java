import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.RetryOneTime;

/**
 * One process of clients that lock by Curator's InterProcessMutex: told by lines on its standard input, answering by lines, as
 * lab/src/systems/worker.rs says. All of its clients share one session, and each has a thread.
 *
 * <p>java Worker HOST:PORT SESSION-MS
 */
final class Worker {
    private Worker() {}

    public static void main(String[] arguments) throws Exception {
        Thread.setDefaultUncaughtExceptionHandler((thread, fault) -> fail(fault));
        int session = Integer.parseInt(arguments[1]);
        CuratorFramework client =
                CuratorFrameworkFactory.newClient(arguments[0], session, 10_000, new RetryOneTime(100));
        client.start();
        client.blockUntilConnected();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Crowd crowd = null;
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            switch (words[0]) {
                case "pairs" -> pairs(client, Integer.parseInt(words[1]), words[2]);
                case "hold" -> {
                    new InterProcessMutex(client, path(words[1])).acquire();
                    System.out.println(System.nanoTime() + " 0");
                }
                case "wait" -> {
                    crowd = new Crowd(client, Integer.parseInt(words[1]), path(words[2]));
                    System.out.println("0 0");
                }
                case "hand-off" -> {
                    for (long[] one : crowd.handOff(Integer.parseInt(words[1]))) {
                        System.out.println(one[0] + " " + one[1]);
                    }
                }
                case "leave" -> {
                    crowd.leave();
                    System.out.println("0 0");
                }
                default -> throw new IllegalArgumentException("no such work: " + line);
            }
        }
        System.exit(0);
    }

    private static void pairs(CuratorFramework client, int count, String key) throws Exception {
        InterProcessMutex mutex = new InterProcessMutex(client, path(key));
        long begin = System.nanoTime();
        for (int pair = 0; pair < count; pair++) {
            mutex.acquire();
            mutex.release();
        }
        System.out.println(System.nanoTime() - begin + " 0");
    }

    private static String path(String key) {
        return "/" + key;
    }

    static void fail(Throwable fault) {
        fault.printStackTrace();
        Runtime.getRuntime().halt(1);
    }
}
