package rlock.client;

import java.util.List;
import rlock.client.Machine.Failed;

/** The link for the messages to waiters. */
final class Subscription extends Listening {
  private enum Hearing {
    NO,
    ASKING,
    /** The server has confirmed it. */
    HEARD,
    /** So has the server of the commands. */
    SURE
  }

  private Hearing hearing = Hearing.NO;

  Subscription(Engine engine) {
    super(engine, null, engine.channel);
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

  /** The server of the command link must know the subscription: that server makes the grants. */
  void count() {
    if (hearing.compareTo(Hearing.HEARD) < 0) {
      return;
    }
    hearing = Hearing.HEARD;
    engine.link(null).send(List.of("PUBSUB", "NUMSUB", engine.channel), this::counted);
  }

  private void counted(Object value, long sentAt) {
    if (value instanceof Refusal refusal) {
      unheard(refusal);
    } else if (hearing == Hearing.HEARD && value instanceof List<?> list) {
      // A connection before it that the server has not given up yet counts too.
      if (list.size() < 2 || list.get(1).equals(0L)) {
        drop(unreachable("the subscription is on another server"));
        return;
      }
      hearing = Hearing.SURE;
      engine.waiting().forEach(one -> one.give(Machine::linkUp));
    }
  }

  /** No messages for this user: waits end. */
  private void unheard(Refusal refusal) {
    hearing = Hearing.NO;
    Failed refused = Wire.refusal(refusal.text(), "", server, engine.endpoint.cluster);
    if (refused.failure() == Machine.Failure.PASSING) {
      drop(refused.error()); // the next connection subscribes again
      return;
    }
    engine.waiting().forEach(one -> one.give(machine -> machine.cancel(refused.error())));
  }

  @Override
  void heard(String payload) {
    Wire.Message message = Wire.message(payload);
    Acquisition one = message == null ? null : engine.acquisition(message.claim());
    if (one != null) {
      one.give(machine -> machine.message(message.notice(), message.token()));
    } else if (message == null) {
      Loop.LOG.log(System.Logger.Level.DEBUG, "unknown message: {0}", payload);
    }
  }

  @Override
  void went() {
    hearing = Hearing.NO;
  }

  @Override
  void refused(RlockException error) {
    engine.unreachable(engine.waiting(), error);
  }
}
