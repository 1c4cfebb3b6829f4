//! What happens outside our commands. Nothing is written here: a lock that may have become free is only
//! marked, and looked at by the timer.

use std::cell::Cell;
use std::ffi::CStr;

use rlock_core::events::ListChange;
use rlock_core::locks::{Cause, Databases, LockName, LockRef};
use rlock_core::slots::SlotRange;
use rlock_core::{MonoMs, departures, events, names, sessions, timing};

use crate::ffi::{EventCtx, ServerEvent, Shared, SlotMove, StringRef, TaskCtx, is_primary};
use crate::site::SiteLock;
use crate::{arriving, discovery, effects, eviction, keyspace, perform, waiters};

/// Wall clock minus the clock that never steps, in ms, as of the last beat.
static CLOCK_OFFSET: Shared<Cell<Option<i64>>> = Shared::cell(None);

/// Beats so far.
static BEATS: Shared<Cell<u32>> = Shared::cell(0);

/// About ten seconds.
const BEATS_BETWEEN_SWEEPS: u32 = 100;

/// How many locks' records are looked at in a beat for what time has ended: a million in some two minutes.
const RECORDS_AT_A_BEAT: usize = 1_000;

/// About a second: what could not be written, since its slot is on its way, is tried as often.
const BEATS_BETWEEN_TRIES: u32 = 10;

/// A step of the wall clock that is worth looking at every lock, in ms: more than it drifts between beats.
const CLOCK_STEP_MS: i64 = 50;

/// A key was changed, deleted, renamed, or has expired, and it is not ourselves who told of it.
pub(crate) fn key_changed(ctx: EventCtx<'_>, key: StringRef<'_>, event: &CStr) {
    match event.to_bytes() {
        b"expire" => {
            events::expiry_set(waiters::core(&ctx), &mut SiteLock::new(ctx, key));
        }
        b"restore" => key_came(ctx, key),
        _ => {}
    }
    if waiters::locks(|locks| locks.doubts_fair_lists())
        && !perform::is_writing()
        && let Some(name) = names::lock_of_fair_key(key.bytes())
    {
        events::fair_list_met(waiters::core(&ctx), LockName { db: ctx.db(), key: name });
    }
    if waiters::locks(|locks| !locks.is_watched() && !locks.knows_read_ends() && !locks.knows_ends()) {
        return;
    }
    if !perform::is_writing() {
        for name in names::locks_of_fair_key(key.bytes()).into_iter().flatten() {
            let change = match event.to_bytes() {
                // Another waiter has joined, at the end: nobody was dropped.
                b"rpush" | b"zadd" => continue,
                b"lpop" | b"lpush" => ListChange::AtAnEnd,
                _ => ListChange::Anywhere,
            };
            events::fair_list_changed(waiters::core(&ctx), LockName { db: ctx.db(), key: name }, change);
        }
    }
    events::key_changed(waiters::core(&ctx), keyspace::lock_name(*ctx, key), cause(event));
}

/// A key came from another server, by RESTORE: of a lock and what belongs to it, each may be the last to come.
fn key_came(ctx: EventCtx<'_>, key: StringRef<'_>) {
    if !is_primary(*ctx) {
        return;
    }
    let core = waiters::core(&ctx);
    if let Some(lock) = names::lock_of_fair_key(key.bytes()) {
        events::fair_list_found(core, LockRef { db: ctx.db(), key: lock.into() });
    } else if names::is_read_lease_key(key.bytes()) {
        for (lock, ..) in names::readers_of_lease_key(key.bytes()) {
            events::read_lease_came(core, LockName { db: ctx.db(), key: lock });
        }
    } else {
        events::key_came(core, &mut SiteLock::new(ctx, key));
    }
}

/// A sorted set was changed, and it is not ourselves who told of it.
pub(crate) fn sorted_set_changed(ctx: EventCtx<'_>, key: StringRef<'_>) {
    if waiters::locks(|locks| locks.is_watched()) {
        events::key_changed(waiters::core(&ctx), keyspace::lock_name(*ctx, key), Cause::Other);
    }
}

/// Why a lock is free after this event, if it is.
fn cause(event: &CStr) -> Cause {
    match event.to_bytes() {
        b"del" => Cause::Deleted,
        b"expired" => Cause::Expired,
        b"evicted" => Cause::Evicted,
        b"rename_from" | b"rename_to" | b"move_from" | b"move_to" => Cause::Renamed,
        _ => Cause::Other,
    }
}

/// Something happened to the server.
pub(crate) fn server_event(ctx: EventCtx<'_>, event: ServerEvent) {
    match event {
        ServerEvent::Flushed(databases) => {
            events::databases_changed(waiters::core(&ctx), databases, Cause::Flushed)
        }
        ServerEvent::Swapped(pair) => {
            for db in pair {
                events::databases_changed(waiters::core(&ctx), Databases::One(db), Cause::Swapped);
            }
        }
        ServerEvent::Demoted => departures::demoted(waiters::core(&ctx)),
        ServerEvent::Promoted => {
            departures::promoted(waiters::core(&ctx));
            effects::begin();
            discovery::promoted(*ctx);
        }
        ServerEvent::Loads(from) => discovery::loads(*ctx, from),
        ServerEvent::Synchronised => departures::synchronised(waiters::core(&ctx)),
        ServerEvent::Loaded => {
            // Some servers tell of the link later than they are ready to be promoted.
            if is_primary(*ctx) {
                events::data_came(waiters::core(&ctx));
            } else {
                departures::synchronised(waiters::core(&ctx));
            }
            discovery::loaded(*ctx);
        }
        ServerEvent::Slots(moves, ranges) => slots_move(ctx, moves, &ranges),
        ServerEvent::Snapshot => effects::begin(),
        ServerEvent::Disconnected(client) => sessions::connection_ended(waiters::core(&ctx), client),
        ServerEvent::MaxMemoryChanged => eviction::check(*ctx),
    }
}

/// Slots move as a whole.
fn slots_move(ctx: EventCtx<'_>, moves: SlotMove, ranges: &[SlotRange]) {
    match moves {
        SlotMove::Begins => arriving::begin(ranges),
        SlotMove::Came | SlotMove::Failed => arriving::end(ranges),
        SlotMove::Left => {}
    }
    if !is_primary(*ctx) {
        return;
    }
    match moves {
        // Also before slots come: they may have been here before.
        SlotMove::Begins | SlotMove::Left => events::slots_elsewhere(waiters::core(&ctx), ranges),
        SlotMove::Came => events::data_came(waiters::core(&ctx)),
        SlotMove::Failed => {}
    }
}

/// The server's heart beats.
pub(crate) fn beat(ctx: TaskCtx<'_>) {
    effects::look(*ctx);
    waiters::clear_doubt(&ctx);
    let beats = BEATS.get().wrapping_add(1);
    BEATS.replace(beats);
    if ctx.in_cluster() && beats.is_multiple_of(BEATS_BETWEEN_TRIES) {
        events::retry_deferred(waiters::core(&ctx));
    }
    let MonoMs(clock) = ctx.clock();
    let offset = ctx.real_time().0.saturating_sub_unsigned(clock);
    let before = CLOCK_OFFSET.replace(Some(offset));
    let stepped = before.is_some_and(|before| before.abs_diff(offset) > CLOCK_STEP_MS.unsigned_abs());
    waiters::locks(|locks| locks.forget_old(ctx.real_time(), ctx.clock(), RECORDS_AT_A_BEAT));
    if !waiters::locks(|locks| locks.is_watched()) {
        return;
    }
    sessions::on_beat(waiters::core(&ctx));
    if stepped {
        events::clock_stepped(waiters::core(&ctx));
        timing::restart_timer(waiters::core(&ctx));
    }
    if beats.is_multiple_of(BEATS_BETWEEN_SWEEPS) {
        events::sweep_periodically(waiters::core(&ctx));
    }
    if ctx.in_cluster() {
        // A slot that leaves this server takes its keys along without an event on some versions.
        events::check_some(waiters::core(&ctx));
    }
}
