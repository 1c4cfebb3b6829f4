//! FAIR, from docs/COMMANDS.md: native waiters stand in the fair list as well, and the lock goes to its head.

use super::op::{Ground, Lock, Owner, Word};
use super::options::Kinds;
use super::state::Oracle;
use super::values::{Access, Entry};

/// The deadline of a native at the head is moved if it is nearer than this, in ms from now.
const AHEAD: i64 = 5 * 60_000;
/// The deadline after the move, in ms from now. The contract states only [`AHEAD`].
const SET_AHEAD: i64 = 6 * 60_000;
/// The most that a wait adds to a deadline, in ms.
const LONGEST_WAIT: i64 = 5 * 60_000;

/// The owner that gets a free lock next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// The native at this place of the queue.
    Native(usize),
    /// A Redisson waiter, which has its turn.
    Redisson,
    /// No native waits.
    Nobody,
}

impl Oracle {
    /// The fair list.
    pub(super) fn list(&self, lock: Lock) -> &[Entry] {
        &self.places[lock.0].list
    }

    /// The place in the queue of a native that waits with FAIR.
    fn native(&self, lock: Lock, owner: Owner) -> Option<usize> {
        self.queue(lock).iter().position(|waiter| waiter.fair && waiter.owner == owner)
    }

    /// The natives that stand in the list, or should, as they wait.
    fn natives(&self, lock: Lock) -> impl Iterator<Item = Owner> {
        self.queue(lock).iter().filter(|waiter| waiter.fair).map(|waiter| waiter.owner)
    }

    /// Whether there are any.
    pub(super) fn has_natives(&self, lock: Lock) -> bool {
        self.natives(lock).next().is_some()
    }

    /// Whether an owner stands in the list.
    fn is_listed(&self, lock: Lock, owner: Owner) -> bool {
        self.list(lock).iter().any(|entry| entry.owner == owner)
    }

    /// Another client has changed the fair list, or may have.
    pub(super) fn touch_list(&mut self, lock: Lock) {
        self.place(lock).list_touched = self.has_natives(lock);
    }

    pub(super) fn leave_list(&mut self, lock: Lock, owner: Owner) {
        self.place(lock).list.retain(|entry| entry.owner != owner);
    }

    /// The timer removes natives that have stopped waiting from the fair list.
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

    /// Any command removes them from the head of the list. Returns whether there were any.
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

    /// An owner waits with FAIR, so it stays in the list. Returns whether it was about to leave, and still stood there.
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

    /// A native begins to wait with FAIR. By Redisson's formula, its deadline is that of the entry before it plus its
    /// wait.
    pub(super) fn join_list(&mut self, lock: Lock, owner: Owner, wait: i64) {
        if self.is_listed(lock, owner) {
            return;
        }
        let last = self.list(lock).last().and_then(|entry| entry.deadline);
        let before = last.unwrap_or(self.lease_ends(lock));
        let wait = if wait == 0 { LONGEST_WAIT } else { wait.min(LONGEST_WAIT) };
        self.place(lock).list.push(Entry { owner, deadline: Some(before + wait) });
    }

    /// An owner that acquires with FAIR stops waiting, wherever it stood in the list.
    pub(super) fn got(&mut self, lock: Lock, owner: Owner) {
        let leaves = self.places[lock.0].gone.contains(&owner);
        if self.native(lock, owner).is_none() && self.is_listed(lock, owner) && !leaves {
            self.place(lock).gone.push(owner);
            self.remove_departed_heads(lock);
        }
    }

    /// Natives that were dropped from the list, up to the first that was not, return ahead of all other entries, and a
    /// native at the head gets a far deadline.
    pub(super) fn put_right(&mut self, lock: Lock) {
        let far = Some(self.now + SET_AHEAD);
        if std::mem::take(&mut self.place(lock).list_touched) {
            let dropped: Vec<_> =
                self.natives(lock).take_while(|owner| !self.is_listed(lock, *owner)).collect();
            let back = dropped.into_iter().map(|owner| Entry { owner, deadline: far });
            self.place(lock).list.splice(0..0, back);
        } else if let Some(first) = self.missing_first(lock) {
            // For example, it was dropped while its slot migrated.
            self.place(lock).list.insert(0, Entry { owner: first, deadline: far });
        }
        if self.head_is_near(lock) {
            self.place(lock).list[0].deadline = far;
        }
    }

    /// Whether a native at the head has a deadline that is moved.
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

    /// Whether a list needs no repair: the first native stands in it, and a native at the head has a far deadline.
    pub(super) fn is_in_order(&self, lock: Lock) -> bool {
        let first = self.natives(lock).next();
        first.is_none_or(|first| self.is_listed(lock, first)) && !self.head_is_near(lock)
    }

    /// Any check of the lock may move the deadline of a native at the head.
    pub(super) fn may_have_raised(&mut self, lock: Lock, seen: &[Entry]) {
        let far = Some(self.now + SET_AHEAD);
        let raised = self.list(lock).first().map(|head| Entry { deadline: far, ..*head });
        if self.head_is_near(lock) && seen.first() == raised.as_ref() {
            self.place(lock).list[0].deadline = far;
        }
    }

    /// Any check of the lock may put a native that is first in the queue, but outside the list, back into it.
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

    /// The list of a server that does not know which Redisson waiters are alive: each counts as gone five minutes after
    /// the lease at the latest, plus one turn for each entry before it.
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

    /// When the lock's lease ends; now, if it has none.
    fn lease_ends(&self, lock: Lock) -> i64 {
        let ends = self.value(lock).key_end().flatten();
        ends.unwrap_or(self.now).max(self.now)
    }

    /// The next owner of a free lock: in the order of the list, if the first waiter asked with FAIR.
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
                return Next::Redisson;
            }
            self.remove_departed_heads(lock);
        }
        Next::Native(0)
    }

    /// Whether a Redisson waiter at the head of a free lock's list has its turn, which is short. Otherwise it leaves.
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
        let called = place.called.filter(|(owner, _)| *owner == head.owner);
        let awaited_before = called.is_some_and(|(_, awaited)| awaited);
        if awaited || far {
            place.called = Some((head.owner, awaited || awaited_before));
        }
        let calls = self.seen.called.entry((lock, head.owner)).or_default();
        // It is notified of its turn if a native waits, and may be notified again when a native begins to wait, or when
        // the turn becomes shorter.
        calls.least += u32::from(awaited && called.is_none());
        calls.most += u32::from(far || awaited && !awaited_before);
        true
    }

    /// When the turn of a notified Redisson waiter ends, by the wall clock.
    pub(super) fn turn(&self, lock: Lock) -> Option<i64> {
        let head = self.list(lock).first()?;
        let place = &self.places[lock.0];
        let waited_for = self.queue(lock).first().is_some_and(|waiter| waiter.fair);
        let called = place.called.is_some_and(|(owner, _)| owner == head.owner);
        let is_redisson = self.native(lock, head.owner).is_none() && called;
        head.deadline.filter(|deadline| {
            waited_for
                && is_redisson
                && !place.list_touched
                && (self.now..=self.now + self.options.fair_turn).contains(deadline)
        })
    }

    /// Whether the timer may leave a free lock as it is, if `rlock-core` did: a Redisson waiter has its turn, or the
    /// check of the lock is due a little later.
    pub(super) fn may_be_left(&self, lock: Lock) -> bool {
        let (place, after) = (&self.places[lock.0], &self.after);
        let as_it_was = after.queues[lock.0].len() == place.queue.len()
            && after.lists[lock.0].first() == place.list.first();
        let free = self.head_access(lock) == Access::Free;
        self.options.kinds == Kinds::Fair
            && free
            && as_it_was
            && after.unlock_messages[lock.0] == 0
            && !after.called[lock.0]
    }

    /// Whether another owner stands in the list before a caller that asks with FAIR for a free lock.
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
