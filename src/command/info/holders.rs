//! The holders of a lock of any kind.

use rlock_core::read_leases::most_lease_keys;
use rlock_core::shape::{self, RwField, SingleField};
use rlock_core::weight::weight;
use rlock_core::{Error, Expiry, Fields, Holds, Kind, Mode, UnixMs, names};

use super::{mode, pair, session};
use crate::ffi::{Ctx, Edge, Key, KeyType, OwnedString, Respond, Scan, StringRef};
use crate::{keyspace, permits, waiters};

/// The holders of a lock.
pub(super) struct Held {
    /// `none`, `mutex`, `readwrite` or `permits`.
    pub(super) kind: &'static str,
    pub(super) mode: Mode,
    /// What is left in ms, -1 without an expiry, -2 for a free lock.
    pub(super) lease_ms: i64,
    /// The number of holders. Dead readers count as well, unless they are among those that were checked.
    pub(super) count: usize,
    /// The holders, at most the number that was asked for.
    pub(super) holders: Vec<Holder>,
}

pub(super) struct Holder {
    owner: Vec<u8>,
    mode: Mode,
    holds: i64,
    /// What is left in ms, or -1 without an expiry.
    lease_ms: i64,
    /// The connection with which its holds end.
    session: Option<u64>,
}

const NOBODY: Held = Held { kind: "none", mode: Mode::Mutex, lease_ms: -2, count: 0, holders: Vec::new() };

/// The holders of the lock, `limit` of them.
pub(super) fn of(ctx: Ctx<'_>, name: StringRef<'_>, limit: usize) -> Result<Held, Error> {
    let (key, now) = (Key::open_inspect(ctx, name), ctx.real_time());
    let fields = keyspace::state(&key, None, || false, || now).map_err(Error::without_permits)?;
    let mut held = match fields.kind {
        Kind::Mutex => mutex(&key, limit, now)?,
        Kind::Permits => permit_holders(ctx, &key, limit, now),
        Kind::Reading | Kind::Writing => read_write(ctx, key, limit, fields, now)?,
        Kind::Free | Kind::Abandoned => return Ok(NOBODY),
    };
    let lock = keyspace::lock_name(ctx, name);
    waiters::locks(|locks| {
        for holder in &mut held.holders {
            let tie = locks.session(lock, &holder.owner, holder.mode);
            holder.session = tie.map(|session| session.client);
        }
    });
    Ok(held)
}

fn mutex(key: &Key<'_>, limit: usize, now: UnixMs) -> Result<Held, Error> {
    let lease_ms = key.expiry().left(now);
    let found = keyspace::only_field(key, |owner, single| match single {
        SingleField::Hold(holds) => Some(Holder {
            owner: owner.to_vec(),
            mode: Mode::Mutex,
            holds: holds.get(),
            lease_ms,
            session: None,
        }),
        SingleField::ModeOnly => None,
    })?;
    let Some(holder) = found.and_then(|(_, holder)| holder) else { return Ok(NOBODY) };
    let holders = if limit > 0 { vec![holder] } else { Vec::new() };
    Ok(Held { kind: "mutex", mode: Mode::Mutex, lease_ms, count: 1, holders })
}

/// The living permits, those first that end first.
fn permit_holders(ctx: Ctx<'_>, key: &Key<'_>, limit: usize, now: UnixMs) -> Held {
    let (mut holders, lease_ms) = (Vec::new(), key.expiry().left(now));
    key.for_each_member(permits::score(now), Edge::Lowest, |owner, score| {
        if let Some(end) = shape::end(score).filter(|_| holders.len() < limit) {
            let (owner, mode, lease_ms) = (owner.to_vec(), Mode::Permit, Expiry::At(end).left(now));
            holders.push(Holder { owner, mode, holds: 1, lease_ms, session: None });
        }
        holders.len() < limit
    });
    let living = permits::living(ctx, key.name(), now).and_then(|living| usize::try_from(living).ok());
    let count = living.unwrap_or(holders.len());
    Held { kind: "permits", mode: Mode::Permit, lease_ms, count, holders }
}

/// The lock's own key is closed before lease keys are opened.
fn read_write(ctx: Ctx<'_>, key: Key<'_>, limit: usize, lock: Fields, now: UnixMs) -> Result<Held, Error> {
    let (fields, name) = (key.len().saturating_sub(1), key.name());
    let found = some_fields(&key, limit)?;
    drop(key);
    let mut not_looked_at = fields.saturating_sub(found.len());
    let mut leases = Leases { ctx, name, count: 0 };
    let (mut ends, mut holders) = (Vec::new(), Vec::new());
    for (owner, mode, holds) in found {
        let until = match mode {
            Mode::Read => match leases.end(&owner, holds) {
                Lease::Until(until) => until.sooner(lock.key_end),
                Lease::Ended => continue,
                Lease::Unknown => {
                    not_looked_at = not_looked_at.saturating_add(1);
                    continue;
                }
            },
            Mode::Write | Mode::Mutex | Mode::Permit => lock.key_end,
        };
        ends.push(until);
        holders.push(Holder { owner, mode, holds: holds.get(), lease_ms: until.left(now), session: None });
    }
    let count = holders.len().saturating_add(not_looked_at);
    if count == 0 {
        return Ok(NOBODY);
    }
    let latest = ends.into_iter().reduce(Expiry::later).filter(|_| not_looked_at == 0);
    holders.truncate(limit);
    let mode = if lock.kind == Kind::Writing { Mode::Write } else { Mode::Read };
    let lease_ms = latest.unwrap_or(lock.key_end).left(now);
    Ok(Held { kind: "readwrite", mode, lease_ms, count, holders })
}

/// At most `most` of the fields that are holds; all those of a small hash.
fn some_fields(key: &Key<'_>, most: usize) -> Result<Vec<(Vec<u8>, Mode, Holds)>, Error> {
    let (mut scan, mut found, mut refusal) = (Scan::new(), Vec::new(), None);
    loop {
        let more = scan.step(key, |field, value| match shape::rw_field(field, value) {
            Ok(RwField::Reads(owner, holds)) => found.push((owner.to_vec(), Mode::Read, holds)),
            Ok(RwField::Writes(owner, holds)) => found.push((owner.to_vec(), Mode::Write, holds)),
            Ok(RwField::Mode) => {}
            Err(error) => refusal = Some(error),
        });
        match (more, refusal.take()) {
            (_, Some(error)) => return Err(error),
            (None, None) => return Err(Error::Internal("the hash could not be read")),
            (Some(true), None) if found.len() < most => {}
            (Some(_), None) => return Ok(found),
        }
    }
}

/// The bound of the older lease keys that one call reads, beside the newest one of each reader.
const MOST_OLDER: usize = 10_000;

/// The leases of the readers of a lock.
struct Leases<'a> {
    ctx: Ctx<'a>,
    name: StringRef<'a>,
    /// What the older lease keys count that were read.
    count: usize,
}

/// The lease of a reader.
enum Lease {
    /// Its end.
    Until(Expiry),
    /// It has ended.
    Ended,
    /// Not known: the newest hold has ended, and the older ones are too many.
    Unknown,
}

impl Leases<'_> {
    /// A reader's lease. Most often that of its newest hold is its longest; Redisson may make it the shortest.
    fn end(&mut self, reader: &[u8], holds: Holds) -> Lease {
        let newest = holds.get();
        if let Some(end) = self.end_of(reader, newest) {
            return Lease::Until(end);
        }
        let lock = keyspace::lock_name(self.ctx, self.name);
        let oldest = newest.saturating_sub(most_lease_keys(lock, reader)).saturating_add(1).max(1);
        let each = weight(lock.key.len().saturating_add(reader.len()));
        for hold in (oldest..newest).rev() {
            if self.count >= MOST_OLDER {
                return Lease::Unknown;
            }
            self.count = self.count.saturating_add(each);
            if let Some(end) = self.end_of(reader, hold) {
                return Lease::Until(end);
            }
        }
        // Older holds than these may live until the key ends.
        if oldest > 1 { Lease::Unknown } else { Lease::Ended }
    }

    /// When the lease of a hold ends; `None` if it has.
    fn end_of(&self, reader: &[u8], hold: i64) -> Option<Expiry> {
        let lease = OwnedString::new(&names::read_lease_key(self.name.bytes(), reader, hold));
        let key = Key::open_inspect(self.ctx, lease.borrow());
        (key.key_type() != KeyType::Empty).then(|| key.expiry())
    }
}

impl Respond for Holder {
    fn send(&self, ctx: Ctx<'_>) {
        ctx.reply_map(if self.session.is_some() { 5 } else { 4 });
        ctx.reply_bytes(b"owner");
        ctx.reply_bytes(&self.owner);
        mode(ctx, self.mode);
        pair(ctx, "holds", self.holds);
        pair(ctx, "lease-ms", self.lease_ms);
        session(ctx, self.session);
    }
}
