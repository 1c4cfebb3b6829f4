//! Permits: one is given only if there is room for it, and denied only if there is not, or if others wait.

use super::super::hash::owners;
use super::super::op::{Lock, Op, Owner, Wait, Word};
use super::super::options::Budget;
use super::super::values::{Answer, Value};
use super::stand::Stand;
use super::{Before, Claim, Follow};

impl Stand {
    /// How many other owners have a permit.
    fn others(&self, owner: Owner) -> usize {
        owners().filter(|other| *other != owner && self.holds(*other, Word::Permit)).count()
    }

    /// Whether the sorted set still has the shape of permits; another client that changes its expiry can break it.
    fn is_of_permits(&self) -> bool {
        let Value::Permits(ends, Some(key_end)) = self.value else { return false };
        let last = ends.into_iter().flatten().max();
        last.is_some_and(|last| last == key_end || last < key_end && last > self.now)
    }

    /// Whether there is room for one more, as this owner sees it.
    fn has_room(&self, owner: Owner) -> bool {
        self.others(owner) < owner.permits() as usize
    }
}

impl Follow {
    /// When the first waiter may have a permit, at the latest; `None` if that is left open.
    pub(super) fn next_permit(&self, lock: Lock) -> Option<i64> {
        let (stand, queue) = (self.stand(lock), self.real.queue(lock));
        let head = queue.first().filter(|head| head.word == Word::Permit)?;
        if !stand.is_of_permits() {
            return stand.value.key_end().flatten().map(|last| last + 1);
        }
        if stand.has_room(head.owner) {
            return Some(stand.now);
        }
        let ends = owners().filter(|owner| stand.holds(*owner, Word::Permit));
        ends.filter_map(|owner| stand.ends(owner, Word::Permit)).min().map(|last| last + 1)
    }

    /// Checks that the answer is the one that a lock with permits must give.
    pub(super) fn judge_permits(
        &self,
        op: Op,
        before: &Before,
        served: &[Claim],
        answer: Option<&Answer>,
        story: &str,
    ) {
        let (lock, owner) = match op {
            Op::Acquire { lock, owner, .. }
            | Op::Release { lock, owner, .. }
            | Op::Renew { lock, owner, .. } => (lock, owner),
            _ => return,
        };
        let claim = (lock, owner, Word::Permit);
        let before_it = before.stands[lock.0].holds(owner, Word::Permit);
        let had = before_it || served.contains(&claim);
        // If little is done at once, it may have been served after the answer.
        let had_surely = before_it || had && self.options.budget == Budget::Usual;
        let is_other = !before.stands[lock.0].is_of_permits();
        let mut served = served.to_vec();
        match (op, answer) {
            (Op::Acquire { word: Word::Permit, wait, .. }, Some(answer)) => {
                self.judge_acquire((lock, owner), wait, had, answer, story);
                served.extend(matches!(answer, Answer::Holds(..)).then_some(claim));
            }
            (Op::Release { .. }, Some(Answer::Null)) | (Op::Renew { .. }, Some(Answer::Zero)) => {
                assert!(!had_surely, "{story}: its permit was there");
            }
            (Op::Release { .. } | Op::Renew { .. }, Some(Answer::One | Answer::Zero)) => {
                assert!(had || is_other, "{story}: it had no permit");
            }
            _ => {}
        }
        self.no_more_than_asked(&served, before, story);
    }

    fn judge_acquire(
        &self,
        (lock, owner): (Lock, Owner),
        wait: Wait,
        had: bool,
        answer: &Answer,
        story: &str,
    ) {
        let has_room = self.stand(lock).has_room(owner);
        match answer {
            Answer::Holds(..) => assert!(had || has_room, "{story}: one permit too many"),
            // If little is done at once, a waiter may be served, or dropped, after the answer.
            Answer::Null
                if matches!(wait, Wait::No | Wait::BlockInMulti(_))
                    && self.options.budget == Budget::Usual =>
            {
                let kept_out = !has_room || !self.real.queue(lock).is_empty();
                assert!(!had && kept_out, "{story}: there was room for it");
            }
            _ => {}
        }
    }

    /// Owners that were served, and had no permit before, saw room: no more permits are out than their largest limit.
    pub(super) fn no_more_than_asked(&self, served: &[Claim], before: &Before, story: &str) {
        let new = |(lock, owner, word): &&Claim| !before.stands[lock.0].holds(*owner, *word);
        let served: Vec<_> = served.iter().filter(new).copied().collect();
        for (lock, ..) in served.iter().filter(|(_, _, word)| *word == Word::Permit) {
            let of_it = served.iter().filter(|(of, _, word)| (of, *word) == (lock, Word::Permit));
            let most = of_it.map(|(_, owner, _)| owner.permits() as usize).max().unwrap_or_default();
            let stand = self.stand(*lock);
            let living = owners().filter(|owner| stand.holds(*owner, Word::Permit)).count();
            assert!(living <= most, "{story}: {living} permits of {lock:?}, and room for {most}");
        }
    }
}
