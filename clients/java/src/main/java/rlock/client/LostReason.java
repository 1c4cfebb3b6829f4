package rlock.client;

/** Why a lock is no longer held. */
public enum LostReason {
  /** No renewal was confirmed before its lease or session ended, or a fixed lease ended. */
  EXPIRED(
      "no renewal was confirmed before its lease or session ended (server unreachable or process paused)"),
  /** The lock was held for as long as {@code withMaxHold} allows, and was not renewed any more. */
  OVERDUE("it was held for longer than its max hold"),
  /** The server no longer has the lock. */
  TAKEN("the server no longer has it (forced release, deletion or fail-over)"),
  /** The client of the lock was closed. */
  CLOSED("its client was closed"),
  /** The lock was released. */
  RELEASED("it was released");

  final String text;

  LostReason(String text) {
    this.text = text;
  }
}
