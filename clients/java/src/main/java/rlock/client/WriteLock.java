package rlock.client;

/** The write side of a read/write lock. */
public final class WriteLock extends Handle<WriteLock, WriteGuard> {
  WriteLock(Client client, Plan plan) {
    super(client, plan);
  }

  @Override
  WriteLock with(Plan plan) {
    return new WriteLock(client, plan);
  }

  @Override
  WriteGuard guard(Acquisition one, long token) {
    return new WriteGuard(one, token);
  }

  /**
   * Each guard has a fencing token, larger than those of all earlier holders.
   *
   * @return a copy
   */
  public WriteLock fenced() {
    return with(plan -> plan.fenced = true);
  }

  /**
   * The same lock as a {@code java.util.concurrent.locks.Lock}.
   *
   * @return a view, which re-enters
   */
  public JavaLock javaLock() {
    return new JavaLock(client, this);
  }
}
