package rlock.client;

import io.lettuce.core.RedisCommandExecutionException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.stream.Collectors;
import rlock.client.Endpoint.Address;
import rlock.client.Link.Refusal;
import rlock.client.RlockException.Unreachable;

/** Which server is the primary, as the Sentinels say. In the client's thread. */
final class Sentinels {
  private static final int MOST = 32;
  // How long the other Sentinels may take when one has answered.
  private static final long WINDOW = 250 * Machine.MS;
  // How often each one is asked while a lock is held or awaited.
  private static final long PACE = 1_000 * Machine.MS;

  /** What a Sentinel says: the primary, the epoch of its configuration, the other Sentinels. */
  record Verdict(
      Address sentinel, Address primary, long epoch, List<Address> others, Throwable error) {}

  private final Engine engine;
  private final List<Address> known = new ArrayList<>();

  /** Connections of questions: the driver must not be shut down while it makes them. */
  final Set<CompletableFuture<?>> asking = new HashSet<>();

  /** Of the configuration that was believed last. */
  long epoch;

  /** How often the news changed. */
  int moves;

  private Address news;

  Sentinels(Engine engine) {
    this.engine = engine;
  }

  /** Watches those that were not known. */
  void know(List<Address> addresses) {
    for (Address each : addresses) {
      if (known.size() < MOST && !known.contains(each)) {
        known.add(each);
        new News(each);
        new Asker(each);
      }
    }
  }

  boolean movedSince(int before, String server) {
    return moves != before && !news.toString().equals(server);
  }

  /** Asks all known Sentinels at once, and then those that they list. */
  CompletionStage<Address> primary(long within) {
    Search search = new Search(within);
    search.round();
    return search.found;
  }

  private final class Search {
    final CompletableFuture<Address> found = new CompletableFuture<>();
    private final long within;
    private final long before = epoch;
    private boolean fresh;
    private final List<Verdict> verdicts = new ArrayList<>();
    private Loop.Timer window;
    private int asked;
    private int pending;
    private int rounds;

    Search(long within) {
      this.within = within;
    }

    void round() {
      int mine = ++rounds;
      List<Address> next = List.copyOf(known.subList(asked, known.size()));
      asked = known.size();
      pending = next.size();
      if (next.isEmpty()) {
        decide();
        return;
      }
      for (Address each : next) {
        CompletableFuture<Verdict> one = ask(each, within).toCompletableFuture();
        asking.add(one);
        one.thenAccept(
            verdict ->
                engine.loop.execute(
                    () -> {
                      asking.remove(one);
                      told(mine, verdict);
                    }));
      }
      limit(mine);
    }

    private void told(int mine, Verdict verdict) {
      if (mine == rounds) {
        verdicts.add(verdict);
        limit(mine);
        if (--pending == 0) {
          over(mine);
        }
      }
    }

    /**
     * One that hangs must not keep the client, once another one has answered. It has more time
     * where the answers are older than what is known: another Sentinel has said that.
     */
    private void limit(int mine) {
      boolean isNew =
          verdicts.stream().anyMatch(each -> each.error == null && each.epoch >= before);
      if (window == null && verdicts.stream().anyMatch(each -> each.error == null)
          || isNew && !fresh) {
        fresh = isNew;
        engine.loop.cancel(window);
        long time = Math.min(WINDOW, within / 4) * (fresh ? 1 : 2);
        window = engine.loop.at(engine.now() + time, () -> over(mine));
      }
    }

    private void over(int mine) {
      if (mine == rounds) {
        engine.loop.cancel(window);
        window = null;
        verdicts.forEach(each -> know(each.others));
        round();
      }
    }

    private void decide() {
      try {
        Verdict best = believe(engine.endpoint.service(), verdicts, known.size(), epoch);
        if (best.epoch > epoch) {
          moved(best.primary); // the other connection may be older than this news
        }
        epoch = best.epoch;
        engine.reached = true;
        found.complete(best.primary);
      } catch (RlockException error) {
        found.completeExceptionally(error);
      }
    }
  }

  /**
   * The verdict with the highest epoch, and of several with that one what most say. An older one
   * than was believed before needs the answers of a majority: Sentinels that were set up anew count
   * from 0.
   */
  static Verdict believe(String service, List<Verdict> all, int known, long before) {
    Verdict best = null;
    Map<Address, Integer> votes = new HashMap<>();
    int answers = 0;
    for (Verdict each : all) {
      if (each.error != null) {
        continue;
      }
      answers++;
      if (best == null || each.epoch > best.epoch) {
        best = each;
        votes.clear();
      }
      if (each.epoch == best.epoch
          && votes.merge(each.primary, 1, Integer::sum) > votes.getOrDefault(best.primary, 0)) {
        best = each;
      }
    }
    if (best == null) {
      throw unnamed(service, all);
    }
    if (best.epoch < before && 2 * answers <= known) {
      throw new Unreachable(
          "the Sentinel %s names %s as the primary of %s, but by an old configuration"
              .formatted(best.sentinel, best.primary, service));
    }
    return best;
  }

  private static RlockException unnamed(String service, List<Verdict> failed) {
    Verdict first = failed.get(0);
    if (failed.stream().allMatch(each -> Wire.serverError(each.error) != null)) {
      return Wire.connectError(first.error, first.sentinel.toString(), false);
    }
    String all =
        failed.stream()
            .map(each -> each.sentinel + ": " + Wire.brief(Wire.root(each.error)))
            .collect(Collectors.joining(", "));
    return new Unreachable(
        "no Sentinel names the primary of %s (%s); check their addresses and the name"
            .formatted(service, all));
  }

  /**
   * Asks a Sentinel on a connection of its own. The epoch comes first: while a fail-over is under
   * way, only the second answer names the new primary, and a new epoch must not meet an old
   * address.
   */
  private CompletionStage<Verdict> ask(Address sentinel, long within) {
    String service = engine.endpoint.service();
    List<List<String>> questions =
        List.of(master(service), address(service), List.of("SENTINEL", "SENTINELS", service));
    return engine
        .endpoint
        .connect(engine.endpoint.sentinel(sentinel), within)
        .thenCompose(
            made ->
                Wire.ask(made, within, questions)
                    .whenComplete((replies, error) -> made.closeAsync()))
        .thenApply(replies -> verdict(sentinel, replies))
        .exceptionally(error -> new Verdict(sentinel, null, 0, List.of(), error));
  }

  private static Verdict verdict(Address sentinel, List<Object> replies) {
    Object named = replies.get(1);
    if (named instanceof Refusal refusal) {
      throw new RedisCommandExecutionException(refusal.text());
    }
    Address primary = primary(named);
    if (primary == null) {
      throw new IllegalStateException("it does not know this name");
    }
    return new Verdict(sentinel, primary, epoch(replies.get(0)), others(replies.get(2)), null);
  }

  private static List<String> master(String service) {
    return List.of("SENTINEL", "MASTER", service);
  }

  private static List<String> address(String service) {
    return List.of("SENTINEL", "GET-MASTER-ADDR-BY-NAME", service);
  }

  /** 0 for a user that may not ask. */
  private static long epoch(Object reply) {
    String epoch = Wire.field(reply, "config-epoch");
    return epoch == null ? 0 : Long.parseLong(epoch);
  }

  private static Address primary(Object reply) {
    return reply instanceof List<?> pair && pair.size() == 2
        ? new Address(Wire.text(pair.get(0)), Integer.parseInt(Wire.text(pair.get(1))))
        : null;
  }

  private static List<Address> others(Object reply) {
    List<Address> others = new ArrayList<>();
    if (reply instanceof List<?> list) {
      for (Object each : list) {
        String host = Wire.field(each, "ip");
        others.add(new Address(host, Integer.parseInt(Wire.field(each, "port"))));
      }
    }
    return others;
  }

  /** A Sentinel names this primary: connections to another server end now. */
  private void moved(Address primary) {
    if (!primary.equals(news)) {
      news = primary;
      moves++;
    }
    engine.dropOthers(primary.toString());
  }

  /** Listens to a Sentinel for as long as the client lives. */
  private final class News extends Listening {
    News(Address sentinel) {
      super(Sentinels.this.engine, null, sentinel);
      subscribe = List.of("SUBSCRIBE", "+switch-master");
      open();
    }

    @Override
    void came() {
      send(subscribe, IGNORE);
    }

    @Override
    void heard(String message, boolean present) {
      // The service, the old address and the new one.
      String[] words = message.split(" ");
      if (words.length == 5 && words[0].equals(engine.endpoint.service())) {
        moved(new Address(words[3], Integer.parseInt(words[4])));
      }
    }
  }

  /** Asks a Sentinel again and again: a subscribed connection cannot. */
  private final class Asker extends Link {
    private long told;
    private boolean denied;

    Asker(Address sentinel) {
      super(Sentinels.this.engine, null, sentinel);
      open();
    }

    @Override
    long pace() {
      return PACE;
    }

    @Override
    void pulse(long within) {
      if (engine.idle() || denied) {
        return;
      }
      String service = engine.endpoint.service();
      send(
          master(service),
          (value, sentAt) -> {
            told = epoch(value);
            denied = Wire.denied(value);
          },
          within);
      send(
          address(service),
          (value, sentAt) -> {
            Address primary = primary(value);
            if (primary != null && told > epoch) {
              epoch = told;
              engine.reached = true;
              moved(primary);
            }
          },
          within);
    }
  }
}
