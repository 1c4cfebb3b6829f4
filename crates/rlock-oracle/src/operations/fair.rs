//! FAIR, from docs/COMMANDS.md: who waits here stands in Redisson's list as well, and the lock goes to its head.

use super::op::{Ground, Lock, Owner, Word};
use super::options::Kinds;
use super::state::Oracle;
use super::values::{Access, Entry};

/// A deadline of a native at the head that is sooner than this is set anew, in ms from now.
const AHEAD: i64 = 5 * 60_000;
/// How far it is set then. The contract says no more than [`AHEAD`].
const SET_AHEAD: i64 = 6 * 60_000;
/// A wait counts for so long at most in a deadline.
const LONGEST_WAIT: i64 = 5 * 60_000;

/// Who has a free lock next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// The native at this place of the queue.
    Native(usize),
    /// One of Redisson's, which has its turn.
    Foreign,
    /// Nobody waits here.
    Nobody,
}

impl Oracle {
    /// Redisson's list of those who wait.
    pub(super) fn list(&self, lock: Lock) -> &[Entry] {
        &self.places[lock.0].list
    }

    /// The place in the queue of a native that stands in the list.
    fn native(&self, lock: Lock, owner: Owner) -> Option<usize> {
        self.queue(lock).iter().position(|waiter| waiter.fair && waiter.owner == owner)
    }

    /// The natives that stand in the list, or should, as they wait.
    fn natives(&self, lock: Lock) -> impl Iterator<Item = Owner> {
        self.queue(lock).iter().filter(|waiter| waiter.fair).map(|waiter| waiter.owner)
    }

    /// Whether there are some.
    pub(super) fn has_natives(&self, lock: Lock) -> bool {
        self.natives(lock).next().is_some()
    }

    /// Whether an owner stands in the list.
    fn is_listed(&self, lock: Lock, owner: Owner) -> bool {
        self.list(lock).iter().any(|entry| entry.owner == owner)
    }

    /// Somebody else has changed the list, or may have.
    pub(super) fn touch_list(&mut self, lock: Lock) {
        self.place(lock).list_touched = self.has_natives(lock);
    }

    pub(super) fn leave_list(&mut self, lock: Lock, owner: Owner) {
        self.place(lock).list.retain(|entry| entry.owner != owner);
    }

    /// Natives who wait no more leave the list: the timer takes them out.
    pub(super) fn remove_departed(&mut self, lock: Lock) {
        let some_left = self.remove_departed_heads(lock);
        for owner in std::mem::take(&mut self.place(lock).gone) {
            self.leave_list(lock, owner);
        }
        // Redisson's message of a release may have gone to one of them.
        if let Some(head) = self.list(lock).first().filter(|_| some_left && self.queue(lock).is_empty()) {
            let owner = head.owner;
            if self.is_free(lock) {
                self.seen.called.entry((lock, owner)).or_default().most += 1;
            }
        }
    }

    /// Those at the head leave it in any command: whether there were some.
    pub(super) fn remove_departed_heads(&mut self, lock: Lock) -> bool {
        let mut some = false;
        while let Some(head) = self.list(lock).first().copied()
            && let Some(at) = self.places[lock.0].gone.iter().position(|owner| *owner == head.owner)
        {
            some = true;
            self.place(lock).gone.remove(at);
            self.leave_list(lock, head.owner);
        }
        some
    }

    /// One waits with FAIR: it does not leave the list any more. Whether it still stood there.
    pub(super) fn comes_back(&mut self, lock: Lock, owner: Owner) -> bool {
        let gone = &mut self.place(lock).gone;
        let left = gone.iter().position(|gone| *gone == owner).map(|at| gone.remove(at));
        left.is_some() && self.is_listed(lock, owner)
    }

    /// The place in the queue of a native waiter that has come back is the one that is seen. The order of service is judged by the
    /// fair list, where it has kept its place.
    pub(super) fn place_of_returned(&self, lock: Lock, owner: Owner) -> usize {
        let last = self.queue(lock).len();
        let seen = self.after.queues[lock.0].iter().position(|by| by.fair && by.owner == owner);
        seen.unwrap_or(last).min(last)
    }

    /// A native begins to wait with FAIR: by Redisson's formula its time is that of the one before it, and its own.
    pub(super) fn join_list(&mut self, lock: Lock, owner: Owner, wait: i64) {
        if self.is_listed(lock, owner) {
            return;
        }
        let last = self.list(lock).last().and_then(|entry| entry.deadline);
        let before = last.unwrap_or(self.lease_ends(lock));
        let wait = if wait == 0 { LONGEST_WAIT } else { wait.min(LONGEST_WAIT) };
        self.place(lock).list.push(Entry { owner, deadline: Some(before + wait) });
    }

    /// Who has asked with FAIR, and has the lock, waits no more wherever it may have stood.
    pub(super) fn got(&mut self, lock: Lock, owner: Owner) {
        let leaves = self.places[lock.0].gone.contains(&owner);
        if self.native(lock, owner).is_none() && self.is_listed(lock, owner) && !leaves {
            self.place(lock).gone.push(owner);
            self.remove_departed_heads(lock);
        }
    }

    /// Natives that were dropped from the list, up to the first that was not, are put back before all who are left, and one at
    /// the head has time.
    pub(super) fn put_right(&mut self, lock: Lock) {
        let far = Some(self.now + SET_AHEAD);
        if std::mem::take(&mut self.place(lock).list_touched) {
            let dropped: Vec<_> =
                self.natives(lock).take_while(|owner| !self.is_listed(lock, *owner)).collect();
            let back = dropped.into_iter().map(|owner| Entry { owner, deadline: far });
            self.place(lock).list.splice(0..0, back);
        } else if let Some(first) = self.missing_first(lock) {
            // Its slot was on its way when it was dropped, for one.
            self.place(lock).list.insert(0, Entry { owner: first, deadline: far });
        }
        if self.head_is_near(lock) {
            self.place(lock).list[0].deadline = far;
        }
    }

    /// Whether a native at the head has a deadline that is set anew.
    fn head_is_near(&self, lock: Lock) -> bool {
        let near = Some(self.now + AHEAD);
        let is_near = |head: &Entry| self.native(lock, head.owner).is_some() && head.deadline < near;
        self.list(lock).first().is_some_and(is_near)
    }

    /// The first in the queue, if it asked with FAIR and stands outside the list.
    fn missing_first(&self, lock: Lock) -> Option<Owner> {
        let first = self.queue(lock).first().filter(|first| first.fair)?.owner;
        (!self.is_listed(lock, first)).then_some(first)
    }

    /// Whether a list lacks nothing: no native stands outside before the first that stands in it, and one at the head has time.
    pub(super) fn is_in_order(&self, lock: Lock) -> bool {
        let first = self.natives(lock).next();
        first.is_none_or(|first| self.is_listed(lock, first)) && !self.head_is_near(lock)
    }

    /// The deadline of a native at the head may be set anew at any look at it.
    pub(super) fn may_have_raised(&mut self, lock: Lock, seen: &[Entry]) {
        let far = Some(self.now + SET_AHEAD);
        let raised = self.list(lock).first().map(|head| Entry { deadline: far, ..*head });
        if self.head_is_near(lock) && seen.first() == raised.as_ref() {
            self.place(lock).list[0].deadline = far;
        }
    }

    /// A native that comes to be the first in the queue, and stands outside the list, is put back at any look at it.
    pub(super) fn may_have_put_back(&mut self, lock: Lock, seen: &[Entry]) {
        let back =
            self.missing_first(lock).map(|owner| Entry { owner, deadline: Some(self.now + SET_AHEAD) });
        if let (Some(back), Some((head, others))) = (back, seen.split_first())
            && self.ground == Ground::Firm
            && *head == back
            && others == self.list(lock)
        {
            self.place(lock).list.insert(0, back);
        }
    }

    /// A list as it is where nobody knows who in it lives: each counts as gone five minutes after the lease at the latest,
    /// and a turn later than the one before it.
    pub(super) fn capped(&self, lock: Lock) -> Vec<Entry> {
        let latest = (0..).map(|place| self.lease_ends(lock) + AHEAD + place * self.options.fair_turn);
        let capped = self.list(lock).iter().zip(latest).map(|(entry, latest)| match entry.deadline {
            Some(deadline) if self.native(lock, entry.owner).is_none() => {
                Entry { deadline: Some(deadline.min(latest)), ..*entry }
            }
            _ => *entry,
        });
        capped.collect()
    }

    /// When the lock's lease ends; now, where it has none.
    fn lease_ends(&self, lock: Lock) -> i64 {
        let ends = self.value(lock).key_end().flatten();
        ends.unwrap_or(self.now).max(self.now)
    }

    /// Who is next where the lock is free: in the order of the list where FAIR is asked for by who waits first.
    pub(super) fn next(&mut self, lock: Lock) -> Next {
        self.remove_departed_heads(lock);
        match self.queue(lock).first() {
            None => return Next::Nobody,
            Some(head) if !head.fair => return Next::Native(0),
            Some(_) => {}
        }
        self.put_right(lock);
        while let Some(head) = self.list(lock).first().copied() {
            if let Some(at) = self.native(lock, head.owner) {
                return Next::Native(at);
            }
            if self.has_turn(lock, head) {
                return Next::Foreign;
            }
            self.remove_departed_heads(lock);
        }
        Next::Native(0)
    }

    /// Whether one of Redisson's at the head of a free lock has its turn, which is short. Else it is passed.
    fn has_turn(&mut self, lock: Lock, head: Entry) -> bool {
        let (now, turn) = (self.now, self.options.fair_turn);
        let Some(deadline) = head.deadline.filter(|deadline| *deadline > now) else {
            self.leave_list(lock, head.owner);
            return false;
        };
        let latest = now + turn;
        let (far, awaited) = (deadline > latest, !self.queue(lock).is_empty());
        let place = self.place(lock);
        place.list[0].deadline = Some(deadline.min(latest));
        let told = place.called.filter(|(owner, _)| *owner == head.owner);
        let told_by_who_waits = told.is_some_and(|(_, awaited)| awaited);
        if awaited || far {
            place.called = Some((head.owner, awaited || told_by_who_waits));
        }
        let calls = self.seen.called.entry((lock, head.owner)).or_default();
        // It is told of a turn that anybody waits for, and may be told again when somebody begins to wait, or when the
        // turn becomes shorter.
        calls.least += u32::from(awaited && told.is_none());
        calls.most += u32::from(far || awaited && !told_by_who_waits);
        true
    }

    /// Until when one of Redisson's has its turn, which it was told of, by the wall clock.
    pub(super) fn turn(&self, lock: Lock) -> Option<i64> {
        let head = self.list(lock).first()?;
        let place = &self.places[lock.0];
        let waited_for = self.queue(lock).first().is_some_and(|waiter| waiter.fair);
        let told = place.called.is_some_and(|(owner, _)| owner == head.owner);
        let is_foreign = self.native(lock, head.owner).is_none() && told;
        head.deadline.filter(|deadline| {
            waited_for
                && is_foreign
                && !place.list_touched
                && (self.now..=self.now + self.options.fair_turn).contains(deadline)
        })
    }

    /// Whether a lock that is free may be left as it is by the timer, for it is somebody's turn, or the look at it comes
    /// a moment later: as the real thing has left it.
    pub(super) fn may_be_left(&self, lock: Lock) -> bool {
        let (place, after) = (&self.places[lock.0], &self.after);
        let as_it_was = after.queues[lock.0].len() == place.queue.len()
            && after.lists[lock.0].first() == place.list.first();
        let free = self.head_access(lock) == Access::Free;
        self.options.kinds == Kinds::Fair && free && as_it_was && !after.told[lock.0]
    }

    /// Whether somebody stands in the list before one who asks with FAIR for a lock that is free.
    pub(super) fn others_stand_before(&mut self, lock: Lock, owner: Owner) -> bool {
        if !self.is_free(lock) {
            return false;
        }
        self.remove_departed_heads(lock);
        while let Some(head) = self.list(lock).first().copied().filter(|head| head.owner != owner) {
            if self.native(lock, head.owner).is_some() || self.has_turn(lock, head) {
                return true;
            }
            self.remove_departed_heads(lock);
        }
        false
    }

    fn is_free(&self, lock: Lock) -> bool {
        self.access(lock, Owner(0), Word::None) == Access::Free
    }
}
