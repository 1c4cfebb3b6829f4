//! What is written down about a hold, under a lock of its own.

use tokio::sync::OwnedMutexGuard;

use crate::clock::Instant;
use crate::error::Lost;
use crate::link::Tie;

pub(super) struct HoldState {
    pub(super) phase: Phase,
    /// Until when the lease certainly lasts.
    pub(super) deadline: Instant,
    /// Of a hold with a session.
    pub(super) tie: Option<Tie>,
    /// When the next renewal is due, if one is.
    pub(super) renew_at: Option<Instant>,
    /// Where the watchdog has this hold in its timetable.
    pub(super) wake_at: Option<Instant>,
    pub(super) in_flight: bool,
    /// Renewals that failed since the last that was confirmed.
    pub(super) failures: u32,
    pub(super) guards: u64,
    pub(super) settled: bool,
    pub(super) turn: Option<OwnedMutexGuard<()>>,
    /// The report to make when the book is closed.
    pub(super) report: Option<Report>,
}

impl HoldState {
    /// Until when the lock is certainly held: by its lease, and by the life of the connection that it is tied to.
    pub(super) fn end(&self) -> Instant {
        self.tie.as_ref().map_or(self.deadline, |tie| self.deadline.min(tie.deadline()))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Held,
    Lost(Lost),
    /// The last guard was released at this instant; the server's answer is not known yet, or shows no loss.
    Released(Instant),
}

/// What has become of a hold.
pub(super) enum Report {
    Renewed,
    /// The last guard was released at this instant, and the server no longer has the hold.
    Released(Instant),
    Lost(Lost),
}
