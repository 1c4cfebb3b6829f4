//! The one executor of decisions: writes, signals, replicates, notifies and publishes, in this order.
//!
//! Every change goes out as its effect (DEL, HSET, PEXPIREAT with an absolute time), so that neither a
//! replica nor the replay of an AOF needs the module. The server sends what one command replicates as
//! one transaction. A decision that changes nothing does nothing here, not even a signal to WATCH.

use rlock_core::decide::UnlockMessage;
use rlock_core::{Change, Error, HashChange, LockEvent, UnixMs, names};

use crate::events;
use crate::ffi::{Ctx, EventClass, Key, OwnedString, StringRef, warn};
use crate::stats::STATS;

/// Performs a change of the lock at `key`; `owner` is the caller's field, where it may have one.
pub(crate) fn perform(
    ctx: Ctx<'_>,
    key: &mut Key<'_>,
    owner: Option<StringRef<'_>>,
    change: &Change,
) -> Result<(), Error> {
    if change.hash == HashChange::Keep && change.expire_at.is_none() {
        return Ok(());
    }
    write(key, owner, change)?;
    let name = key.name();
    ctx.signal_modified(name);
    note_failure(replicate(ctx, name, owner, change));
    events::quietly(|| notify(ctx, name, change));
    if let Some(message) = change.unlock_message {
        publish(ctx, name, message);
    }
    Ok(())
}

fn note_failure(replicated: bool) {
    if !replicated {
        STATS.replication_failures.add(1);
        warn(c"the server did not take an effect for replicas and AOF");
    }
}

/// The holds to set, after deleting what was there where that is to be.
fn to_set(hash: HashChange) -> Option<i64> {
    match hash {
        HashChange::Set(holds) | HashChange::Replace(holds) => Some(holds.get()),
        HashChange::Keep | HashChange::Delete => None,
    }
}

fn deletes(hash: HashChange) -> bool {
    matches!(hash, HashChange::Delete | HashChange::Replace(_))
}

fn write(key: &mut Key<'_>, owner: Option<StringRef<'_>>, change: &Change) -> Result<(), Error> {
    let deleted = !deletes(change.hash) || key.delete();
    let set = match (to_set(change.hash), owner) {
        (Some(holds), Some(owner)) => key.set_field(owner, holds),
        (Some(_), None) => false,
        (None, _) => true,
    };
    let expires = change.expire_at.is_none_or(|at| key.set_expiry(at));
    if deleted && set && expires { Ok(()) } else { Err(Error::Internal("the server refused a write")) }
}

fn replicate(ctx: Ctx<'_>, name: StringRef<'_>, owner: Option<StringRef<'_>>, change: &Change) -> bool {
    let deleted = !deletes(change.hash) || ctx.replicate_del(name);
    let set = match (to_set(change.hash), owner) {
        (Some(holds), Some(owner)) => ctx.replicate_hset(name, owner, holds),
        _ => true,
    };
    let expires = change.expire_at.is_none_or(|at: UnixMs| ctx.replicate_pexpireat(name, at));
    deleted && set && expires
}

fn notify(ctx: Ctx<'_>, name: StringRef<'_>, change: &Change) {
    if deletes(change.hash) {
        ctx.notify(EventClass::Generic, c"del", name);
    }
    if to_set(change.hash).is_some() {
        ctx.notify(EventClass::Hash, c"hset", name);
    }
    if change.expire_at.is_some() {
        ctx.notify(EventClass::Generic, c"expire", name);
    }
    if let Some(event) = change.event {
        let event = match event {
            LockEvent::Acquire => c"rlock.acquire",
            LockEvent::Release => c"rlock.release",
            LockEvent::HandOff => c"rlock.handoff",
            LockEvent::ForceRelease => c"rlock.forcerelease",
        };
        ctx.notify(EventClass::Module, event, name);
    }
}

/// Tells those who wait by Redisson's protocol to try again, and says how many here heard it.
pub(crate) fn publish(ctx: Ctx<'_>, name: StringRef<'_>, message: UnlockMessage) -> u64 {
    let channel = OwnedString::new(&names::unlock_channel(name.bytes()));
    let message = match message {
        UnlockMessage::Free => OwnedString::new(b"0"),
    };
    STATS.unlock_messages.add(1);
    let heard = ctx.publish_here(channel.borrow(), message.borrow());
    note_failure(ctx.publish_to_replicas(channel.borrow(), message.borrow()));
    heard
}
