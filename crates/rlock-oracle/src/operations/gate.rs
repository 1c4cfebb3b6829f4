//! Turns of those of Redisson's that wait, from docs/REDISSON.md: when natives are kept from a lock for them. When a turn begins and
//! ends the contract leaves open, within bounds. So it is seen by who is kept from the lock, and judged: not too early and not
//! too late, for somebody, and not for ever.

use super::op::{Lock, Word};
use super::state::Oracle;
use super::values::{Answer, Value};
use super::writers::{Gate, Turns};

/// It is seen so soon that nobody listens any more, in ms. The contract says no more than that it is seen.
const SEEN_WITHIN: u64 = 1_000;

/// What is seen of one that comes to a lock that nobody waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Admitted,
    KeptOut,
    /// It would not have got the lock anyway.
    Unseen,
}

impl Oracle {
    /// Whether the first who waits is seen to wait on.
    fn head_stays(&self, lock: Lock) -> bool {
        self.queue(lock).first().is_some_and(|head| self.after.stays(lock, head))
    }

    /// Whether one that reads nothing yet is kept from reading with others, if it is seen to be.
    fn is_kept_out_as(&self, lock: Lock, seen: bool) -> bool {
        let Turns { gate, wanted_at, .. } = self.places[lock.0].turns;
        // Those who took the lock in a window may be joined.
        let Gate::UntilFree { sure } = gate else { return false };
        let wanted = self.listened && self.is_read(lock);
        let has_to = sure && wanted && self.natives_surely_read(lock);
        let may = wanted && self.natives_may_read(lock) || self.clock <= wanted_at + SEEN_WITHIN;
        has_to || may && seen
    }

    /// The same for the first who waits.
    pub(super) fn is_kept_out(&self, lock: Lock) -> bool {
        let free = |head| self.after.is_granted_free(lock, head);
        self.is_kept_out_as(lock, self.head_stays(lock) || self.queue(lock).first().is_some_and(free))
    }

    /// It is looked whether the first who waits can read: if it is kept waiting for nobody any more, nobody is.
    pub(super) fn is_looked_at_by_a_reader(&mut self, lock: Lock) {
        let reads = self.queue(lock).first().is_some_and(|head| head.word == Word::Read);
        if reads && self.read_by(lock).is_some() && !self.is_kept_out(lock) {
            self.open(lock);
        }
    }

    /// When it has to be seen at the latest that those who wait to read are kept waiting for nobody.
    pub(super) fn seen_at(&self, lock: Lock) -> Option<u64> {
        let reads = self.queue(lock).first().is_some_and(|head| head.word == Word::Read);
        let kept_out = matches!(self.places[lock.0].turns.gate, Gate::UntilFree { .. });
        (kept_out && reads && self.read_by(lock).is_some()).then_some(self.clock + SEEN_WITHIN)
    }

    /// Whether one who holds nothing is kept from a lock that nobody waits for; it would get it if `may`.
    pub(super) fn holds_back(&mut self, lock: Lock, word: Word, may: bool) -> bool {
        let outcome = match self.after.answer {
            _ if !may => Outcome::Unseen,
            Some(Answer::Holds(..)) => Outcome::Admitted,
            _ => Outcome::KeptOut,
        };
        let others = self.read_by(lock).filter(|hash| word == Word::Read || !self.all_are_dead(lock, hash));
        let kept_out = match (self.value(lock), others) {
            // Those who read are in the way of a writer anyway.
            (_, Some(_)) if word == Word::Write => return false,
            (_, Some(_)) => {
                self.begins(lock, outcome);
                self.is_kept_out_as(lock, outcome == Outcome::KeptOut)
            }
            (Value::ReadWrite(hash), None) if hash.writing => return false,
            (_, None) => {
                self.is_found_free(lock);
                self.is_left(lock, outcome == Outcome::KeptOut)
            }
        };
        if !kept_out && outcome != Outcome::Unseen {
            self.open(lock);
        }
        kept_out
    }

    /// One comes to read beside others: it may be the turn of the one that waits to write now, or has to be.
    fn begins(&mut self, lock: Lock, outcome: Outcome) {
        let Turns { gate, least, most, .. } = self.places[lock.0].turns;
        if gate != Gate::Open {
            return;
        }
        let natives = self.natives_may_read(lock);
        let for_somebody = self.listened && self.options.window > 0 && self.is_read(lock) && natives;
        let surely = for_somebody && self.natives_surely_read(lock);
        if !self.natives_surely_read(lock) {
            // It may have been its turn, which is over at once where no lease of a native lasts on.
            self.place(lock).turns.least = None;
        }
        if self.is_due(most) && !surely {
            self.place(lock).turns.handed = None;
        }
        let (may, has_to) = (for_somebody && self.is_due(most), surely && self.is_due(least));
        let begins = match outcome {
            Outcome::KeptOut => {
                assert!(for_somebody, "who comes to read is kept waiting for nobody");
                assert!(may, "who comes to read is kept waiting too early: {most:?}");
                true
            }
            Outcome::Admitted => {
                assert!(!has_to, "who waits to write is passed over: {least:?}");
                false
            }
            Outcome::Unseen => has_to,
        };
        let (clock, turns) = (self.clock, &mut self.place(lock).turns);
        if begins {
            *turns = Turns { gate: Gate::UntilFree { sure: true }, wanted_at: clock, ..Turns::default() };
        } else if may && outcome == Outcome::Unseen {
            (turns.gate, turns.wanted_at, turns.least) = (Gate::UntilFree { sure: false }, clock, None);
        }
    }

    /// A command has freed the lock, which nobody waits for here: if that was for the one that waits to write, it is left free.
    pub(super) fn is_free_now(&mut self, lock: Lock) {
        let until = self.clock + self.options.window;
        let turns = &mut self.place(lock).turns;
        if let Gate::UntilFree { sure } = turns.gate {
            turns.gate = Gate::Window { until, sure };
        }
    }

    /// The same where it has become free without a command, which may have been noticed before.
    fn is_found_free(&mut self, lock: Lock) {
        if let Gate::UntilFree { sure } = &mut self.place(lock).turns.gate {
            *sure = false;
        }
        self.is_free_now(lock);
    }

    /// Whether a lock that is free is left to those of Redisson's, if it is seen to be.
    fn is_left(&self, lock: Lock, seen: bool) -> bool {
        match self.places[lock.0].turns.gate {
            Gate::Window { until, sure } => self.clock < until && (sure || seen),
            _ => false,
        }
    }

    /// Until when a lock that is free is left to those of Redisson's, at the latest, while somebody waits for it here.
    pub(super) fn window_ends(&self, lock: Lock) -> Option<u64> {
        match self.places[lock.0].turns.gate {
            Gate::Window { until, .. } if self.is_left(lock, self.head_stays(lock)) => Some(until),
            _ => None,
        }
    }

    /// Natives are kept waiting no more.
    pub(super) fn open(&mut self, lock: Lock) {
        let anew = self.read_by(lock).map(|_| (0, self.clock));
        let turns = &mut self.place(lock).turns;
        match turns.gate {
            Gate::Open => {}
            // Those who read on are counted anew from now.
            Gate::UntilFree { sure: true } => *turns = Turns { most: anew, ..Turns::default() },
            Gate::UntilFree { sure: false } => {
                let most = turns.most.or(anew);
                *turns = Turns { most, ..Turns::default() };
            }
            Gate::Window { .. } => turns.gate = Gate::Open,
        }
    }

    /// A lock is free that natives wait for. Where those of Redisson's have been passed over for long enough, and are there,
    /// they are told, and the lock is left to them: whether it is.
    pub(super) fn foreign_turn(&mut self, lock: Lock) -> bool {
        let Turns { gate, handed, most, .. } = self.places[lock.0].turns;
        let (has_to, may) = match gate {
            Gate::UntilFree { sure } => (sure, true),
            _ => (self.is_due(handed), self.is_due(handed) || self.is_due(most)),
        };
        if self.options.window == 0 || !may {
            if matches!(gate, Gate::Window { .. }) {
                self.place(lock).turns = Turns::default();
            }
            return false;
        }
        let seen = self.head_stays(lock) && self.after.unlock_messages[lock.0] > 0;
        let yields = self.listened && (has_to || seen);
        if yields {
            self.publish(lock);
            let until = self.clock + self.options.window;
            self.place(lock).turns = Turns { gate: Gate::Window { until, sure: true }, ..Turns::default() };
        } else if !self.listened {
            // A message without a receiver does not count.
            self.was_published(lock);
            self.seen.published[lock.0].most += 1;
            let most = most.filter(|_| !has_to);
            self.place(lock).turns = Turns { most, ..Turns::default() };
        } else {
            self.place(lock).turns.gate = Gate::Open;
        }
        yields
    }

    /// Nothing is known any more of who was passed over.
    pub(super) fn forget_gate(&mut self, lock: Lock) {
        let most = self.places[lock.0].turns.most;
        self.place(lock).turns = Turns { most, ..Turns::default() };
    }
}
