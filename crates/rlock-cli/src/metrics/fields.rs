//! Which field of INFO is which metric.

use super::page::{Definition, counter, gauge};

/// Fields of every server, with or without the module.
pub(super) const SERVER: [(&str, Definition); 4] = [
    ("used_memory", gauge("rlock_server_used_memory_bytes", "Memory that the server uses.")),
    ("maxmemory", gauge("rlock_server_max_memory_bytes", "The option maxmemory; 0 is unlimited.")),
    ("connected_clients", gauge("rlock_server_connected_clients", "Connections of clients now.")),
    ("maxclients", gauge("rlock_server_max_clients", "The option maxclients.")),
];

/// Fields of the module.
pub(super) const MODULE: [(&str, Definition); 32] = [
    ("rlock_accept", gauge("rlock_accept", "The option rlock.accept: 0 while the server drains.")),
    (
        "rlock_locks_may_be_evicted",
        gauge("rlock_locks_may_be_evicted", "1 while the maxmemory-policy allows to evict locks."),
    ),
    ("rlock_waiters", gauge("rlock_waiters", "Waiters now.")),
    ("rlock_max_waiters", gauge("rlock_max_waiters", "The option rlock.max-waiters.")),
    ("rlock_waiters_peak", gauge("rlock_waiters_peak", "The most waiters at once since the load.")),
    ("rlock_ties", gauge("rlock_ties", "Holds and waiters that are tied to a connection now (SESSION).")),
    ("rlock_max_ties", gauge("rlock_max_ties", "The option rlock.max-ties.")),
    (
        "rlock_max_share_per_user",
        gauge("rlock_max_share_per_user_percent", "The option rlock.max-share-per-user."),
    ),
    (
        "rlock_user_waiters",
        gauge("rlock_user_waiters", "The most waiters of one user, the default user left out."),
    ),
    ("rlock_user_ties", gauge("rlock_user_ties", "The most ties of one user, the default user left out.")),
    (
        "rlock_refused_by_share",
        counter("rlock_refused_by_share_total", "Calls that were refused, as their user had its share."),
    ),
    (
        "rlock_acquired",
        counter("rlock_acquired_total", "First holds of an owner in a mode, hand-offs left out."),
    ),
    ("rlock_reentered", counter("rlock_reentered_total", "Acquisitions by a holder.")),
    ("rlock_denied", counter("rlock_denied_total", "Acquisitions that were denied.")),
    ("rlock_released", counter("rlock_released_total", "Releases that freed a lock.")),
    ("rlock_partly_released", counter("rlock_partly_released_total", "Releases after which holds remained.")),
    ("rlock_renewed", counter("rlock_renewed_total", "Renewals of a lease.")),
    (
        "rlock_not_held",
        counter("rlock_not_held_total", "Releases and renewals without a hold: lost locks, mostly."),
    ),
    ("rlock_force_released", counter("rlock_force_released_total", "Locks that were released by force.")),
    ("rlock_hand_offs", counter("rlock_hand_offs_total", "Locks that were handed off to a waiter.")),
    (
        "rlock_unconfirmed_grants",
        counter("rlock_unconfirmed_grants_total", "Grants that an enqueued waiter did not confirm in time."),
    ),
    (
        "rlock_foreign_turns",
        counter("rlock_foreign_turns_total", "Times that a free lock was left to Redisson clients."),
    ),
    ("rlock_timeouts", counter("rlock_timeouts_total", "Waits that ended without the lock.")),
    ("rlock_cancelled", counter("rlock_cancelled_total", "Waits that were cancelled.")),
    ("rlock_revokes", counter("rlock_revokes_total", "Grants that were revoked, their client gone.")),
    ("rlock_waiters_gone", counter("rlock_waiters_gone_total", "Waiters whose client disconnected.")),
    (
        "rlock_waiters_sent_away",
        counter("rlock_waiters_sent_away_total", "Waiters that were sent away, as by a demotion."),
    ),
    ("rlock_unlock_messages", counter("rlock_unlock_messages_total", "Unlock messages that were published.")),
    (
        "rlock_unread_changes",
        counter(
            "rlock_unread_changes_total",
            "Changes without effects, as no replica and no AOF reads them.",
        ),
    ),
    (
        "rlock_replication_failures",
        counter(
            "rlock_replication_failures_total",
            "Effects that the server refused: replicas or the AOF lack them.",
        ),
    ),
    ("rlock_errors", counter("rlock_errors_total", "Calls that were answered with an error.")),
    ("rlock_panics", counter("rlock_panics_total", "Bugs of the module that it caught.")),
];

/// Locks with waiters that no command of the module freed, by cause.
pub(super) const FOUND: Definition =
    counter("rlock_found_free_total", "Locks with waiters that no rlock command freed, by cause.");

/// The fields of [`FOUND`] begin so; the cause follows.
pub(super) const FOUND_PREFIX: &str = "rlock_found_";

/// The name and the help of the histogram of waits.
pub(super) const WAITS: (&str, &str) = ("rlock_wait_seconds", "How long the waits were that got the lock.");
