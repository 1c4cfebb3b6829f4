package rlock.client;

/** The read side of a read/write lock. */
public final class ReadLock extends Handle<ReadLock, Guard> {
  ReadLock(Client client, Plan plan) {
    super(client, plan);
  }

  @Override
  ReadLock with(Plan plan) {
    return new ReadLock(client, plan);
  }

  @Override
  Guard guard(Acquisition one, long token) {
    return new Guard(one, token);
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
