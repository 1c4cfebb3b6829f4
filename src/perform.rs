//! The one executor of decisions: writes, signals, replicates, notifies and publishes, in this order.
//!
//! Every change goes out as its effect (DEL, HSET, PEXPIREAT with an absolute time, SET), so that neither a
//! replica nor the replay of an AOF needs the module. The server sends what one command replicates as
//! one transaction. A decision that changes nothing does not come here, so that it does not signal WATCH.

use rlock_core::bugs::{Bug, planted};
use rlock_core::decide::UnlockMessage;
use rlock_core::{Change, Error, HashChange, LockEvent, Token, UnixMs, names};

use crate::ffi::{Ctx, EventClass, Key, OwnedString, StringRef, ZERO, own_event, warn};
use crate::stats::STATS;
use crate::{effects, keyspace};

/// Performs a change of the lock at `key`; `owner` is the caller's field, where it may have one. Outside
/// a command effects are always built: there is no command that could be counted instead.
///
/// The key is closed as soon as it is written: other modules hear of the events at once, and may delete it.
pub(crate) fn perform(
    ctx: Ctx<'_>,
    mut key: Key<'_>,
    owner: Option<StringRef<'_>>,
    change: &Change,
    in_command: bool,
) -> Result<(), Error> {
    let name = key.name();
    if let Some(message) = change.unlock_message.filter(|_| planted(Bug::EdgePublishBeforeWrite)) {
        publish(ctx, name, message);
    }
    write(&mut key, owner, change)?;
    drop(key);
    let token = change.token.map(|token| write_token(ctx, name, token)).transpose()?;
    let touched = change.hash != HashChange::Keep || change.expire_at.is_some();
    if touched && !planted(Bug::EdgeChangeNotSignalled) {
        ctx.signal_modified(name);
    }
    let read = !in_command || effects::are_read(ctx);
    if read {
        note_failure(replicate(ctx, name, owner, change, token.as_ref()));
    } else {
        STATS.unread_changes.add(1);
        ctx.count_change();
    }
    notify(ctx, name, change, token.as_ref());
    if let Some(message) = change.unlock_message.filter(|_| !planted(Bug::EdgePublishBeforeWrite)) {
        send(ctx, name, message, read);
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

/// Each of these fails only on a key that is not open for writing, and then the first one does: where an
/// error is answered, nothing has changed.
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

/// A token that was stored, with the name of its key.
type StoredToken = (OwnedString, Token);

/// Stores a lock's last fencing token. The lock's own key is closed: the server may tell others of this.
/// It fails only on a key that is not open for writing, as [`write`] does.
fn write_token(ctx: Ctx<'_>, name: StringRef<'_>, token: Token) -> Result<StoredToken, Error> {
    let key = keyspace::token_key(name);
    let stored = Key::open_write(ctx, key.borrow()).set_integer(token.get());
    ctx.signal_modified(key.borrow());
    if stored { Ok((key, token)) } else { Err(Error::Internal("the server refused a write")) }
}

fn replicate(
    ctx: Ctx<'_>,
    name: StringRef<'_>,
    owner: Option<StringRef<'_>>,
    change: &Change,
    token: Option<&StoredToken>,
) -> bool {
    if planted(Bug::EdgeHandOffNotReplicated) && change.event == Some(LockEvent::HandOff) {
        return true;
    }
    let deleted = !deletes(change.hash) || ctx.replicate_del(name);
    let set = match (to_set(change.hash), owner) {
        (Some(holds), Some(owner)) => ctx.replicate_hset(name, owner, holds),
        _ => true,
    };
    let expire_at = change.expire_at.filter(|_| !planted(Bug::EdgeExpiryNotReplicated));
    let expires = expire_at.is_none_or(|at: UnixMs| ctx.replicate_pexpireat(name, at));
    let token = token.filter(|_| !planted(Bug::EdgeTokenNotReplicated));
    let stored = token.is_none_or(|(key, token)| ctx.replicate_set(key.borrow(), token.get()));
    deleted && set && expires && stored
}

fn notify(ctx: Ctx<'_>, name: StringRef<'_>, change: &Change, token: Option<&StoredToken>) {
    if deletes(change.hash) {
        ctx.notify(EventClass::Generic, own_event::DEL, name);
    }
    if to_set(change.hash).is_some() {
        ctx.notify(EventClass::Hash, own_event::HSET, name);
    }
    if change.expire_at.is_some() {
        ctx.notify(EventClass::Generic, own_event::EXPIRE, name);
    }
    if let Some((key, _)) = token {
        ctx.notify(EventClass::String, c"set", key.borrow());
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
///
/// Who waits for Redisson's fair lock listens on a channel of its own; the head of that queue is called.
pub(crate) fn publish(ctx: Ctx<'_>, name: StringRef<'_>, message: UnlockMessage) -> u64 {
    send(ctx, name, message, effects::are_read(ctx))
}

fn send(ctx: Ctx<'_>, name: StringRef<'_>, message: UnlockMessage, to_replicas: bool) -> u64 {
    if planted(Bug::EdgeUnlockMessageLost) {
        return 0;
    }
    let channel = names::unlock_channel(name.bytes());
    let message = match message {
        UnlockMessage::Free => ZERO.get(),
    };
    let fair_queue = OwnedString::new(&names::fair_queue(name.bytes()));
    let head = Key::open_write(ctx, fair_queue.borrow()).list_head();
    let to_head = head.map(|head| names::fair_channel(&channel, &head));
    let heard = [Some(channel), to_head].into_iter().flatten().map(|channel| {
        let channel = OwnedString::new(&channel);
        STATS.unlock_messages.add(1);
        note_failure(!to_replicas || ctx.publish_to_replicas(channel.borrow(), message));
        ctx.publish_here(channel.borrow(), message)
    });
    heard.sum()
}
