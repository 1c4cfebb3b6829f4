package rlock.spring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.net.URI;
import java.time.Duration;
import java.util.concurrent.locks.Lock;
import org.junit.jupiter.api.Test;
import org.springframework.boot.WebApplicationType;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import rlock.client.Client;
import rlock.client.Guard;
import rlock.client.Settings;

/** The beans, and the servers that properties name. */
class AutoConfigurationTest {
  private static final URI URL = URI.create(System.getenv("REDIS_URL"));

  /** An application without beans of its own. */
  @Configuration(proxyBeanMethods = false)
  @EnableAutoConfiguration
  static class Application {}

  /** An application with settings. */
  @Configuration(proxyBeanMethods = false)
  @EnableAutoConfiguration
  static class Named {
    @Bean
    Settings settings() {
      return Settings.defaults().withName("orders");
    }
  }

  /** An application with a client. */
  @Configuration(proxyBeanMethods = false)
  @EnableAutoConfiguration
  static class Own {
    static final Client CLIENT = new Client(URL.toString());

    @Bean
    Client locks() {
      return CLIENT;
    }
  }

  private static ConfigurableApplicationContext run(Class<?> application, String... properties) {
    return new SpringApplicationBuilder(application)
        .web(WebApplicationType.NONE)
        .logStartupInfo(false)
        .properties(properties)
        .run();
  }

  /** The registry that these properties make locks and unlocks. */
  private static void locks(String... properties) throws InterruptedException {
    try (var context = run(Application.class, properties)) {
      Lock lock = context.getBean(RlockLockRegistry.class).obtain("7");
      // A cluster or a Sentinel may have begun just now.
      assertTrue(lock.tryLock(20, java.util.concurrent.TimeUnit.SECONDS));
      assertTrue(context.getBean(Client.class).lock("locks:7").locked());
      lock.unlock();
    }
  }

  @Test
  void hostAndPortOrUrl() throws InterruptedException {
    locks("spring.data.redis.host=" + URL.getHost(), "spring.data.redis.port=" + URL.getPort());
    locks("spring.data.redis.url=" + URL, "rlock.url=", "spring.data.redis.ssl.bundle=");
    locks("spring.data.redis.port=" + URL.getPort(), "spring.data.redis.password=");
    locks("spring.data.redis.host=nowhere.invalid", "rlock.url=" + URL);
  }

  @Test
  void leaseRegistryKeyAndSettings() throws InterruptedException {
    try (var context =
        run(Named.class, "rlock.url=" + URL, "rlock.lease=90s", "rlock.registry-key=orders")) {
      Client client = context.getBean(Client.class);
      assertTrue(client.identity().startsWith("orders@"), client.identity());
      Lock lock = context.getBean(RlockLockRegistry.class).obtain("7");
      lock.lock();
      long left = client.lock("orders:7").info().leaseMs();
      assertTrue(left > 60_000 && left <= 90_000, "left: " + left);
      lock.unlock();
    }
  }

  @Test
  void theClientOfTheApplicationComesFirstAndEndsWithTheContext() {
    try (var context = run(Own.class)) {
      assertSame(Own.CLIENT, context.getBean(Client.class));
      assertEquals(1, context.getBeansOfType(RlockLockRegistry.class).size());
    }
    assertThrows(RuntimeException.class, () -> Own.CLIENT.lock("a").locked());
  }

  @Test
  void userPasswordAndDatabase() throws Exception {
    try (Server server = Server.with("--user", "app", "on", ">secret", "~*", "&*", "+@all")) {
      String[] properties = {
        "spring.data.redis.port=" + server.port,
        "spring.data.redis.username=app",
        "spring.data.redis.password=secret",
        "spring.data.redis.database=3"
      };
      locks(properties);
      try (var context = run(Application.class, properties);
          Client elsewhere = new Client("redis://app:secret@127.0.0.1:" + server.port + "/0");
          Guard held = context.getBean(Client.class).lock("a").acquire()) {
        assertTrue(context.getBean(Client.class).lock("a").locked());
        assertFalse(elsewhere.lock("a").locked());
        assertTrue(held.check().compareTo(Duration.ZERO) > 0);
      }
    }
  }

  @Test
  void sentinelsWithAPassword() throws Exception {
    try (Server primary = Server.with();
        Server sentinel = Server.sentinel(primary.port, "guard")) {
      locks(
          "spring.data.redis.sentinel.master=main",
          "spring.data.redis.sentinel.nodes=127.0.0.1:1,127.0.0.1:" + sentinel.port,
          "spring.data.redis.sentinel.password=guard");
    }
  }

  @Test
  void aCluster() throws Exception {
    try (Server node = Server.with("--cluster-enabled", "yes")) {
      node.takeAllSlots();
      locks("spring.data.redis.cluster.nodes=127.0.0.1:" + node.port);
    }
  }

  @Test
  void whatCannotBeDoneIsNotIgnored() {
    refuses("Settings.withDriver", "spring.data.redis.ssl.bundle=mine");
    refuses("names no Sentinel", "spring.data.redis.sentinel.master=main");
    refuses("host:port", "spring.data.redis.cluster.nodes=one");
  }

  private static void refuses(String text, String property) {
    Throwable error = assertThrows(RuntimeException.class, () -> run(Application.class, property));
    while (error.getCause() != null) {
      error = error.getCause();
    }
    assertTrue(error.getMessage().contains(text), error.getMessage());
  }
}
