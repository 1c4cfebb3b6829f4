//! The timer's work on fair lists.

use super::departed;
use crate::facts::WriteAccess;
use crate::locks::{Job, LockName, LockRef};
use crate::port::{Server, Site};
use crate::timing::Outcome;
use crate::view::Kind;

/// Takes those out of lists who wait no more.
pub(crate) fn clear_fair_lists<V: Server>(server: &V) -> Outcome {
    let (most, mut done) = (server.settings().at_once.listed, 0_usize);
    while done < most {
        let Some(lock) = server.locks(|locks| locks.next_with(Job::LeaveFairList)) else { break };
        match server.at(lock.name(), |site| remove_departed(site)) {
            Some(Some(looked_at)) => done = done.saturating_add(looked_at),
            Some(None) => return Outcome::Refused,
            // There is no such database any more.
            None => server.locks(|locks| locks.forget_all_departed(lock.name())),
        }
    }
    Outcome::Done
}

/// Sets bounds to the deadlines in lists that were found.
pub(crate) fn cap_lists<V: Server>(server: &V) -> Outcome {
    let (most, mut done) = (server.settings().at_once.listed, 0_usize);
    while done < most {
        let Some(lock) = server.locks(|locks| locks.next_with(Job::CapFairList)) else { break };
        let Some(seen) = cap_next(server, lock) else { return Outcome::Refused };
        done = done.saturating_add(seen.max(1));
    }
    Outcome::Done
}

/// Sets bounds to the next deadlines in a list, and says how many; `None` if writing is refused.
fn cap_next<V: Server>(server: &V, found: LockRef) -> Option<usize> {
    let passed = server.locks(|locks| locks.capped_so_far(found.name())).unwrap_or(0);
    let lock = if passed == 0 { lock_of_list(server, found.clone()) } else { found.clone() };
    if lock != found {
        server.locks(|locks| {
            locks.capped(found, None);
            locks.note_fair_uncapped(lock.clone());
        });
    }
    let capped = server.at(lock.name(), |site| cap(site, passed)).unwrap_or(Capped::All(0));
    server.locks(|locks| match capped {
        Capped::Refused => None,
        Capped::Later => {
            locks.defer_fair_list(lock.name());
            Some(0)
        }
        Capped::Some(seen) => {
            locks.capped(lock, Some(passed.saturating_add(seen)));
            Some(seen)
        }
        Capped::All(seen) => {
            locks.capped(lock, None);
            Some(seen)
        }
    })
}

/// Of the two locks that a list may be of, `x` and `{x}`, the one that is there.
fn lock_of_list<V: Server>(server: &V, lock: LockRef) -> LockRef {
    let is_there = |lock: LockName<'_>| {
        server
            .at(lock, |site| !site.state(&site.open(), None).is_ok_and(|fields| fields.kind == Kind::Free))
            .unwrap_or(false)
    };
    if lock.key.contains(&b'{') || is_there(lock.name()) {
        return lock;
    }
    let braced = [b"{", &lock.key[..], b"}"].concat();
    let braced = LockRef { db: lock.db, key: braced.into() };
    if is_there(braced.name()) { braced } else { lock }
}

/// Takes some out of a lock's list who wait no more, and says how many were looked at; `None` if writing is refused.
fn remove_departed<S: Site>(site: &S) -> Option<usize> {
    if site.write_access() == WriteAccess::Refused {
        return None;
    }
    // Where the key is not here, neither is the list: there is nothing to be taken out of it.
    Some(departed::remove_departed(site))
}

/// How much of a list has got its bounds.
enum Capped {
    /// So many entries, and there are more before them.
    Some(usize),
    /// So many, and these were the first ones.
    All(usize),
    /// The slot migrates: none yet.
    Later,
    /// The server refuses writes for now.
    Refused,
}

/// Sets a bound to the deadlines of some in a lock's list of whom nobody here knows.
fn cap<S: Site>(site: &S, passed: usize) -> Capped {
    if site.fair_head().is_none() {
        return Capped::All(0);
    }
    match site.write_access() {
        WriteAccess::Refused => Capped::Refused,
        WriteAccess::Allowed if !site.fair_is_elsewhere() => {
            let (seen, all) = super::cap(site, passed, site.server().now());
            if all { Capped::All(seen) } else { Capped::Some(seen) }
        }
        // A part of it is not here yet, or is here no more.
        WriteAccess::Allowed | WriteAccess::SlotMoved => Capped::Later,
    }
}
