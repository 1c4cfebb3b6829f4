//! The agenda: tasks, and when they are due. A task is a reason to check its lock; the state of the work is in the lock's
//! record. A task that is pushed twice is one entry.

use std::collections::BTreeSet;
use std::mem::take;

use super::rank::Rank;
use super::{LockRef, Ticket};
use crate::types::{MonoMs, UnixMs};
use crate::weight::{Taken, take_weighed};

/// The longest period of the timer: a minute. Redis 7.0 counts a timer's period in 32 bits of
/// microseconds, and a period of more than 35 minutes keeps its event loop busy.
const LONGEST_TIMER_MS: u64 = 60_000;

/// Work on one lock, in the order in which a cycle does it. [`Job::Serve`] comes last: a lock that the others free is served
/// in the same cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Job {
    /// Entries of departed owners leave the fair list.
    LeaveFairList,
    /// Grants whose clients disconnected before the reply are revoked.
    Revoke,
    /// A key that others have changed gets the expiry that its native readers need.
    RepairReads,
    /// Deadlines in a fair list that was found get an upper bound.
    CapFairList,
    /// The waiters are served, if the lock is free.
    Serve,
}

/// When a lock with waiters is due to be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// As soon as possible: behind the locks that are due by then, however the wall clock is set.
    Now,
    /// At a point in time.
    At(UnixMs),
}

/// The next action on the timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rearm {
    /// Nothing.
    Keep,
    /// Stop it: no work is left.
    Stop,
    /// Set it to fire in this number of milliseconds.
    In(u64),
}

/// All tasks.
#[derive(Clone, Debug, Default)]
pub struct Agenda {
    /// The ends of waits, by the clock that never steps.
    waits: BTreeSet<(MonoMs, Ticket)>,
    leave: Rank,
    revoke: Rank,
    repair: Rank,
    cap: Rank,
    /// When locks are due to be served, by the wall clock.
    serve: BTreeSet<(UnixMs, LockRef)>,
    serve_now: BTreeSet<LockRef>,
    /// Work that cannot be done before something happens: it arms no timer.
    parked: BTreeSet<(Job, LockRef)>,
    /// The server refuses writes: when work on locks is tried again, unless an event makes it due earlier.
    not_before: Option<MonoMs>,
    /// When the timer fires, if it is set.
    timer: Option<MonoMs>,
    /// Whether the timer may need to be set again.
    changed: bool,
    /// Whether an entry point of the rules is under way: the timer is set when it returns.
    entered: bool,
}

impl Agenda {
    fn rank(&self, job: Job) -> Option<&Rank> {
        match job {
            Job::LeaveFairList => Some(&self.leave),
            Job::Revoke => Some(&self.revoke),
            Job::RepairReads => Some(&self.repair),
            Job::CapFairList => Some(&self.cap),
            Job::Serve => None,
        }
    }

    fn rank_mut(&mut self, job: Job) -> Option<&mut Rank> {
        match job {
            Job::LeaveFairList => Some(&mut self.leave),
            Job::Revoke => Some(&mut self.revoke),
            Job::RepairReads => Some(&mut self.repair),
            Job::CapFairList => Some(&mut self.cap),
            Job::Serve => None,
        }
    }

    /// The work has changed: the timer may need to be set again, and no work is put off.
    pub(super) fn change(&mut self) {
        (self.changed, self.not_before) = (true, None);
    }

    /// Makes work on a lock due now; not for [`Job::Serve`].
    pub(super) fn push(&mut self, job: Job, lock: LockRef) {
        self.change();
        if let Some(rank) = self.rank_mut(job) {
            rank.locks.insert(lock);
        }
    }

    /// Defers work on a lock until [`Self::unpark`].
    pub(super) fn park(&mut self, job: Job, lock: LockRef) {
        self.remove(job, &lock);
        self.parked.insert((job, lock));
    }

    /// Makes deferred work due; returns false without any.
    pub(super) fn unpark(&mut self) -> bool {
        let parked = take(&mut self.parked);
        let some = !parked.is_empty();
        parked.into_iter().for_each(|(job, lock)| self.push(job, lock));
        some
    }

    /// Defers all work of this kind until [`Self::unpark`].
    pub(super) fn park_all(&mut self, job: Job) {
        let locks = self.rank_mut(job).map(|rank| take(&mut rank.locks));
        self.parked.extend(locks.into_iter().flatten().map(|lock| (job, lock)));
        self.changed = true;
    }

    /// Removes the work of this kind on a lock.
    pub fn remove(&mut self, job: Job, lock: &LockRef) {
        let removed = self.rank_mut(job).is_some_and(|rank| rank.locks.remove(lock));
        self.changed |= removed;
        if !self.parked.is_empty() {
            self.parked.remove(&(job, lock.clone()));
        }
    }

    /// Removes the work of this kind on all locks.
    pub(super) fn clear(&mut self, job: Job) {
        if let Some(rank) = self.rank_mut(job) {
            *rank = Rank::default();
        }
        self.parked.retain(|(parked, _)| *parked != job);
        self.changed = true;
    }

    /// A lock with work of this kind: another one at each call.
    pub fn next(&mut self, job: Job) -> Option<LockRef> {
        self.rank_mut(job)?.next()
    }

    /// Whether there is work of this kind to do now; not for [`Job::Serve`].
    pub(super) fn has(&self, job: Job) -> bool {
        self.rank(job).is_some_and(|rank| !rank.locks.is_empty())
    }

    /// Whether there may be work of this kind, deferred work included; not for [`Job::Serve`].
    pub(super) fn may_have(&self, job: Job) -> bool {
        self.has(job) || !self.parked.is_empty()
    }

    /// Whether there is work of this kind on a lock; not for [`Job::Serve`].
    pub(super) fn has_of(&self, job: Job, lock: &LockRef) -> bool {
        self.rank(job).is_some_and(|rank| rank.locks.contains(lock))
    }

    /// All locks with work of this kind.
    pub(super) fn all(&self, job: Job) -> Vec<LockRef> {
        self.rank(job).map_or_else(Vec::new, |rank| rank.locks.iter().cloned().collect())
    }

    /// All locks with work of this kind, deferred work included.
    pub(super) fn all_even_parked(&self, job: Job) -> Vec<LockRef> {
        let parked = self.parked.iter().filter(|(parked, _)| *parked == job).map(|(_, lock)| lock.clone());
        self.all(job).into_iter().chain(parked).collect()
    }

    /// Adds the end of a wait.
    pub(super) fn push_end(&mut self, at: MonoMs, ticket: Ticket) {
        self.change();
        self.waits.insert((at, ticket));
    }

    /// Removes the end of a wait that has ended in another way.
    pub(super) fn remove_end(&mut self, at: MonoMs, ticket: Ticket) {
        self.changed |= self.waits.remove(&(at, ticket));
    }

    /// The first wait that has ended.
    pub(super) fn ended(&self, now: MonoMs) -> Option<Ticket> {
        self.waits.first().filter(|(at, _)| *at <= now).map(|(_, ticket)| *ticket)
    }

    /// Replaces the time at which a lock is due to be served.
    pub(super) fn move_serve(&mut self, lock: &LockRef, before: Option<Due>, due: Option<Due>) {
        if before == due {
            return;
        }
        self.change();
        match before {
            Some(Due::Now) => drop(self.serve_now.remove(lock)),
            Some(Due::At(at)) => drop(self.serve.remove(&(at, lock.clone()))),
            None => {}
        }
        match due {
            Some(Due::Now) => drop(self.serve_now.insert(lock.clone())),
            Some(Due::At(at)) => drop(self.serve.insert((at, lock.clone()))),
            None => {}
        }
    }

    /// Takes the locks that are due as soon as possible, at the begin of a cycle, up to a weight of `most`.
    pub(super) fn take_serve_now(&mut self, most: usize) -> Vec<LockRef> {
        take_weighed(most, std::iter::from_fn(|| self.serve_now.pop_first())).items
    }

    /// Puts a lock behind those that are due by now. A queue that takes many cycles to empty is due at once in each of
    /// them, and the first of these queues would use up each cycle.
    pub(super) fn line_up(&mut self, now: UnixMs, lock: LockRef) {
        self.serve.insert((now, lock));
    }

    /// The locks that are due to be served, in the order in which they became due, up to a weight of `most`.
    pub(super) fn due(&self, now: UnixMs, most: usize) -> Taken<LockRef> {
        let due = self.serve.iter().take_while(|(at, _)| *at <= now);
        take_weighed(most, due.map(|(_, lock)| lock.clone()))
    }

    /// The server refuses writes: work on locks is tried again at this time, unless an event makes it due earlier.
    pub fn put_off(&mut self, until: MonoMs) {
        (self.not_before, self.changed) = (Some(until), true);
    }

    /// The time until the next work, in ms; `None` if no work is left. `other`: the time until work on locks that the
    /// agenda does not contain.
    pub(super) fn next_in(&self, now: UnixMs, clock: MonoMs, other: Option<u64>) -> Option<u64> {
        let lists = [&self.leave, &self.revoke, &self.repair, &self.cap];
        let work = if !self.serve_now.is_empty() || lists.iter().any(|rank| !rank.locks.is_empty()) {
            Some(0)
        } else {
            self.serve.first().map(|(at, _)| at.0.saturating_sub(now.0).max(0).unsigned_abs())
        };
        let work = work.into_iter().chain(other).min();
        let put_off = self.not_before.map_or(0, |until| until.0.saturating_sub(clock.0));
        let end = self.waits.first().map(|(end, _)| end.0.saturating_sub(clock.0));
        work.map(|work| work.max(put_off)).into_iter().chain(end).min()
    }

    /// The action that makes the timer fire in `next` ms.
    pub(super) fn rearm(&mut self, clock: MonoMs, next: Option<u64>) -> Rearm {
        self.changed = false;
        let next = next.map(|next| next.min(LONGEST_TIMER_MS));
        let wanted = next.map(|next| MonoMs(clock.0.saturating_add(next)));
        match (self.timer, wanted) {
            // A timer that fires early does no harm: it finds nothing due, and is set again.
            (Some(set), Some(wanted)) if set <= wanted => return Rearm::Keep,
            (None, None) => return Rearm::Keep,
            _ => self.timer = wanted,
        }
        next.map_or(Rearm::Stop, Rearm::In)
    }

    /// The timer has fired, or must be set again.
    pub fn timer_fired_or_lost(&mut self) {
        (self.timer, self.changed) = (None, true);
    }

    /// Work that waits, for the model checker.
    pub(super) fn parked(&self) -> impl Iterator<Item = &(Job, LockRef)> {
        self.parked.iter()
    }

    /// The locks that were worked on last where another one is next, for the model checker.
    pub(super) fn last_ones(&self) -> [Option<&LockRef>; 4] {
        [&self.leave, &self.revoke, &self.repair, &self.cap].map(Rank::last_of_many)
    }

    /// Until when work is put off, for the model checker.
    pub(super) fn not_before(&self) -> Option<MonoMs> {
        self.not_before
    }

    /// When the timer fires, for the model checker.
    pub(super) fn timer(&self) -> Option<MonoMs> {
        self.timer
    }

    /// Takes over the timer that was set for another agenda.
    pub(super) fn keep_timer_of(&mut self, other: &Self) {
        (self.timer, self.entered, self.changed) = (other.timer, other.entered, true);
    }

    /// An entry point of the rules begins. Returns false within another one.
    pub(super) fn enter(&mut self) -> bool {
        !std::mem::replace(&mut self.entered, true)
    }

    /// The outermost entry point returns. Returns whether the timer may need to be set again.
    pub(crate) fn exit(&mut self) -> bool {
        self.entered = false;
        self.changed
    }
}
