//! Yielding to waiting Redisson clients, from docs/REDISSON.md. The contract gives only bounds for its begin and end. The oracle
//! therefore sees it by the natives that are held back, and judges it: neither too early nor too late, only while a Redisson client
//! listens, and not for ever.

use super::op::{Lock, Word};
use super::row::{Row, Yielding};
use super::state::Oracle;
use super::values::{Answer, Value};

/// Readers are held back for at most this time after the last Redisson client has stopped listening, in ms. The contract gives no time.
const SEEN_WITHIN: u64 = 1_000;

/// The reply to an owner that asks for a lock without waiters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AdmitOutcome {
    Admitted,
    HeldBack,
    /// It would be denied anyway.
    Unseen,
}

impl Oracle {
    /// Whether the head of the queue is seen to wait after this step.
    fn head_stays(&self, lock: Lock) -> bool {
        self.queue(lock).first().is_some_and(|head| self.after.stays(lock, head))
    }

    /// Whether a new reader is held back; `seen`: it looks like that from outside.
    fn is_held_back_as(&self, lock: Lock, seen: bool) -> bool {
        let Row { yielding, wanted_at, .. } = self.places[lock.0].row;
        // Readers that acquired the lock in a yield window can be joined.
        let Yielding::Draining { sure } = yielding else { return false };
        let wanted = self.listened && self.is_read(lock);
        let must = sure && wanted && self.natives_surely_read(lock);
        let may = wanted && self.natives_may_read(lock) || self.clock <= wanted_at + SEEN_WITHIN;
        must || may && seen
    }

    /// The same for the head of the queue.
    pub(super) fn is_held_back(&self, lock: Lock) -> bool {
        let seen = |head| self.after.stays(lock, head) || self.after.leaves_when_free(lock, head);
        self.is_held_back_as(lock, self.queue(lock).first().is_some_and(seen))
    }

    /// The head of the queue is checked: if it is a reader that is not held back any more, new readers are not either.
    pub(super) fn check_head_reader(&mut self, lock: Lock) {
        let reads = self.queue(lock).first().is_some_and(|head| head.word == Word::Read);
        if reads && self.read_by(lock).is_some() && !self.is_held_back(lock) {
            self.open(lock);
        }
    }

    /// The latest time of the next check for a listening Redisson client, while waiting readers are held back.
    pub(super) fn seen_at(&self, lock: Lock) -> Option<u64> {
        let reads = self.queue(lock).first().is_some_and(|head| head.word == Word::Read);
        let kept_out = matches!(self.places[lock.0].row.yielding, Yielding::Draining { .. });
        (kept_out && reads && self.read_by(lock).is_some()).then_some(self.clock + SEEN_WITHIN)
    }

    /// Whether waiting readers of any lock are held back.
    pub(super) fn holds_readers_back(&self) -> bool {
        self.all_locks().any(|lock| self.seen_at(lock).is_some())
    }

    /// Whether an owner without holds is held back from a lock without waiters; otherwise it would acquire the lock if `may`.
    pub(super) fn hold_back(&mut self, lock: Lock, word: Word, may: bool) -> bool {
        let outcome = match self.after.answer {
            _ if !may => AdmitOutcome::Unseen,
            Some(Answer::Holds(..)) => AdmitOutcome::Admitted,
            _ => AdmitOutcome::HeldBack,
        };
        let others = self.read_by(lock).filter(|hash| word == Word::Read || !self.all_are_dead(lock, hash));
        let kept_out = match (self.value(lock), others) {
            // Readers exclude a writer anyway.
            (_, Some(_)) if word == Word::Write => return false,
            (_, Some(_)) => {
                self.begins(lock, outcome);
                self.is_held_back_as(lock, outcome == AdmitOutcome::HeldBack)
            }
            (Value::ReadWrite(hash), None) if hash.writing => return false,
            (_, None) => {
                self.is_found_free(lock);
                self.is_left(lock, outcome == AdmitOutcome::HeldBack)
            }
        };
        if !kept_out && outcome != AdmitOutcome::Unseen {
            self.open(lock);
        }
        kept_out
    }

    /// An owner asks to join readers: new readers may be held back from now on for a waiting Redisson writer, or must be.
    fn begins(&mut self, lock: Lock, outcome: AdmitOutcome) {
        let Row { yielding, least, most, .. } = self.places[lock.0].row;
        if yielding != Yielding::No {
            return;
        }
        let natives = self.natives_may_read(lock);
        let for_a_client = self.listened && self.options.window > 0 && self.is_read(lock) && natives;
        let surely = for_a_client && self.natives_surely_read(lock);
        if !self.natives_surely_read(lock) {
            // They may have been held back, which ends at once without a native read lease.
            self.place(lock).row.least = None;
        }
        if self.is_due(most) && !surely {
            self.place(lock).row.handed = None;
        }
        let (may, must) = (for_a_client && self.is_due(most), surely && self.is_due(least));
        let begins = match outcome {
            AdmitOutcome::HeldBack => {
                assert!(for_a_client, "a new reader is held back for no Redisson writer");
                assert!(may, "a new reader is held back too early: {most:?}");
                true
            }
            AdmitOutcome::Admitted => {
                assert!(!must, "a new reader passes a waiting Redisson writer: {least:?}");
                false
            }
            AdmitOutcome::Unseen => must,
        };
        let (clock, row) = (self.clock, &mut self.place(lock).row);
        if begins {
            *row = Row { yielding: Yielding::Draining { sure: true }, wanted_at: clock, ..Row::default() };
        } else if may && outcome == AdmitOutcome::Unseen {
            (row.yielding, row.wanted_at, row.least) = (Yielding::Draining { sure: false }, clock, None);
        }
    }

    /// A command has freed a lock without native waiters: if readers were held back for a Redisson writer, the lock is left free.
    pub(super) fn is_free_now(&mut self, lock: Lock) {
        let until = self.clock + self.options.window;
        let row = &mut self.place(lock).row;
        if let Yielding::Draining { sure } = row.yielding {
            row.yielding = Yielding::Window { until, sure };
        }
    }

    /// The same for a lock that has become free without a command, which the module may have noticed earlier.
    fn is_found_free(&mut self, lock: Lock) {
        if let Yielding::Draining { sure } = &mut self.place(lock).row.yielding {
            *sure = false;
        }
        self.is_free_now(lock);
    }

    /// Whether a free lock is left to Redisson clients; `seen`: it looks like that from outside.
    fn is_left(&self, lock: Lock, seen: bool) -> bool {
        let Row { yielding, left_until, .. } = self.places[lock.0].row;
        match yielding {
            Yielding::Window { until, sure } => {
                self.clock < until && (sure || seen || self.clock < left_until)
            }
            _ => false,
        }
    }

    /// The latest end of the yield window of a free lock with native waiters.
    pub(super) fn window_ends(&self, lock: Lock) -> Option<u64> {
        match self.places[lock.0].row.yielding {
            Yielding::Window { until, .. } if self.is_left(lock, self.head_stays(lock)) => Some(until),
            _ => None,
        }
    }

    /// Natives are not held back any more.
    pub(super) fn open(&mut self, lock: Lock) {
        let anew = self.read_by(lock).map(|_| (0, self.clock));
        let row = &mut self.place(lock).row;
        match row.yielding {
            Yielding::No => {}
            // The remaining readers are counted anew from now.
            Yielding::Draining { sure: true } => *row = Row { most: anew, ..Row::default() },
            Yielding::Draining { sure: false } => {
                let most = row.most.or(anew);
                *row = Row { most, ..Row::default() };
            }
            Yielding::Window { .. } => row.yielding = Yielding::No,
        }
    }

    /// A lock with native waiters is free. If Redisson clients listen, and enough natives have passed them, they receive the unlock
    /// message, and the lock is left to them: true in this case.
    pub(super) fn yields(&mut self, lock: Lock) -> bool {
        let Row { yielding, handed, most, .. } = self.places[lock.0].row;
        let (must, may) = match yielding {
            Yielding::Draining { sure } => (sure, true),
            _ => (self.is_due(handed), self.is_due(handed) || self.is_due(most)),
        };
        if self.options.window == 0 || !may {
            if matches!(yielding, Yielding::Window { .. }) {
                self.place(lock).row = Row::default();
            }
            return false;
        }
        // A lock that is left to the head of the fair list is not left to all.
        let published = self.after.unlock_messages[lock.0] > 0 && !self.after.called[lock.0];
        let seen = self.head_stays(lock) && published;
        let yields = self.listened && (must || seen);
        if yields {
            self.publish(lock);
            let until = self.clock + self.options.window;
            self.place(lock).row = Row { yielding: Yielding::Window { until, sure: true }, ..Row::default() };
        } else if !self.listened {
            // A message without a receiver does not count.
            self.was_published(lock);
            self.seen.published[lock.0].most += 1;
            let most = most.filter(|_| !must);
            self.place(lock).row = Row { most, ..Row::default() };
        } else {
            self.place(lock).row.yielding = Yielding::No;
        }
        yields
    }

    /// The counts of natives in a row are unknown.
    pub(super) fn forget_row(&mut self, lock: Lock) {
        let most = self.places[lock.0].row.most;
        self.place(lock).row = Row { most, ..Row::default() };
    }
}
