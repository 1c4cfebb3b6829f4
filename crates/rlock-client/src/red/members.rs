//! On which servers a red lock is held, and whether they are enough.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::error::{Error, Lost, name};
use crate::guard::Guard;
use crate::hold::State;
use crate::lock::Any;

/// The guards of one red lock, each from another server.
pub(crate) struct Members {
    name: Vec<u8>,
    quorum: usize,
    /// Cancelled when the lock is lost.
    pub(crate) lost: CancellationToken,
    book: Mutex<HoldState>,
}

struct HoldState {
    phase: Phase,
    /// One to a server.
    guards: Vec<Option<Guard<Any>>>,
    /// Why the last that was lost was lost.
    last: Lost,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// There was no quorum yet.
    Gathering,
    Held,
    Lost(Lost),
    Released,
}

impl Members {
    /// None yet, of so many.
    pub(crate) fn new(name: &[u8], servers: usize, quorum: usize) -> Arc<Members> {
        let guards = std::iter::repeat_with(|| None).take(servers).collect();
        let book = HoldState { phase: Phase::Gathering, guards, last: Lost::Unreachable };
        Arc::new(Members {
            name: name.to_vec(),
            quorum,
            lost: CancellationToken::new(),
            book: Mutex::new(book),
        })
    }

    /// Adds the guard of one server; `false` where it comes too late.
    ///
    /// Without it there must be a quorum still. Else there was a moment without one, in which somebody else may
    /// have held the lock, and a server that joins now must not cover that up.
    pub(crate) fn join(&self, server: usize, guard: Guard<Any>) -> bool {
        let mut book = self.book();
        self.judge(&mut book);
        if !matches!(book.phase, Phase::Gathering | Phase::Held) {
            return false;
        }
        if let Some(place) = book.guards.get_mut(server) {
            *place = Some(guard);
        }
        if book.phase == Phase::Gathering && book.left(self.quorum).is_some() {
            book.phase = Phase::Held;
        }
        true
    }

    /// One server has it no longer.
    pub(crate) fn leave(&self, server: usize, why: Lost) {
        let mut book = self.book();
        book.last = why;
        self.judge(&mut book);
        let guard = book.guards.get_mut(server).and_then(Option::take);
        drop(book);
        drop(guard);
    }

    /// Whether there is a quorum.
    pub(crate) fn are_enough(&self) -> bool {
        self.check().is_ok()
    }

    /// For how much longer there is a quorum without another renewal.
    pub(crate) fn check(&self) -> Result<Duration, Error> {
        let mut book = self.book();
        self.judge(&mut book);
        let why = match (book.phase, book.left(self.quorum)) {
            (Phase::Held, Some(left)) => return Ok(left),
            (Phase::Lost(why), _) => why,
            (Phase::Held, None) => book.last,
            (Phase::Gathering | Phase::Released, _) => Lost::Released,
        };
        Err(Error::lost(&self.name, why))
    }

    /// Takes all guards out, for good; they are to be released.
    pub(crate) fn close(&self) -> Vec<Guard<Any>> {
        let mut book = self.book();
        self.judge(&mut book);
        if !matches!(book.phase, Phase::Lost(_)) {
            book.phase = Phase::Released;
        }
        book.guards.iter_mut().filter_map(Option::take).collect()
    }

    /// Why it was lost, if it was.
    pub(crate) fn why(&self) -> Option<Lost> {
        match self.book().phase {
            Phase::Lost(why) => Some(why),
            Phase::Gathering | Phase::Held | Phase::Released => None,
        }
    }

    pub(crate) fn quorum(&self) -> usize {
        self.quorum
    }

    pub(crate) fn name(&self) -> &[u8] {
        &self.name
    }

    /// Without a quorum the lock is lost, for good, and given back where it still is: it protects nothing there, and
    /// others may need those servers.
    fn judge(&self, book: &mut HoldState) {
        if book.phase != Phase::Held || book.left(self.quorum).is_some() {
            return;
        }
        let lost = book.guards.iter().flatten().find_map(|guard| match guard.state() {
            State::Lost(why) => Some(why),
            State::Held | State::Renewing | State::Released => None,
        });
        let why = lost.unwrap_or(book.last);
        book.phase = Phase::Lost(why);
        book.guards.fill_with(|| None);
        self.lost.cancel();
        tracing::warn!(lock = name(&self.name), %why, "a red lock was lost: too few servers have it");
    }

    fn book(&self) -> MutexGuard<'_, HoldState> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HoldState {
    /// For how much longer so many servers have it without another renewal; `None` where fewer have it.
    fn left(&self, quorum: usize) -> Option<Duration> {
        let mut left: Vec<Duration> =
            self.guards.iter().flatten().filter_map(|guard| guard.check().ok()).collect();
        left.sort_unstable_by(|one, other| other.cmp(one));
        left.get(quorum.saturating_sub(1)).copied()
    }
}
