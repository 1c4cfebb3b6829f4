//! Whether an owner could have a lock now, if it were its turn.

use crate::rules::has_room;
use crate::types::{Expiry, PermitLimit, Wanted};
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
        /// When the waiter may have the lock.
        until: Expiry,
        /// When the key ends, which waiting Redisson clients may know. For a waiter for a permit, when the first permit ends.
        key_end: Expiry,
    },
    /// Not known yet: the lock has more dead readers than one look checks, and a reader behind them may be alive. Once these
    /// are removed, another look finds out.
    InDoubt,
}

impl Access {
    /// The access to a lock that is held until its key ends, if nothing happens before.
    pub(crate) fn until_key_end(view: &View) -> Self {
        Self::Until { until: view.key_end, key_end: view.key_end }
    }
}

/// The access that every owner has, by the view of any of them; `None` if it depends on the owner.
pub(crate) fn access_of_all(view: &View, wanted: Wanted) -> Option<Access> {
    match (view.kind, wanted) {
        (Kind::Free | Kind::Abandoned, _) => Some(Access::Free),
        (Kind::Mutex, _)
        | (Kind::Writing, Wanted::Mutex | Wanted::Write | Wanted::Permit(_))
        | (Kind::Reading, Wanted::Mutex | Wanted::Permit(_))
        | (Kind::Permits, Wanted::Mutex | Wanted::Read | Wanted::Write) => Some(Access::until_key_end(view)),
        (Kind::Writing, Wanted::Read)
        | (Kind::Reading, Wanted::Read | Wanted::Write)
        | (Kind::Permits, Wanted::Permit(_)) => None,
    }
}

/// Whether an owner with this view can have a permit.
pub(crate) fn permit_access(view: &View, limit: PermitLimit) -> Access {
    match view.others {
        Others::Permits { first_end, .. } if view.shared.is_none() && has_room(view, limit) != Some(true) => {
            // A waiter for a permit gets the one that ends first.
            let first = Expiry::At(first_end);
            Access::Until { until: first, key_end: first }
        }
        _ => Access::Shared,
    }
}
