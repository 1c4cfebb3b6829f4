package rlock.client;

/** A plain lock: one holder at a time. */
public final class Lock extends Handle<Lock, Guard> {
  Lock(Client client, Plan plan) {
    super(client, plan);
  }

  @Override
  Lock with(Plan plan) {
    return new Lock(client, plan);
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
  public Lock fair() {
    return with(plan -> plan.fair = true);
  }

  /**
   * Each guard has a fencing token, larger than those of all earlier holders.
   *
   * @return a copy
   */
  public Lock fenced() {
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
