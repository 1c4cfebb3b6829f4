//! Redisson's renewal of a reader sets the expiry of the lock's key to its own lease end: the module raises it to the latest
//! native lease end again.

use std::ops::ControlFlow;

use crate::bugs::{Bug, planted};
use crate::core::Core;
use crate::decision::Change;
use crate::facts::{ReadLease, Reader, WriteAccess};
use crate::locks::LockName;
use crate::look::{Picture, fields, look};
use crate::port::{InTask, Lock, Server};
use crate::read_leases;
use crate::timing::{Outcome, check_soon, entry};
use crate::types::{Expiry, Mode, UnixMs};
use crate::view::{Kind, Need};
use crate::yielding;

/// A lease key was found after a load, a slot migration or a promotion: the knowledge of read leases stayed with the
/// server that granted them. Returns true if the lock has this reader.
pub fn read_lease_found<P: InTask>(core: Core<'_, P>, lock: LockName<'_>, reader: &[u8], hold: i64) -> bool {
    let end = core.at(lock, |lock| {
        let fields = fields(lock, Some(reader)).ok()?;
        fields.reads.filter(|holds| (1..=holds.get()).contains(&hold))?;
        match lock.read_lease(reader, hold) {
            ReadLease::Until(end) => Some(end),
            ReadLease::Unknown | ReadLease::Gone => None,
        }
    });
    let end = end.flatten();
    if let Some(Expiry::At(ends)) = end {
        note_read_end(core, lock, ends);
    }
    end.is_some()
}

/// A lock has arrived from another server, possibly after the lease keys of its readers. Returns the number of leases that
/// its readers may have; if it exceeds `most`, not all were checked.
pub fn lock_found<P: InTask>(core: Core<'_, P>, lock: LockName<'_>, most: usize) -> usize {
    let looked = core.at(lock, |lock| {
        if !fields(lock, None).is_ok_and(|fields| fields.is_read_write()) {
            return (None, 0);
        }
        let (mut readers, mut leases) = (Vec::new(), 0_usize);
        // What cannot be read is no lock of ours.
        let _ = lock.readers(&mut |Reader { owner, holds }| {
            leases = leases.saturating_add(usize::try_from(holds.get()).unwrap_or(usize::MAX));
            if leases > most {
                return ControlFlow::Break(());
            }
            readers.push(owner);
            ControlFlow::Continue(())
        });
        let ends = readers.iter().filter_map(|reader| match read_end(lock, reader)? {
            Expiry::At(ends) => Some(ends),
            Expiry::Never => None,
        });
        (ends.max(), leases)
    });
    let (latest, leases) = looked.unwrap_or((None, 0));
    if let Some(ends) = latest {
        note_read_end(core, lock, ends);
    }
    leases
}

/// Remembers the end of a read lease that somebody else has given.
fn note_read_end<P: Server>(core: Core<'_, P>, lock: LockName<'_>, ends: UnixMs) {
    let clock = core.port.clock();
    let _entry = entry(core);
    core.locks(|locks| {
        locks.note_read_end(lock, ends, clock);
        // Another reader may have renewed its own meanwhile.
        locks.note_foreign_read_change(lock);
    });
}

/// Checks a read/write lock whose key another client has changed: it must last as long as the read leases that were given
/// here, the longest of which ends at `ends`.
pub(crate) fn repair_read_lease<P: Server>(
    core: Core<'_, P>,
    lock: &mut P::Lock<'_>,
    ends: UnixMs,
) -> Outcome {
    let Some(picture) = read_write(core, lock) else {
        yielding::native_reads_ended(core, lock.name());
        return Outcome::Done;
    };
    if !ends_early(&picture, ends) || planted(Bug::ReadEndedEarly) {
        return Outcome::Done;
    }
    match lock.write_access() {
        WriteAccess::Allowed => {}
        WriteAccess::Refused => return Outcome::Refused,
        // It is not ours yet, or not any more.
        WriteAccess::SlotMoved => {
            core.locks(|locks| locks.defer_read_repair(lock.name()));
            return Outcome::Done;
        }
    }
    // Asking is a command, in which the lock may have ended.
    let Some(picture) = read_write(core, lock).filter(|picture| ends_early(picture, ends)) else {
        return Outcome::Done;
    };
    let key_end = picture.view().key_end;
    let last_end = picture.last_end(Expiry::At(ends)).filter(|last_end| last_end.later(key_end) != key_end);
    if let Some(Expiry::At(at)) = last_end {
        // A failure is in the log.
        let _ = picture.commit(&Change { mode: Mode::Read, expire_at: Some(at), ..Change::default() });
        // Not later: who waits first may be able to have it by now.
        check_soon(core, lock.name());
    }
    Outcome::Done
}

fn read_write<'a, 'n, P: Server>(
    core: Core<'_, P>,
    lock: &'a mut P::Lock<'n>,
) -> Option<Picture<'a, P::Lock<'n>>> {
    look(core, lock, None, Need::Mine).ok().filter(|picture| picture.view().is_read_write())
}

/// Whether readers hold the lock, and its key ends before this time.
fn ends_early<L: Lock>(picture: &Picture<'_, L>, ends: UnixMs) -> bool {
    let view = picture.view();
    view.kind == Kind::Reading && matches!(view.key_end, Expiry::At(at) if at < ends)
}

/// When the reads of this owner end; `None` if it has none.
fn read_end<L: Lock>(lock: &mut L, reader: &[u8]) -> Option<Expiry> {
    let fields = fields(lock, Some(reader)).ok().filter(|fields| fields.is_read_write())?;
    read_leases::last_lease_end(lock, reader, fields.reads?, fields.key_end)
}
