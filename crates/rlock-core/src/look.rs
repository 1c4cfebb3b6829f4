//! A picture of a lock, and the commit of the change that a rule decides on it. A look writes nothing.
//!
//! The key of a plain lock, or of a lock without holders, stays open from the look to the commit. The key of a read/write
//! lock is closed while lease keys are read: the commit opens it again, and fails if the owner's holds are not the same.

use crate::decision::{Change, Decision};
use crate::error::Error;
use crate::port::{ReadLease, Reader, Site};
use crate::read_leases;
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
    let key = site.open();
    let fields = site.state(&key, owner)?;
    let view = View::of(&fields);
    let mut picture = Picture { site, owner, key: Some(key), view, dead: Vec::new() };
    if fields.is_read_write() {
        picture.check_own_reads();
        picture.check_others(need)?;
    }
    Ok(picture)
}

/// Looks at a lock, and asks the rule until it has decided. Dead readers that the look found are part of the change.
pub(crate) fn decide<'a, S: Site>(
    site: &'a S,
    owner: Option<&'a [u8]>,
    mut rule: impl FnMut(&View) -> Result<Step, Error>,
) -> Result<(Picture<'a, S>, Decision), Error> {
    let mut picture = look(site, owner, Need::Mine)?;
    loop {
        match rule(&picture.view)? {
            Step::Look(need) => picture.check_others(need)?,
            Step::Done(mut decision) => {
                if !picture.dead.is_empty() && decision.change.keeps_fields() {
                    decision.change.bury = std::mem::take(&mut picture.dead);
                }
                return Ok((picture, decision));
            }
        }
    }
}

impl<'a, S: Site> Picture<'a, S> {
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
    fn check_own_reads(&mut self) {
        self.key = None;
        let (Some(owner), Some(holds)) = (self.owner, self.view.dead) else { return };
        if let Some(until) = read_leases::lease_end(self.site, owner, holds, self.view.key_end) {
            self.view.shared = Some(Hold { holds, until });
            self.view.dead = None;
        }
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
        let (Some(owner), Some(holds)) = (self.owner, self.view.reads()) else { return Ok(()) };
        let Some((first, last, _)) = change.leases.set else { return Ok(()) };
        let elsewhere = |hold| self.site.read_lease(owner, hold) == ReadLease::Unknown;
        if (first..=last.min(holds.get())).any(elsewhere) { Err(Error::LeaseElsewhere) } else { Ok(()) }
    }

    /// Commits a change. After an error nothing has changed.
    pub(crate) fn commit(self, change: &Change) -> Result<(), Error> {
        let Self { site, owner, key, view, .. } = self;
        let key = key.map_or_else(|| reopen(site, owner, &view), Ok)?;
        if *change == Change::default() { Ok(()) } else { site.perform(key, owner, change) }
    }

    /// Removes the dead readers that the look found. Writing must be allowed.
    pub(crate) fn bury(mut self) {
        let bury = std::mem::take(&mut self.dead);
        if !bury.is_empty() {
            // A failure is in the log; the next look finds them again.
            let _ = self.commit(&Change { bury, ..Change::default() });
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
