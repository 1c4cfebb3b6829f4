package rlock.client;

/** A hold of a write lock. */
public final class WriteGuard extends Guard {
  WriteGuard(Acquisition one, long token) {
    super(one, token);
  }

  /**
   * Turns the write hold into a read hold, with no writer in between. This guard is released.
   *
   * @return the reader's guard
   */
  public Guard downgrade() {
    check();
    long held = one.held();
    Plan read =
        one.plan()
            .with(
                plan -> {
                  plan.mode = Wire.Mode.READ;
                  plan.limit = 0;
                  plan.fenced = false;
                  plan.fair = false;
                  // What is left of these times is the reader's.
                  plan.atLeast = Math.max(0, plan.atLeast - held);
                  plan.maxHold =
                      plan.maxHold == Machine.NEVER
                          ? plan.maxHold
                          : Math.max(1, plan.maxHold - held);
                });
    Acquisition reader = new Acquisition(one.engine, read, owner());
    reader.begin(false);
    Guard guard = new Guard(reader, RlockException.join(reader.acquired));
    try {
      release(Machine::cancel);
      return guard;
    } catch (RlockException error) {
      guard.releaseAsync();
      throw error;
    }
  }
}
