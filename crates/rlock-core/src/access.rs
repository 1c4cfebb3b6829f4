//! Whether an owner could have a lock now, if it were its turn.

use crate::bugs::{Bug, planted};
use crate::port::{Server, Site};
use crate::read_leases::{self, Dead};
use crate::shape::LockState;
use crate::types::{Expiry, Mode};
use crate::yielding;

/// Whether one who waits for a lock can have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Nobody holds it.
    Free,
    /// It can join those who hold it.
    Shared,
    /// Not before then.
    Until(Expiry),
}

/// Who waits first, and for what.
pub(crate) fn head<S: Site>(site: &S) -> Option<(Box<[u8]>, Mode)> {
    let lock = site.lock();
    site.server().locks(|locks| locks.head(lock).map(|head| (head.owner.clone(), head.mode)))
}

/// Whether this owner could have the lock in this mode, if it were its turn.
pub(crate) fn access<S: Site>(site: &S, owner: &[u8], mode: Mode) -> Access {
    access_and(site, owner, mode, Dead::Stay)
}

pub(crate) fn access_and<S: Site>(site: &S, owner: &[u8], mode: Mode, dead: Dead) -> Access {
    let key = site.open();
    let (state, key_until) = (site.state(&key, Some(owner)), site.expiry(&key));
    drop(key);
    match (mode, state) {
        (_, Ok(LockState::Free | LockState::Abandoned)) => Access::Free,
        (Mode::Read, Ok(LockState::ReadWrite(hash))) if !hash.writing || hash.writes.is_some() => {
            let kept_out = yielding::held_back_for(site).filter(|_| {
                let reads = planted(Bug::ForeignWriterBehindDead) && hash.reads.is_some();
                !reads && !read_leases::holds_any(site, owner, &hash)
            });
            match kept_out {
                Some(left) => Access::Until(Expiry::At(site.server().now().after(left)).sooner(key_until)),
                None => Access::Shared,
            }
        }
        (Mode::Write, Ok(LockState::ReadWrite(hash))) if !hash.writing => {
            match read_leases::first_living(site, None, key_until, dead) {
                Ok(Some(_)) if planted(Bug::DeadReaderBlocks) => Access::Until(key_until),
                Ok(Some(until)) => Access::Until(until.sooner(key_until)),
                Ok(None) => Access::Free,
                Err(_) => Access::Until(key_until),
            }
        }
        // Somebody else holds it, or the key holds something else for a while.
        _ => Access::Until(key_until),
    }
}
