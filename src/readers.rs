//! The readers of a read/write lock, as its hash and their lease keys show.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

use rlock_core::facts::{Holder, ReadLease};
use rlock_core::locks::{LockName, LockRef};
use rlock_core::port::ReaderPage;
use rlock_core::shape::{self, RwField};
use rlock_core::weight::weight;
use rlock_core::{Error, UnixMs, names};

use crate::ffi::{Ctx, Key, KeyType, OwnedString, Scan, Shared, StringRef};

/// Where [`some`] continues, for the locks of its last calls.
static PLACES: Shared<RefCell<Option<Places>>> = Shared::lazy();

/// Where [`each`] continues, for the locks in which it was broken off behind many readers.
static WALKS: Shared<RefCell<Option<Places>>> = Shared::lazy();

/// Places in the hashes of locks.
#[derive(Default)]
struct Places {
    scans: BTreeMap<LockRef, Scan>,
    /// What the names of these locks count.
    weight: usize,
}

/// The bound of the remembered places of each kind.
const MOST_PLACES: usize = 1_000;

impl Places {
    fn remove(&mut self, lock: LockName<'_>) -> Option<Scan> {
        let scan = self.scans.remove(&lock.to_ref())?;
        self.weight = self.weight.saturating_sub(weight(lock.key.len()));
        Some(scan)
    }

    fn insert(&mut self, lock: LockName<'_>, scan: Scan) {
        self.remove(lock);
        if self.weight >= MOST_PLACES {
            *self = Self::default();
        }
        self.weight = self.weight.saturating_add(weight(lock.key.len()));
        self.scans.insert(lock.to_ref(), scan);
    }
}

/// Behind more readers than this a place is remembered.
const MANY: usize = 64;

/// The lease key of a reader's hold of this number. The lock's own key is closed.
pub(crate) fn lease(ctx: Ctx<'_>, name: StringRef<'_>, reader: &[u8], hold: i64) -> ReadLease {
    let lease_name = OwnedString::new(&names::read_lease_key(name.bytes(), reader, hold));
    let key = Key::open_write(ctx, lease_name.borrow());
    let (key_type, expiry) = (key.key_type(), key.expiry());
    drop(key);
    match key_type {
        KeyType::Empty if ctx.is_missing(lease_name.borrow(), name) => ReadLease::Gone,
        KeyType::Empty => ReadLease::Unknown,
        _ => ReadLease::Until(expiry),
    }
}

/// Goes through all readers, until `visit` breaks it off. After a walk past many readers the next one begins there, so that it
/// does not pass the emptied part of a table each time; then it goes through all, and visits some of them twice.
pub(crate) fn each(
    ctx: Ctx<'_>,
    lock: LockName<'_>,
    name: StringRef<'_>,
    visit: &mut dyn FnMut(Holder) -> ControlFlow<()>,
) -> Result<(), Error> {
    if let Some(scan) = WALKS.with(|walks| walks.remove(lock))
        && walk(ctx, lock, name, scan, visit)?.is_break()
    {
        return Ok(());
    }
    let _ = walk(ctx, lock, name, Scan::new(), visit)?;
    Ok(())
}

fn walk(
    ctx: Ctx<'_>,
    lock: LockName<'_>,
    name: StringRef<'_>,
    mut scan: Scan,
    visit: &mut dyn FnMut(Holder) -> ControlFlow<()>,
) -> Result<ControlFlow<()>, Error> {
    let mut visited = 0_usize;
    loop {
        let (readers, more) = next(&mut scan, &Key::open_write(ctx, name))?;
        for reader in readers {
            visited = visited.saturating_add(1);
            if visit(reader).is_break() {
                if more && visited > MANY {
                    WALKS.with(|walks| walks.insert(lock, scan));
                }
                return Ok(ControlFlow::Break(()));
            }
        }
        if !more {
            return Ok(ControlFlow::Continue(()));
        }
    }
}

/// The next few readers, at least one unless there are no more, and whether there may be more. A table that many fields have
/// left is almost empty.
fn next(scan: &mut Scan, key: &Key<'_>) -> Result<(Vec<Holder>, bool), Error> {
    loop {
        let (readers, more) = step(scan, key)?;
        if !readers.is_empty() || !more {
            return Ok((readers, more));
        }
    }
}

/// The readers of the next part of the hash, and whether there may be more.
fn step(scan: &mut Scan, key: &Key<'_>) -> Result<(Vec<Holder>, bool), Error> {
    let (mut readers, mut refusal) = (Vec::new(), None);
    let more = scan.step(key, |field, value| match shape::rw_field(field, value) {
        Ok(RwField::Reads(owner, holds)) => readers.push(Holder { owner: owner.into(), holds }),
        Ok(RwField::Mode) => {}
        Ok(RwField::Writes(..)) => refusal = Some(Error::NotALock),
        Err(error) => refusal = Some(error),
    });
    match (more, refusal) {
        (_, Some(error)) => Err(error),
        (Some(more), None) => Ok((readers, more)),
        (None, None) => Err(Error::Internal("the hash could not be read")),
    }
}

/// The readers from a cursor on, and the next cursor, if there are more; `None` where the server does not show them. Fails
/// where other fields are among them.
pub(crate) fn page(
    ctx: Ctx<'_>,
    name: StringRef<'_>,
    cursor: u64,
    most: usize,
) -> Result<Option<ReaderPage>, Error> {
    let Some((next, fields)) = ctx.scan_hash(name, cursor, most) else { return Ok(None) };
    let mut readers = Vec::new();
    for (field, value) in fields {
        match shape::rw_field(&field, &value)? {
            RwField::Reads(owner, holds) => readers.push(Holder { owner: owner.into(), holds }),
            RwField::Mode => {}
            RwField::Writes(..) => return Err(Error::NotALock),
        }
    }
    Ok(Some((readers, Some(next).filter(|next| *next != 0))))
}

/// At most `most` of the readers; other readers at each call, if there are more.
pub(crate) fn some(
    ctx: Ctx<'_>,
    lock: LockName<'_>,
    name: StringRef<'_>,
    most: usize,
    now: UnixMs,
) -> Vec<Holder> {
    let key = Key::open_write(ctx, name);
    // `mode` is a field as well.
    let all = key.len() <= most.saturating_add(1);
    let place = PLACES.with(|places| if all { None } else { places.remove(lock) });
    let mut scan = place.unwrap_or_else(Scan::new);
    let mut found: Vec<Holder> = Vec::new();
    let mut more = true;
    while more && (all || found.len() < most) {
        // A field that cannot be read does not count as a dead reader.
        let Ok((readers, left)) = step(&mut scan, &key) else { return Vec::new() };
        found.extend(readers);
        more = left;
    }
    drop(key);
    if more && !all {
        PLACES.with(|places| places.insert(lock, scan));
    }
    if found.len() > most {
        // A small hash comes in one step: another part of it each time.
        let turn = usize::try_from(now.0).unwrap_or(0).checked_rem(found.len()).unwrap_or(0);
        found.rotate_left(turn);
        found.truncate(most);
    }
    found
}
