//! FAIR: one order for native waiters and the waiters for Redisson's fair lock of the same name.
//!
//! Redisson keeps its order in a list of owners and a sorted set of their deadlines, after which a waiter counts as
//! dead. Its scripts drop heads whose deadline has passed by a client's clock, and lower the deadlines of other entries.
//! Native waiters are known in memory, and have entries in the list too. If a script drops a native waiter, the module
//! puts it back; the module also keeps the deadline of a native waiter at the head far ahead. The module cannot know
//! whether a Redisson waiter is alive: at the head of a free lock it is called, and keeps its turn for a limited time.

pub(crate) mod due;

mod departed;

pub(crate) use self::departed::{leave_unless_waiting, remove_departed_heads};

use crate::access::{Access, access};
use crate::bugs::{Bug, planted};
use crate::core::Core;
use crate::facts::FairEntry;
use crate::locks::Waiter;
use crate::look::key_end;
use crate::port::{Lock, Server};
use crate::types::{Expiry, LeaseMs, Mode, UnixMs, WaitMs};

/// How far ahead the deadline of one of ours at the head is kept at least, in ms: clients' clocks differ.
const AHEAD_MS: i64 = 5 * 60_000;

/// How far it is set then, so that it need not be set at each look.
const SET_AHEAD_MS: i64 = AHEAD_MS + 60_000;

/// The longest wait that is counted in a deadline, Redisson's own default: ours are kept alive while they wait.
const LONGEST_BUDGET_MS: i64 = AHEAD_MS;

/// Whose turn it is.
pub(crate) enum Next {
    /// One of ours.
    Waiter(Waiter),
    /// One of Redisson's, which was called.
    Foreign,
    /// More entries of owners that left stand before it than are removed at once.
    Later,
    /// Nobody waits.
    Nobody,
}

/// The deadline that a wait adds to that of the one before it.
fn budget(wait: WaitMs) -> LeaseMs {
    let asked = i64::try_from(wait.ms()).ok().filter(|ms| *ms > 0);
    let budget = asked.map_or(LONGEST_BUDGET_MS, |ms| ms.min(LONGEST_BUDGET_MS));
    LeaseMs::new(budget).unwrap_or(LeaseMs::SHORTEST)
}

/// Whose turn it is at a lock that is free.
pub(crate) fn next<P: Server>(core: Core<'_, P>, lock: &mut P::Lock<'_>, now: UnixMs) -> Next {
    // Owners that left count as Redisson's otherwise, and would have a turn.
    remove_departed_heads(core, lock);
    let Some(head) = core.locks(|locks| locks.head(lock.name()).cloned()) else { return Next::Nobody };
    if !head.fair || planted(Bug::FairAsPlain) {
        return Next::Waiter(head);
    }
    // Nobody of Redisson's has a turn at a lock that readers have just got: called to it, it would lose its place.
    if access(core, lock, &head.owner, head.mode) != Access::Free {
        return Next::Waiter(head);
    }
    repair(core, lock, now);
    match first_in_list(core, lock, now, None) {
        First::Native(waiter) => Next::Waiter(waiter),
        First::Redisson => Next::Foreign,
        First::InDoubt => Next::Later,
        First::Nobody => Next::Waiter(head),
    }
}

/// Whether somebody stands before this owner, who waits for the lock already, if it is free.
pub(crate) fn is_ahead<P: Server>(
    core: Core<'_, P>,
    lock: &mut P::Lock<'_>,
    owner: &[u8],
    now: UnixMs,
) -> bool {
    if access(core, lock, owner, Mode::Mutex) != Access::Free || planted(Bug::FairBarges) {
        return false;
    }
    remove_departed_heads(core, lock);
    !matches!(first_in_list(core, lock, now, Some(owner)), First::Nobody)
}

/// Who is first in the fair list of a free lock.
enum First {
    /// A native waiter.
    Native(Waiter),
    /// A Redisson waiter: it has its turn, and was called.
    Redisson,
    /// More entries of departed owners, or expired ones, stand before it than one command removes.
    InDoubt,
    /// No living entry, or the asking owner.
    Nobody,
}

/// Looks for the first living entry of the fair list, and removes the expired ones before it. The list may hold fifty
/// thousand of these: one call removes a bounded number of them.
fn first_in_list<P: Server>(
    core: Core<'_, P>,
    lock: &P::Lock<'_>,
    now: UnixMs,
    asking: Option<&[u8]>,
) -> First {
    let most = core.port.settings().at_once.listed;
    let mut removed = 0_usize;
    while let Some(entry) = lock.fair_head().filter(|entry| asking != Some(&*entry.owner)) {
        if core.locks(|locks| locks.is_leaving(lock.name(), &entry.owner)) {
            return First::InDoubt;
        }
        if let Some(waiter) = core.locks(|locks| locks.fair_waiter(lock.name(), &entry.owner).cloned()) {
            return First::Native(waiter);
        }
        if let Some(deadline) = entry.deadline.filter(|deadline| *deadline > now) {
            give_turn(core, lock, &entry.owner, deadline, now);
            return First::Redisson;
        }
        if removed >= most {
            return First::InDoubt;
        }
        let expired = |owner: &[u8]| {
            let other = asking != Some(owner) && !is_known(core, lock, owner);
            other && lock.fair_deadline(owner).is_none_or(|deadline| deadline <= now)
        };
        let gone = lock.fair_pop(most.saturating_sub(removed), &expired).len();
        if gone == 0 {
            // The server does not let them be removed.
            return First::Nobody;
        }
        removed = removed.saturating_add(gone).saturating_add(remove_departed_heads(core, lock));
    }
    First::Nobody
}

/// Whether an owner waits here with FAIR, or has left a moment ago.
fn is_known<P: Server>(core: Core<'_, P>, lock: &P::Lock<'_>, owner: &[u8]) -> bool {
    core.locks(|locks| {
        locks.fair_waiter(lock.name(), owner).is_some() || locks.is_leaving(lock.name(), owner)
    })
}

/// A living Redisson waiter is first at a free lock: it is called the first time, and its turn is bounded.
fn give_turn<P: Server>(core: Core<'_, P>, lock: &P::Lock<'_>, owner: &[u8], deadline: UnixMs, now: UnixMs) {
    let latest = now.after(core.port.settings().fair_turn);
    let far = deadline > latest && !planted(Bug::FairTurnEndless);
    if far {
        lock.set_fair_deadline(owner, latest);
    }
    let first = core.locks(|locks| locks.note_called(lock.name(), owner));
    if (first || far) && !planted(Bug::FairInSilence) {
        lock.notify_fair(owner);
    }
}

/// Until when one of Redisson's has its turn at a lock that is free; `None` if it was not called yet, or it is one of
/// ours that comes next.
pub(crate) fn fair_turn_ends<P: Server>(core: Core<'_, P>, lock: &P::Lock<'_>) -> Option<UnixMs> {
    if !core.locks(|locks| locks.head(lock.name()).is_some_and(|head| head.fair)) {
        return None;
    }
    let entry = lock.fair_head()?;
    let called = core.locks(|locks| {
        locks.fair_waiter(lock.name(), &entry.owner).is_none() && locks.was_called(lock.name(), &entry.owner)
    });
    entry.deadline.filter(|_| called)
}

/// Puts native waiters back that another client has dropped from the fair list, and keeps the deadline of a native waiter at
/// its head far ahead. Writing must be allowed.
///
/// Fifty thousand may have been dropped, so one call looks for a bounded number, and only for those before the first that is
/// in the list: an owner behind it would be put before it. The others keep their turns: whoever is first in the queue is
/// looked for before it is passed over, and goes to the head of the list if the list lacks it.
pub(crate) fn repair<P: Server>(core: Core<'_, P>, lock: &P::Lock<'_>, now: UnixMs) {
    let owners = owners_to_check(core, lock);
    // Before the list is read: a change that is heard of after that is another one.
    core.locks(|locks| locks.fair_list_checked(lock.name()));
    if let Some(repair) = needed_repair(core, lock, &owners, now) {
        repair.perform(lock, now);
    }
}

/// The same where another client may have changed the list, before a waiter joins: an owner that was dropped and asks again
/// keeps its place.
pub(crate) fn repair_changed<P: Server>(core: Core<'_, P>, lock: &P::Lock<'_>) {
    if core.locks(|locks| locks.fair_has_changed(lock.name())) {
        repair(core, lock, core.port.now());
    }
}

/// Whether a lock's fair list needs a change: this writes nothing.
pub(crate) fn needs_repair<P: Server>(core: Core<'_, P>, lock: &P::Lock<'_>, now: UnixMs) -> bool {
    needed_repair(core, lock, &owners_to_check(core, lock), now).is_some()
}

fn owners_to_check<P: Server>(core: Core<'_, P>, lock: &P::Lock<'_>) -> Vec<Box<[u8]>> {
    let most = core.port.settings().at_once.listed;
    core.locks(|locks| locks.fair_to_check(lock.name(), most))
}

/// A change that a fair list needs.
enum Repair {
    /// These native waiters go back to its head.
    PutBack(Vec<Box<[u8]>>),
    /// The deadline of the native waiter at its head is moved far ahead.
    KeepAlive(Box<[u8]>),
}

/// The change that a lock's fair list needs, if it does, after a look for these native waiters.
fn needed_repair<P: Server>(
    core: Core<'_, P>,
    lock: &P::Lock<'_>,
    owners: &[Box<[u8]>],
    now: UnixMs,
) -> Option<Repair> {
    let head = lock.fair_head();
    let at_head = |owner: &[u8]| head.as_ref().is_some_and(|head| *head.owner == *owner);
    let is_listed = owners.len() == 1 && owners.first().is_some_and(|owner| at_head(owner));
    if !is_listed && !planted(Bug::FairDropped) {
        let missing = lock.fair_missing(owners, core.port.settings().at_once.listed);
        if !missing.is_empty() {
            return Some(Repair::PutBack(missing));
        }
    }
    keep_alive(core, lock, head?, now)
}

impl Repair {
    /// Writes the change. Writing must be allowed.
    fn perform<L: Lock>(&self, lock: &L, now: UnixMs) {
        match self {
            Self::PutBack(owners) => put_back(lock, owners, now),
            Self::KeepAlive(owner) => lock.set_fair_deadline(owner, far_ahead(now)),
        }
    }
}

/// A native waiter joins the list. If it is the head then, its deadline is far ahead at once: the next client of Redisson
/// may have a clock that is some minutes ahead.
pub(crate) fn join<P: Server>(core: Core<'_, P>, lock: &P::Lock<'_>, owner: &[u8], wait: WaitMs) {
    lock.fair_join(owner, budget(wait));
    let now = core.port.now();
    let head = lock.fair_head().filter(|head| *head.owner == *owner);
    if let Some(repair) = head.and_then(|head| keep_alive(core, lock, head, now)) {
        repair.perform(lock, now);
    }
}

/// The change that keeps the head of a list alive, if it is a native waiter whose deadline is near.
fn keep_alive<P: Server>(
    core: Core<'_, P>,
    lock: &P::Lock<'_>,
    head: FairEntry,
    now: UnixMs,
) -> Option<Repair> {
    let is_native = core.locks(|locks| locks.fair_waiter(lock.name(), &head.owner).is_some());
    let near = head.deadline.is_none_or(|deadline| deadline.0 < now.0.saturating_add(AHEAD_MS));
    (is_native && near && !planted(Bug::FairHeadDies)).then_some(Repair::KeepAlive(head.owner))
}

fn put_back<L: Lock>(lock: &L, dropped: &[Box<[u8]>], now: UnixMs) {
    // Scripts drop heads only: whoever was dropped stood before all who are left.
    if planted(Bug::FairPutBackLast) {
        dropped.iter().for_each(|owner| lock.fair_join(owner, LeaseMs::SHORTEST));
    } else {
        lock.fair_put_back(dropped, far_ahead(now));
    }
}

fn far_ahead(now: UnixMs) -> UnixMs {
    UnixMs(now.0.saturating_add(SET_AHEAD_MS))
}

/// An owner is about to wait with FAIR. If it has left the queue a moment ago, and its entry has not left the list yet,
/// it keeps its place.
pub(crate) fn rejoin<P: Server>(core: Core<'_, P>, lock: &P::Lock<'_>, owner: &[u8]) {
    if !core.locks(|locks| locks.has_leaving(lock.name())) {
        return;
    }
    if core.locks(|locks| locks.is_leaving(lock.name(), owner)) {
        if !lock.fair_has_deadline(owner) {
            core.locks(|locks| locks.forget_departed(lock.name(), owner));
        }
    } else if core.locks(|locks| locks.forget_departed(lock.name(), owner)).is_some() {
        // Its entry is gone: it comes to the end of the list.
        lock.fair_forget(&[owner.into()]);
    }
}

/// Sets a bound to the deadlines of those in the list of whom nobody here knows whether they live: those who waited at
/// the server that was the primary before, or at this one before it was started anew. Each counts as gone five minutes
/// after the lock's lease at the latest, and one turn later than the one before it. `passed` entries at the end of the
/// list were seen before; how many were now, and whether the head was reached.
pub(crate) fn cap<P: Server>(
    core: Core<'_, P>,
    lock: &mut P::Lock<'_>,
    passed: usize,
    now: UnixMs,
) -> (usize, bool) {
    if planted(Bug::FairUncapped) {
        return (0, true);
    }
    let settings = core.port.settings();
    let lease_ends = match key_end(lock) {
        Expiry::At(at) => at.max(now),
        Expiry::Never => now,
    };
    let latest = |place: usize, owner: &[u8]| {
        let turns = i64::try_from(place).unwrap_or(i64::MAX).saturating_mul(settings.fair_turn.get());
        let latest = UnixMs(lease_ends.0.saturating_add(AHEAD_MS).saturating_add(turns));
        let ours = core.locks(|locks| locks.fair_waiter(lock.name(), owner).is_some());
        (!ours).then_some(latest)
    };
    lock.fair_lower(passed, settings.at_once.listed, &latest)
}
