//! The one executor of decisions: it writes, signals and replicates a change at once; its events, and what is published, follow when
//! the core says so.
//!
//! Every change is sent as its effects (DEL, HSET, PEXPIREAT with an absolute time, SET), so that neither a
//! replica nor the replay of an AOF needs the module. The server sends what one command replicates as one
//! transaction. A decision that changes nothing is not performed, so that it does not signal WATCH.

use std::ffi::CStr;

use rlock_core::decision::UnlockMessage;
use rlock_core::rare_warning::RareWarning;
use rlock_core::{Change, Error, KeyChange, LockEvent, Mode, Token, names};

use crate::ffi::{Ctx, EventClass, Key, ONE, OwnedString, ScopedCtx, StringRef, ZERO, warn_rarely};
use crate::scope::Scope;
use crate::stats::STATS;
use crate::{effects, keyspace};

mod fair_list;
mod lock_key;
mod read_write;

pub(crate) use fair_list::{FairKeys, is_writing};
use read_write::LeaseKeys;

/// The facts for the events of a change that the change itself does not contain; `None` for most changes. Behind a pointer: the
/// facts of a plain lock are moved from hand to hand, and stay small.
pub(crate) struct Performed(Option<Box<Written>>);

/// What was written besides, and was there to remove.
struct Written {
    token: Option<StoredToken>,
    leases: Option<LeaseKeys>,
    /// Whether fields or members of dead holders were removed.
    buried: bool,
}

impl Performed {
    #[inline(always)]
    fn of(token: Option<StoredToken>, leases: Option<LeaseKeys>, buried: bool) -> Self {
        match (token, leases, buried) {
            (None, None, false) => Self(None),
            (token, leases, buried) => Self(Some(Box::new(Written { token, leases, buried }))),
        }
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
    let name = key.name();
    // A writer's field has another name than its owner; for all else the owner's own string will do.
    let writer = if change.mode == Mode::Write { owner.map(write_field) } else { None };
    let entry = writer.as_ref().map(OwnedString::borrow).or(owner);
    let buried = lock_key::write(&mut key, entry, change)?;
    drop(key);
    let touched = change.key != KeyChange::Keep || change.expire_at.is_some() || !change.buried().is_empty();
    if touched {
        ctx.signal_modified(name);
    }
    let sends = !S::count_if_unread(ctx);
    if sends {
        note_failure(lock_key::replicate(*ctx, name, entry, change, buried.as_deref().unwrap_or_default()));
    }
    // Not earlier: an expired lease key or token is deleted when it is opened, and another module that reacts to that may call rlock.
    // Its effects come after those of this change.
    let leases = LeaseKeys::of(name, owner, change);
    leases.as_ref().map_or(Ok(()), |leases| leases.write(*ctx))?;
    let token = change.token.map(|token| write_token(*ctx, name, token)).transpose()?;
    if sends {
        note_failure(token.as_ref().is_none_or(|(key, token)| ctx.replicate_set(key.borrow(), token.get())));
        note_failure(leases.as_ref().is_none_or(|leases| leases.replicate(*ctx)));
    }
    Ok(Performed::of(token, leases, buried.is_some()))
}

/// Raises the events of a change that was made. Other modules receive them at once.
#[inline(always)]
pub(crate) fn raise(ctx: Ctx<'_>, name: StringRef<'_>, change: &Change, performed: &Performed) {
    let written = performed.0.as_deref();
    lock_key::notify(ctx, name, change, written.is_some_and(|written| written.buried));
    if let Some((key, _)) = written.and_then(|written| written.token.as_ref()) {
        ctx.notify(EventClass::String, c"set", key.borrow());
    }
    if let Some(event) = change.event {
        ctx.notify(EventClass::Module, own(event), name);
    }
    if let Some(leases) = written.and_then(|written| written.leases.as_ref()) {
        leases.notify(ctx);
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

/// A token that was stored, with the name of its key.
type StoredToken = (OwnedString, Token);

/// Stores a lock's last fencing token. The lock's own key is closed: the server may notify other
/// modules. It fails only on a key that is not open for writing, as [`lock_key::write`] does.
fn write_token(ctx: Ctx<'_>, name: StringRef<'_>, token: Token) -> Result<StoredToken, Error> {
    let key = keyspace::token_key(name);
    let stored = Key::open_write(ctx, key.borrow()).set_integer(token.get());
    ctx.signal_modified(key.borrow());
    if stored { Ok((key, token)) } else { Err(Error::Internal("the server refused a write")) }
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
