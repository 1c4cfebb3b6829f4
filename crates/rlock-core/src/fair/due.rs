//! The timer's work on fair lists.

use crate::at::At;
use crate::facts::WriteAccess;
use crate::locks::{Job, LockName, LockRef, Walked};
use crate::look::fields;
use crate::node::Node;
use crate::port::{FairList, InTask, Lock, Server};
use crate::timing::WorkOutcome;
use crate::view::Kind;
use crate::weight::Weighed;

/// A visit of a list costs as much as this number of entries: it asks for write access, and whether the list is here.
const VISIT: usize = 4;

/// Removes departed owners from fair lists.
pub(crate) fn clear_fair_lists<P: InTask>(node: Node<'_, P>) -> WorkOutcome {
    if node.locks(|locks| locks.sweeps.exchanges_lists()) {
        // An owner that is not found in a list is forgotten: first the sweep notes where else its entry may be.
        return WorkOutcome::Done;
    }
    let (most, mut done) = (node.port.settings().at_once.listed, 0_usize);
    while done < most {
        let Some(lock) = node.locks(|locks| locks.agenda.next(Job::LeaveFairList)) else { break };
        match node.visit(lock.name(), |mut at| at.clear_fair_list()) {
            Some(Some(looked_at)) => {
                done = done.saturating_add(looked_at).saturating_add(lock.weight().saturating_mul(VISIT));
            }
            Some(None) => return WorkOutcome::Refused,
            // The database does not exist, or another server decides about the lock.
            None => node.locks(|locks| locks.forget_all_departed(lock.name())),
        }
    }
    WorkOutcome::Done
}

/// Bounds the deadlines in lists that were found.
pub(crate) fn cap_lists<P: InTask>(node: Node<'_, P>) -> WorkOutcome {
    let (most, mut done) = (node.port.settings().at_once.listed, 0_usize);
    while done < most {
        let Some(lock) = node.locks(|locks| locks.agenda.next(Job::CapFairList)) else { break };
        let weight = lock.weight();
        let Some(capped) = cap_next(node, lock) else { return WorkOutcome::Refused };
        done = done.saturating_add(capped.max(weight));
    }
    WorkOutcome::Done
}

/// Bounds the next deadlines in a list, and returns the weight of their entries; `None` if writing is refused.
fn cap_next<P: InTask>(node: Node<'_, P>, found: LockRef) -> Option<usize> {
    let passed = node.locks(|locks| locks.capped_so_far(found.name())).unwrap_or(0);
    let lock = if passed == 0 { lock_of_list(node, found.clone()) } else { found.clone() };
    if lock != found {
        node.locks(|locks| {
            locks.capped(found, None);
            locks.note_fair_uncapped(lock.clone());
        });
    }
    let capped = node.visit(lock.name(), |mut at| at.cap_fair_list(passed)).unwrap_or(Capped::Nothing);
    node.locks(|locks| match capped {
        Capped::Refused => None,
        Capped::Later => {
            locks.defer_fair_list(lock.name());
            Some(0)
        }
        Capped::Part(Walked { passed: seen, weight, at_head, .. }) => {
            locks.capped(lock, (!at_head).then_some(passed.saturating_add(seen)));
            Some(weight)
        }
        Capped::Nothing => {
            locks.capped(lock, None);
            Some(0)
        }
    })
}

/// The lock of a list that may belong to two, `x` and `{x}`: the one that exists.
fn lock_of_list<P: InTask>(node: Node<'_, P>, lock: LockRef) -> LockRef {
    let is_there = |lock: LockName<'_>| {
        node.visit(lock, |at| !fields(at.lock, None).is_ok_and(|fields| fields.kind == Kind::Free))
            .unwrap_or(false)
    };
    if lock.key.contains(&b'{') || is_there(lock.name()) {
        return lock;
    }
    let braced = [b"{", &lock.key[..], b"}"].concat();
    let braced = LockRef { db: lock.db, key: braced.into() };
    if is_there(braced.name()) { braced } else { lock }
}

/// How much of a list has got its bounds.
enum Capped {
    /// These entries.
    Part(Walked),
    /// There is no list.
    Nothing,
    /// The slot migrates: none yet.
    Later,
    /// The server refuses writes for now.
    Refused,
}

impl<P: Server> At<'_, '_, P> {
    /// Removes some departed owners from the lock's list, and returns the weight of the checked entries; `None` if
    /// writing is refused.
    fn clear_fair_list(&mut self) -> Option<usize> {
        if self.lock.write_access() == WriteAccess::Refused {
            return None;
        }
        // If the key is not here, neither is the list, and nothing is removed.
        Some(self.remove_departed())
    }

    /// Bounds the deadlines of some entries in the lock's list that this server cannot tell alive from dead.
    fn cap_fair_list(&mut self, passed: usize) -> Capped {
        if self.lock.fair_list().head().is_none() {
            return Capped::Nothing;
        }
        match self.lock.write_access() {
            WriteAccess::Refused => Capped::Refused,
            WriteAccess::Allowed if !self.lock.fair_list().may_have_migrated() => {
                Capped::Part(self.cap_deadlines(passed, self.node.port.now()))
            }
            // A part of it is not here yet, or is here no more.
            WriteAccess::Allowed | WriteAccess::SlotMoved => Capped::Later,
        }
    }
}
