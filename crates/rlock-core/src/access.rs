//! Whether an owner could have a lock now, if it were its turn.

use crate::locks::Wanted;
use crate::look::{Picture, key_end, look};
use crate::node::Node;
use crate::port::{Lock, Server};
use crate::rules::has_room;
use crate::types::{Expiry, Mode, PermitLimit};
use crate::view::{Kind, Need, Others, View};
use crate::yielding;

/// Whether a waiter can have the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// The lock has no holder.
    Free,
    /// The waiter can join the holders.
    Shared,
    /// The lock is held until this lease end.
    Until(Expiry),
    /// Not known yet: the lock has more dead readers than one look checks, and a reader behind them may be alive. Once these
    /// are removed, another look finds out.
    InDoubt,
}

/// The owner of the first waiter, and what it wants.
pub(crate) fn head<P: Server>(node: Node<'_, P>, lock: &P::Lock<'_>) -> Option<(Box<[u8]>, Wanted)> {
    node.locks(|locks| locks.head(lock.name()).map(|head| (head.owner.clone(), head.wanted())))
}

/// Whether this owner could have what it wants of the lock, if it were its turn.
pub(crate) fn access<P: Server>(
    node: Node<'_, P>,
    lock: &mut P::Lock<'_>,
    owner: &[u8],
    wanted: Wanted,
) -> Access {
    access_and(node, lock, owner, wanted, |_| {})
}

/// The same, and removes the dead readers that the look finds before a living one, or before those that it does not check.
/// Writing must be allowed.
pub(crate) fn access_and_bury<P: Server>(
    node: Node<'_, P>,
    lock: &mut P::Lock<'_>,
    owner: &[u8],
    wanted: Wanted,
) -> Access {
    access_and(node, lock, owner, wanted, |picture| picture.bury())
}

fn access_and<P: Server>(
    node: Node<'_, P>,
    lock: &mut P::Lock<'_>,
    owner: &[u8],
    wanted: Wanted,
    then: impl FnOnce(Picture<'_, P::Lock<'_>>),
) -> Access {
    // To a writer its own reads are in the way as well.
    let (owner, need) =
        if wanted.mode == Mode::Write { (None, Need::AnyOther) } else { (Some(owner), Need::Own) };
    let view = look(node, lock, owner, need).map(|mut picture| {
        if wanted.permits.is_some_and(|limit| has_room(picture.view(), limit).is_none()) {
            picture.count_permits();
        }
        let view = *picture.view();
        then(picture);
        view
    });
    match view {
        Ok(view) => access_to(node, lock, &view, wanted),
        // The key holds something else for a while.
        Err(_) => Access::Until(key_end(lock)),
    }
}

fn access_to<P: Server>(node: Node<'_, P>, lock: &mut P::Lock<'_>, view: &View, wanted: Wanted) -> Access {
    match (wanted.mode, view.kind, view.others) {
        (mode, ..) if view.is_free_for(mode) => Access::Free,
        (Mode::Permit, Kind::Permits, others) => permit_access(view, wanted.permits, others),
        (Mode::Read, Kind::Reading, _) => shared_access(node, lock, view),
        (Mode::Read, Kind::Writing, _) if view.sole.is_some() => shared_access(node, lock, view),
        (Mode::Write, Kind::Reading, Others::Live { until, .. }) => Access::Until(until.sooner(view.key_end)),
        (Mode::Write, Kind::Reading, Others::InDoubt) => Access::InDoubt,
        _ => Access::Until(view.key_end),
    }
}

fn permit_access(view: &View, limit: Option<PermitLimit>, others: Others) -> Access {
    let has_room = limit.is_some_and(|limit| has_room(view, limit) == Some(true));
    match others {
        Others::Permits { first_end, .. } if view.shared.is_none() && !has_room => {
            Access::Until(Expiry::At(first_end))
        }
        _ => Access::Shared,
    }
}

fn shared_access<P: Server>(node: Node<'_, P>, lock: &mut P::Lock<'_>, view: &View) -> Access {
    let kept_out = yielding::hold_back_for(node, lock).filter(|_| !view.holds_any());
    match kept_out {
        Some(left) => Access::Until(Expiry::At(node.port.now().after(left)).sooner(view.key_end)),
        None => Access::Shared,
    }
}
