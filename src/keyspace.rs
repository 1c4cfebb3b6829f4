//! What a key holds, read as the state of a lock.

use rlock_core::locks::LockName;
use rlock_core::shape::{self, SingleField};
use rlock_core::types::canonical_integer;
use rlock_core::{Error, Fields, Kind, UnixMs, names};

use crate::ffi::{CommandCtx, Ctx, Key, KeyType, MODE, OwnedString, Scan, StringRef};
use crate::permits;

/// The lock of this name in the database of the call under way.
pub(crate) fn lock_name<'n>(ctx: Ctx<'_>, name: StringRef<'n>) -> LockName<'n> {
    LockName { db: ctx.db(), key: name.bytes() }
}

/// Refuses, in cluster mode, a lock whose channel would fall in another slot.
pub(crate) fn check_slot(ctx: Ctx<'_>, name: StringRef<'_>) -> Result<(), Error> {
    if ctx.in_cluster() && !names::one_slot(name.bytes()) { Err(Error::CrossSlot) } else { Ok(()) }
}

/// Refuses a channel that the user may not use, and in cluster mode one whose slot this node does not serve.
pub(crate) fn check_channel(ctx: CommandCtx<'_>, channel: &[u8]) -> Result<(), Error> {
    let channel = OwnedString::new(channel);
    if !ctx.serves_channel(channel.borrow()) {
        return Err(Error::ChannelNotServed);
    }
    let allowed = ctx.may_publish_to(channel.borrow());
    if allowed { Ok(()) } else { Err(Error::NoPermission("the channel of ENQUEUE")) }
}

/// Refuses a lock for whose last fencing token the user may not run the command.
pub(crate) fn check_token_key(ctx: CommandCtx<'_>) -> Result<(), Error> {
    let allowed = ctx.may_run_on(token_key(ctx.args().get(1).ok_or(Error::Arity)?).borrow());
    if allowed { Ok(()) } else { Err(Error::NoPermission("the key of the lock's fencing token")) }
}

/// Refuses a lock for whose lease key of this reader the user may not run the command.
pub(crate) fn check_lease_key(ctx: CommandCtx<'_>, owner: &[u8]) -> Result<(), Error> {
    let name = ctx.args().get(1).ok_or(Error::Arity)?.bytes();
    let allowed = ctx.may_run_on(OwnedString::new(&names::read_lease_key(name, owner, 1)).borrow());
    if allowed { Ok(()) } else { Err(Error::NoPermission("the lease keys of the lock's readers")) }
}

/// The name of the key that has a lock's last fencing token, as in Redisson.
pub(crate) fn token_key(name: StringRef<'_>) -> OwnedString {
    OwnedString::new(&names::token_key(name.bytes()))
}

/// A lock's last fencing token, for a call that is about to assign the next one.
pub(crate) fn last_token(ctx: Ctx<'_>, name: StringRef<'_>) -> Result<Option<i64>, Error> {
    let token_name = token_key(name);
    let key = Key::open_write(ctx, token_name.borrow());
    match key.key_type() {
        KeyType::Empty if ctx.is_missing(token_name.borrow(), name) => Ok(None),
        KeyType::Empty => Err(Error::TokenMigrating),
        KeyType::String => key.string().and_then(canonical_integer).ok_or(Error::NotAToken).map(Some),
        KeyType::Hash | KeyType::List | KeyType::SortedSet | KeyType::Other => Err(Error::TokenWrongType),
    }
}

/// The contents of the key as this owner sees them; without an owner, as an owner without holds does.
///
/// `is_known` answers whether a read/write lock is known to be one, and not a user's own hash that looks like one.
pub(crate) fn state(
    key: &Key<'_>,
    owner: Option<StringRef<'_>>,
    is_known: impl FnOnce() -> bool,
    now: impl FnOnce() -> UnixMs,
) -> Result<Fields, Error> {
    match key.key_type() {
        KeyType::Empty => return Ok(Fields::FREE),
        KeyType::Hash => {}
        KeyType::SortedSet => return permits::state(key, owner, now()),
        KeyType::List | KeyType::String | KeyType::Other => return Err(Error::WrongType),
    }
    if key.len() != 1 {
        return read_write(key, owner, is_known);
    }
    if let Some(value) = owner.and_then(|owner| key.field(owner)) {
        return Ok(Fields::mutex(Some(shape::holds(&value)?)));
    }
    match only_field(key, |_, _| ())? {
        Some((SingleField::Hold(_), ())) => Ok(Fields::mutex(None)),
        Some((SingleField::ModeOnly, ())) | None => Ok(Fields::ABANDONED),
    }
}

/// Whether a key holds what looks like a read/write lock without a writer.
pub(crate) fn is_read(key: &Key<'_>) -> bool {
    key.key_type() == KeyType::Hash && key.len() > 1 && key.field(MODE.get()).as_deref() == Some(b"read")
}

/// Up to this number of fields, all are checked each time.
const FEW_FIELDS: usize = 8;

/// A hash of several fields, as this owner sees it.
fn read_write(
    key: &Key<'_>,
    owner: Option<StringRef<'_>>,
    is_known: impl FnOnce() -> bool,
) -> Result<Fields, Error> {
    let writing = shape::has_writer(key.field(MODE.get()).as_deref())?;
    let holds = |field: StringRef<'_>| key.field(field).map(|value| shape::holds(&value)).transpose();
    let reads = owner.map(holds).transpose()?.flatten();
    // A lock with readers has no writer.
    let writer = owner.filter(|_| writing);
    let write_field = writer.map(|owner| OwnedString::new(&names::write_field(owner.bytes())));
    let writes = write_field.map(|field| holds(field.borrow())).transpose()?.flatten();
    // A check of the fields of a middling hash costs more than all the rest.
    let is_clear = reads.is_some() || writes.is_some() || (key.len() > FEW_FIELDS && is_known());
    if !is_clear {
        check_fields(key)?;
    }
    let besides = 1_usize.saturating_add(reads.is_some().into()).saturating_add(writes.is_some().into());
    let kind = if writing { Kind::Writing } else { Kind::Reading };
    let others = key.len().saturating_sub(besides);
    Ok(Fields { kind, sole: writes, shared: reads, others, key_end: key.expiry() })
}

/// Refuses a hash with other fields than a lock's beside `mode`: it checks the fields that one step shows, which are
/// all of a small hash.
fn check_fields(key: &Key<'_>) -> Result<(), Error> {
    let mut refusal = None;
    let stepped = Scan::new().step(key, |field, value| {
        if let Err(error) = shape::rw_field(field, value) {
            refusal = Some(error);
        }
    });
    match (stepped, refusal) {
        (_, Some(error)) => Err(error),
        (Some(_), None) => Ok(()),
        (None, None) => Err(Error::Internal("the hash could not be read")),
    }
}

/// The only field of a hash of length 1, with what `with` makes of its name and value; `None` where the
/// server shows no field, since the one there has expired (HPEXPIRE).
pub(crate) fn only_field<T>(
    key: &Key<'_>,
    with: impl Fn(&[u8], SingleField) -> T,
) -> Result<Option<(SingleField, T)>, Error> {
    let mut found = None;
    let complete = key.for_each_field(|field, value| {
        found = Some(shape::single_field(field, value).map(|single| (single, with(field, single))));
    });
    if complete { found.transpose() } else { Err(Error::Internal("the hash could not be read")) }
}
