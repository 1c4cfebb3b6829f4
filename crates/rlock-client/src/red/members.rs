//! On which servers a red lock is held, and whether they are enough.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::error::{Error, Lost, name};
use crate::guard::Guard;
use crate::kind::Any;

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
    /// For `servers` servers, without a guard yet.
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
    /// There must still be a quorum without it. Otherwise there was a time without a quorum, in which another
    /// owner may have held the lock, and a server that joins now must not cover that up.
    pub(crate) fn join(&self, server: usize, guard: Guard<Any>) -> bool {
        let mut guard = Some(guard);
        self.with_book(|book| {
            if !matches!(book.phase, Phase::Gathering | Phase::Held) {
                return false;
            }
            if let Some(place) = book.guards.get_mut(server) {
                std::mem::swap(place, &mut guard);
            }
            if book.phase == Phase::Gathering && book.left(self.quorum).is_some() {
                book.phase = Phase::Held;
            }
            true
        })
    }

    /// One server has it no longer.
    pub(crate) fn leave(&self, server: usize, why: Lost) {
        let guard = self.with_book(|book| {
            book.last = why;
            book.guards.get_mut(server).and_then(Option::take)
        });
        drop(guard);
    }

    /// Whether there is a quorum.
    pub(crate) fn are_enough(&self) -> bool {
        self.check().is_ok()
    }

    /// For how much longer there is a quorum without another renewal.
    pub(crate) fn check(&self) -> Result<Duration, Error> {
        let left = self.with_book(|book| match (book.phase, book.left(self.quorum)) {
            (Phase::Held, Some(left)) => Ok(left),
            (Phase::Lost(why), _) => Err(why),
            (Phase::Held, None) => Err(book.last),
            (Phase::Gathering | Phase::Released, _) => Err(Lost::Released),
        });
        left.map_err(|why| Error::lost(&self.name, why))
    }

    /// Takes all guards out, for good; the caller releases them.
    pub(crate) fn close(&self) -> Vec<Guard<Any>> {
        self.with_book(|book| {
            if !matches!(book.phase, Phase::Lost(_)) {
                book.phase = Phase::Released;
            }
            book.guards.iter_mut().filter_map(Option::take).collect()
        })
    }

    /// Why it was lost, if it was.
    pub(crate) fn why(&self) -> Option<Lost> {
        match self.with_book(|book| book.phase) {
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

    /// Opens the book, and first checks that there is still a quorum. Without one the lock is lost, for good,
    /// and released where it is still held: it protects nothing there, and others may need those servers.
    ///
    /// Work that may call a receiver of events waits until the book is closed: the receiver may ask about this lock.
    fn with_book<T>(&self, work: impl FnOnce(&mut HoldState) -> T) -> T {
        let mut book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        let lost = book.judge(self.quorum);
        let outcome = work(&mut book);
        drop(book);
        if let Some((why, guards)) = lost {
            self.lost.cancel();
            tracing::warn!(lock = name(&self.name), %why, "a red lock was lost: too few servers have it");
            drop(guards);
        }
        outcome
    }
}

impl HoldState {
    /// Without a quorum the lock is lost; returns why, and what is left of it, when it is noticed.
    fn judge(&mut self, quorum: usize) -> Option<(Lost, Vec<Guard<Any>>)> {
        if self.phase != Phase::Held || self.left(quorum).is_some() {
            return None;
        }
        let why = self.guards.iter().flatten().find_map(|guard| guard.hold().peek().err());
        let why = why.unwrap_or(self.last);
        self.phase = Phase::Lost(why);
        Some((why, self.guards.iter_mut().filter_map(Option::take).collect()))
    }

    /// For how much longer `quorum` servers have it without another renewal; `None` where fewer have it.
    fn left(&self, quorum: usize) -> Option<Duration> {
        let mut left: Vec<Duration> =
            self.guards.iter().flatten().filter_map(|guard| guard.hold().peek().ok()).collect();
        left.sort_unstable_by(|one, other| other.cmp(one));
        left.get(quorum.saturating_sub(1)).copied()
    }
}
