package rlock.spring;

import java.time.Duration;
import org.springframework.integration.support.locks.DistributedLock;
import rlock.client.Client;

/** A lock of Spring Integration 7; in 6 this class cannot be loaded. */
final class LeasedLock extends RegistryLock implements DistributedLock {
  LeasedLock(Client client, String key) {
    super(client, key);
  }

  @Override
  public void lock(Duration ttl) {
    lock(RegistryLock.lease(ttl));
  }

  @Override
  public boolean tryLock(Duration wait, Duration ttl) throws InterruptedException {
    return tryLock(wait.toMillis(), RegistryLock.lease(ttl));
  }
}
