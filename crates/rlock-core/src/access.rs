//! Whether an owner could have a lock now, if it were its turn.

use crate::locks::Wanted;
use crate::rules::has_room;
use crate::types::{Expiry, Mode, PermitLimit};
use crate::view::{Kind, Others, View};

/// Whether a waiter can have the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// The lock has no holder.
    Free,
    /// The waiter can join the holders.
    Shared,
    /// The lock is held.
    Until {
        /// When the waiter may have it.
        until: Expiry,
        /// When the key ends, which waiting Redisson clients may know. For a waiter for a permit, when the first permit ends.
        key_end: Expiry,
    },
    /// Not known yet: the lock has more dead readers than one look checks, and a reader behind them may be alive. Once these
    /// are removed, another look finds out.
    InDoubt,
}

impl Access {
    /// Until the key ends, if nothing happens before.
    pub(crate) fn until_key_end(view: &View) -> Self {
        Self::Until { until: view.key_end, key_end: view.key_end }
    }
}

/// The access of every owner, by the view of any of them; `None` if it depends on the owner.
pub(crate) fn access_of_all(view: &View, wanted: Wanted) -> Option<Access> {
    match (view.kind, wanted.mode) {
        (Kind::Free | Kind::Abandoned, _) => Some(Access::Free),
        (Kind::Mutex, _)
        | (Kind::Writing, Mode::Mutex | Mode::Write | Mode::Permit)
        | (Kind::Reading, Mode::Mutex | Mode::Permit)
        | (Kind::Permits, Mode::Mutex | Mode::Read | Mode::Write) => Some(Access::until_key_end(view)),
        (Kind::Writing, Mode::Read)
        | (Kind::Reading, Mode::Read | Mode::Write)
        | (Kind::Permits, Mode::Permit) => None,
    }
}

/// Whether an owner that sees this can have a permit.
pub(crate) fn permit_access(view: &View, limit: Option<PermitLimit>, others: Others) -> Access {
    let has_room = limit.is_some_and(|limit| has_room(view, limit) == Some(true));
    match others {
        Others::Permits { first_end, .. } if view.shared.is_none() && !has_room => {
            // A waiter for a permit gets the one that ends first.
            let first = Expiry::At(first_end);
            Access::Until { until: first, key_end: first }
        }
        _ => Access::Shared,
    }
}
