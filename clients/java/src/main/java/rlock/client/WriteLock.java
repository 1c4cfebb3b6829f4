package rlock.client;

/** The write side of a read/write lock. */
public final class WriteLock extends Handle<WriteLock, WriteGuard> {
  WriteLock(Client client, Wire.Spec spec) {
    super(client, spec);
  }

  @Override
  WriteLock with(Wire.Spec spec) {
    return new WriteLock(client, spec);
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
    return with(spec.plan().withFenced(true));
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
