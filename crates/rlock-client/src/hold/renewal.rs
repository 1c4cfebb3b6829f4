//! A hold's renewals: when each is due, and what came of it.

use std::sync::Arc;
use std::time::Duration;

use redis::Cmd;

use super::{Hold, HoldState, Phase, Report};
use crate::clock::Instant;
use crate::command;
use crate::error::Error;
use crate::events::Event;
use crate::link::{Life, Tie};

/// Tries before the pause between renewals reaches its longest.
const DOUBLINGS: u32 = 6;

/// The watchdog's task for a hold that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    Nothing,
    Renewal,
}

/// When a renewal that failed is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Again {
    AtOnce,
    /// Which is longer with each failure.
    AfterPause,
}

impl Hold {
    /// The moment `at` has come, for which this hold stood in the timetable until now.
    pub(crate) fn wake(self: &Arc<Self>, at: Instant, now: Instant, window: Duration) -> Need {
        self.with_book(|book| {
            if book.wake_at != Some(at) {
                // It was planned anew, or forgotten, between being taken out and this call.
                return Need::Nothing;
            }
            book.wake_at = None;
            if self.judge(book).is_err() {
                return Need::Nothing;
            }
            let due = !book.in_flight && book.renew_at.is_some_and(|at| at <= now.after(window));
            book.in_flight |= due;
            self.schedule(book);
            if due { Need::Renewal } else { Need::Nothing }
        })
    }

    /// The next renewal is due now, where the lock is renewed at all, or must be tied to another connection.
    pub(crate) fn renew_soon(self: &Arc<Self>, now: Instant) {
        self.with_book(|book| {
            if book.phase == Phase::Held && (self.renewed || self.session.is_some()) {
                book.renew_at = Some(book.renew_at.map_or(now, |at| at.min(now)));
                self.schedule(book);
            }
        });
    }

    /// The command that renews it at this moment. A lease that is not renewed keeps its end: only its tie is new.
    pub(crate) fn renewal(&self, now: Instant) -> Cmd {
        let lease = if self.renewed { self.lease } else { now.lease_until(self.deadline()) };
        command::renew(&self.party, lease, self.session)
    }

    /// A renewal that was sent at `sent`, on the connection with this life, was confirmed.
    pub(crate) fn renewal_confirmed(self: &Arc<Self>, sent: Instant, life: &Arc<Life>) {
        let held = self.end_renewal(|book| {
            book.failures = 0;
            book.tie = self.session.map(|grace| Tie::new(life.clone(), grace));
            if self.renewed {
                book.deadline = book.deadline.max(sent.end_of(self.lease));
            }
            book.renew_at = self.renewed.then(|| sent.after(self.shared.config.renew_after(self.lease)));
            book.report = Some(Report::Renewed);
        });
        if held {
            self.tie_anew();
        }
    }

    /// Ties the hold to the next connection if its own has ended: the renewal of all holds after a reconnect
    /// may have run before this hold was tied.
    pub(super) fn tie_anew(self: &Arc<Self>) {
        if self.with_book(|book| book.tie.as_ref().is_some_and(Tie::is_cut)) {
            self.renew_soon(self.shared.clock.now());
        }
    }

    /// A renewal failed: that alone does not lose the lock. It is retried soon.
    pub(crate) fn renewal_failed(self: &Arc<Self>, error: &Error, again: Again) {
        let now = self.shared.clock.now();
        let held = self.end_renewal(|book| {
            let doublings = book.failures.min(DOUBLINGS);
            book.failures = book.failures.saturating_add(1);
            let pause = match again {
                Again::AtOnce => Duration::ZERO,
                Again::AfterPause => self.lease / 12 / 2_u32.pow(DOUBLINGS.saturating_sub(doublings)),
            };
            book.renew_at = Some(now.after(pause.mul_f64(0.75 + fastrand::f64() / 4.0)));
        });
        // Only now: the receiver may release the lock, and a release waits for the renewal.
        if held {
            self.shared.tell(Event::RenewalFailed { lock: &self.party.key, error });
        }
    }

    /// A renewal is over, and the hold lost.
    pub(crate) fn renewal_over(self: &Arc<Self>) {
        let _ = self.end_renewal(|_| ());
    }

    /// A renewal is over; `outcome` is for a hold that is held still. Returns whether it is.
    fn end_renewal(self: &Arc<Self>, outcome: impl FnOnce(&mut HoldState)) -> bool {
        let held = self.with_book(|book| {
            book.in_flight = false;
            let held = book.phase == Phase::Held;
            if held {
                outcome(book);
                self.schedule(book);
            }
            held
        });
        self.renewal_ended.notify_waiters();
        held
    }

    /// Waits until no renewal is under way: a release must not be overtaken by one.
    pub(crate) async fn renewal_ended(&self) {
        while self.is_renewing() {
            let ended = self.renewal_ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            if !self.is_renewing() {
                return;
            }
            ended.await;
        }
    }

    fn is_renewing(&self) -> bool {
        self.with_book(|book| book.in_flight)
    }

    /// Puts the hold into the watchdog's timetable: at its next renewal, or its end if that is earlier.
    pub(super) fn schedule(self: &Arc<Self>, book: &mut HoldState) {
        let renewal = book.renew_at.filter(|_| !book.in_flight);
        let at = renewal.map_or(book.end(), |renewal| renewal.min(book.end()));
        self.timetable.plan(self, book.wake_at.replace(at), at);
    }
}
