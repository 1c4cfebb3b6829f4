//! Translation between the types of `rlock-core` and those of the oracle.

use std::collections::BTreeMap;

use rlock_core::facts::FairEntry;
use rlock_core::locks::LockRef;
use rlock_core::{Error, Expiry, Holds, LeaseMs, Mode, Reply, UnixMs};
use rlock_sim::{Hold, Permits, ReadWrite, World};

use super::hash::{Hash, owners};
use super::op::{CHANNELS, Channel, LOCKS, Lock, Ms, OWNERS, Owner, Word};
use super::values::{Answer, Entry, Value};

pub(super) fn holds_other(world: &World, lock: &LockRef) -> bool {
    world.keys.get(lock) == Some(&rlock_sim::Value::Other)
}

/// The mode that a word asks for.
pub(super) fn said(word: Word) -> Option<Mode> {
    match word {
        Word::None => None,
        Word::Read => Some(Mode::Read),
        Word::Write => Some(Mode::Write),
        Word::Permit => Some(Mode::Permit),
    }
}

pub(super) fn hash_of(value: &ReadWrite) -> Hash {
    let counts = |fields: &BTreeMap<Box<[u8]>, Holds>| {
        OWNERS.map(|name| fields.get(name.as_bytes()).map_or(0, |holds| holds.get()))
    };
    let (reads, writes) = (counts(&value.reads), counts(&value.writes));
    Hash { writing: value.writing, reads, writes, ends: end_of(value.expiry) }
}

/// When each permit ends or ended.
pub(super) fn permits_of(permits: &rlock_sim::Permits) -> Value {
    let end = |name: &str| permits.ends.get(name.as_bytes()).map(|UnixMs(at)| *at);
    Value::Permits(OWNERS.map(end), end_of(permits.expiry))
}

/// When a key expires, if ever.
pub(super) fn end_of(expiry: Expiry) -> Option<i64> {
    match expiry {
        Expiry::Never => None,
        Expiry::At(UnixMs(at)) => Some(at),
    }
}

pub(super) fn expiry(ends: Option<i64>) -> Expiry {
    ends.map_or(Expiry::Never, |at| Expiry::At(UnixMs(at)))
}

/// What the simulated server stores for it.
pub(super) fn stored(value: Value) -> Option<rlock_sim::Value> {
    Some(match value {
        Value::Nothing => return None,
        Value::Other => rlock_sim::Value::Other,
        Value::Held { by, holds, ends } => rlock_sim::Value::Lock(Hold {
            owner: name(by).bytes().into(),
            holds: Holds::new(holds).expect("holds"),
            expiry: expiry(ends),
        }),
        Value::ReadWrite(hash) => rlock_sim::Value::ReadWrite(value_of(&hash)),
        Value::Permits(ends, key_end) => {
            let of = |owner: Owner| Some((name(owner).bytes().into(), UnixMs(ends[owner.0]?)));
            let (ends, expiry) = (owners().filter_map(of).collect(), expiry(key_end));
            rlock_sim::Value::Permits(Permits { ends, expiry })
        }
    })
}

fn value_of(hash: &Hash) -> ReadWrite {
    let fields = |counts: [i64; OWNERS.len()]| {
        let all =
            owners().filter_map(|owner| Some((name(owner).bytes().into(), Holds::new(counts[owner.0])?)));
        all.collect()
    };
    ReadWrite {
        writing: hash.writing,
        reads: fields(hash.reads),
        writes: fields(hash.writes),
        expiry: expiry(hash.ends),
    }
}

pub(super) fn id(lock: Lock) -> LockRef {
    let (db, key) = LOCKS[lock.0];
    LockRef { db, key: key.as_bytes().into() }
}

pub(super) fn lock_of(lock: &LockRef) -> Lock {
    Lock(LOCKS.iter().position(|(db, key)| (*db, key.as_bytes()) == (lock.db, &*lock.key)).expect("a lock"))
}

pub(super) fn name(owner: Owner) -> rlock_core::Owner<'static> {
    rlock_core::Owner::new(OWNERS[owner.0].as_bytes()).expect("an owner")
}

pub(super) fn owner_of(bytes: &[u8]) -> Owner {
    Owner(OWNERS.iter().position(|name| name.as_bytes() == bytes).expect("one of the owners"))
}

pub(super) fn channel_of(bytes: &[u8]) -> Channel {
    Channel(CHANNELS.iter().position(|name| name.as_bytes() == bytes).expect("one of the channels"))
}

pub(super) fn lease(ms: Ms) -> LeaseMs {
    LeaseMs::new(ms.0).expect("a lease")
}

pub(super) fn answer(reply: Reply) -> Answer {
    match reply {
        Reply::Acquired { holds, lease_ms, token } => Answer::Holds(holds.get(), lease_ms, token),
        Reply::Enqueued => Answer::Enqueued,
        Reply::Denied | Reply::NotHeld => Answer::Null,
        Reply::Released | Reply::Renewed | Reply::Cancelled | Reply::Forced => Answer::One,
        Reply::StillHeld | Reply::NotRenewed | Reply::NotQueued | Reply::NothingToForce => Answer::Zero,
    }
}

pub(super) fn error(error: &Error) -> Answer {
    let line = error.to_string();
    let prefixes = ["ERR", "WRONGTYPE", "WRONGLOCK", "QUEUEFULL", "UNBLOCKED", "TRYAGAIN", "UNTIED"];
    let prefix = prefixes.into_iter().find(|prefix| line.split(' ').next() == Some(prefix));
    Answer::Error(prefix.expect("a known prefix"))
}

pub(super) fn entry(entry: &FairEntry) -> Entry {
    Entry { owner: owner_of(&entry.owner), deadline: entry.deadline.map(|UnixMs(at)| at) }
}

pub(super) fn real_entry(entry: &Entry) -> FairEntry {
    FairEntry { owner: name(entry.owner).bytes().into(), deadline: entry.deadline.map(UnixMs) }
}
