package rlock.spring;

import io.lettuce.core.RedisURI;
import java.util.List;
import org.springframework.boot.context.properties.ConfigurationProperties;
import org.springframework.boot.context.properties.bind.DefaultValue;
import org.springframework.util.StringUtils;
import rlock.client.Client;
import rlock.client.Settings;

/**
 * Where the server is, by the properties of Spring Data Redis. Spring Boot has a class for them,
 * which is another one in each major version.
 */
@ConfigurationProperties("spring.data.redis")
record RedisAddress(
    String url,
    @DefaultValue("localhost") String host,
    @DefaultValue("6379") int port,
    String username,
    String password,
    @DefaultValue("0") int database,
    @DefaultValue Ssl ssl,
    Sentinel sentinel,
    Cluster cluster) {

  record Ssl(boolean enabled, String bundle) {}

  record Sentinel(
      String master, @DefaultValue List<String> nodes, String username, String password) {}

  record Cluster(@DefaultValue List<String> nodes) {}

  Client client(Settings settings) {
    RedisURI uri = uri();
    if (cluster != null) {
      return Client.cluster(
          cluster.nodes().stream().map(node -> at(RedisURI.builder(uri), node).build()).toList(),
          settings);
    }
    if (sentinel != null) {
      if (sentinel.nodes().isEmpty()) {
        throw new IllegalStateException("spring.data.redis.sentinel.nodes names no Sentinel");
      }
      uri.setSentinelMasterId(sentinel.master());
      sentinel.nodes().forEach(node -> uri.getSentinels().add(sentinelAt(node, uri.isSsl())));
    }
    return new Client(uri, settings);
  }

  /** As in Spring Boot, the URL has the user, the password and the database, too. */
  private RedisURI uri() {
    if (StringUtils.hasText(ssl.bundle())) {
      throw new IllegalStateException(
          "rlock does not read spring.data.redis.ssl.bundle; define a bean of rlock.client.Client with Settings.withDriver, or set rlock.url");
    }
    if (StringUtils.hasText(url)) {
      return RedisURI.create(url);
    }
    RedisURI.Builder uri = RedisURI.builder().withHost(host).withPort(port).withDatabase(database);
    return authenticated(uri.withSsl(ssl.enabled()), username, password).build();
  }

  private RedisURI sentinelAt(String node, boolean ssl) {
    RedisURI.Builder uri = at(RedisURI.builder(), node).withSsl(ssl);
    return authenticated(uri, sentinel.username(), sentinel.password()).build();
  }

  private static RedisURI.Builder authenticated(
      RedisURI.Builder uri, String username, String password) {
    if (!StringUtils.hasText(password)) {
      return uri;
    }
    return StringUtils.hasText(username)
        ? uri.withAuthentication(username, password.toCharArray())
        : uri.withPassword(password.toCharArray());
  }

  private static RedisURI.Builder at(RedisURI.Builder uri, String node) {
    int colon = node.lastIndexOf(':');
    if (colon < 0) {
      throw new IllegalStateException("a node is host:port, not " + node);
    }
    return uri.withHost(node.substring(0, colon))
        .withPort(Integer.parseInt(node.substring(colon + 1)));
  }
}
