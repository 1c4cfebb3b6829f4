package rlock.client;

import io.lettuce.core.cluster.SlotHash;
import java.util.List;
import java.util.Optional;
import rlock.client.Machine.Failed;
import rlock.client.Machine.Notice;

/**
 * The link for the messages to waiters at one server. Each connection has a channel of its own, so
 * that no grant goes to one before it.
 */
final class Subscription extends Listening {
  private enum Hearing {
    NO,
    ASKING,
    /** The server has confirmed it. */
    HEARD,
    /** So has the server of the commands. */
    SURE
  }

  private final Commands node;
  private Hearing hearing = Hearing.NO;

  // Of a slot that the server should have; else the lock's own is taken.
  private boolean beside = true;

  /** For ENQUEUE. */
  String channel;

  Subscription(Commands node) {
    super(node.engine, node.address, null);
    this.node = node;
    open();
  }

  /** Whether messages arrive. After a refusal it subscribes again: the rules may have changed. */
  boolean hears() {
    if (hearing == Hearing.NO && up()) {
      came();
    }
    return hearing == Hearing.SURE;
  }

  @Override
  void came() {
    Optional<Acquisition> first = node.waiting().stream().findFirst();
    if (first.isEmpty()) {
      return;
    }
    channel = engine.channel();
    if (engine.endpoint.cluster) {
      // The slot beside the lock's, if it is there: the lock's own may move and leave the others.
      channel += ":{" + tag(beside ? first.get().slot() ^ 1 : first.get().slot()) + "}";
    }
    subscribe = List.of(engine.endpoint.cluster ? "SSUBSCRIBE" : "SUBSCRIBE", channel);
    hearing = Hearing.ASKING;
    send(
        subscribe,
        (value, sentAt) -> {
          if (value instanceof Refusal refusal) {
            unheard(refusal);
          } else if (!(value instanceof Failed)) {
            hearing = Hearing.HEARD;
            count();
          }
        });
  }

  /** The smallest number that has this slot as a hash tag. */
  private static int tag(int slot) {
    int tag = 0;
    while (SlotHash.getSlot(Integer.toString(tag)) != slot) {
      tag++;
    }
    return tag;
  }

  /**
   * The server of the command link must know the subscription: that server makes the grants. Nodes
   * of a cluster have addresses of their own.
   */
  void count() {
    if (hearing.compareTo(Hearing.HEARD) < 0) {
      return;
    }
    hearing = Hearing.HEARD;
    if (engine.endpoint.cluster) {
      sure();
    } else {
      String counted = channel;
      node.send(List.of("PUBSUB", "NUMSUB", channel), (value, sentAt) -> counted(value, counted));
    }
  }

  /** The next connection for commands may lead to another server. */
  void doubt() {
    hearing = hearing == Hearing.SURE ? Hearing.HEARD : hearing;
  }

  private void counted(Object value, String counted) {
    if (hearing != Hearing.HEARD || !counted.equals(channel)) {
      return;
    }
    if (value instanceof Refusal refusal) {
      unheard(refusal);
    } else if (value instanceof List<?> list) {
      if (list.size() < 2 || list.get(1).equals(0L)) {
        drop(unreachable("the subscription is on another server"));
      } else {
        sure();
      }
    }
  }

  private void sure() {
    hearing = Hearing.SURE;
    node.waiting().forEach(Acquisition::advance);
  }

  /** No messages for this user: waits end. */
  private void unheard(Refusal refusal) {
    hearing = Hearing.NO;
    Failed refused = engine.refusal(refusal, "", node).failed();
    if (refused.failure() == Machine.Failure.PASSING && beside && engine.endpoint.cluster) {
      beside = false;
      came();
    } else if (refused.failure() == Machine.Failure.PASSING) {
      drop(refused.error()); // the next connection subscribes again
    } else {
      node.waiting().forEach(one -> one.cancel(refused.error()));
    }
  }

  @Override
  void heard(String payload, boolean present) {
    Wire.Message message = Wire.message(payload);
    if (message == null) {
      Loop.LOG.log(System.Logger.Level.DEBUG, "unknown message: {0}", payload);
      return;
    }
    Acquisition one = engine.acquisition(message.claim());
    boolean current = present && hearing == Hearing.SURE && node.up();
    if (one != null) {
      one.heard(message, current ? node : null);
    } else if (message.notice() == Notice.GRANTED && engine.ended(message.claim())) {
      // The server has carried out a request late.
      node.send(Wire.release(message.claim(), 0), IGNORE);
    }
  }

  @Override
  void went() {
    hearing = Hearing.NO;
    subscribe = null;
    beside = true;
    node.waiting().forEach(Acquisition::lostLink);
  }

  @Override
  void refused(RlockException error) {
    engine.unreachable(node.waiting(), error);
  }
}
