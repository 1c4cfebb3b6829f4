//! Claims: the holds that answers and messages have promised to owners.

use super::super::hash::owners;
use super::super::op::{LOCKS, Lock, OWNERS, Op, Owner, WORDS, Word};
use super::super::values::{Answer, Value};
use super::stand::Stand;
use super::{Before, Claim, Follow, TIED, UNTIED};

impl Follow {
    /// The waiters that were granted a lock in this step.
    pub(super) fn served(&mut self, before: &Before, story: &str) -> Vec<Claim> {
        let mut served = Vec::new();
        for (call, answer) in self.real.calls() {
            let new = before.calls.get(&call).is_none_or(|known| *known == Answer::Blocked);
            if new && matches!(answer, Answer::Holds(..)) {
                let claim = self.callers[call];
                self.granted.insert(call, (claim, self.ends(claim)));
                served.push(claim);
            }
        }
        for (_, message) in self.real.take_messages() {
            let words: Vec<_> = message.split(' ').collect();
            if words[0] == "granted" {
                let claim = claim_of(&words);
                self.granted.retain(|_, (granted, _)| *granted != claim);
                self.promised.insert(claim, self.ends(claim));
                served.push(claim);
            }
            self.check_dropped(&words, story);
        }
        served
    }

    /// No waiter was served ahead of an earlier one that still waits.
    pub(super) fn in_order(&self, before: &Before, served: &[Claim], story: &str) {
        for (lock, owner, word) in served {
            let queue = &before.queues[lock.0];
            let Some(place) = queue.iter().position(|by| (by.owner, by.word) == (*owner, *word)) else {
                continue;
            };
            let after = self.real.queue(*lock);
            // With FAIR the list has the order. A waiter that was dropped and asked again in this step waits anew.
            let first = queue[..place]
                .iter()
                .find(|first| !(first.fair || queue[place].fair) && after.contains(first));
            assert!(first.is_none(), "{story}: {owner:?} was served before {first:?}");
        }
    }

    /// Updates the caller's claims, and checks that it was allowed to acquire.
    pub(super) fn update_claims(&mut self, op: Op, before: &Before, answer: Option<Answer>, story: &str) {
        match (op, answer) {
            (Op::Acquire { lock, owner, word, .. }, Some(Answer::Holds(..))) => {
                let claim = (lock, owner, word);
                let waited = before.queues[lock.0].iter().any(|by| by.owner == owner);
                let left = self.real.queue(lock);
                let barges = !before.stands[lock.0].is_held_by(owner) && !waited && !left.is_empty();
                assert!(!barges, "{story}: it acquired the lock past {left:?}");
                self.granted.retain(|_, (granted, _)| *granted != claim);
                self.promised.insert(claim, self.ends(claim));
            }
            (_, Some(Answer::Error(TIED | UNTIED))) => {}
            (Op::Release { lock, owner, .. } | Op::Renew { lock, owner, .. }, Some(_)) => {
                for (word, _) in WORDS {
                    let claim = (lock, owner, word);
                    let held = self.holds(claim);
                    self.granted.retain(|_, (granted, _)| *granted != claim);
                    if self.promised.remove(&claim).is_some() && held {
                        self.promised.insert(claim, self.ends(claim));
                    }
                }
            }
            (Op::ForceRelease { lock, .. } | Op::ByOther { lock, .. } | Op::ByList { lock, .. }, _) => {
                self.excuse(lock);
            }
            (Op::Flush, _) => (0..LOCKS.len()).for_each(|lock| self.excuse(Lock(lock))),
            _ => {}
        }
    }

    /// Claims on a lock no longer count: another client has changed it.
    fn excuse(&mut self, lock: Lock) {
        self.promised.retain(|(of, ..), _| *of != lock);
        self.granted.retain(|_, ((of, ..), _)| *of != lock);
        self.unnotified[lock.0] = false;
        self.ties.notified(lock, true);
    }

    pub(super) fn forget_ended(&mut self) {
        self.shorten_promised();
        let now = self.now();
        let lasts = |ends: &Option<i64>| ends.is_none_or(|at| at >= now);
        self.promised.retain(|_, ends| lasts(ends));
        self.granted.retain(|_, (_, ends)| lasts(ends));
    }

    pub(super) fn stand(&self, lock: Lock) -> Stand {
        Stand { value: self.real.value(lock), leases: self.real.leases(lock), now: self.now() }
    }

    /// When a hold ends, if ever.
    pub(super) fn ends(&self, (lock, owner, word): Claim) -> Option<i64> {
        self.stand(lock).ends(owner, word)
    }

    pub(super) fn holds(&self, (lock, owner, word): Claim) -> bool {
        self.stand(lock).holds(owner, word)
    }

    pub(super) fn hold_what_was_promised(&self, story: &str) {
        for (claim, ends) in &self.promised {
            let lasts = self.ends(*claim).is_none_or(|at| ends.is_some_and(|ends| at >= ends));
            assert!(self.holds(*claim) && lasts, "{story}: {claim:?} does not hold until {ends:?}");
        }
        for lock in (0..LOCKS.len()).map(Lock) {
            let stand = self.stand(lock);
            let Value::ReadWrite(hash) = stand.value else { continue };
            let reads = |owner: &Owner| stand.holds(*owner, Word::Read);
            let writer = owners().find(|owner| hash.writes[owner.0] > 0).filter(|_| hash.writing);
            let beside = owners().find(|owner| reads(owner) && writer.is_some_and(|by| by != *owner));
            assert!(beside.is_none(), "{story}: {beside:?} reads beside the writer {writer:?}");
        }
    }
}

/// Owner, lock and mode of `granted <db> <owner> <key> …`, which ends in `read`, `write` or `permit` for these modes.
pub(super) fn claim_of(words: &[&str]) -> Claim {
    let lock = LOCKS.iter().position(|(db, key)| (db.to_string().as_str(), *key) == (words[1], words[3]));
    let owner = OWNERS.iter().position(|name| *name == words[2]);
    let word = Word::named(words.last().unwrap_or(&""));
    (Lock(lock.expect("a lock")), Owner(owner.expect("an owner")), word)
}
