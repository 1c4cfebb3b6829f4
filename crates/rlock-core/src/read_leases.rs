//! Which readers of a read/write lock are alive: a dead reader keeps its field in the hash, and only the end of its lease
//! keys reveals it.
//!
//! The lock's own key must be closed while lease keys are read: the server may delete an expired one, and other modules
//! are notified of that and may delete the lock.

use std::ops::{ControlFlow, RangeInclusive};

use crate::at::At;
use crate::error::Error;
use crate::facts::{Holder, ReadLease};
use crate::locks::LockName;
use crate::node::Node;
use crate::port::{Lock, Server};
use crate::settings::AtOnce;
use crate::timing::entry;
use crate::types::{Expiry, Holds};
use crate::view::Others;
use crate::weight::weight;

/// The most lease keys of one owner that one call reads or writes: the newest ones. Of these the newest has the longest lease, and
/// each release hands it on.
pub const MAX_LEASE_KEYS: i64 = 1_000;

/// The most bytes that lock and owner in the names of these keys have together: a thousand of the longest names under which
/// natives acquire. Under longer ones, as Redisson clients may have, there are fewer keys.
const LEASE_KEYS_BYTES: usize = 1_536_000;

/// How many other readers are checked when a reader leaves, so that fields of dead readers are removed over time.
const CHECKED: usize = 8;

/// The bound of the lease keys of these readers.
const CHECKED_KEYS: usize = 8_000;

/// If a lock has more readers than this, not all of them are checked.
pub(crate) const MANY: usize = 64;

/// Nor are all readers checked if their lease keys have more than this weight: one event-loop cycle may check 250 locks.
const MANY_KEYS: usize = 128;

/// The most lease keys of this owner that one call reads or writes.
pub fn most_lease_keys(lock: LockName<'_>, owner: &[u8]) -> i64 {
    let most = LEASE_KEYS_BYTES.checked_div(lock.key.len().saturating_add(owner.len()));
    most.and_then(|most| i64::try_from(most).ok()).unwrap_or(i64::MAX).clamp(1, MAX_LEASE_KEYS)
}

/// The numbers of the holds whose lease keys one call reads.
pub(crate) fn holds_read(lock: LockName<'_>, owner: &[u8], holds: Holds) -> RangeInclusive<i64> {
    let oldest = holds.get().saturating_sub(most_lease_keys(lock, owner)).max(0).saturating_add(1);
    oldest..=holds.get()
}

/// The result of a check of other readers: the facts, and the dead readers to remove.
pub(crate) type Checked = (Others, Vec<Holder>);

/// When a reader's lease ends; `None` if it has ended. `key_end` is the end of the lock's key, which ends all holds.
pub(crate) fn lease_end<L: Lock>(lock: &L, reader: &[u8], holds: Holds, key_end: Expiry) -> Option<Expiry> {
    find_lease_end(lock, reader, holds, key_end).0
}

/// When a reader's lease ends, and the weight of the keys read. To find a reader alive takes one key, or as many as to find it dead.
pub(crate) fn find_lease_end<L: Lock>(
    lock: &L,
    reader: &[u8],
    holds: Holds,
    key_end: Expiry,
) -> (Option<Expiry>, usize) {
    let read = holds_read(lock.name(), reader, holds);
    let reads_all = *read.start() == 1;
    let each = weight(lock.name().key.len().saturating_add(reader.len()));
    let mut count = 0_usize;
    // rlock makes the newest hold's lease the longest; Redisson may make it the shortest.
    for hold in read.rev() {
        count = count.saturating_add(each);
        match lock.read_lease(reader, hold) {
            ReadLease::Until(until) => return (Some(until), count),
            // In doubt it lives: it ends with the lock's own key at last.
            ReadLease::Unknown => return (Some(key_end), count),
            ReadLease::Gone => {}
        }
    }
    // Holds beyond the limit are not checked: they live until the lock's own key ends.
    ((!reads_all).then_some(key_end), count)
}

/// The latest lease end of all of a reader's holds: a Redisson hold may have a shorter lease than one before it.
pub(crate) fn last_lease_end<L: Lock>(
    lock: &L,
    reader: &[u8],
    holds: Holds,
    key_end: Expiry,
) -> Option<Expiry> {
    let mut latest = lease_end(lock, reader, holds, key_end)?;
    let read = holds_read(lock.name(), reader, holds);
    if *read.start() > 1 {
        // A hold that is not read may have the longest lease.
        return Some(latest.later(key_end));
    }
    for hold in read.rev().skip(1) {
        if let ReadLease::Until(until) = lock.read_lease(reader, hold) {
            latest = latest.later(until);
        }
    }
    Some(latest)
}

/// Notes a lock with readers. If its read leases are unknown, they are searched for. The server must report the renewals of Redisson
/// clients from this time on: one may end a longer lease.
pub(crate) fn meet<P: Server>(node: Node<'_, P>, lock: LockName<'_>) {
    let now = node.port.now();
    if node.locks(|locks| locks.knows_reads(lock, now)) || !node.port.is_primary() {
        return;
    }
    let _entry = entry(node);
    node.port.listen_to_keys();
    node.locks(|locks| locks.search_reads(lock));
}

impl<P: Server> At<'_, '_, P> {
    /// Looks for one living reader besides this one. The dead readers before it must be removed, so that no look finds them
    /// again; if all are dead, the lock is free, and they are removed with it. Fifty thousand may be dead: one look checks
    /// a bounded number of them, and where there are more readers, it is in doubt whether the lock is free.
    pub(crate) fn any_other_reader(&self, but: Option<&[u8]>, key_end: Expiry) -> Result<Checked, Error> {
        let most = self.node.port.settings().at_once.buried;
        let (mut dead, mut living, mut more, mut read) = (Vec::new(), None, false, 0_usize);
        self.lock.readers(&mut |reader| {
            if but == Some(&*reader.owner) {
                return ControlFlow::Continue(());
            }
            more = read >= most;
            if more {
                return ControlFlow::Break(());
            }
            let (end, count) = find_lease_end(self.lock, &reader.owner, reader.holds, key_end);
            living = end;
            if living.is_some() {
                // The usual one key of a living reader is that of any look.
                read = read.saturating_add(count.saturating_sub(1));
                return ControlFlow::Break(());
            }
            read = read.saturating_add(count);
            dead.push(reader);
            ControlFlow::Continue(())
        })?;
        self.node.locks(|locks| locks.calls.count_served(share_of(self.node.port.settings().at_once, read)));
        Ok(match living {
            Some(until) => (Others::Live { until, last_end: None }, dead),
            None if more => (Others::InDoubt, dead),
            None => (Others::Dead, Vec::new()),
        })
    }

    /// Checks this number of readers besides this one where they are few, and now and then a few of many. The dead among
    /// them must be removed unless all are dead.
    pub(crate) fn last_other_reader(&self, but: &[u8], count: usize, key_end: Expiry) -> Checked {
        let few = count <= CHECKED;
        if !few && !self.node.locks(|locks| locks.releases.count_one()) {
            return (Others::InDoubt, Vec::new());
        }
        let mut readers = self.lock.some_readers(CHECKED.saturating_add(1));
        readers.retain(|reader| *reader.owner != *but);
        let mut all = readers.len() >= count;
        let (mut last_end, mut dead, mut read) = (None, Vec::new(), 0_usize);
        for reader in readers {
            if read >= CHECKED_KEYS {
                all = false;
                break;
            }
            read = read.saturating_add(weigh_lease_keys(self.name(), &reader.owner, reader.holds));
            match last_lease_end(self.lock, &reader.owner, reader.holds, key_end) {
                Some(end) => last_end = Some(last_end.map_or(end, |last: Expiry| last.later(end))),
                None => dead.push(reader),
            }
        }
        match last_end {
            Some(until) if all => (Others::Live { until, last_end }, dead),
            None if all => (Others::Dead, Vec::new()),
            _ => (Others::InDoubt, dead),
        }
    }
}

/// The weight of the lease keys of a reader that one call reads or writes.
pub(crate) fn weigh_lease_keys(lock: LockName<'_>, reader: &[u8], holds: Holds) -> usize {
    let keys = usize::try_from(holds.get().min(most_lease_keys(lock, reader))).unwrap_or(usize::MAX);
    keys.saturating_mul(weight(lock.key.len().saturating_add(reader.len())))
}

/// The share of an event-loop cycle that reading lease keys of this weight takes, in served waiters. One look can take all of
/// it.
fn share_of(at_once: AtOnce, keys: usize) -> usize {
    keys.saturating_mul(at_once.served).checked_div(at_once.buried).unwrap_or(0)
}

/// The latest lease end of this number of readers where they and their holds are few; otherwise `at_most`. `None` if all are
/// dead.
pub(crate) fn last_end<L: Lock>(lock: &L, count: usize, at_most: Expiry, key_end: Expiry) -> Option<Expiry> {
    if count > MANY {
        return Some(at_most);
    }
    let readers = lock.some_readers(MANY);
    let keys = readers.iter().map(|reader| weigh_lease_keys(lock.name(), &reader.owner, reader.holds));
    if keys.fold(0, usize::saturating_add) > MANY_KEYS {
        return Some(at_most);
    }
    let ends = readers.iter().filter_map(|reader| last_lease_end(lock, &reader.owner, reader.holds, key_end));
    ends.reduce(Expiry::later)
}
