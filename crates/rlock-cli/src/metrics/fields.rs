//! Which field of INFO is which metric.

use prometheus::proto::MetricType;

use super::page::{Definition, counter, gauge};

/// Fields of every server, with or without the module.
pub(super) const SERVER: [(&str, Definition); 4] = [
    ("used_memory", gauge("rlock_server_used_memory_bytes", "Memory that the server uses.")),
    ("maxmemory", gauge("rlock_server_max_memory_bytes", "The option maxmemory; 0 is unlimited.")),
    ("connected_clients", gauge("rlock_server_connected_clients", "Connections of clients now.")),
    ("maxclients", gauge("rlock_server_max_clients", "The option maxclients.")),
];

/// Fields of the module, which are its metrics, too.
pub(super) const MODULE: [Definition; 32] = [
    gauge("rlock_accept", "The option rlock.accept: 0 while the server drains."),
    gauge("rlock_locks_may_be_evicted", "1 while the maxmemory-policy allows to evict locks."),
    gauge("rlock_waiters", "Waiters now."),
    gauge("rlock_max_waiters", "The option rlock.max-waiters."),
    gauge("rlock_waiters_peak", "The most waiters at once since the load."),
    gauge("rlock_ties", "Holds and waiters that are tied to a connection now (SESSION)."),
    gauge("rlock_max_ties", "The option rlock.max-ties."),
    Definition {
        suffix: "_percent",
        ..gauge("rlock_max_share_per_user", "The option rlock.max-share-per-user.")
    },
    gauge("rlock_user_waiters", "The most waiters of one user, the default user left out."),
    gauge("rlock_user_ties", "The most ties of one user, the default user left out."),
    counter("rlock_refused_by_share", "Calls that were refused, as their user had its share."),
    counter("rlock_acquired", "First holds of an owner in a mode, hand-offs left out."),
    counter("rlock_reentered", "Acquisitions by a holder."),
    counter("rlock_denied", "Acquisitions that were denied."),
    counter("rlock_released", "Releases that freed a lock."),
    counter("rlock_partly_released", "Releases after which holds remained."),
    counter("rlock_renewed", "Renewals of a lease."),
    counter("rlock_not_held", "Releases and renewals without a hold: lost locks, mostly."),
    counter("rlock_force_released", "Locks that were released by force."),
    counter("rlock_hand_offs", "Locks that were handed off to a waiter."),
    counter("rlock_unconfirmed_grants", "Grants that an enqueued waiter did not confirm in time."),
    counter("rlock_foreign_turns", "Times that a free lock was left to Redisson clients."),
    counter("rlock_timeouts", "Waits that ended without the lock."),
    counter("rlock_cancelled", "Waits that were cancelled."),
    counter("rlock_revokes", "Grants that were revoked, their client gone."),
    counter("rlock_waiters_gone", "Waiters whose client disconnected."),
    counter("rlock_waiters_sent_away", "Waiters that were sent away, as by a demotion."),
    counter("rlock_unlock_messages", "Unlock messages that were published."),
    counter("rlock_unread_changes", "Changes without effects, as no replica and no AOF reads them."),
    counter("rlock_replication_failures", "Effects that the server refused: replicas or the AOF lack them."),
    counter("rlock_errors", "Calls that were answered with an error."),
    counter("rlock_panics", "Bugs of the module that it caught."),
];

/// Locks with waiters that no command of the module freed, by cause.
pub(super) const FOUND: Definition =
    counter("rlock_found_free", "Locks with waiters that no rlock command freed, by cause.");

/// The fields of [`FOUND`] begin so; the cause follows.
pub(super) const FOUND_PREFIX: &str = "rlock_found_";

/// The histogram of waits.
pub(super) const WAITS: Definition = Definition {
    kind: MetricType::HISTOGRAM,
    ..gauge("rlock_wait_seconds", "How long the waits were that got the lock.")
};
