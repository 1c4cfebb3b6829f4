//! FAIR: one order for native waiters and the waiters for Redisson's fair lock of the same name.
//!
//! Redisson keeps its order in a list of owners and a sorted set of their deadlines, after which a waiter counts as
//! dead. Its scripts drop heads whose deadline has passed by a client's clock, and lower the deadlines of other entries.
//! Native waiters are known in memory, and have entries in the list too. If a script drops a native waiter, the module
//! puts it back; the module also keeps the deadline of a native waiter at the head far ahead. The module cannot know
//! whether a Redisson waiter is alive: at the head of a free lock it is called, and keeps its turn for a limited time.

use std::collections::BTreeSet;

use crate::bugs::{Bug, planted};
use crate::port::{Server, Site};
use crate::queue::Waiter;
use crate::serve::{Access, access};
use crate::shape::LockState;
use crate::timer::arm_timer;
use crate::types::{Expiry, LeaseMs, Mode, UnixMs, WaitMs};

/// How far ahead the deadline of one of ours at the head is kept at least, in ms: clients' clocks differ.
const AHEAD_MS: i64 = 5 * 60_000;

/// How far it is set then, so that it need not be set at each look.
const SET_AHEAD_MS: i64 = AHEAD_MS + 60_000;

/// The longest wait that is counted in a deadline, Redisson's own default: ours are kept alive while they wait.
const LONGEST_BUDGET_MS: i64 = AHEAD_MS;

/// An entry of the fair list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The waiting owner.
    pub owner: Box<[u8]>,
    /// When the entry counts as dead; without a deadline it is dead now.
    pub deadline: Option<UnixMs>,
}

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
pub(crate) fn budget(wait: WaitMs) -> LeaseMs {
    let asked = i64::try_from(wait.ms()).ok().filter(|ms| *ms > 0);
    let budget = asked.map_or(LONGEST_BUDGET_MS, |ms| ms.min(LONGEST_BUDGET_MS));
    LeaseMs::new(budget).unwrap_or(LeaseMs::SHORTEST)
}

/// Whose turn it is at a lock that is free.
pub(crate) fn next<S: Site>(site: &S, now: UnixMs) -> Next {
    let (server, lock) = (site.server(), site.lock());
    // Owners that left count as Redisson's otherwise, and would have a turn.
    clear_heads(site);
    let Some(head) = server.queues(|queues| queues.head(lock).cloned()) else { return Next::Nobody };
    if !head.fair || planted(Bug::FairAsPlain) {
        return Next::Waiter(head);
    }
    // Nobody of Redisson's has a turn at a lock that readers have just got: called to it, it would lose its place.
    if access(site, &head.owner, head.mode) != Access::Free {
        return Next::Waiter(head);
    }
    settle(site, now);
    while let Some(entry) = site.fair_head() {
        if server.queues(|queues| queues.is_leaving(lock, &entry.owner)) {
            return Next::Later;
        }
        if let Some(ours) = server.queues(|queues| queues.fair_waiter(lock, &entry.owner).cloned()) {
            return Next::Waiter(ours);
        }
        match turn(site, &entry, now) {
            Turn::Has => return Next::Foreign,
            Turn::Passed => {
                clear_heads(site);
            }
            Turn::Stuck => break,
        }
    }
    Next::Waiter(head)
}

/// What becomes of one of Redisson's at the head of a free lock.
enum Turn {
    /// It has its turn.
    Has,
    /// It counts as gone, and was taken out of the list.
    Passed,
    /// It counts as gone, and the server does not let it be taken out.
    Stuck,
}

/// Calls the one at the head of a free lock the first time, or takes it out of the list where it counts as gone.
fn turn<S: Site>(site: &S, entry: &Entry, now: UnixMs) -> Turn {
    let Some(deadline) = entry.deadline.filter(|deadline| *deadline > now) else {
        let passed = site.fair_pop(1, &|owner| *owner == *entry.owner);
        return if passed.is_empty() { Turn::Stuck } else { Turn::Passed };
    };
    let latest = now.after(site.server().settings().fair_turn);
    let far = deadline > latest && !planted(Bug::FairTurnEndless);
    if far {
        site.set_fair_deadline(&entry.owner, latest);
    }
    let (server, lock) = (site.server(), site.lock());
    let first = server.queues(|queues| queues.note_called(lock, &entry.owner));
    if (first || far) && !planted(Bug::FairInSilence) {
        site.call_fair(&entry.owner);
    }
    Turn::Has
}

/// Whether somebody stands before this owner, who waits for the lock already, if it is free.
pub(crate) fn is_ahead<S: Site>(site: &S, owner: &[u8], now: UnixMs) -> bool {
    if access(site, owner, Mode::Mutex) != Access::Free || planted(Bug::FairBarges) {
        return false;
    }
    let (server, lock) = (site.server(), site.lock());
    clear_heads(site);
    while let Some(entry) = site.fair_head().filter(|entry| *entry.owner != *owner) {
        let waits_or_leaves = server.queues(|queues| {
            queues.fair_waiter(lock, &entry.owner).is_some() || queues.is_leaving(lock, &entry.owner)
        });
        // Behind more departed owners than are removed at once somebody may stand.
        if waits_or_leaves {
            return true;
        }
        match turn(site, &entry, now) {
            Turn::Has => return true,
            Turn::Passed => {
                clear_heads(site);
            }
            Turn::Stuck => break,
        }
    }
    false
}

/// Until when one of Redisson's has its turn at a lock that is free; `None` if it was not called yet, or it is one of
/// ours that comes next.
pub(crate) fn foreign_until<S: Site>(site: &S) -> Option<UnixMs> {
    let (server, lock) = (site.server(), site.lock());
    if !server.queues(|queues| queues.head(lock).is_some_and(|head| head.fair)) {
        return None;
    }
    let entry = site.fair_head()?;
    let called = server.queues(|queues| {
        queues.fair_waiter(lock, &entry.owner).is_none() && queues.was_called(lock, &entry.owner)
    });
    entry.deadline.filter(|_| called)
}

/// Puts those of ours back who were dropped from the list, and keeps the deadline of one of ours at the head far
/// ahead. Writing must be allowed.
pub(crate) fn settle<S: Site>(site: &S, now: UnixMs) {
    let (server, lock) = (site.server(), site.lock());
    let ahead = UnixMs(now.0.saturating_add(SET_AHEAD_MS));
    // Each of ours is looked at only after somebody else was at the list: there may be ten thousand.
    let ours = if server.queues(|queues| queues.take_fair_change(lock)) && !planted(Bug::FairDropped) {
        server.queues(|queues| queues.fair_owners(lock))
    } else {
        Vec::new()
    };
    let dropped: Vec<Box<[u8]>> = if ours.is_empty() {
        ours
    } else {
        let listed: BTreeSet<Box<[u8]>> = site.fair_list().into_iter().collect();
        ours.into_iter().filter(|owner| !listed.contains(owner)).collect()
    };
    if !dropped.is_empty() {
        // Scripts drop heads only: whoever was dropped stood before all who are left.
        if planted(Bug::FairPutBackLast) {
            dropped.iter().for_each(|owner| site.fair_join(owner, LeaseMs::SHORTEST));
        } else {
            site.fair_put_back(&dropped, ahead);
        }
    }
    let Some(head) = site.fair_head() else { return };
    let is_ours = server.queues(|queues| queues.fair_waiter(lock, &head.owner).is_some());
    let near = head.deadline.is_none_or(|deadline| deadline.0 < now.0.saturating_add(AHEAD_MS));
    if is_ours && near && !planted(Bug::FairHeadDies) {
        site.set_fair_deadline(&head.owner, ahead);
    }
}

/// An owner is about to wait with FAIR. If it has left the queue a moment ago, and its entry has not left the list yet,
/// it keeps its place.
pub(crate) fn comes_back<S: Site>(site: &S, owner: &[u8]) {
    let (server, lock) = (site.server(), site.lock());
    if !server.queues(|queues| queues.has_leaving(lock)) {
        return;
    }
    if server.queues(|queues| queues.is_leaving(lock, owner)) {
        if !site.fair_stands(owner) {
            server.queues(|queues| queues.stays_in_list(lock, owner));
        }
    } else if server.queues(|queues| queues.stays_in_list(lock, owner)).is_some() {
        // Its entry is gone: it comes to the end of the list.
        site.fair_forget(&[owner.into()]);
    }
}

/// An owner has the lock, and may have stood in the list from before. If another call of its own waits, it stands there
/// for that.
pub(crate) fn leave_if_it_waits_no_more<S: Site>(site: &S, owner: &[u8]) {
    let (server, lock) = (site.server(), site.lock());
    let waits = server.queues(|queues| queues.fair_waiter(lock, owner).is_some());
    if !waits && site.fair_stands(owner) {
        server.queues(|queues| queues.leaves_list(lock, owner));
        clear_heads(site);
        arm_timer(server);
    }
}

/// Removes entries of owners that left from the head of the list: only so many that the command under way takes no longer
/// for them. All others are the timer's; until then Redisson's scripts find them waiting, which does no harm: where
/// a script finds one at the head, its client waits, and is called when the timer has removed the entry.
pub(crate) fn clear_heads<S: Site>(site: &S) -> usize {
    let (server, lock) = (site.server(), site.lock());
    if !server.queues(|queues| queues.has_leaving(lock)) || planted(Bug::FairStays) {
        return 0;
    }
    let leaves = |owner: &[u8]| server.queues(|queues| queues.is_leaving(lock, owner));
    let most = server.settings().at_once.served;
    let gone = site.fair_pop(most, &leaves);
    server.queues(|queues| {
        for owner in &gone {
            queues.stays_in_list(lock, owner);
        }
    });
    if gone.len() >= most && a_head_is_left(site) {
        server.queues(|queues| queues.note_heads_left(lock, true));
    }
    gone.len()
}

/// Whether an owner that left stands at the head of the list.
fn a_head_is_left<S: Site>(site: &S) -> bool {
    let head = site.fair_head();
    head.is_some_and(|head| site.server().queues(|queues| queues.is_leaving(site.lock(), &head.owner)))
}

/// Goes on with taking those out of the list who wait no more: how many entries were looked at. Writing must be allowed.
pub(crate) fn clear_gone<S: Site>(site: &S) -> usize {
    let (server, lock) = (site.server(), site.lock());
    if planted(Bug::FairStays) {
        server.queues(|queues| queues.forget_leaving(lock));
        return 1;
    }
    let most = server.settings().at_once.listed;
    let heads = clear_heads(site);
    let mut done = heads;
    if let Some(passed) = server.queues(|queues| queues.walked_so_far(lock)) {
        let leaves = |owner: &[u8]| server.queues(|queues| queues.is_leaving(lock, owner));
        let walked = site.fair_take_out(passed, most, &leaves);
        done = done.saturating_add(walked.passed).saturating_add(walked.taken.len());
        server.queues(|queues| queues.walked(lock, &walked));
    }
    let absent = server.queues(|queues| queues.take_absent(lock, most));
    if !absent.is_empty() {
        site.fair_forget(&absent);
    }
    let were_left = server.queues(|queues| queues.heads_were_left(lock));
    if heads > 0 || were_left {
        call_next(site);
    }
    if were_left && !a_head_is_left(site) {
        server.queues(|queues| queues.note_heads_left(lock, false));
    }
    done.saturating_add(absent.len()).max(1)
}

/// The head of the list has changed. Redisson's message of a release went to the head of before, who had left.
fn call_next<S: Site>(site: &S) {
    let (server, lock) = (site.server(), site.lock());
    if server.queues(|queues| queues.head(lock).is_some()) {
        let now = server.now();
        server.queues(|queues| queues.wake_at(lock, Some(now)));
        return;
    }
    let is_free = matches!(site.state(&site.open(), None), Ok(LockState::Free | LockState::Abandoned));
    if let Some(head) = site.fair_head().filter(|_| is_free)
        && !server.queues(|queues| queues.is_leaving(lock, &head.owner))
        && !planted(Bug::FairInSilence)
    {
        site.call_fair(&head.owner);
    }
}

/// Sets a bound to the deadlines of those in the list of whom nobody here knows whether they live: those who waited at
/// the server that was the primary before, or at this one before it was started anew. Each counts as gone five minutes
/// after the lock's lease at the latest, and one turn later than the one before it. `passed` entries at the end of the
/// list were seen before; how many were now, and whether the head was reached.
pub(crate) fn cap<S: Site>(site: &S, passed: usize, now: UnixMs) -> (usize, bool) {
    if planted(Bug::FairUncapped) {
        return (0, true);
    }
    let (server, lock, settings) = (site.server(), site.lock(), site.server().settings());
    let lease_ends = match site.expiry(&site.open()) {
        Expiry::At(at) => at.max(now),
        Expiry::Never => now,
    };
    let latest = |place: usize, owner: &[u8]| {
        let turns = i64::try_from(place).unwrap_or(i64::MAX).saturating_mul(settings.fair_turn.get());
        let latest = UnixMs(lease_ends.0.saturating_add(AHEAD_MS).saturating_add(turns));
        let ours = server.queues(|queues| queues.fair_waiter(lock, owner).is_some());
        (!ours).then_some(latest)
    };
    site.fair_lower(passed, settings.at_once.listed, &latest)
}
