//! The holders of a lock of any kind.

use rlock_core::read_leases::MAX_LEASE_KEYS;
use rlock_core::shape::{self, RwField, SingleField};
use rlock_core::{Error, Expiry, Fields, Holds, Kind, Mode, UnixMs, names};

use super::{mode, pair, session};
use crate::ffi::{Ctx, Edge, Key, KeyKind, OwnedString, Respond, Scan, StringRef};
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
    /// As many of them as were asked for.
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
    let not_looked_at = fields.saturating_sub(found.len());
    let living = found.into_iter().filter_map(|(owner, mode, holds)| {
        let until = match mode {
            Mode::Read => lease_end(ctx, name, &owner, holds)?.sooner(lock.key_end),
            Mode::Write | Mode::Mutex | Mode::Permit => lock.key_end,
        };
        Some((until, Holder { owner, mode, holds: holds.get(), lease_ms: until.left(now), session: None }))
    });
    let (ends, mut holders): (Vec<Expiry>, Vec<Holder>) = living.unzip();
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
    let (mut scan, mut found, mut foreign) = (Scan::new(), Vec::new(), None);
    loop {
        let more = scan.step(key, |field, value| match shape::rw_field(field, value) {
            Ok(RwField::Reads(owner, holds)) => found.push((owner.to_vec(), Mode::Read, holds)),
            Ok(RwField::Writes(owner, holds)) => found.push((owner.to_vec(), Mode::Write, holds)),
            Ok(RwField::Mode) => {}
            Err(error) => foreign = Some(error),
        });
        match (more, foreign.take()) {
            (_, Some(error)) => return Err(error),
            (None, None) => return Err(Error::Internal("the hash could not be read")),
            (Some(true), None) if found.len() < most => {}
            (Some(_), None) => return Ok(found),
        }
    }
}

/// When a reader's lease ends; `None` if it has.
fn lease_end(ctx: Ctx<'_>, name: StringRef<'_>, reader: &[u8], holds: Holds) -> Option<Expiry> {
    let oldest = holds.get().saturating_sub(MAX_LEASE_KEYS).saturating_add(1).max(1);
    (oldest..=holds.get()).rev().find_map(|hold| {
        let lease = OwnedString::new(&names::read_lease_key(name.bytes(), reader, hold));
        let key = Key::open_inspect(ctx, lease.borrow());
        (key.kind() != KeyKind::Empty).then(|| key.expiry())
    })
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
