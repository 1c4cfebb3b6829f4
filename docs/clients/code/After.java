import java.time.Duration;
import java.util.List;
import rlock.client.AllGuard;
import rlock.client.Client;
import rlock.client.Guard;
import rlock.client.RlockException.LockLost;
import rlock.client.RlockException.Timeout;
import rlock.client.Settings;
import rlock.client.WriteGuard;

public class After {
  public static void main(String[] arguments) throws InterruptedException {
    String url = System.getenv().getOrDefault("REDIS_URL", "redis://localhost:6399");
    Settings settings =
        Settings.defaults()
            .withLease(Duration.ofSeconds(10)) // lockWatchdogTimeout
            .withWait(Duration.ofSeconds(8)); // of every acquire
    try (Client client = new Client(url, settings)) {
      try (Guard held = client.lock("queue:7").fair().acquire()) {
        System.out.println("in order, as " + held.owner());
      }

      WriteGuard writer = client.readWriteLock("prices").write().acquire();
      try (Guard reader = writer.downgrade()) { // no other writer in between
        System.out.println("read as " + reader.owner());
      }

      try (Guard held = client.lock("invoice:7").fenced().acquire()) {
        held.check(); // throws LockLost; it sends nothing
        System.out.println("write with " + held.token());
      }

      try (Guard permit = client.semaphore("printer-permits", 2).acquire()) {
        System.out.println("print as " + permit.owner());
      }

      // In an order that all clients share, which prevents deadlocks.
      try (AllGuard both = client.lockAll(List.of("account:2", "account:1")).acquire()) {
        System.out.println("transfer within " + both.check());
      }
    } catch (Timeout error) {
      System.out.println("another owner keeps a lock: " + error.getMessage());
    } catch (LockLost error) {
      System.out.println("stopped half-way: " + error.why());
    }
  }
}
