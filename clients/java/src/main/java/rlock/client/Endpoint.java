package rlock.client;

import io.lettuce.core.ClientOptions;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.TimeoutOptions;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.codec.ByteArrayCodec;
import io.lettuce.core.protocol.ProtocolVersion;
import io.lettuce.core.pubsub.StatefulRedisPubSubConnection;
import io.lettuce.core.resource.ClientResources;
import io.lettuce.core.resource.DefaultClientResources;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.TimeUnit;

/**
 * Where the server is, and the driver that connects to it. With sentinels it finds the primary; in
 * a cluster it is one of `seeds`.
 */
final class Endpoint {
  /** Of a node of a cluster; null stands for the server of the URI. */
  record Address(String host, int port) {}

  static final String LIBRARY = "rlock-client";
  private static final ByteArrayCodec CODEC = ByteArrayCodec.INSTANCE;
  // Of an event loop: each connection uses one, and there are two.
  private static final int THREADS = 2;

  final boolean cluster;

  /** Whether another server may become the primary. */
  final boolean follows;

  /** In a cluster, servers to ask first; a single null otherwise. */
  final List<Address> seeds = new ArrayList<>();

  private final RedisURI uri;
  private final List<RedisURI> sentinels;
  private final RedisClient driver;
  private final ClientResources own; // null if they are the application's

  Endpoint(List<RedisURI> uris, boolean cluster, Settings settings) {
    this.uri = uris.get(0);
    this.cluster = cluster;
    this.sentinels = new ArrayList<>(uri.getSentinels());
    this.follows = !sentinels.isEmpty();
    if (cluster) {
      uris.forEach(each -> seeds.add(new Address(each.getHost(), each.getPort())));
    } else {
      seeds.add(null);
    }
    ClientOptions.Builder options = ClientOptions.builder();
    if (settings.driver == null) {
      own =
          DefaultClientResources.builder()
              .ioThreadPoolSize(THREADS)
              .computationThreadPoolSize(THREADS)
              .build();
    } else {
      own = null;
      ClientOptions theirs = settings.driver.getOptions();
      options.sslOptions(theirs.getSslOptions()).socketOptions(theirs.getSocketOptions());
    }
    driver = RedisClient.create(own == null ? settings.driver.getResources() : own);
    // Nothing is sent twice or late: the machine repeats, and commands have deadlines of their own.
    driver.setOptions(
        options
            .autoReconnect(false)
            .disconnectedBehavior(ClientOptions.DisconnectedBehavior.REJECT_COMMANDS)
            .timeoutOptions(TimeoutOptions.builder().timeoutCommands(false).build())
            .protocolVersion(ProtocolVersion.RESP2)
            .build());
  }

  @Override
  public String toString() {
    if (follows) {
      return uri.getSentinelMasterId();
    }
    return uri.getSocket() != null ? uri.getSocket() : uri.getHost() + ":" + uri.getPort();
  }

  /** A connection for commands; the caller limits the time of it. */
  CompletionStage<StatefulRedisConnection<byte[], byte[]>> connect(Address address, long within) {
    return driver.connectAsync(CODEC, target(address, within));
  }

  /** A connection for messages. */
  CompletionStage<StatefulRedisPubSubConnection<byte[], byte[]>> listen(long within) {
    return driver.connectPubSubAsync(CODEC, target(null, within));
  }

  private RedisURI target(Address address, long within) {
    // Of sentinels, one that answers nothing leaves time for the others.
    Duration share = Duration.ofNanos(within / (sentinels.size() + 1));
    RedisURI.Builder builder = RedisURI.builder(uri).withTimeout(share);
    if (address != null) {
      builder.withHost(address.host).withPort(address.port);
    }
    if (follows) {
      builder.withSentinelMasterId(uri.getSentinelMasterId());
      sentinels.forEach(each -> builder.withSentinel(RedisURI.builder(each).build()));
    }
    RedisURI target = builder.build();
    target.setClientName(null);
    target.setLibraryName(LIBRARY);
    String version = Endpoint.class.getPackage().getImplementationVersion();
    target.setLibraryVersion(version == null ? "0" : version);
    return target;
  }

  /**
   * After a failure: another sentinel may know better, and another node of a cluster may be there.
   */
  void rotate() {
    Collections.rotate(sentinels, -1);
    Collections.rotate(seeds, -1);
  }

  /** Ends the driver's connections, and its threads unless they are the application's. */
  void close() {
    driver.shutdown(0, 2, TimeUnit.SECONDS);
    if (own != null) {
      own.shutdown(0, 2, TimeUnit.SECONDS).awaitUninterruptibly();
    }
  }
}
