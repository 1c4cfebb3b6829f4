package rlock.client;

/**
 * Many readers hold it together, or one writer alone.
 *
 * @param read the side of the readers
 * @param write the side of the writer
 */
public record ReadWriteLock(ReadLock read, WriteLock write) {
  /**
   * The same lock as a {@code java.util.concurrent.locks.ReadWriteLock}. A thread that writes may
   * also read; one that reads cannot write.
   *
   * @return a view, which re-enters
   */
  public java.util.concurrent.locks.ReadWriteLock javaLock() {
    JavaLock reader = read.javaLock();
    JavaLock writer = write.javaLock();
    return new java.util.concurrent.locks.ReadWriteLock() {
      @Override
      public JavaLock readLock() {
        return reader;
      }

      @Override
      public JavaLock writeLock() {
        return writer;
      }
    };
  }
}
