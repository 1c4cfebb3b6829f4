package rlock.client;

import static java.nio.charset.StandardCharsets.UTF_8;

import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.pubsub.RedisPubSubAdapter;
import java.util.List;
import java.util.concurrent.CompletionStage;
import rlock.client.Machine.Failed;

/** The link for the messages to waiters. */
final class Subscription extends Link {
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
    super(engine);
    open();
  }

  @Override
  CompletionStage<? extends StatefulRedisConnection<byte[], byte[]>> connect(long within) {
    return engine
        .endpoint
        .listen(within)
        .thenApply(
            made -> {
              made.addListener(
                  new RedisPubSubAdapter<byte[], byte[]>() {
                    @Override
                    public void message(byte[] channel, byte[] payload) {
                      loop.execute(() -> heard(payload));
                    }
                  });
              return made;
            });
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
        List.of("SUBSCRIBE", engine.channel),
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
        drop("the subscription is on another server");
        return;
      }
      hearing = Hearing.SURE;
      engine.waiting().forEach(one -> one.give(Machine::linkUp));
    }
  }

  /** No messages for this user: waits end. */
  private void unheard(Refusal refusal) {
    hearing = Hearing.NO;
    Failed refused = Wire.refusal(refusal.text(), "", engine.endpoint);
    if (refused.failure() == Machine.Failure.PASSING) {
      drop(refusal.text()); // the next connection subscribes again
      return;
    }
    engine.waiting().forEach(one -> one.give(machine -> machine.cancel(refused.error())));
  }

  private void heard(byte[] payload) {
    Wire.Message message = Wire.message(payload);
    Acquisition one = message == null ? null : engine.acquisition(message.claim());
    if (one != null) {
      one.give(machine -> machine.message(message.notice(), message.token()));
    } else if (message == null) {
      Loop.LOG.log(System.Logger.Level.DEBUG, "unknown message: {0}", new String(payload, UTF_8));
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
