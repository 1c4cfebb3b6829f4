package rlock.client;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * A lock, as its server sees it. {@code holders} and {@code queue} have the fields of {@code
 * RLOCK.INFO}, at most 100 of each: numbers as {@code Long}, texts as {@code String}.
 *
 * @param kind none, mutex, readwrite or permits
 * @param leaseMs what is left of the lease; -1: it has no end, -2: the lock is free
 * @param token the last fencing token, or 0
 * @param holderCount how many hold it
 * @param waiterCount how many wait for it
 * @param holders owners, modes, holds and leases
 * @param queue the waiters in order
 */
public record Info(
    String kind,
    long leaseMs,
    long token,
    long holderCount,
    long waiterCount,
    List<Map<String, Object>> holders,
    List<Map<String, Object>> queue) {

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
          ((List<?>) fields.get("holders")).stream().map(Info::pairs).toList(),
          ((List<?>) fields.get("queue")).stream().map(Info::pairs).toList());
    } catch (ClassCastException | NullPointerException | IndexOutOfBoundsException error) {
      throw Wire.unexpected("RLOCK.INFO", reply);
    }
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
