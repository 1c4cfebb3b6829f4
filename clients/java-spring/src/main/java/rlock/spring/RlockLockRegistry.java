package rlock.spring;

import java.time.Duration;
import java.util.Objects;
import java.util.concurrent.locks.Lock;
import org.springframework.integration.support.locks.ExpirableLockRegistry;
import org.springframework.integration.support.locks.RenewableLockRegistry;
import org.springframework.util.Assert;
import org.springframework.util.ClassUtils;
import rlock.client.Client;

/**
 * Spring Integration's registry of locks, on a server with the rlock module. Its locks are renewed
 * until their unlock, by the client.
 *
 * <p>It stores nothing: {@code obtain} returns a view of the lock, and two views of one key are the
 * same lock for a thread. In Spring Integration 7 a view is a {@code DistributedLock}.
 */
// Without type parameters: in Spring Integration 6 the interfaces have none.
@SuppressWarnings("rawtypes")
public final class RlockLockRegistry implements ExpirableLockRegistry, RenewableLockRegistry {
  private static final boolean DISTRIBUTED =
      ClassUtils.isPresent(
          "org.springframework.integration.support.locks.DistributedLock",
          RlockLockRegistry.class.getClassLoader());

  private final Client client;
  private final String registryKey;

  /**
   * A registry.
   *
   * @param client of the server
   * @param registryKey begin of the keys in the server; a colon and the lock key follow
   */
  public RlockLockRegistry(Client client, String registryKey) {
    this.client = Objects.requireNonNull(client);
    this.registryKey = Objects.requireNonNull(registryKey);
  }

  /**
   * The lock of this key.
   *
   * @param lockKey a String
   * @return a view
   */
  @Override
  public Lock obtain(Object lockKey) {
    return DISTRIBUTED
        ? new LeasedLock(client, key(lockKey))
        : new RegistryLock(client, key(lockKey));
  }

  /** Does nothing: the registry stores nothing that could grow. */
  @Override
  public void expireUnusedOlderThan(long age) {
    // Stores nothing.
  }

  /**
   * Renews the lock until its unlock, also one that was locked with a time to live.
   *
   * @param lockKey of a lock that this thread holds
   * @throws IllegalStateException if it does not, or has lost it
   */
  @Override
  public void renewLock(Object lockKey) {
    new RegistryLock(client, key(lockKey)).renew(-1);
  }

  /**
   * Makes the lock last at least for this time from now on.
   *
   * @param lockKey of a lock that this thread holds
   * @param ttl from 100 ms
   * @throws IllegalStateException if it does not, or has lost it
   */
  // Not in Spring Integration 6.
  public void renewLock(Object lockKey, Duration ttl) {
    new RegistryLock(client, key(lockKey)).renew(RegistryLock.lease(ttl));
  }

  private String key(Object lockKey) {
    Assert.isInstanceOf(String.class, lockKey, "the key of a lock is a String");
    return registryKey + ":" + lockKey;
  }

  @Override
  public String toString() {
    return "RlockLockRegistry[" + registryKey + "]";
  }
}
