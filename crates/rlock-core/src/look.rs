//! The picture of a lock that a rule decides on, and the commit of its change. A look writes nothing.
//!
//! The key of a plain lock, of a lock without holders, or of permits that need no counting, stays open from the look to the commit. The key of a read/write
//! lock is closed while lease keys are read: the commit opens it again, and fails if the owner's holds are not the same.
//!
//! A picture borrows its turn exclusively, and with it the lock: beside a picture in use, the compiler refuses a call of the lock. The
//! methods of the picture itself that read lease keys are for kinds whose key it has closed.

use crate::decision::{Change, Decision, KeyChange};
use crate::error::Error;
use crate::facts::{Holder, ReadLease};
use crate::locks::LockName;
use crate::node::Node;
use crate::port::{Lock, Server};
use crate::read_leases;
use crate::shape::Fields;
use crate::turn::Turn;
use crate::types::{Expiry, Holds};
use crate::view::{Hold, Kind, Need, Others, Step, View};

/// A lock as a look found it.
pub(crate) struct Picture<'p, 'a, 'l, P: Server> {
    turn: &'p mut Turn<'a, 'l, P>,
    owner: Option<&'p [u8]>,
    /// Open, unless lease keys were read, the picture was closed, or no look was needed.
    key: Option<<P::Lock<'l> as Lock>::Key>,
    view: View,
    /// Whether the look left out when a plain lock ends.
    lacks_end: bool,
    /// The dead holders that the look found and that must be removed.
    dead: Vec<Holder>,
    /// After how many changes of keys the view was read: see `Records::changes`.
    seen_after: u64,
}

impl<'a, 'l, P: Server> Turn<'a, 'l, P> {
    /// Reads the lock for this owner; without an owner, as an owner without holds sees it.
    pub(crate) fn look<'p>(
        &'p mut self,
        owner: Option<&'p [u8]>,
        need: Need,
    ) -> Result<Picture<'p, 'a, 'l, P>, Error> {
        let mut picture = Picture::of(self, owner);
        picture.look(need)?;
        Ok(picture)
    }
}

/// The content of a lock's key, as a look reads it before any lease key and the expiry of a plain lock.
pub(crate) fn fields<L: Lock>(lock: &mut L, owner: Option<&[u8]>) -> Result<Fields, Error> {
    let key = lock.open();
    lock.state(&key, owner)
}

/// Whether a lock's key holds a read/write lock without a writer, as [`Lock::is_read`] sees it.
pub(crate) fn is_read<L: Lock>(lock: &mut L) -> bool {
    let key = lock.open();
    lock.is_read(&key)
}

/// When a lock's key expires, whatever it holds.
pub(crate) fn key_end<L: Lock>(lock: &mut L) -> Expiry {
    let key = lock.open();
    lock.expiry(&key)
}

impl<'p, 'a, 'l, P: Server> Picture<'p, 'a, 'l, P> {
    /// The picture before the first look: the lock seems free.
    #[inline(always)]
    pub(crate) fn of(turn: &'p mut Turn<'a, 'l, P>, owner: Option<&'p [u8]>) -> Self {
        Self {
            turn,
            owner,
            key: None,
            view: View::of(&Fields::FREE),
            lacks_end: false,
            dead: Vec::new(),
            seen_after: 0,
        }
    }

    /// The picture of a lock whose view is known, without a look: the commit opens the key.
    pub(crate) fn known(
        turn: &'p mut Turn<'a, 'l, P>,
        owner: Option<&'p [u8]>,
        view: View,
        seen_after: u64,
    ) -> Self {
        Self { view, seen_after, ..Self::of(turn, owner) }
    }

    /// Reads the lock. In place: a copy of a picture costs more than the rule for a plain lock.
    #[inline(always)]
    pub(crate) fn look(&mut self, need: Need) -> Result<(), Error> {
        let key = self.turn.at.lock.open();
        // Once the key is open, and before lease keys are read: the server tells other modules of those that have expired.
        self.seen_after = self.turn.changes();
        self.dead.clear();
        let mut fields = self.turn.at.lock.state(&key, self.owner)?;
        self.lacks_end = fields.kind == Kind::Mutex && need == Need::Holds;
        if fields.kind == Kind::Mutex && need != Need::Holds {
            fields.key_end = self.turn.at.lock.expiry(&key);
        }
        self.view = View::of(&fields);
        match fields.kind {
            Kind::Free | Kind::Abandoned | Kind::Mutex => self.key = Some(key),
            Kind::Reading | Kind::Writing => {
                drop(key);
                self.check_readers(need)?;
            }
            Kind::Permits => self.check_permits(key, need),
        }
        Ok(())
    }

    /// Reads the lock, and asks the rule until it has decided. Dead readers that the look found are part of the change.
    #[inline(always)]
    pub(crate) fn decide(
        &mut self,
        need: Need,
        rule: impl FnMut(&mut Self) -> Result<Step, Error>,
    ) -> Result<Decision, Error> {
        self.look(need)?;
        self.decide_seen(rule)
    }

    /// Asks the rule until it has decided, once the lock is read.
    #[inline(always)]
    pub(crate) fn decide_seen(
        &mut self,
        mut rule: impl FnMut(&mut Self) -> Result<Step, Error>,
    ) -> Result<Decision, Error> {
        if self.view.kind == Kind::Reading {
            self.meet_readers();
        }
        loop {
            match rule(self) {
                Err(error) => return Err(error),
                Ok(Step::Look(need)) => self.check_others(need)?,
                Ok(Step::Done(decision)) if self.dead.is_empty() && decision.change.shared.is_none() => {
                    return Ok(decision);
                }
                Ok(Step::Done(decision)) => return Ok(self.of_readers(decision)),
            }
        }
    }

    #[cold]
    fn meet_readers(&self) {
        read_leases::meet(self.node(), self.name());
    }

    /// Adds the dead readers that the look found, and leaves lease keys out that are more than one call touches.
    #[cold]
    fn of_readers(&mut self, mut decision: Decision) -> Decision {
        let owner = self.owner.unwrap_or_default();
        decision.change.limit_leases(read_leases::most_lease_keys(self.name(), owner));
        let dead = std::mem::take(&mut self.dead);
        let change = &mut decision.change;
        match self.view.kind {
            // What changes nothing leaves ended permits where they are.
            Kind::Permits if change.is_empty() => {}
            _ if change.key.deletes() => {}
            _ => change.bury(dead),
        }
        decision
    }

    pub(crate) fn view(&self) -> &View {
        &self.view
    }

    pub(crate) fn node(&self) -> Node<'a, P> {
        self.turn.at.node
    }

    /// Whether the lock has waiters, pending grants or the like.
    pub(crate) fn is_watched(&self) -> bool {
        self.turn.is_watched()
    }

    /// The lock gets a waiter now.
    pub(crate) fn begin_entry(&mut self) {
        self.turn.begin_entry();
    }

    pub(crate) fn owner(&self) -> Option<&'p [u8]> {
        self.owner
    }

    pub(crate) fn name(&self) -> LockName<'_> {
        self.turn.at.name()
    }

    /// The turn, with the lock's key closed: the next steps may make the server call back. The commit opens the key again.
    pub(crate) fn close(&mut self) -> &mut Turn<'a, 'l, P> {
        self.key = None;
        self.turn
    }

    /// The turn, once a change is made: the key is closed.
    pub(crate) fn turn(&mut self) -> &mut Turn<'a, 'l, P> {
        self.turn
    }

    #[cold]
    fn check_readers(&mut self, need: Need) -> Result<(), Error> {
        if let (Some(owner), Some(holds)) = (self.owner, self.view.dead)
            && let Some(until) = read_leases::lease_end(self.turn.at.lock, owner, holds, self.view.key_end)
        {
            self.view.shared = Some(Hold { holds, until });
            self.view.dead = None;
        }
        self.check_others(need)
    }

    #[cold]
    fn check_permits(&mut self, key: <P::Lock<'l> as Lock>::Key, need: Need) {
        let permits = self.turn.at.lock.permits(&key, self.owner.filter(|_| self.view.dead.is_some()));
        self.key = Some(key);
        self.view.add_permits(&permits, self.node().port.now());
        self.dead = permits.ended;
        if need == Need::Room {
            self.count_permits();
        }
    }

    /// Counts the living permits of other owners, unless their number does not matter. The key is closed for that.
    pub(crate) fn count_permits(&mut self) {
        self.key = None;
        let own = u32::from(self.view.shared.is_some());
        if let Others::Permits { living: living @ None, .. } = &mut self.view.others {
            *living = Some(self.turn.at.lock.living_permits().saturating_sub(own));
        }
    }

    /// Checks the other owners, unless the look has done so before.
    fn check_others(&mut self, need: Need) -> Result<(), Error> {
        if need == Need::Room {
            self.count_permits();
        }
        let Others::NotAsked(count) = self.view.others else { return Ok(()) };
        let (at, key_end) = (&self.turn.at, self.view.key_end);
        let (others, dead) = match need {
            Need::Holds | Need::Own | Need::Room => return Ok(()),
            Need::AnyOther => at.any_other_reader(self.owner, key_end)?,
            Need::LastOther => at.last_other_reader(self.owner.unwrap_or_default(), count, key_end),
        };
        self.view.others = others;
        self.dead = dead;
        Ok(())
    }

    /// The latest lease end of the readers; `at_most` if they are too many to check all. `None` if all are dead.
    pub(crate) fn last_end(&self, at_most: Expiry) -> Option<Expiry> {
        let count = if let Others::NotAsked(count) = self.view.others { count } else { 0 };
        read_leases::last_end(self.turn.at.lock, count, at_most, self.view.key_end)
    }

    /// The latest lease end of the owner's read holds, if it has several: the view shows the end of one hold.
    pub(crate) fn last_own_end(&self) -> Option<Expiry> {
        let hold =
            self.view.shared.filter(|hold| hold.holds > Holds::ONE && self.view.kind != Kind::Permits)?;
        read_leases::last_lease_end(self.turn.at.lock, self.owner?, hold.holds, self.view.key_end)
    }

    /// Whether the first fields are those of a lock. A look does not check each field of a lock that is known: a hash of an
    /// application may have taken its place.
    pub(crate) fn shows_readers_only(&self) -> bool {
        self.turn.at.lock.readers_from(0, read_leases::MANY).is_ok()
    }

    /// Refuses a change that writes the lease keys of holds that the owner has had before, while one of these keys may be
    /// on another server. It would be on both servers, and the later key could not be moved to the server of the other.
    #[inline]
    pub(crate) fn check_leases_local(&self, change: &Change) -> Result<(), Error> {
        let Some((first, last, _)) = change.leases().set else { return Ok(()) };
        let (Some(owner), Some(holds)) = (self.owner, self.view.shared_holds()) else { return Ok(()) };
        let is_migrating = |hold| self.turn.at.lock.read_lease(owner, hold) == ReadLease::Unknown;
        if (first..=last.min(holds.get())).any(is_migrating) { Err(Error::LeaseMigrating) } else { Ok(()) }
    }

    /// After how many changes of keys the view was read.
    pub(crate) fn seen_after(&self) -> u64 {
        self.seen_after
    }

    /// Whether no key was changed since the view was read.
    pub(crate) fn is_current(&self) -> bool {
        self.turn.changes() == self.seen_after
    }

    /// Whether the look left out when a plain lock ends.
    pub(crate) fn lacks_end(&self) -> bool {
        self.lacks_end
    }

    /// The view once this change is made; `None` if the look left out what the view after it needs.
    fn view_after(&self, change: &Change) -> Option<View> {
        let is_known = !self.lacks_end || change.key == KeyChange::Delete;
        is_known.then(|| if change.is_empty() { self.view } else { self.view.after(change) })
    }

    /// Makes a change, and closes the key; returns the facts for its events, if it changes anything. After an error nothing has
    /// changed. Other modules know nothing of it before [`Lock::raise`].
    #[inline(always)]
    pub(crate) fn perform(&mut self, change: &Change) -> Result<Option<P::Performed>, Error> {
        let key = self.key.take();
        if change.is_empty() {
            return Ok(None);
        }
        let lock = &mut *self.turn.at.lock;
        let key = key.map_or_else(|| reopen(lock, self.owner, &self.view), Ok)?;
        lock.perform(key, self.owner, change).map(Some)
    }

    /// Makes a change of the lock, with its effects on replicas and AOF. The events follow when the turn closes.
    pub(crate) fn commit(&mut self, change: &Change) -> Result<&mut Turn<'a, 'l, P>, Error> {
        let view = self.view_after(change);
        self.turn.forget();
        let performed = self.perform(change)?;
        // Not if another module has changed the lock since the look: it may react to lease keys that expire.
        let view = view.filter(|_| self.is_current());
        let turn = &mut *self.turn;
        if let Some(performed) = performed {
            turn.at.node.locks(|locks| locks.records.key_changed());
            turn.changed(self.owner, change, performed);
        }
        if let Some(view) = view {
            turn.learn(view, turn.changes());
        }
        Ok(turn)
    }

    /// Remembers for the turn how the owner saw the lock.
    pub(crate) fn learn(&mut self) {
        self.turn.learn(self.view, self.seen_after);
    }

    /// The change that removes the dead readers that the look found, if there is one.
    pub(crate) fn burial(&mut self) -> Option<Change> {
        if self.view.kind == Kind::Permits || self.dead.is_empty() {
            // Ended permits hinder no owner: a change removes them.
            return None;
        }
        let mut change = Change::default();
        change.bury(std::mem::take(&mut self.dead));
        Some(change)
    }

    /// Adds the removal of the ended permits that the look found to a change.
    pub(crate) fn bury_ended(&mut self, change: &mut Change) {
        if self.view.kind == Kind::Permits {
            change.bury(std::mem::take(&mut self.dead));
        }
    }
}

/// Opens a key again, or for the first time where the lock was known. Time passes outside commands, and other modules are notified
/// of the end of a lease key: the lock may have changed.
#[cold]
fn reopen<L: Lock>(lock: &mut L, owner: Option<&[u8]>, view: &View) -> Result<L::Key, Error> {
    let key = lock.open();
    // In a free lock no owner has anything.
    let owner = owner.filter(|_| !matches!(view.kind, Kind::Free | Kind::Abandoned));
    if view.is_still(&lock.state(&key, owner)?) {
        Ok(key)
    } else {
        Err(Error::Internal("the lock changed while it was read"))
    }
}
