//! Events outside RLOCK commands. Nothing is written here: a lock that may have become free is only marked, and the
//! timer checks it.

use std::cell::Cell;
use std::ffi::CStr;

use rlock_core::locks::{Cause, LockName, LockRef};
use rlock_core::observed::ListChange;
use rlock_core::slots::SlotRange;
use rlock_core::{MonoMs, UnixMs, departures, names, observed, sessions, timing};

use crate::ffi::{EventCtx, ServerEvent, Shared, SlotMove, StringRef, TaskCtx, is_primary};
use crate::site::SiteLock;
use crate::{arriving, discovery, effects, eviction, keyspace, perform, waiters};

/// Wall clock minus the clock that never steps, in ms, as of the last beat.
static CLOCK_OFFSET: Shared<Cell<Option<i64>>> = Shared::cell(None);

/// Regular work of the server's heartbeat, and its interval in ms. The server decides how often its heart beats: up to 500 times a
/// second, by `hz` and by the number of its clients.
struct Regular {
    every_ms: u64,
    last: Shared<Cell<u64>>,
}

impl Regular {
    const fn new(every_ms: u64) -> Self {
        Self { every_ms, last: Shared::cell(0) }
    }

    /// Whether it is time for it again. The first time counts from the first call.
    fn is_due(&self, MonoMs(clock): MonoMs) -> bool {
        let last = self.last.get();
        let is_over = clock.saturating_sub(last) >= self.every_ms;
        if is_over {
            self.last.replace(clock);
        }
        is_over && last > 0
    }
}

/// The check of some records and ties: at each beat of a server that beats ten times a second.
static LOOK: Regular = Regular::new(90);

/// The retry of changes that wait for the migration of their slot, and the question whether slots with waiters are still here.
static TRY: Regular = Regular::new(1_000);

/// The check of all fair lists and running waits.
static SWEEP: Regular = Regular::new(10_000);

/// The number of records of locks that are checked at once for what time has ended: a million in some two minutes.
const RECORDS_AT_ONCE: usize = 1_000;

/// The number of records that are checked at the other beats: time has its effect on a few locks at once.
const RECORDS_AT_A_BEAT: usize = 20;

/// A step of the wall clock that is worth a check of every lock, in ms: more than it drifts between beats.
const CLOCK_STEP_MS: i64 = 50;

/// A key was changed, deleted, renamed, or has expired, and the event is not rlock's own.
pub(crate) fn key_changed(ctx: EventCtx<'_>, key: StringRef<'_>, event: &CStr) {
    match event.to_bytes() {
        b"expire" => {
            waiters::node(&ctx).at(&mut SiteLock::new(ctx, key)).expiry_set();
        }
        b"restore" => key_restored(ctx, key),
        _ => {}
    }
    // Of the commands that overwrite any value, these raise an event of a class that is listened to; the sweep finds the ties of
    // what others overwrite.
    if matches!(event.to_bytes(), b"restore" | b"copy_to" | b"sortstore") {
        observed::value_replaced(waiters::node(&ctx), keyspace::lock_name(*ctx, key));
    }
    if waiters::locks(|locks| locks.role.doubts_fair_lists())
        && !perform::is_writing()
        && let Some(name) = names::lock_of_fair_key(key.bytes())
    {
        observed::fair_list_met(waiters::node(&ctx), LockName { db: ctx.db(), key: name });
    }
    if waiters::locks(|locks| {
        !locks.is_watched() && !locks.records.knows_read_ends() && !locks.sessions.knows_ends()
    }) {
        return;
    }
    if !perform::is_writing() {
        for name in names::locks_of_fair_key(key.bytes()).into_iter().flatten() {
            let change = match event.to_bytes() {
                // Another waiter has joined, at the end: no waiter was dropped.
                b"rpush" | b"zadd" => continue,
                b"lpop" | b"lpush" => ListChange::AtAnEnd,
                _ => ListChange::Anywhere,
            };
            observed::fair_list_changed(waiters::node(&ctx), LockName { db: ctx.db(), key: name }, change);
        }
    }
    observed::key_changed(waiters::node(&ctx), keyspace::lock_name(*ctx, key), cause(event));
}

/// A key arrived from another server, by RESTORE. Of the keys of a lock, each may be the last to arrive.
fn key_restored(ctx: EventCtx<'_>, key: StringRef<'_>) {
    if !is_primary(*ctx) {
        return;
    }
    let node = waiters::node(&ctx);
    if let Some(lock) = names::lock_of_fair_key(key.bytes()) {
        observed::fair_list_found(node, LockRef { db: ctx.db(), key: lock.into() });
    } else if names::is_read_lease_key(key.bytes()) {
        for (lock, ..) in names::readers_of_lease_key(key.bytes()) {
            observed::read_lease_restored(node, LockName { db: ctx.db(), key: lock });
        }
    } else {
        node.at(&mut SiteLock::new(ctx, key)).key_restored();
    }
}

/// A sorted set was changed, and the event is not rlock's own.
pub(crate) fn sorted_set_changed(ctx: EventCtx<'_>, key: StringRef<'_>) {
    if waiters::locks(|locks| locks.is_watched()) {
        observed::key_changed(waiters::node(&ctx), keyspace::lock_name(*ctx, key), Cause::Other);
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
            observed::databases_changed(waiters::node(&ctx), databases, Cause::Flushed)
        }
        ServerEvent::Swapped(pair) => observed::databases_swapped(waiters::node(&ctx), pair),
        ServerEvent::Demoted => departures::demoted(waiters::node(&ctx)),
        ServerEvent::Promoted => {
            departures::promoted(waiters::node(&ctx));
            effects::begin();
            discovery::promoted(*ctx);
        }
        ServerEvent::Loads(from) => discovery::loads(*ctx, from),
        ServerEvent::Synchronised => departures::synchronised(waiters::node(&ctx)),
        ServerEvent::Loaded => {
            // Some servers report the link later than they are ready to be promoted.
            if is_primary(*ctx) {
                observed::data_arrived(waiters::node(&ctx));
            } else {
                departures::synchronised(waiters::node(&ctx));
            }
            discovery::loaded(*ctx);
        }
        ServerEvent::Slots(moves, ranges) => slots_move(ctx, moves, &ranges),
        ServerEvent::Snapshot => effects::begin(),
        ServerEvent::Disconnected(client) => sessions::connection_ended(waiters::node(&ctx), client),
        ServerEvent::MaxMemoryChanged => eviction::check(*ctx),
    }
}

/// Slots move as a whole.
fn slots_move(ctx: EventCtx<'_>, moves: SlotMove, ranges: &[SlotRange]) {
    match moves {
        SlotMove::Begins => arriving::begin(ranges),
        SlotMove::Arrived | SlotMove::Failed => arriving::end(ranges),
        SlotMove::Left => {}
    }
    if !is_primary(*ctx) {
        return;
    }
    match moves {
        // Also before slots come: they may have been here before.
        SlotMove::Begins | SlotMove::Left => observed::slots_moved(waiters::node(&ctx), ranges),
        SlotMove::Arrived => observed::data_arrived(waiters::node(&ctx)),
        SlotMove::Failed => {}
    }
}

/// The server's heart beats.
pub(crate) fn beat(ctx: TaskCtx<'_>) {
    waiters::clear_doubt(&ctx);
    let clock = ctx.clock();
    if has_stepped(ctx.real_time(), clock) && waiters::locks(|locks| locks.is_watched()) {
        observed::clock_stepped(waiters::node(&ctx));
        timing::restart_timer(waiters::node(&ctx));
    }
    let is_due = LOOK.is_due(clock);
    let records = if is_due { RECORDS_AT_ONCE } else { RECORDS_AT_A_BEAT };
    waiters::locks(|locks| locks.forget_old(ctx.real_time(), clock, records));
    if !is_due {
        return;
    }
    effects::look(*ctx);
    let tries = ctx.in_cluster() && TRY.is_due(clock);
    if tries {
        observed::retry_deferred(waiters::node(&ctx));
    }
    let sweeps = SWEEP.is_due(clock);
    if !waiters::locks(|locks| locks.is_watched()) {
        return;
    }
    sessions::on_beat(waiters::node(&ctx));
    if sweeps {
        observed::sweep_periodically(waiters::node(&ctx));
    }
    if ctx.in_cluster() {
        // A slot that leaves this server takes its keys along without an event on some versions.
        observed::check_some(waiters::node(&ctx));
    }
    if tries {
        // CLUSTER DELSLOTS leaves the keys, and a lock that is held is not asked for before its lease ends.
        observed::doubt_some_slots(waiters::node(&ctx));
    }
}

/// Whether the wall clock was set since the last beat.
fn has_stepped(now: UnixMs, MonoMs(clock): MonoMs) -> bool {
    let offset = now.0.saturating_sub_unsigned(clock);
    let before = CLOCK_OFFSET.replace(Some(offset));
    before.is_some_and(|before| before.abs_diff(offset) > CLOCK_STEP_MS.unsigned_abs())
}
