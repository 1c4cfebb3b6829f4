import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import rlock.client.Client;
import rlock.client.Guard;
import rlock.client.RlockException.Denied;

/** Workers that share jobs: each job is done by one of them. */
public class WorkerPool {
  private static final Set<String> DONE = Collections.synchronizedSet(new TreeSet<>());

  public static void main(String[] arguments) throws InterruptedException {
    String url = System.getenv().getOrDefault("REDIS_URL", "redis://localhost:6399");
    ExecutorService pool = Executors.newFixedThreadPool(4);
    try (Client client = new Client(url)) {
      List<Callable<Void>> works = new ArrayList<>();
      for (int i = 0; i < 12; i++) {
        String job = List.of("a", "b", "c").get(i % 3);
        works.add(() -> work(client, job));
      }
      pool.invokeAll(works);
    } finally {
      pool.shutdown();
    }
    System.out.println(DONE);
  }

  private static Void work(Client client, String job) throws InterruptedException {
    try (Guard held = client.lock("example:job:" + job).tryAcquire()) {
      if (!DONE.contains(job)) {
        held.check(); // before the step that must not happen twice
        DONE.add(job);
      }
    } catch (Denied another) {
      // Another worker has it.
    }
    return null;
  }
}
