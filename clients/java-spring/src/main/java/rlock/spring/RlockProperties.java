package rlock.spring;

import java.time.Duration;
import org.springframework.boot.context.properties.ConfigurationProperties;
import org.springframework.boot.context.properties.bind.DefaultValue;

/**
 * The properties of rlock itself.
 *
 * @param url of the server of the locks; null: the server of {@code spring.data.redis}
 * @param lease how long a lock outlives its process; null: as the {@code Settings} say
 * @param sessionGrace how long a lock outlives the connection of its process; null: as the {@code
 *     Settings} say
 * @param registryKey the begin of the keys of the lock registry
 */
@ConfigurationProperties("rlock")
record RlockProperties(
    String url, Duration lease, Duration sessionGrace, @DefaultValue("locks") String registryKey) {}
