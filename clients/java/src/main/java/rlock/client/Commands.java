package rlock.client;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import rlock.client.Machine.Failed;
import rlock.client.Machine.Phase;
import rlock.client.RlockException.Unreachable;

/** The link for the commands of locks at one server; sessions end with it. */
final class Commands extends Link {
  /** Made for the first wait. */
  Subscription messages;

  Commands(Engine engine, Endpoint.Address address) {
    super(engine, address, null);
    open();
  }

  /** Whether messages arrive. */
  boolean hears() {
    if (messages == null) {
      messages = new Subscription(this);
    }
    return messages.hears();
  }

  /** Why waits hear nothing; null if they do. */
  RlockException deaf() {
    return messages == null || messages.hears() ? null : messages.kept();
  }

  /** Nor does an acquisition wait for it. */
  @Override
  boolean gone(long time) {
    return super.gone(time) && (messages == null || messages.gone(time)) && mine().isEmpty();
  }

  List<Acquisition> waiting() {
    return mine().stream().filter(Acquisition::waits).toList();
  }

  @Override
  void came() {
    // Renewals first: their locks have a deadline.
    List<Acquisition> mine = new ArrayList<>(mine());
    mine.sort(Comparator.comparing(one -> one.phase() != Phase.HELD));
    mine.forEach(Acquisition::advance);
    if (messages != null) {
      messages.count();
    }
  }

  @Override
  void went() {
    if (messages != null) {
      messages.doubt();
    }
    engine.acquisitions().forEach(Acquisition::lostLink);
    engine.forget(address);
  }

  @Override
  void refused(RlockException error) {
    engine.forget(address);
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
}
