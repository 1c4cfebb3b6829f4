package rlock.client;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/** What threads hold by views of locks, for all views of one client. */
final class Holds {
  /** Whose hold it is. */
  record Key(Thread thread, String lock, Wire.Mode mode) {}

  /** A guard, and how often its thread has locked. */
  static final class Hold {
    final Guard guard;
    int count = 1; // in the thread of the hold

    Hold(Guard guard) {
      this.guard = guard;
    }
  }

  private final Map<Key, Hold> all = new ConcurrentHashMap<>();

  Hold of(Key key) {
    return all.get(key);
  }

  void put(Key key, Hold hold) {
    all.put(key, hold);
    // A dead thread asks for nothing any more.
    hold.guard.lost().thenRun(() -> all.keySet().removeIf(each -> !each.thread.isAlive()));
  }

  void remove(Key key) {
    all.remove(key);
  }
}
