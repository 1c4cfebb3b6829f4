//! What a key holds, read as the state of a lock.

use rlock_core::shape::{self, SingleField};
use rlock_core::types::canonical_integer;
use rlock_core::{Error, LockState, names};

use crate::ffi::{Ctx, Key, KeyKind, OwnedString, StringRef};

/// Refuses, in cluster mode, a lock whose channel would fall in another slot.
pub(crate) fn check_slot(ctx: Ctx<'_>, name: StringRef<'_>) -> Result<(), Error> {
    if ctx.in_cluster() && !names::one_slot(name.bytes()) { Err(Error::CrossSlot) } else { Ok(()) }
}

/// Refuses a channel that the user may not use, and in cluster mode one in another slot than the lock's.
pub(crate) fn check_channel(ctx: Ctx<'_>, name: Option<StringRef<'_>>, channel: &[u8]) -> Result<(), Error> {
    let name = name.ok_or(Error::Arity)?.bytes();
    if ctx.in_cluster() && !names::channel_in_slot_of(name, channel) {
        return Err(Error::ChannelCrossSlot);
    }
    let allowed = ctx.may_publish_to(OwnedString::new(channel).borrow());
    if allowed { Ok(()) } else { Err(Error::NoPermission("the channel of ENQUEUE")) }
}

/// Refuses a lock whose last fencing token the user may not read and write.
pub(crate) fn check_token_key(ctx: Ctx<'_>, name: Option<StringRef<'_>>) -> Result<(), Error> {
    let allowed = ctx.may_change(token_key(name.ok_or(Error::Arity)?).borrow());
    if allowed { Ok(()) } else { Err(Error::NoPermission("the key of the lock's fencing token")) }
}

/// The name of the key that has a lock's last fencing token: Redisson's.
pub(crate) fn token_key(name: StringRef<'_>) -> OwnedString {
    OwnedString::new(&names::token_key(name.bytes()))
}

/// A lock's last fencing token, for a call that is about to give the next.
pub(crate) fn last_token(ctx: Ctx<'_>, name: StringRef<'_>) -> Result<Option<i64>, Error> {
    let token_name = token_key(name);
    let key = Key::open_write(ctx, token_name.borrow());
    match key.kind() {
        KeyKind::Empty if ctx.is_missing(token_name.borrow(), name) => Ok(None),
        KeyKind::Empty => Err(Error::TokenElsewhere),
        KeyKind::String => key.string().and_then(canonical_integer).ok_or(Error::NotAToken).map(Some),
        KeyKind::Hash | KeyKind::List | KeyKind::Other => Err(Error::TokenWrongType),
    }
}

/// The state of the lock as this owner sees it; as a stranger does, where none is given.
pub(crate) fn state(key: &Key<'_>, owner: Option<StringRef<'_>>) -> Result<LockState, Error> {
    match key.kind() {
        KeyKind::Empty => return Ok(LockState::Free),
        KeyKind::Hash => {}
        KeyKind::List | KeyKind::String | KeyKind::Other => return Err(Error::WrongType),
    }
    if key.len() != 1 {
        let mode = key.field(OwnedString::new(shape::MODE_FIELD).borrow());
        return Err(shape::several_fields(mode.as_deref()));
    }
    if let Some(value) = owner.and_then(|owner| key.field(owner)) {
        let holds = shape::holds(&value)?;
        return Ok(LockState::Mine { holds, expiry: key.expiry() });
    }
    match only_field(key, |_, _| ())? {
        Some((SingleField::Hold(_), ())) => Ok(LockState::Theirs),
        Some((SingleField::ModeOnly, ())) | None => Ok(LockState::Abandoned),
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
