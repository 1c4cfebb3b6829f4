package rlock.client;

import io.lettuce.core.api.StatefulRedisConnection;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.CompletionStage;
import rlock.client.Machine.Failed;
import rlock.client.Machine.Phase;

/** The link for the commands of locks; sessions end with it. */
final class Commands extends Link {
  private final Endpoint.Address address;

  Commands(Engine engine, Endpoint.Address address) {
    super(engine);
    this.address = address;
    open();
  }

  @Override
  CompletionStage<? extends StatefulRedisConnection<byte[], byte[]>> connect(long within) {
    return engine.endpoint.connect(address, within);
  }

  @Override
  void came() {
    // Renewals first: their locks have a deadline.
    List<Acquisition> mine = new ArrayList<>(engine.acquisitions());
    mine.removeIf(one -> one.waits() || one.orphaned() || engine.linkFor(one.lock()) != this);
    mine.sort(Comparator.comparing(one -> one.phase() != Phase.HELD));
    mine.forEach(one -> one.give(Machine::linkUp));
    engine.count();
  }

  @Override
  void went() {
    mine().forEach(one -> one.give(Machine::linkDown));
    elsewhere();
  }

  @Override
  void refused(RlockException error) {
    elsewhere();
    engine.unreachable(mine(), error);
  }

  /** Four times in the shortest grace of a session. */
  @Override
  long pace() {
    return Math.min(super.pace(), engine.grace() / 4);
  }

  @Override
  List<String> pulse() {
    // A server may be demoted without a word to its clients.
    return engine.endpoint.follows ? List.of("ROLE") : super.pulse();
  }

  @Override
  void lives(Object value, long sentAt) {
    if (value instanceof List<?> role
        && role.get(0) instanceof byte[] word
        && !"master".equals(new String(word))) {
      drop("the server is no longer a primary");
    } else if (!(value instanceof Failed)) {
      engine.acquisitions().forEach(one -> one.alive(this, sentAt));
    }
  }

  private List<Acquisition> mine() {
    return engine.acquisitions().stream().filter(one -> one.link() == this).toList();
  }

  /** In a cluster, the slots of a server that is gone are asked for at another one. */
  private void elsewhere() {
    if (engine.endpoint.cluster) {
      engine.forget(address);
      mine().stream()
          .filter(one -> engine.linkFor(one.lock()).up())
          .forEach(one -> one.give(Machine::linkUp));
    }
  }
}
