//! The first waiter of a lock, and whether it can have it.

use crate::access::{Access, permit_access};
use crate::at::At;
use crate::look::{Picture, key_end};
use crate::port::Server;
use crate::rules::has_room;
use crate::turn::Turn;
use crate::types::{Expiry, Wanted};
use crate::view::{Kind, Need, Others, View};

impl<P: Server> At<'_, '_, P> {
    /// The owner of the first waiter, and what it wants.
    pub(crate) fn head(&self) -> Option<(Box<[u8]>, Wanted)> {
        self.locks(|locks, lock| locks.records.head(lock).map(|head| (head.owner.clone(), head.wanted)))
    }

    /// What the first waiter wants.
    pub(crate) fn wanted_first(&self) -> Option<Wanted> {
        self.locks(|locks, lock| locks.records.head(lock).map(|head| head.wanted))
    }
}

/// What a look does with dead readers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dead {
    /// Dead readers stay.
    Stay,
    /// Removes the dead readers that the look finds before a living one, or before those that it does not check. Writing must be
    /// allowed.
    Bury,
}

impl<P: Server> Turn<'_, '_, P> {
    /// The first waiter's wish, and whether the lock can be granted to it now; `None` without waiters.
    pub(crate) fn first_access(&mut self, dead: Dead) -> Option<(Wanted, Access)> {
        let wanted = self.at.wanted_first()?;
        if let Some(access) = self.access_of_all(wanted) {
            return Some((wanted, access));
        }
        let (owner, wanted) = self.at.head()?;
        Some((wanted, self.access_and(&owner, wanted, dead)))
    }

    /// Whether this owner could have what it wants of the lock, if it were its turn.
    pub(crate) fn access(&mut self, owner: &[u8], wanted: Wanted) -> Access {
        self.access_of_all(wanted).unwrap_or_else(|| self.access_and(owner, wanted, Dead::Stay))
    }

    fn access_and(&mut self, owner: &[u8], wanted: Wanted, dead: Dead) -> Access {
        if let Some(known) = self.known_access(owner, wanted) {
            return known;
        }
        // To a writer its own reads are in the way as well.
        let (seen_by, need) =
            if wanted == Wanted::Write { (None, Need::AnyOther) } else { (Some(owner), Need::Own) };
        let seen = self.look(seen_by, need).map(|mut picture| {
            if wanted.limit().is_some_and(|limit| has_room(picture.view(), limit).is_none()) {
                picture.count_permits();
            }
            picture.learn();
            let (view, seen_after) = (*picture.view(), picture.seen_after());
            let buried = dead == Dead::Stay || bury(picture);
            (view, seen_after, buried)
        });
        let Ok((view, seen_after, buried)) = seen else {
            // The key holds something else for a while.
            let key_end = key_end(self.at.lock);
            return Access::Until { until: key_end, key_end };
        };
        let changes = if self.knows_lock() { self.changes() } else { seen_after };
        let access = self.access_to(&view, wanted);
        if buried {
            self.learn_access(owner, wanted, access, changes);
        }
        access
    }

    fn access_to(&mut self, view: &View, wanted: Wanted) -> Access {
        match (wanted, view.kind, view.others) {
            (wanted, ..) if view.is_free_for(wanted.mode()) => Access::Free,
            (Wanted::Permit(limit), Kind::Permits, _) => permit_access(view, limit),
            (Wanted::Read, Kind::Reading, _) => self.shared_access(view),
            (Wanted::Read, Kind::Writing, _) if view.sole.is_some() => self.shared_access(view),
            (Wanted::Write, Kind::Reading, Others::Live { until, .. }) => {
                Access::Until { until: until.sooner(view.key_end), key_end: view.key_end }
            }
            (Wanted::Write, Kind::Reading, Others::InDoubt) => Access::InDoubt,
            _ => Access::until_key_end(view),
        }
    }

    fn shared_access(&mut self, view: &View) -> Access {
        let kept_out = self.hold_back_for().filter(|_| !view.holds_any());
        match kept_out {
            Some(left) => {
                let until = Expiry::At(self.at.node.port.now().after(left)).sooner(view.key_end);
                Access::Until { until, key_end: view.key_end }
            }
            None => Access::Shared,
        }
    }
}

/// Removes the dead readers that a look found. Returns whether that succeeded: a failure is in the log, and the next look finds
/// them again.
fn bury<P: Server>(mut picture: Picture<'_, '_, '_, P>) -> bool {
    picture.burial().is_none_or(|change| picture.commit(&change).is_ok())
}
