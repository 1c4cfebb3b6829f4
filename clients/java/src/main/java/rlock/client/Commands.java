package rlock.client;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import rlock.client.Machine.Failed;
import rlock.client.Machine.Phase;
import rlock.client.RlockException.Unreachable;

/** The link for the commands of locks; sessions end with it. */
final class Commands extends Link {
  Commands(Engine engine, Endpoint.Address address) {
    super(engine, address, null);
    open();
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
  void pulse(long within) {
    send(HELLO, this::lives, within);
  }

  private void lives(Object value, long sentAt) {
    // A server may be demoted without a word to its clients.
    if (!engine.endpoint.cluster && Wire.demoted(value)) {
      engine.drop(Unreachable.replica(server));
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
