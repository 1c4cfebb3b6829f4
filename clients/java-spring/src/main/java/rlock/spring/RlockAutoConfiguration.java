package rlock.spring;

import org.springframework.beans.factory.ObjectProvider;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.context.properties.EnableConfigurationProperties;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.integration.support.locks.LockRegistry;
import org.springframework.util.StringUtils;
import rlock.client.Client;
import rlock.client.Settings;

/** A client, and with Spring Integration a lock registry. Beans of the application come first. */
@AutoConfiguration
@EnableConfigurationProperties({RlockProperties.class, RedisAddress.class})
public class RlockAutoConfiguration {
  @Bean
  @ConditionalOnMissingBean
  Client rlockClient(
      RlockProperties properties, RedisAddress redis, ObjectProvider<Settings> application) {
    Settings settings = application.getIfAvailable(Settings::defaults);
    if (properties.lease() != null) {
      settings = settings.withLease(properties.lease());
    }
    if (properties.sessionGrace() != null) {
      settings = settings.withSessionGrace(properties.sessionGrace());
    }
    return StringUtils.hasText(properties.url())
        ? new Client(properties.url(), settings)
        : redis.client(settings);
  }

  @Configuration(proxyBeanMethods = false)
  @ConditionalOnClass(LockRegistry.class)
  static class Integration {
    @Bean
    @ConditionalOnMissingBean(LockRegistry.class)
    RlockLockRegistry lockRegistry(Client client, RlockProperties properties) {
      return new RlockLockRegistry(client, properties.registryKey());
    }
  }
}
