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
    Plan read =
        one.plan()
            .with(
                plan -> {
                  plan.mode = Wire.Mode.READ;
                  plan.limit = 0;
                  plan.fenced = false;
                  plan.fair = false;
                });
    Acquisition reader = new Acquisition(one.engine, read, owner());
    reader.begin(false);
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
