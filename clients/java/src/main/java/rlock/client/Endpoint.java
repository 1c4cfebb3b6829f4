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
import io.lettuce.core.resource.DefaultEventLoopGroupProvider;
import io.netty.channel.EventLoopGroup;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.TimeUnit;
import rlock.client.RlockException.Invalid;

/**
 * Where the server is, and the driver that connects to it. With sentinels they name the primary; in
 * a cluster it is one of `seeds`.
 */
final class Endpoint {
  /** Of a server; null stands for that of the URI. */
  record Address(String host, int port) {
    @Override
    public String toString() {
      return host.contains(":") ? "[" + host + "]:" + port : host + ":" + port;
    }
  }

  static final String LIBRARY = "rlock-client";
  private static final ByteArrayCodec CODEC = ByteArrayCodec.INSTANCE;
  // The driver's least.
  private static final int COMPUTING = 2;

  final boolean cluster;

  /** Whether another server may become the primary. */
  final boolean follows;

  /** In a cluster, servers to ask first; a single null otherwise. */
  final List<Address> seeds = new ArrayList<>();

  private final List<Address> given;
  final List<Address> sentinels;

  private final RedisURI uri;
  private final RedisClient driver;
  private final ClientResources own; // null if they are the application's

  /**
   * One thread for all connections: what ended one is noticed before what came later by another.
   */
  private static final class OneThread extends DefaultEventLoopGroupProvider {
    volatile EventLoopGroup group;

    OneThread() {
      super(1);
    }

    @Override
    public <T extends EventLoopGroup> T allocate(Class<T> type) {
      T allocated = super.allocate(type);
      group = allocated;
      return allocated;
    }
  }

  private final OneThread thread = new OneThread();

  Endpoint(List<RedisURI> uris, boolean cluster, Settings settings) {
    this.uri = uris.get(0);
    this.cluster = cluster;
    this.sentinels =
        uri.getSentinels().stream()
            .map(each -> new Address(each.getHost(), each.getPort()))
            .toList();
    this.follows = !sentinels.isEmpty();
    if (cluster) {
      uris.forEach(each -> seeds.add(new Address(each.getHost(), each.getPort())));
    } else {
      seeds.add(null);
    }
    given = new ArrayList<>(seeds);
    ClientOptions.Builder options = ClientOptions.builder();
    if (settings.driver == null) {
      own =
          DefaultClientResources.builder()
              .eventLoopGroupProvider(thread)
              .computationThreadPoolSize(COMPUTING)
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
            .pingBeforeActivateConnection(false) // not every user may
            .build());
  }

  static boolean isCluster(String url) {
    return url.matches("(redis|valkey)s?\\+cluster:.*");
  }

  /** What a URL names: of a cluster, each of its hosts. */
  static List<RedisURI> uris(String url) {
    String known =
        url.replaceFirst("^valkey(s?)\\b", "redis$1")
            .replaceFirst("^unix:(.*[?&])db=", "unix:$1database=")
            .replaceFirst("^unix:", "redis-socket:")
            .replaceFirst("^(rediss?)\\+sentinel:(//[^/]+)/([^/]+)/?", "$1-sentinel:$2/#$3/")
            .replaceFirst("#([^/]+)/(\\d*)$", "$2#$1");
    try {
      if (!isCluster(known)) {
        return List.of(RedisURI.create(known));
      }
      int hosts = Math.max(known.indexOf("//") + 2, known.lastIndexOf('@') + 1);
      String access = known.substring(0, hosts).replace("+cluster", "");
      return Arrays.stream(known.substring(hosts).split(","))
          .map(host -> RedisURI.create(access + host))
          .toList();
    } catch (IllegalArgumentException error) {
      throw new Invalid(
          "not the URL of a server (%s); write redis://[user:password@]host[:port][/database], rediss://…, redis+sentinel://host:port,…/primary, redis+cluster://host:port,… or unix://path"
              .formatted(error.getMessage()));
    }
  }

  @Override
  public String toString() {
    if (follows) {
      return uri.getSentinelMasterId();
    }
    return uri.getSocket() != null ? uri.getSocket() : uri.getHost() + ":" + uri.getPort();
  }

  String service() {
    return uri.getSentinelMasterId();
  }

  /** The settings of the server, at this address. */
  RedisURI server(Address address) {
    return address == null ? uri : at(uri, address);
  }

  /** The settings of a Sentinel: its own, or those of the first one if others have named it. */
  RedisURI sentinel(Address address) {
    List<RedisURI> known = uri.getSentinels();
    int number = sentinels.indexOf(address);
    return at(known.get(Math.max(0, number)), address);
  }

  private static RedisURI at(RedisURI like, Address address) {
    return RedisURI.builder(like).withHost(address.host).withPort(address.port).build();
  }

  /** A connection for commands; the caller limits the time of it. */
  CompletionStage<StatefulRedisConnection<byte[], byte[]>> connect(RedisURI to, long within) {
    return driver.connectAsync(CODEC, target(to, within));
  }

  /** A connection for messages. */
  CompletionStage<StatefulRedisPubSubConnection<byte[], byte[]>> listen(RedisURI to, long within) {
    return driver.connectPubSubAsync(CODEC, target(to, within));
  }

  private static RedisURI target(RedisURI to, long within) {
    RedisURI target = RedisURI.builder(to).withTimeout(Duration.ofNanos(within)).build();
    target.setClientName(null);
    target.setLibraryName(LIBRARY);
    String version = Endpoint.class.getPackage().getImplementationVersion();
    target.setLibraryVersion(version == null ? "0" : version);
    return target;
  }

  /** A server of the cluster. */
  void know(Address address) {
    if (!seeds.contains(address)) {
      seeds.add(address);
    }
  }

  /** One that has left the cluster; those that the caller named may come back. */
  void forget(Address address) {
    if (!given.contains(address)) {
      seeds.remove(address);
    }
  }

  /** In a driver's thread: does this after all that has arrived by now. */
  void afterArrivals(Runnable work) {
    EventLoopGroup group = thread.group;
    if (group == null) {
      work.run();
    } else {
      group.execute(work);
    }
  }

  /** After a failure: another node of a cluster may be there. */
  void rotate() {
    Collections.rotate(seeds, -1);
  }

  /** Ends the driver's connections, and its threads unless they are the application's. */
  void close() {
    driver.shutdown(0, 2, TimeUnit.SECONDS);
    if (own != null) {
      own.shutdown(0, 2, TimeUnit.SECONDS).awaitUninterruptibly();
      thread.shutdown(0, 2, TimeUnit.SECONDS).awaitUninterruptibly();
    }
  }
}
