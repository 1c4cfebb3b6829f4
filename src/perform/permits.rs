//! The changes of permits: members of a sorted set, whose scores are lease ends.

use rlock_core::{Change, Error, HashChange};

use super::{Performed, deletes, note_failure, own};
use crate::ffi::{Ctx, EventClass, Key, OwnedString, ScopedCtx, StringRef, own_event};
use crate::scope::Scope;

/// Performs a change of the permits at `key`, as [`super::perform`] does for other locks.
#[inline(never)]
pub(super) fn write_permits<S: Scope>(
    ctx: ScopedCtx<'_, S>,
    mut key: Key<'_>,
    owner: Option<StringRef<'_>>,
    change: &Change,
) -> Result<Performed, Error> {
    let name = key.name();
    let ended = remove_ended(&mut key, change);
    write(&mut key, owner, change)?;
    drop(key);
    ctx.signal_modified(name);
    if !S::count_if_unread(ctx) {
        note_failure(replicate(*ctx, name, owner, change, &ended));
    }
    Ok(Performed::of(None, None, !ended.is_empty()))
}

/// Removes the ended permits that the look found, and returns the owners of those that were there.
fn remove_ended(key: &mut Key<'_>, change: &Change) -> Vec<OwnedString> {
    let mut removed = Vec::new();
    for permit in change.buried() {
        let owner = OwnedString::new(&permit.owner);
        if key.remove_member(owner.borrow()) {
            removed.push(owner);
        }
    }
    removed
}

/// Each of these fails only on a key that is not open for writing, and then the first one does.
fn write(key: &mut Key<'_>, owner: Option<StringRef<'_>>, change: &Change) -> Result<(), Error> {
    let deleted = !deletes(change.hash) || key.unlink();
    let set = match (change.permit_end(), owner) {
        (Some(end), Some(owner)) => key.set_score(owner, end),
        (Some(_), None) => false,
        (None, _) => true,
    };
    if let (HashChange::Remove, Some(owner)) = (change.hash, owner) {
        key.remove_member(owner);
    }
    let expires = change.expire_at.is_none_or(|at| key.set_expiry(at));
    if deleted && set && expires { Ok(()) } else { Err(Error::Internal("the server refused a write")) }
}

fn replicate(
    ctx: Ctx<'_>,
    name: StringRef<'_>,
    owner: Option<StringRef<'_>>,
    change: &Change,
    ended: &[OwnedString],
) -> bool {
    let deleted = !deletes(change.hash) || ctx.replicate_del(name);
    let buried = ended.iter().all(|owner| ctx.replicate_zrem(name, owner.borrow()));
    let set = match (change.permit_end(), owner) {
        (Some(end), Some(owner)) => ctx.replicate_zadd(name, owner, end),
        _ => true,
    };
    let removed = match (change.hash, owner) {
        (HashChange::Remove, Some(owner)) => ctx.replicate_zrem(name, owner),
        _ => true,
    };
    let expires = change.expire_at.is_none_or(|at| ctx.replicate_pexpireat(name, at));
    deleted && buried && set && removed && expires
}

/// Raises the events of a change, which may have removed ended permits as well.
pub(super) fn notify(ctx: Ctx<'_>, name: StringRef<'_>, change: &Change, buried: bool) {
    if deletes(change.hash) {
        ctx.notify(EventClass::Generic, own_event::DEL, name);
    }
    if buried || change.hash == HashChange::Remove {
        ctx.notify(EventClass::SortedSet, own_event::ZREM, name);
    }
    if change.permit_end().is_some() {
        ctx.notify(EventClass::SortedSet, own_event::ZADD, name);
    }
    if change.expire_at.is_some() {
        ctx.notify(EventClass::Generic, own_event::EXPIRE, name);
    }
    if let Some(event) = change.event {
        ctx.notify(EventClass::Module, own(event), name);
    }
}
