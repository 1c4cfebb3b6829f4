//! Redisson's renewal of a reader sets the expiry of the lock's key to its own lease end: the module raises it to the latest
//! lease end again.

use std::ops::ControlFlow;

use crate::closing::tell;
use crate::decision::Change;
use crate::facts::{Holder, ReadLease, WriteAccess};
use crate::locks::ReadSearch;
use crate::look::{Picture, look};
use crate::node::Node;
use crate::port::{Lock, Server};
use crate::read_leases::{holds_read, weigh_lease_keys};
use crate::timing::{WorkOutcome, check_soon};
use crate::types::{Expiry, Mode, UnixMs};
use crate::view::{Kind, Need};
use crate::weight::weight;
use crate::yielding;

/// Searches for the read leases of a lock, if they are unknown, and raises the expiry of its key if it is before the latest
/// end. It reads lease keys that count `most`, and the rest of one owner's; returns what they count.
pub(crate) fn repair_reads<P: Server>(
    node: Node<'_, P>,
    lock: &mut P::Lock<'_>,
    most: usize,
) -> (WorkOutcome, usize) {
    let Some(mut search) = node.locks(|locks| locks.records.take_read_search(lock.name())) else {
        return (repair_known(node, lock), weight(lock.name().key.len()));
    };
    let (searched, read) = search_leases::<P>(lock, &mut search, most);
    let name = lock.name();
    node.locks(|locks| match searched {
        Searched::Part => locks.continue_read_search(name, search),
        Searched::Migrating => locks.defer_read_search(name),
        Searched::All => locks.records.reads_are_found(name, &search),
        Searched::NotRead => locks.records.give_up_read_search(name),
    });
    // Also while the search continues, which may take as long as a migration: the key must not end before what is known.
    (repair_known(node, lock), read)
}

/// How far a search has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Searched {
    /// There are more lease keys.
    Part,
    /// All were read.
    All,
    /// Some may be on the other server of a migration.
    Migrating,
    /// The lock is not read.
    NotRead,
}

/// Reads the next lease keys of a lock; returns what they count as well.
fn search_leases<P: Server>(
    lock: &mut P::Lock<'_>,
    search: &mut ReadSearch,
    most: usize,
) -> (Searched, usize) {
    let mut read = weight(lock.name().key.len());
    let key = lock.open();
    let is_read = lock.is_read(&key);
    drop(key);
    if !is_read {
        return (Searched::NotRead, read);
    }
    while read <= most {
        if let Some(reader) = search.readers.pop() {
            read = read.saturating_add(weigh_lease_keys(lock.name(), &reader.owner, reader.holds));
            if add_leases::<P>(lock, &reader, search).is_break() {
                return (Searched::Migrating, read);
            }
            continue;
        }
        let Some(cursor) = search.cursor else { return (Searched::All, read) };
        let (readers, next) = match lock.readers_from(cursor, most) {
            Ok(Some(page)) => page,
            Ok(None) if lock.write_access() == WriteAccess::SlotMoved => return (Searched::Migrating, read),
            // No question for write access to a user's own hash: the question names a field that the hash may have.
            Ok(None) | Err(_) => return (Searched::NotRead, read),
        };
        (search.readers, search.cursor) = (readers, next);
        read = read.saturating_add(1);
    }
    (Searched::Part, read)
}

/// Adds the leases of a reader; breaks where one may be on another server.
fn add_leases<P: Server>(
    lock: &P::Lock<'_>,
    Holder { owner, holds }: &Holder,
    search: &mut ReadSearch,
) -> ControlFlow<()> {
    for hold in holds_read(lock.name(), owner, *holds) {
        match lock.read_lease(owner, hold) {
            ReadLease::Until(Expiry::At(ends)) => search.latest = search.latest.max(Some(ends)),
            ReadLease::Until(Expiry::Never) | ReadLease::Gone => {}
            ReadLease::Unknown => return ControlFlow::Break(()),
        }
    }
    ControlFlow::Continue(())
}

fn repair_known<P: Server>(node: Node<'_, P>, lock: &mut P::Lock<'_>) -> WorkOutcome {
    match node.locks(|locks| locks.records.read_end(lock.name())) {
        Some(ends) => repair_read_lease(node, lock, ends),
        None => WorkOutcome::Done,
    }
}

/// Checks a read/write lock whose key another client has changed: it must last as long as its read leases, the longest of
/// which ends at `ends`.
fn repair_read_lease<P: Server>(node: Node<'_, P>, lock: &mut P::Lock<'_>, ends: UnixMs) -> WorkOutcome {
    let Some(picture) = read_write(node, lock) else {
        forget_readers(node, lock);
        return WorkOutcome::Done;
    };
    if !ends_early(&picture, ends) {
        return WorkOutcome::Done;
    }
    match lock.write_access() {
        WriteAccess::Allowed => {}
        WriteAccess::Refused => return WorkOutcome::Refused,
        // The slot is not on this server yet, or not any more.
        WriteAccess::SlotMoved => {
            node.locks(|locks| locks.defer_read_repair(lock.name()));
            return WorkOutcome::Done;
        }
    }
    // Asking is a command, in which the lock may have ended.
    let Some(picture) = read_write(node, lock).filter(|picture| ends_early(picture, ends)) else {
        return WorkOutcome::Done;
    };
    if !picture.shows_readers_only() {
        return WorkOutcome::Done;
    }
    let key_end = picture.view().key_end;
    let last_end = picture.last_end(Expiry::At(ends)).filter(|last_end| last_end.later(key_end) != key_end);
    if let Some(Expiry::At(at)) = last_end {
        // A failure is in the log.
        let change = Change { mode: Mode::Read, expire_at: Some(at), ..Change::default() };
        if let Ok((lock, Some(performed))) = picture.commit(&change) {
            tell(node, lock, None, &change, performed);
        }
        // Not later: the first waiter may be able to have the lock by now.
        check_soon(node, lock.name());
    }
    WorkOutcome::Done
}

fn read_write<'a, 'n, P: Server>(
    node: Node<'_, P>,
    lock: &'a mut P::Lock<'n>,
) -> Option<Picture<'a, P::Lock<'n>>> {
    look(node, lock, None, Need::Own).ok().filter(|picture| picture.view().is_read_write())
}

/// Another client has deleted or replaced a lock with native readers. The hand-offs of a mutex that has its name now still count.
fn forget_readers<P: Server>(node: Node<'_, P>, lock: &mut P::Lock<'_>) {
    let is_mutex = look(node, lock, None, Need::Own).is_ok_and(|found| found.view().kind == Kind::Mutex);
    match is_mutex {
        true => node.locks(|locks| locks.forget_read_end(lock.name())),
        false => yielding::native_reads_ended(node, lock.name()),
    }
}

/// Whether readers hold the lock, and its key ends before this time.
fn ends_early<L: Lock>(picture: &Picture<'_, L>, ends: UnixMs) -> bool {
    let view = picture.view();
    view.kind == Kind::Reading && matches!(view.key_end, Expiry::At(at) if at < ends)
}
