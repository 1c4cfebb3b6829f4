package rlock.client;

/** A plain lock: one holder at a time. */
public final class NamedLock extends Handle<NamedLock, Guard> {
  NamedLock(Client client, Plan plan) {
    super(client, plan);
  }

  @Override
  NamedLock with(Plan plan) {
    return new NamedLock(client, plan);
  }

  @Override
  Guard guard(Acquisition one, long token) {
    return new Guard(one, token);
  }

  /**
   * One order with Redisson fair waiters of that name. Without Redisson clients a lock is fair
   * already.
   *
   * @return a copy
   */
  public NamedLock fair() {
    return with(plan -> plan.fair = true);
  }

  /**
   * Each guard has a fencing token, larger than those of all earlier holders.
   *
   * @return a copy
   */
  public NamedLock fenced() {
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
