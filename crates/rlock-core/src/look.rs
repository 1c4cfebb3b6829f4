//! The picture of a lock that a rule decides on, and the commit of its change. A look writes nothing.
//!
//! The key of a plain lock, or of a lock without holders, stays open from the look to the commit. The key of a read/write
//! lock is closed while lease keys are read: the commit opens it again, and fails if the owner's holds are not the same.

use crate::decision::{Change, Decision};
use crate::error::Error;
use crate::port::{ReadLease, Reader, Site};
use crate::read_leases;
use crate::shape::Fields;
use crate::types::Expiry;
use crate::view::{Hold, Need, Others, Step, View};

/// A lock as a look found it.
pub(crate) struct Picture<'a, S: Site> {
    site: &'a S,
    owner: Option<&'a [u8]>,
    /// Open, unless lease keys had to be read.
    key: Option<S::Key>,
    view: View,
    /// The dead readers that the look found and that must be removed.
    dead: Vec<Reader>,
}

/// Looks at a lock for this owner; without an owner, as an owner without holds sees it.
pub(crate) fn look<'a, S: Site>(
    site: &'a S,
    owner: Option<&'a [u8]>,
    need: Need,
) -> Result<Picture<'a, S>, Error> {
    let mut picture = Picture::of(site, owner);
    picture.look(need)?;
    Ok(picture)
}

impl<'a, S: Site> Picture<'a, S> {
    /// The picture before the first look: the lock seems free.
    #[inline(always)]
    pub(crate) fn of(site: &'a S, owner: Option<&'a [u8]>) -> Self {
        Self { site, owner, key: None, view: View::of(&Fields::FREE), dead: Vec::new() }
    }

    /// Looks at the lock. In place: a copy of a picture costs more than the rule for a plain lock.
    #[inline(always)]
    fn look(&mut self, need: Need) -> Result<(), Error> {
        let key = self.site.open();
        let fields = self.site.state(&key, self.owner)?;
        self.view = View::of(&fields);
        if fields.is_read_write() {
            drop(key);
            self.check_readers(need)
        } else {
            self.key = Some(key);
            Ok(())
        }
    }

    /// Looks at the lock, and asks the rule until it has decided. Dead readers that the look found are part of the change.
    #[inline(always)]
    pub(crate) fn decide(
        &mut self,
        mut rule: impl FnMut(&View) -> Result<Step, Error>,
    ) -> Result<Decision, Error> {
        self.look(Need::Mine)?;
        loop {
            match rule(&self.view) {
                Err(error) => return Err(error),
                Ok(Step::Look(need)) => self.check_others(need)?,
                Ok(Step::Done(decision)) if self.dead.is_empty() => return Ok(decision),
                Ok(Step::Done(decision)) => return Ok(self.with_burial(decision)),
            }
        }
    }

    #[cold]
    fn with_burial(&mut self, mut decision: Decision) -> Decision {
        let dead = std::mem::take(&mut self.dead);
        if decision.change.keeps_fields() {
            decision.change.bury(dead);
        }
        decision
    }

    pub(crate) fn view(&self) -> &View {
        &self.view
    }

    pub(crate) fn site(&self) -> &'a S {
        self.site
    }

    pub(crate) fn owner(&self) -> Option<&'a [u8]> {
        self.owner
    }

    #[cold]
    fn check_readers(&mut self, need: Need) -> Result<(), Error> {
        if let (Some(owner), Some(holds)) = (self.owner, self.view.dead)
            && let Some(until) = read_leases::lease_end(self.site, owner, holds, self.view.key_end)
        {
            self.view.shared = Some(Hold { holds, until });
            self.view.dead = None;
        }
        self.check_others(need)
    }

    /// Checks the other owners, unless the look has done so before.
    fn check_others(&mut self, need: Need) -> Result<(), Error> {
        let Others::NotAsked(count) = self.view.others else { return Ok(()) };
        let (site, key_end) = (self.site, self.view.key_end);
        let (others, dead) = match need {
            Need::Mine => return Ok(()),
            Need::AnyOther => read_leases::any_other(site, self.owner, key_end)?,
            Need::LastOther => read_leases::last_other(site, self.owner.unwrap_or_default(), count, key_end),
        };
        self.view.others = others;
        self.dead = dead;
        Ok(())
    }

    /// The latest lease end of the readers; `at_most` if they are too many to check all. `None` if all are dead.
    pub(crate) fn last_end(&self, at_most: Expiry) -> Option<Expiry> {
        let count = if let Others::NotAsked(count) = self.view.others { count } else { 0 };
        read_leases::last_end(self.site, count, at_most, self.view.key_end)
    }

    /// Refuses a change that writes the lease keys of holds that the owner has had before, while one of them may be on
    /// another server: it would be on both, and the later one could not be moved to the server of the other.
    pub(crate) fn check_leases_local(&self, change: &Change) -> Result<(), Error> {
        let Some((first, last, _)) = change.leases().set else { return Ok(()) };
        let (Some(owner), Some(holds)) = (self.owner, self.view.reads()) else { return Ok(()) };
        let elsewhere = |hold| self.site.read_lease(owner, hold) == ReadLease::Unknown;
        if (first..=last.min(holds.get())).any(elsewhere) { Err(Error::LeaseElsewhere) } else { Ok(()) }
    }

    /// Commits a change, once, and closes the key. After an error nothing has changed.
    #[inline(always)]
    pub(crate) fn commit(&mut self, change: &Change) -> Result<(), Error> {
        let (site, owner) = (self.site, self.owner);
        let key = self.key.take().map_or_else(|| reopen(site, owner, &self.view), Ok)?;
        if change.is_empty() { Ok(()) } else { site.perform(key, owner, change) }
    }

    /// Removes the dead readers that the look found. Writing must be allowed.
    pub(crate) fn bury(mut self) {
        let bury = std::mem::take(&mut self.dead);
        if !bury.is_empty() {
            // A failure is in the log; the next look finds them again.
            let mut change = Change::default();
            change.bury(bury);
            let _ = self.commit(&change);
        }
    }
}

/// Opens the key of a read/write lock again. Time goes on outside commands, and other modules are notified of the end of a
/// lease key: the lock may have changed.
#[cold]
fn reopen<S: Site>(site: &S, owner: Option<&[u8]>, view: &View) -> Result<S::Key, Error> {
    let key = site.open();
    if view.is_still(&site.state(&key, owner)?) {
        Ok(key)
    } else {
        Err(Error::Internal("the lock changed while it was looked at"))
    }
}
