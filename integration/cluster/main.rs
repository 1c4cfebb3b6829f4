//! Clusters, and slots that move.

mod channels;
mod cluster;
mod migration;
mod migration_arrivals;
mod migration_modes;
mod migration_ties;
mod whole_slots;

use rlock_testkit::waiting::Waiting;

/// For messages about the lock of these tests.
const CHANNEL: &str = "grants:{lock}";

#[track_caller]
fn was_sent_away(waiting: &Waiting) {
    let answer = waiting.answer();
    assert!(answer.starts_with("!UNBLOCKED ") && answer.contains("slot"), "{answer}");
}
