//! What one owner holds of one lock, as far as this client knows.

mod origin;
mod renewal;
mod state;
mod timetable;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::clock::Instant;
use crate::error::{Error, Lost};
use crate::events::Event;
use crate::message::Party;
use crate::shared::Shared;
pub(crate) use origin::Origin;
pub(crate) use renewal::{Again, Need};
use state::{HoldState, Phase, Report};
pub(crate) use timetable::{Timetable, WINDOW};

/// The state of a lock that was acquired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It is held.
    Held,
    /// It is held, and a renewal is running or being retried.
    Renewing,
    /// It was lost. This never changes again.
    Lost(Lost),
    /// The last guard was released.
    Released,
}

/// Which guard of a hold is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaver {
    Last,
    /// Others are left.
    Other,
}

/// What the release of a hold found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The hold, or the answer is unknown.
    Hold,
    /// Nothing: it was lost before.
    Nothing,
}

/// An owner's holds; its guards share it.
pub(crate) struct Hold {
    pub(crate) party: Arc<Party>,
    pub(crate) lease: Duration,
    /// The grace of its session, if it has one.
    pub(crate) session: Option<Duration>,
    pub(crate) id: u64,
    pub(crate) stray: bool,
    /// Whether the user named the owner.
    pub(crate) named: bool,
    pub(crate) shared: Arc<Shared>,
    timetable: Arc<Timetable>,
    /// How many holds the server has at least, as last confirmed; locked throughout a request that changes them.
    pub(crate) level: tokio::sync::Mutex<u64>,
    token: AtomicU64,
    renewed: bool,
    acquired: Instant,
    mailbox: bool,
    renewal_ended: Notify,
    book: Mutex<HoldState>,
    /// Cancelled when the lock is lost; made when it is first asked for.
    lost: OnceLock<CancellationToken>,
}

impl Hold {
    /// Books a hold that the server has confirmed, for one guard, and starts to watch it.
    pub(crate) fn new(shared: &Arc<Shared>, timetable: &Arc<Timetable>, origin: Origin) -> Arc<Hold> {
        let named = origin.turn.is_some();
        let deadline = origin.sent.end_of(origin.lease);
        let book = HoldState {
            phase: Phase::Held,
            deadline,
            tie: origin.tie,
            renew_at: origin.renewed.then(|| origin.sent.after(shared.config.renew_after(origin.lease))),
            wake_at: None,
            in_flight: false,
            failures: 0,
            guards: 1,
            settled: false,
            turn: origin.turn,
            report: None,
        };
        let hold = Arc::new(Hold {
            party: origin.party,
            lease: origin.lease,
            session: origin.session,
            id: shared.next_id(),
            stray: origin.stray,
            named,
            shared: shared.clone(),
            timetable: timetable.clone(),
            level: tokio::sync::Mutex::new(1),
            token: AtomicU64::new(origin.token),
            renewed: origin.renewed,
            acquired: origin.acquired,
            mailbox: origin.mailbox,
            renewal_ended: Notify::new(),
            book: Mutex::new(book),
            lost: OnceLock::new(),
        });
        hold.with_book(|book| hold.schedule(book));
        hold.tie_anew();
        // A close that has notified all holds by now does not know this one.
        if shared.closing.is_cancelled() {
            hold.lose(Lost::Closed);
        }
        hold
    }

    /// The token that is cancelled when the lock is lost.
    pub(crate) fn lost(&self) -> &CancellationToken {
        let lost = self.lost.get_or_init(CancellationToken::new);
        // A loss just before found no token to cancel, and no watchdog cancels one in the child of a fork.
        if matches!(self.state(), State::Lost(_)) {
            lost.cancel();
        }
        lost
    }

    /// Whether the watchdog renews it.
    pub(crate) fn is_renewed(&self) -> bool {
        self.renewed
    }

    /// The newest fencing token, if the lock is fenced.
    pub(crate) fn token(&self) -> Option<u64> {
        Some(self.token.load(Ordering::Relaxed)).filter(|token| *token > 0)
    }

    /// The server has given a token.
    pub(crate) fn raise_token(&self, token: u64) {
        self.token.fetch_max(token, Ordering::Relaxed);
    }

    /// The state, without asking the server; past its deadline a lock is lost.
    pub(crate) fn state(&self) -> State {
        self.with_book(|book| match self.judge(book) {
            Ok(_) if book.in_flight || book.failures > 0 => State::Renewing,
            Ok(_) => State::Held,
            Err(Lost::Released) => State::Released,
            Err(why) => State::Lost(why),
        })
    }

    /// For how much longer the lock is certainly held.
    pub(crate) fn check(&self) -> Result<Duration, Error> {
        self.with_book(|book| self.judge(book)).map_err(|why| Error::lost(&self.party.key, why))
    }

    /// Until when the server may have the hold, as far as this client knows.
    pub(crate) fn deadline(&self) -> Instant {
        self.with_book(|book| book.deadline)
    }

    /// Whether a guard is left.
    pub(crate) fn guards(&self) -> u64 {
        self.with_book(|book| book.guards)
    }

    /// Whether the right to use its owner, which the user named, is still its own: until the server has answered the release.
    pub(crate) fn has_turn(&self) -> bool {
        self.with_book(|book| book.turn.is_some())
    }

    /// Adds a guard to those there are; `false` where the last one is gone or the lock is lost.
    pub(crate) fn add_guard(&self) -> bool {
        self.with_book(|book| {
            let held = self.judge(book).is_ok();
            book.guards = book.guards.saturating_add(u64::from(held));
            held
        })
    }

    /// Takes a guard away; with the last one renewal ends, before any release is sent. Returns which one it was, and
    /// why the lock was lost, if it was.
    pub(crate) fn remove_guard(&self) -> (Leaver, Option<Lost>) {
        self.with_book(|book| {
            let lost = self.judge(book).err();
            book.guards = book.guards.saturating_sub(1);
            if book.guards == 0 && lost.is_none() {
                book.phase = Phase::Released(self.shared.clock.now());
                book.tie = None;
                self.timetable.forget(self.id, book.wake_at.take());
            }
            (if book.guards == 0 { Leaver::Last } else { Leaver::Other }, lost)
        })
    }

    /// The hold is lost, unless it was already lost or released.
    pub(crate) fn lose(&self, why: Lost) {
        self.with_book(|book| self.lose_booked(book, why));
    }

    /// The server knows of the end of this owner, or its lease has ended: nothing is left to do. `found` is
    /// the result of the release.
    pub(crate) fn settle(&self, found: Found) {
        let first = self.with_book(|book| {
            book.turn = None;
            let first = !std::mem::replace(&mut book.settled, true);
            if let (true, Phase::Released(at)) = (first, book.phase) {
                book.report = Some(Report::Released(at));
                if found == Found::Nothing {
                    book.phase = Phase::Lost(Lost::Taken);
                    book.report = Some(Report::Lost(Lost::Taken));
                }
            }
            first
        });
        if !first {
            return;
        }
        if self.mailbox {
            self.shared.inbox.close(&self.party);
        }
        self.shared.owners.leave();
    }

    /// For how much longer the client's clock says that the lock is held, or why it is not. It changes nothing.
    fn standing(&self, book: &HoldState) -> Result<Duration, Lost> {
        let now = self.shared.clock.now();
        match book.phase {
            Phase::Lost(why) => Err(why),
            Phase::Released(_) => Err(Lost::Released),
            Phase::Held if !self.shared.identity.is_at_home() => Err(Lost::Forked),
            Phase::Held if now >= book.deadline && !self.renewed => Err(Lost::Expired),
            Phase::Held if now >= book.end() => Err(Lost::Unreachable),
            Phase::Held if self.shared.closing.is_cancelled() => Err(Lost::Closed),
            Phase::Held => Ok(book.end().since(now)),
        }
    }

    /// The same, and records a loss.
    fn judge(&self, book: &mut HoldState) -> Result<Duration, Lost> {
        let standing = self.standing(book);
        if let Err(why) = standing {
            self.lose_booked(book, why);
        }
        standing
    }

    fn lose_booked(&self, book: &mut HoldState, why: Lost) {
        if book.phase != Phase::Held {
            return;
        }
        book.phase = Phase::Lost(why);
        book.tie = None;
        self.timetable.forget(self.id, book.wake_at.take());
        book.report = Some(Report::Lost(why));
    }

    /// Opens the book. The report is made after it is closed: the receiver may ask about the hold.
    fn with_book<T>(&self, work: impl FnOnce(&mut HoldState) -> T) -> T {
        let mut book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        let outcome = work(&mut book);
        let report = book.report.take();
        drop(book);
        if let Some(report) = report {
            self.tell(report);
        }
        outcome
    }

    /// Reports what has become of the hold.
    fn tell(&self, report: Report) {
        let (shared, key) = (&self.shared, &self.party.key);
        match report {
            Report::Renewed => shared.tell(Event::Renewed { lock: key }),
            Report::Released(at) => shared.tell(Event::Released { lock: key, held: at.since(self.acquired) }),
            Report::Lost(why) => {
                if let Some(lost) = self.lost.get() {
                    lost.cancel();
                }
                let held = shared.clock.now().since(self.acquired);
                shared.tell(Event::Lost { lock: key, held, why });
            }
        }
    }
}
