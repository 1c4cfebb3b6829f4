package rlock.client;

import static java.nio.charset.StandardCharsets.UTF_8;

import io.lettuce.core.RedisURI;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.pubsub.RedisPubSubAdapter;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.CompletionStage;

/** A link for messages of one channel. */
abstract class Listening extends Link {
  final List<String> subscribe;
  // A user of a subscription may subscribe again, but maybe not PING.
  private final Deque<List<String>> pulses = new ArrayDeque<>();

  /** `sentinel`: null for the server of the locks. */
  Listening(Engine engine, Endpoint.Address sentinel, String channel) {
    super(engine, null, sentinel);
    subscribe = List.of("SUBSCRIBE", channel);
    pulses.add(List.of("PING"));
    pulses.add(subscribe);
  }

  abstract void heard(String message);

  @Override
  CompletionStage<? extends StatefulRedisConnection<byte[], byte[]>> connect(
      RedisURI to, long within) {
    return engine
        .endpoint
        .listen(to, within)
        .thenApply(
            made -> {
              made.addListener(
                  new RedisPubSubAdapter<byte[], byte[]>() {
                    @Override
                    public void message(byte[] channel, byte[] payload) {
                      loop.execute(() -> heard(new String(payload, UTF_8)));
                    }
                  });
              return made;
            });
  }

  @Override
  void pulse(long within) {
    List<String> way = pulses.peek();
    if (way != null) {
      // A refused one is not repeated.
      send(
          way,
          (value, sentAt) -> pulses.removeIf(each -> each == way && Wire.denied(value)),
          within);
    }
  }
}
