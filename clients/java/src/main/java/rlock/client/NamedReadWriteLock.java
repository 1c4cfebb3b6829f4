package rlock.client;

/**
 * Many readers hold it together, or one writer alone.
 *
 * @param read the side of the readers
 * @param write the side of the writer
 */
public record NamedReadWriteLock(ReadLock read, WriteLock write) {
  /**
   * The same lock as a {@code java.util.concurrent.locks.ReadWriteLock}. A thread that writes may
   * also read; one that reads cannot write.
   *
   * @return a view, which re-enters
   */
  public Views javaLock() {
    return new Views(read.javaLock(), write.javaLock());
  }

  /**
   * Both sides as Java's own locks.
   *
   * @param readLock the side of the readers
   * @param writeLock the side of the writer
   */
  public record Views(JavaLock readLock, JavaLock writeLock)
      implements java.util.concurrent.locks.ReadWriteLock {}
}
