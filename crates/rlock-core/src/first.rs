//! The first waiter of a lock, and whether it can have it.

use crate::access::{Access, permit_access};
use crate::look::{Picture, key_end, look};
use crate::node::Node;
use crate::port::{Lock, Server};
use crate::rules::has_room;
use crate::turn::Turn;
use crate::types::{Expiry, Wanted};
use crate::view::{Kind, Need, Others, View};
use crate::yielding;

/// The owner of the first waiter, and what it wants.
pub(crate) fn head<P: Server>(node: Node<'_, P>, lock: &P::Lock<'_>) -> Option<(Box<[u8]>, Wanted)> {
    node.locks(|locks| locks.records.head(lock.name()).map(|head| (head.owner.clone(), head.wanted)))
}

/// What the first waiter wants.
pub(crate) fn wanted_first<P: Server>(node: Node<'_, P>, lock: &P::Lock<'_>) -> Option<Wanted> {
    node.locks(|locks| locks.records.head(lock.name()).map(|head| head.wanted))
}

/// What else a look does.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dead {
    /// Dead readers stay.
    Stay,
    /// Removes the dead readers that the look finds before a living one, or before those that it does not check. Writing must be
    /// allowed.
    Go,
}

impl<P: Server> Turn<'_, P> {
    /// The wish of the first waiter, and whether it can have that; `None` without waiters.
    pub(crate) fn first_access(&mut self, lock: &mut P::Lock<'_>, dead: Dead) -> Option<(Wanted, Access)> {
        let wanted = wanted_first(self.node, lock)?;
        if let Some(access) = self.access_of_all(wanted) {
            return Some((wanted, access));
        }
        let (owner, wanted) = head(self.node, lock)?;
        Some((wanted, self.access_and(lock, &owner, wanted, dead)))
    }

    /// Whether this owner could have what it wants of the lock, if it were its turn.
    pub(crate) fn access(&mut self, lock: &mut P::Lock<'_>, owner: &[u8], wanted: Wanted) -> Access {
        self.access_of_all(wanted).unwrap_or_else(|| self.access_and(lock, owner, wanted, Dead::Stay))
    }

    /// Removes the dead readers that a look found. Returns whether that succeeded: a failure is in the log, and the next look finds
    /// them again.
    fn bury(&mut self, mut picture: Picture<'_, P::Lock<'_>>) -> bool {
        picture.burial().is_none_or(|change| self.commit(picture, &change).is_ok())
    }

    fn access_and(&mut self, lock: &mut P::Lock<'_>, owner: &[u8], wanted: Wanted, dead: Dead) -> Access {
        if let Some(known) = self.known_access(owner, wanted) {
            return known;
        }
        // To a writer its own reads are in the way as well.
        let (seen_by, need) =
            if wanted == Wanted::Write { (None, Need::AnyOther) } else { (Some(owner), Need::Own) };
        let seen = look(self.node, lock, seen_by, need).map(|mut picture| {
            if wanted.limit().is_some_and(|limit| has_room(picture.view(), limit).is_none()) {
                picture.count_permits();
            }
            let (view, seen_after) = (*picture.view(), picture.seen_after());
            self.learn(&picture);
            let buried = dead == Dead::Stay || self.bury(picture);
            (view, buried.then(|| if self.knows_lock() { self.changes() } else { seen_after }))
        });
        let Ok((view, changes)) = seen else {
            // The key holds something else for a while.
            let key_end = key_end(lock);
            return Access::Until { until: key_end, key_end };
        };
        let access = access_to(self.node, lock, &view, wanted);
        if let Some(changes) = changes {
            self.learn_access(owner, wanted, access, changes);
        }
        access
    }
}

fn access_to<P: Server>(node: Node<'_, P>, lock: &mut P::Lock<'_>, view: &View, wanted: Wanted) -> Access {
    match (wanted, view.kind, view.others) {
        (wanted, ..) if view.is_free_for(wanted.mode()) => Access::Free,
        (Wanted::Permit(limit), Kind::Permits, _) => permit_access(view, limit),
        (Wanted::Read, Kind::Reading, _) => shared_access(node, lock, view),
        (Wanted::Read, Kind::Writing, _) if view.sole.is_some() => shared_access(node, lock, view),
        (Wanted::Write, Kind::Reading, Others::Live { until, .. }) => {
            Access::Until { until: until.sooner(view.key_end), key_end: view.key_end }
        }
        (Wanted::Write, Kind::Reading, Others::InDoubt) => Access::InDoubt,
        _ => Access::until_key_end(view),
    }
}

fn shared_access<P: Server>(node: Node<'_, P>, lock: &mut P::Lock<'_>, view: &View) -> Access {
    let kept_out = yielding::hold_back_for(node, lock).filter(|_| !view.holds_any());
    match kept_out {
        Some(left) => {
            let until = Expiry::At(node.port.now().after(left)).sooner(view.key_end);
            Access::Until { until, key_end: view.key_end }
        }
        None => Access::Shared,
    }
}
