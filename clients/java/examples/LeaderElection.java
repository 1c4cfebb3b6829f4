import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.stream.Stream;
import rlock.client.Client;
import rlock.client.Settings;

/** One leader at a time: the others wait, and the next one takes over when the leader ends. */
public class LeaderElection {
  public static void main(String[] arguments) {
    String url = System.getenv().getOrDefault("REDIS_URL", "redis://localhost:6399");
    Settings settings = Settings.defaults().withLease(Duration.ofSeconds(10));
    try (Client client = new Client(url, settings)) {
      List<CompletableFuture<Void>> members =
          Stream.of("one", "two", "three").map(name -> member(client, name)).toList();
      members.forEach(CompletableFuture::join);
    }
  }

  private static CompletableFuture<Void> member(Client client, String name) {
    return client
        .lock("example:leader")
        .fenced()
        .acquireAsync()
        .thenAccept(
            held -> {
              try (held) {
                held.check(); // before each step that must not happen twice
                System.out.println(name + " led with token " + held.token());
              }
            });
  }
}
