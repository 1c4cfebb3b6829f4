//! What happens outside our commands. Nothing is written here: a lock that may have become free is only
//! marked, and looked at by the timer.

use std::cell::Cell;
use std::ffi::CStr;

use rlock_core::bugs::{Bug, planted};
use rlock_core::events::ListChange;
use rlock_core::locks::{Cause, Databases, LockName};
use rlock_core::{MonoMs, departures, events, names, sessions, timing};

use crate::discovery::{self, Sought};
use crate::ffi::{EventCtx, ServerEvent, Shared, StringRef, TaskCtx, is_primary};
use crate::{effects, eviction, keyspace, perform, waiters};

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
    if event == c"restore" {
        discovery::arrived(*ctx, key.bytes());
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
    let cause = cause(event);
    if planted(Bug::EdgeDeafToDelete) && cause == Cause::Deleted {
        return;
    }
    events::key_changed(waiters::core(&ctx), keyspace::lock_name(*ctx, key), cause);
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
            discovery::start(Sought::All);
        }
        ServerEvent::Synchronised => departures::synchronised(waiters::core(&ctx)),
        ServerEvent::Loaded => {
            // Some servers tell of the link later than they are ready to be promoted.
            if !is_primary(*ctx) {
                departures::synchronised(waiters::core(&ctx));
            }
            discovery::start(Sought::All);
        }
        ServerEvent::SlotsCame => discovery::run_again(Sought::All),
        ServerEvent::Snapshot => effects::begin(),
        ServerEvent::Disconnected(client) => sessions::connection_ended(waiters::core(&ctx), client),
        ServerEvent::MaxMemoryChanged => eviction::check(*ctx),
    }
}

#[cfg(feature = "planted-bugs")]
thread_local! {
    static LAST_BEAT: Cell<Option<rlock_core::UnixMs>> = const { Cell::new(None) };
}

/// The time of the last beat, where leases are to be counted from that.
#[cfg(feature = "planted-bugs")]
pub(crate) fn cached_clock() -> Option<rlock_core::UnixMs> {
    LAST_BEAT.get().filter(|_| planted(Bug::EdgeCachedClock))
}

/// The server's heart beats.
pub(crate) fn beat(ctx: TaskCtx<'_>) {
    #[cfg(feature = "planted-bugs")]
    LAST_BEAT.set(Some(ctx.real_time()));
    effects::look(*ctx);
    waiters::clear_doubt(&ctx);
    let beats = BEATS.get().wrapping_add(1);
    BEATS.replace(beats);
    discovery::on_beat(ctx, beats);
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
        events::check_fair_lists(waiters::core(&ctx));
    }
    if ctx.in_cluster() {
        // A slot that leaves this server takes its keys along without an event on some versions.
        events::check_some(waiters::core(&ctx));
    }
}
