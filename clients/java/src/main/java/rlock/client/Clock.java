package rlock.client;

import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.LongSupplier;

/**
 * Nanoseconds, suspended time included where the system tells it.
 *
 * <p>On Linux the precise clock stops in suspend, and the one that does not, /proc/uptime, has
 * steps of 10 ms: their difference corrects the first. It is read once a second, and at once after
 * the time of day has jumped, as it does after a suspend. Elsewhere the precise clock counts alone.
 */
final class Clock {
  private static final long STEP = 10 * Machine.MS;
  private static final long PROMPT = Machine.MS;
  private static final long PACE = 1_000 * Machine.MS;
  private static final int TRIES = 5;
  private static final long UNREADABLE = Long.MIN_VALUE / 2;

  static final Clock SYSTEM = new Clock();

  private final LongSupplier precise;
  private final LongSupplier coarse;
  private final LongSupplier day;
  private final long apart;
  // Not a monitor: it is held during I/O, and virtual threads must not be pinned by that.
  private final ReentrantLock reading = new ReentrantLock();
  private volatile long suspended;

  /** When the coarse clock was read, and how far the time of day was ahead then. */
  private record Reading(long at, long ahead) {}

  private volatile Reading last;

  Clock() {
    this(System::nanoTime, uptime(), () -> System.currentTimeMillis() * Machine.MS);
  }

  /** `coarse`: null where there is none. */
  Clock(LongSupplier precise, LongSupplier coarse, LongSupplier day) {
    long start = precise.getAsLong();
    this.precise = () -> precise.getAsLong() - start;
    this.coarse = coarse;
    this.day = day;
    this.apart = coarse == null ? 0 : coarse.getAsLong();
  }

  /** A suspend of less than this may go unnoticed. */
  long slack() {
    return coarse == null ? 0 : 2 * STEP;
  }

  long now() {
    long now = precise.getAsLong();
    Reading before = last;
    if (coarse != null
        && (before == null
            || now - before.at > PACE
            || Math.abs(day.getAsLong() - now - before.ahead) >= STEP)) {
      read();
      now = precise.getAsLong();
    }
    return now + suspended;
  }

  private void read() {
    reading.lock();
    try {
      for (int tries = 0; tries < TRIES; tries++) {
        long before = precise.getAsLong();
        long ahead = coarse.getAsLong() - apart - before;
        long dayAhead = day.getAsLong() - before;
        // A thread that stood still between the two would take that for a suspend.
        if (precise.getAsLong() - before <= PROMPT) {
          suspended = ahead > suspended + STEP ? ahead : suspended;
          last = new Reading(before, dayAhead);
          break;
        }
      }
    } finally {
      reading.unlock();
    }
  }

  private static LongSupplier uptime() {
    try {
      RandomAccessFile file = new RandomAccessFile("/proc/uptime", "r");
      byte[] text = new byte[64];
      LongSupplier read =
          () -> {
            try {
              file.seek(0);
              int length = file.read(text);
              String seconds = new String(text, 0, length, StandardCharsets.US_ASCII);
              // "12345.67 54321.00"
              return Long.parseLong(seconds.substring(0, seconds.indexOf(' ')).replace(".", ""))
                  * STEP;
            } catch (IOException | RuntimeException error) {
              return UNREADABLE;
            }
          };
      return read.getAsLong() == UNREADABLE ? null : read;
    } catch (IOException none) {
      return null;
    }
  }
}
