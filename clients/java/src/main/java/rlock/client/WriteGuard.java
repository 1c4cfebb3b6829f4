package rlock.client;

/** A hold of a write lock. */
public final class WriteGuard extends Guard {
  WriteGuard(Acquisition one, long token) {
    super(one, token);
  }

  /**
   * Reads instead of writing, without another writer in between. This guard is released.
   *
   * @return the reader's guard
   */
  public Guard downgrade() {
    check();
    Wire.Spec spec = one.spec();
    Plan plan = spec.plan().withWait(0).withFenced(false);
    Wire.Spec read = new Wire.Spec(spec.lock(), plan, Wire.Mode.READ, 0, false, spec.owner());
    Acquisition reader = new Acquisition(one.engine, read, owner());
    reader.begin();
    Guard guard = new Guard(reader, RlockException.join(reader.acquired));
    try {
      release();
      return guard;
    } catch (RlockException error) {
      guard.releaseAsync();
      throw error;
    }
  }
}
