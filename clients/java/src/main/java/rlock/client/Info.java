package rlock.client;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * A lock, as its server sees it, with at most 100 holders and 100 waiters.
 *
 * @param kind none, mutex, readwrite or permits
 * @param leaseMs what is left of the lease; -1: it has no end, -2: the lock is free
 * @param token the last fencing token, or 0
 * @param holderCount how many hold it
 * @param waiterCount how many wait for it
 * @param holders the owners that hold it
 * @param queue the waiters in order
 */
public record Info(
    String kind,
    long leaseMs,
    long token,
    long holderCount,
    long waiterCount,
    List<Holder> holders,
    List<Waiter> queue) {

  /**
   * An owner that holds the lock.
   *
   * @param owner its name
   * @param mode read, write or permit; empty for a plain lock
   * @param holds how often
   * @param leaseMs what is left of the lease
   */
  public record Holder(String owner, String mode, long holds, long leaseMs) {}

  /**
   * An owner that waits.
   *
   * @param owner its name
   * @param mode read, write or permit; empty for a plain lock
   * @param via block, enqueue or redisson
   * @param ageMs how long it has waited; -1: unknown
   * @param waitLeftMs what is left of its wait; -1: for ever
   */
  public record Waiter(String owner, String mode, String via, long ageMs, long waitLeftMs) {}

  /** Reads the reply of INFO; fields that are not known are skipped. */
  static Info of(Object reply) {
    try {
      Map<String, Object> fields = pairs(reply);
      return new Info(
          (String) fields.get("kind"),
          (Long) fields.get("lease-ms"),
          (Long) fields.get("token"),
          (Long) fields.get("holder-count"),
          (Long) fields.get("waiter-count"),
          ((List<?>) fields.get("holders")).stream().map(Info::pairs).map(Info::holder).toList(),
          ((List<?>) fields.get("queue")).stream().map(Info::pairs).map(Info::waiter).toList());
    } catch (ClassCastException | NullPointerException | IndexOutOfBoundsException error) {
      throw Wire.unexpected("RLOCK.INFO", reply);
    }
  }

  private static Holder holder(Map<String, Object> fields) {
    return new Holder(
        (String) fields.get("owner"),
        (String) fields.get("mode"),
        (Long) fields.get("holds"),
        (Long) fields.get("lease-ms"));
  }

  private static Waiter waiter(Map<String, Object> fields) {
    return new Waiter(
        (String) fields.get("owner"),
        (String) fields.get("mode"),
        (String) fields.get("via"),
        (Long) fields.get("age-ms"),
        (Long) fields.get("wait-left-ms"));
  }

  private static Map<String, Object> pairs(Object reply) {
    List<?> all = (List<?>) reply;
    Map<String, Object> fields = new LinkedHashMap<>();
    for (int i = 0; i < all.size(); i += 2) {
      fields.put((String) text(all.get(i)), text(all.get(i + 1)));
    }
    return fields;
  }

  private static Object text(Object value) {
    return value instanceof byte[] bytes ? new String(bytes, UTF_8) : value;
  }
}
