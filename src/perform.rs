//! The one executor of decisions: it writes, signals and replicates a change at once; its events, and what is published, follow when
//! the core says so.
//!
//! Every change goes out as its effect (DEL, HSET, PEXPIREAT with an absolute time, SET), so that neither a
//! replica nor the replay of an AOF needs the module. The server sends what one command replicates as
//! one transaction. A decision that changes nothing does not come here, so that it does not signal WATCH.

use std::ffi::CStr;

use rlock_core::decision::UnlockMessage;
use rlock_core::rare_warning::RareWarning;
use rlock_core::{Change, Error, HashChange, LockEvent, Mode, Token, UnixMs, names};

use crate::ffi::{
    Ctx, EventClass, Key, MODE, ONE, OwnedString, ScopedCtx, StringRef, ZERO, own_event, warn_rarely,
};
use crate::scope::Scope;
use crate::stats::STATS;
use crate::{effects, keyspace};

mod fair_list;
mod permits;
mod read_write;

pub(crate) use fair_list::{FairKeys, is_writing};

/// The facts for the events of a change that the change itself does not contain; `None` for most changes. Behind a pointer: the facts of a plain
/// lock are moved from hand to hand, and stay small.
pub(crate) struct Performed(Option<Box<Written>>);

/// What was written beside the lock's own key.
struct Written {
    token: Option<StoredToken>,
    readers: Option<read_write::Readers>,
    /// Whether ended permits were removed.
    ended: bool,
}

impl Performed {
    #[inline(always)]
    fn of(token: Option<StoredToken>, readers: Option<read_write::Readers>, ended: bool) -> Self {
        let is_plain = token.is_none() && readers.is_none() && !ended;
        Self((!is_plain).then(|| Box::new(Written { token, readers, ended })))
    }
}

/// Performs a change of the lock at `key`; `owner` is the caller's field, where it may have one. Outside
/// a command effects are always built: there is no command that could be counted instead.
///
/// The key is closed as soon as it is written. The events follow in [`raise`].
pub(crate) fn perform<S: Scope>(
    ctx: ScopedCtx<'_, S>,
    mut key: Key<'_>,
    owner: Option<StringRef<'_>>,
    change: &Change,
) -> Result<Performed, Error> {
    if change.mode == Mode::Permit {
        return permits::write_permits(ctx, key, owner, change);
    }
    let name = key.name();
    // A writer's field has another name than its owner; for all else the owner's own string will do.
    let writer = if change.mode == Mode::Write { owner.map(write_field) } else { None };
    let field = writer.as_ref().map(OwnedString::borrow).or(owner);
    let readers = read_write::Readers::bury(&mut key, owner, change);
    write(&mut key, field, change)?;
    drop(key);
    let touched =
        change.hash != HashChange::Keep || change.expire_at.is_some() || !change.buried().is_empty();
    if touched {
        ctx.signal_modified(name);
    }
    let sends = !S::count_if_unread(ctx);
    if sends {
        note_failure(readers.as_ref().is_none_or(|readers| readers.replicate_burial(*ctx, name)));
        note_failure(replicate(*ctx, name, field, change));
    }
    // Not earlier: an expired lease key or token is deleted when it is opened, and another module that reacts to that may call rlock.
    // Its effects come after those of this change.
    readers.as_ref().map_or(Ok(()), |readers| readers.write_leases(*ctx))?;
    let token = change.token.map(|token| write_token(*ctx, name, token)).transpose()?;
    if sends {
        note_failure(token.as_ref().is_none_or(|(key, token)| ctx.replicate_set(key.borrow(), token.get())));
        note_failure(readers.as_ref().is_none_or(|readers| readers.replicate_leases(*ctx)));
    }
    Ok(Performed::of(token, readers, false))
}

/// Raises the events of a change that was made. Other modules receive them at once.
#[inline(always)]
pub(crate) fn raise(ctx: Ctx<'_>, name: StringRef<'_>, change: &Change, performed: &Performed) {
    let written = performed.0.as_deref();
    if change.mode == Mode::Permit {
        return permits::notify(ctx, name, change, written.is_some_and(|written| written.ended));
    }
    let readers = written.and_then(|written| written.readers.as_ref());
    if let Some(readers) = readers {
        readers.notify_burial(ctx, name);
    }
    notify(ctx, name, change, written.and_then(|written| written.token.as_ref()));
    if let Some(readers) = readers {
        readers.notify_leases(ctx);
    }
}

static REFUSED: RareWarning = RareWarning::new();

fn note_failure(replicated: bool) {
    if !replicated {
        STATS.replication_failures.add(1);
        warn_rarely(
            &REFUSED,
            "the server refused an effect: replicas or the AOF lack a change; resynchronise the replicas, rewrite the AOF",
        );
    }
}

/// The holds to set, after deleting the old content if the change replaces it.
fn to_set(hash: HashChange) -> Option<i64> {
    match hash {
        HashChange::Set(holds) | HashChange::Replace(holds) => Some(holds.get()),
        HashChange::Keep | HashChange::Remove | HashChange::Delete => None,
    }
}

fn deletes(hash: HashChange) -> bool {
    matches!(hash, HashChange::Delete | HashChange::Replace(_))
}

/// Each of these fails only on a key that is not open for writing, and then the first one does: where an
/// error is answered, nothing has changed.
#[inline(always)]
fn write(key: &mut Key<'_>, field: Option<StringRef<'_>>, change: &Change) -> Result<(), Error> {
    let deleted = !deletes(change.hash) || key.delete();
    let becomes = change.becomes.is_none_or(|mode| key.set_text(MODE.get(), read_write::word(mode)));
    let set = match (to_set(change.hash), field) {
        (Some(holds), Some(field)) => key.set_field(field, holds),
        (Some(_), None) => false,
        (None, _) => true,
    };
    if let (HashChange::Remove, Some(field)) = (change.hash, field) {
        key.remove_field(field);
    }
    let expires = change.expire_at.is_none_or(|at| key.set_expiry(at));
    if deleted && becomes && set && expires && read_write::unpack(key, change) {
        Ok(())
    } else {
        Err(Error::Internal("the server refused a write"))
    }
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

fn replicate(ctx: Ctx<'_>, name: StringRef<'_>, field: Option<StringRef<'_>>, change: &Change) -> bool {
    let deleted = !deletes(change.hash) || ctx.replicate_del(name);
    let mode = change.becomes.map(|mode| [MODE.get(), read_write::word(mode)]);
    let set = match (to_set(change.hash), field, mode) {
        (Some(holds), Some(field), None) => ctx.replicate_hset(name, field, holds),
        (Some(holds), Some(field), Some(mode)) => ctx.replicate_hset_mode(name, mode, field, holds),
        (None, _, Some([mode_field, mode])) => ctx.replicate_hset_text(name, mode_field, mode),
        _ => true,
    };
    let removed = match (change.hash, field) {
        (HashChange::Remove, Some(field)) => ctx.replicate_hdel(name, field),
        _ => true,
    };
    let expires = change.expire_at.is_none_or(|at: UnixMs| ctx.replicate_pexpireat(name, at));
    deleted && set && removed && expires
}

#[inline(always)]
fn notify(ctx: Ctx<'_>, name: StringRef<'_>, change: &Change, token: Option<&StoredToken>) {
    if deletes(change.hash) {
        ctx.notify(EventClass::Generic, own_event::DEL, name);
    }
    if to_set(change.hash).is_some() || change.becomes.is_some() {
        ctx.notify(EventClass::Hash, own_event::HSET, name);
    }
    if change.hash == HashChange::Remove {
        ctx.notify(EventClass::Hash, own_event::HDEL, name);
    }
    if change.expire_at.is_some() {
        ctx.notify(EventClass::Generic, own_event::EXPIRE, name);
    }
    if let Some((key, _)) = token {
        ctx.notify(EventClass::String, c"set", key.borrow());
    }
    if let Some(event) = change.event {
        ctx.notify(EventClass::Module, own(event), name);
    }
}

/// The name of an event of rlock.
fn own(event: LockEvent) -> &'static CStr {
    match event {
        LockEvent::Acquire => c"rlock.acquire",
        LockEvent::Release => c"rlock.release",
        LockEvent::HandOff => c"rlock.handoff",
        LockEvent::ForceRelease => c"rlock.forcerelease",
    }
}

/// Tells waiting Redisson clients to try again. Returns whether the fair list has entries, whose head was called as well.
pub(crate) fn publish(ctx: Ctx<'_>, name: StringRef<'_>, message: UnlockMessage) -> bool {
    let channel = || names::read_write_channel(name.bytes());
    match message {
        UnlockMessage::Free => return publish_free(ctx, name),
        UnlockMessage::ReadersGone => publish_to(ctx, &channel(), ZERO.get()),
        UnlockMessage::WriterGone => {
            // `1` makes sleepers check; a client that has tried and is about to sleep gets only `0`, kept for it.
            publish_to(ctx, &channel(), ZERO.get());
            publish_to(ctx, &channel(), ONE.get());
        }
    }
    false
}

/// A waiter for Redisson's fair lock listens on a channel of its own; the head of the fair list is called.
fn publish_free(ctx: Ctx<'_>, name: StringRef<'_>) -> bool {
    let mut names = names::Prefixed::of(name.bytes());
    let head = list_head(ctx, names.fair_list_key());
    publish_to(ctx, names.unlock_channel(), ZERO.get());
    if let Some(head) = &head {
        publish_to(ctx, &names::fair_channel(names.unlock_channel(), head), ZERO.get());
    }
    head.is_some()
}

/// How many clients of this server listen, by name, on the channels of a message.
pub(crate) fn listeners(ctx: Ctx<'_>, name: StringRef<'_>, message: UnlockMessage) -> u64 {
    let on = |channel: &[u8]| ctx.listeners(OwnedString::new(channel).borrow());
    if message != UnlockMessage::Free {
        return on(&names::read_write_channel(name.bytes()));
    }
    let mut names = names::Prefixed::of(name.bytes());
    let called = list_head(ctx, names.fair_list_key())
        .map_or(0, |head| on(&names::fair_channel(names.unlock_channel(), &head)));
    on(names.unlock_channel()).saturating_add(called)
}

/// Publishes an unlock message on one channel.
pub(crate) fn publish_to(ctx: Ctx<'_>, channel: &[u8], message: StringRef<'_>) {
    let channel = OwnedString::new(channel);
    STATS.unlock_messages.add(1);
    note_failure(!effects::are_replicated() || ctx.publish_to_replicas(channel.borrow(), message));
    ctx.publish_here(channel.borrow(), message);
}

/// The first entry of a list.
fn list_head(ctx: Ctx<'_>, list: &[u8]) -> Option<OwnedString> {
    let list = OwnedString::new(list);
    Key::open_write(ctx, list.borrow()).list_head()
}

/// The field of a writer.
#[cold]
fn write_field(owner: StringRef<'_>) -> OwnedString {
    OwnedString::new(&names::write_field(owner.bytes()))
}
