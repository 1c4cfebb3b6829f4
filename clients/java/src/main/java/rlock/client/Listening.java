package rlock.client;

import static java.nio.charset.StandardCharsets.UTF_8;

import io.lettuce.core.RedisURI;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.pubsub.RedisPubSubAdapter;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.CompletionStage;
import java.util.function.Supplier;

/** A link for messages of one channel. */
abstract class Listening extends Link {
  List<String> subscribe;
  // A user of a subscription may subscribe again, but maybe not PING.
  private final Deque<Supplier<List<String>>> pulses = new ArrayDeque<>();

  /** `sentinel`: null for a server of the locks. */
  Listening(Engine engine, Endpoint.Address address, Endpoint.Address sentinel) {
    super(engine, address, sentinel);
    pulses.add(() -> List.of("PING"));
    pulses.add(() -> subscribe);
  }

  /** `present`: by the present connection. */
  abstract void heard(String message, boolean present);

  /** The server has ended the subscription: the slot of its channel is elsewhere. */
  void slotMoved() {
    drop(unreachable("the slot of its channel has moved"));
  }

  @Override
  CompletionStage<? extends StatefulRedisConnection<byte[], byte[]>> connect(
      RedisURI to, long within, int mine) {
    return engine
        .endpoint
        .listen(to, within)
        .thenApply(
            made -> {
              made.addListener(
                  new RedisPubSubAdapter<byte[], byte[]>() {
                    @Override
                    public void message(byte[] channel, byte[] payload) {
                      String text = new String(payload, UTF_8);
                      // The end of another connection may have come before it.
                      engine.endpoint.afterArrivals(
                          () -> loop.execute(() -> heard(text, mine == attempt)));
                    }

                    @Override
                    public void smessage(byte[] channel, byte[] payload) {
                      message(channel, payload);
                    }

                    @Override
                    public void sunsubscribed(byte[] channel, long count) {
                      loop.execute(
                          () -> {
                            if (mine == attempt) {
                              slotMoved();
                            }
                          });
                    }
                  });
              return made;
            });
  }

  @Override
  void pulse(long within) {
    Supplier<List<String>> way = pulses.peek();
    if (way != null && way.get() != null) {
      // A refused one is not repeated.
      send(
          way.get(),
          (value, sentAt) -> pulses.removeIf(each -> each == way && Wire.denied(value)),
          within);
    }
  }
}
