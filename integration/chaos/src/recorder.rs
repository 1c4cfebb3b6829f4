//! The one place and the one clock by which all clients record what they saw.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use crate::history::{Attempt, Cancelled, Event, Harm, History, Outcome, Refusal, Step, Us, Violation, ms};

/// The history of a round as it grows.
pub(crate) struct Recorder {
    start: Instant,
    history: Mutex<History>,
    /// Violations that a client noticed by itself.
    seen: Mutex<Vec<Violation>>,
    /// Violations that a fault may excuse.
    suspected: Mutex<Vec<Suspicion>>,
    counts: Mutex<BTreeMap<String, u64>>,
}

/// A violation, unless this harm was done to the lock between two times.
struct Suspicion {
    violation: Violation,
    since: Us,
    until: Us,
    excuse: fn(&Harm) -> bool,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Recorder {
    pub(crate) fn new(keys: Vec<String>, fair_turn: Us) -> Recorder {
        let history = History { keys, epoch_ms: Recorder::wall_ms(), fair_turn, ..History::default() };
        Recorder {
            start: Instant::now(),
            history: Mutex::new(history),
            seen: Mutex::default(),
            suspected: Mutex::default(),
            counts: Mutex::default(),
        }
    }

    /// Now, by the clock of the history.
    pub(crate) fn now(&self) -> Us {
        self.start.elapsed().as_micros() as Us
    }

    /// The machine's wall clock in ms.
    pub(crate) fn wall_ms() -> i64 {
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis() as i64
    }

    /// The time from now until `at`.
    pub(crate) fn until(&self, at: Us) -> Duration {
        Duration::from_micros(at.saturating_sub(self.now()))
    }

    /// Counts one of a kind of thing.
    pub(crate) fn count(&self, what: &str) {
        *locked(&self.counts).entry(what.to_owned()).or_default() += 1;
    }

    /// Counts one note: a fact beside the kinds of clients.
    pub(crate) fn note(&self, what: &str) {
        self.count(&format!("note: {what}"));
    }

    /// What was counted.
    pub(crate) fn counts(&self) -> BTreeMap<String, u64> {
        locked(&self.counts).clone()
    }

    /// Writes down an attempt that has ended.
    pub(crate) fn attempt(&self, attempt: Attempt) {
        match attempt.outcome {
            Outcome::Held => self.count(attempt.kind),
            Outcome::Denied => self.note("denied"),
            Outcome::Refused => self.note("refused or sent away"),
            Outcome::TimedOut => self.note("timed out"),
            Outcome::Unknown => self.note("undelivered"),
        }
        if attempt.dead {
            self.note("died or worked past its lease");
        }
        locked(&self.history).attempts.push(attempt);
    }

    /// Writes down what a fault did.
    pub(crate) fn event(&self, what: &str, begin: Us, key: Option<usize>, harm: Harm) {
        self.event_until(what, begin, self.now(), key, harm);
    }

    /// Whether a lock's server has been replaced or started anew, or the lock has moved, since that time.
    pub(crate) fn has_moved(&self, key: usize, since: Us) -> bool {
        let history = locked(&self.history);
        history.events.iter().any(|event| {
            event.begin >= since && event.harm.places && event.key.is_none_or(|moved| moved == key)
        })
    }

    /// Records that another client took an owner out of the queue, and when that was known.
    pub(crate) fn cancelled(&self, owner: &str, known: Option<Us>) {
        locked(&self.history).cancelled.push(Cancelled { owner: owner.to_owned(), known });
    }

    /// Records a refused call or a dropped waiter.
    pub(crate) fn refusal(&self, refusal: Refusal) {
        locked(&self.history).refusals.push(refusal);
    }

    /// The same for an event that ended at this time.
    pub(crate) fn event_until(&self, what: &str, begin: Us, end: Us, key: Option<usize>, harm: Harm) {
        locked(&self.history).events.push(Event { what: what.to_owned(), begin, end, key, harm });
    }

    /// Records how far a server's clock is ahead of the machine's now.
    pub(crate) fn step(&self, at: Us, ahead_ms: i64) {
        locked(&self.history).steps.push(Step { at, ahead_ms });
    }

    /// Records a violation.
    pub(crate) fn violation(&self, rule: &'static str, key: usize, text: String) {
        locked(&self.seen).push(Violation { rule, key, at: self.now(), text });
    }

    /// Like [`Recorder::violation`], unless an event does this harm to the lock from `since` on.
    pub(crate) fn violation_unless(
        &self,
        rule: &'static str,
        key: usize,
        text: String,
        since: Us,
        excuse: fn(&Harm) -> bool,
    ) {
        let at = self.now();
        let violation = Violation { rule, key, at, text };
        // Faults are recorded when they have ended, so that the end of the round decides; and the effects of one that
        // is recorded a moment from now may have begun.
        let suspicion = Suspicion { violation, since, until: at + ms(500), excuse };
        locked(&self.suspected).push(suspicion);
    }

    /// All there is, at the end: the history, the violations, and what was excused, by its rule.
    pub(crate) fn take(&self) -> (History, Vec<Violation>, Vec<&'static str>) {
        let history = std::mem::take(&mut *locked(&self.history));
        let mut seen = std::mem::take(&mut *locked(&self.seen));
        let suspected = std::mem::take(&mut *locked(&self.suspected));
        let stands = |one: &Suspicion| !history.harmed(one.violation.key, one.since, one.until, one.excuse);
        let (stand, excused): (Vec<_>, Vec<_>) = suspected.into_iter().partition(stands);
        seen.extend(stand.into_iter().map(|one| one.violation));
        (history, seen, excused.into_iter().map(|one| one.violation.rule).collect())
    }
}
