//! What the timer does: ends waits, takes grants back, and looks at locks that may have become free
//! outside our commands. Timers only wake: everything is judged by what the server says then.

use rlock_core::decide;
use rlock_core::message::DropReason;
use rlock_core::queue::{Grant, LockId};

use crate::ffi::{Ctx, Ground, Key, OwnedString, is_primary};
use crate::serve;
use crate::stats::STATS;
use crate::{keyspace, waiters};

/// How soon to look again while the server refuses writes, in ms.
const RETRY_MS: u64 = 20;

/// The most locks that are looked at in one go.
const LOOKS_AT_ONCE: usize = 500;

/// Called when the timer fires.
pub(crate) fn on_timer(ctx: Ctx<'_>) {
    waiters::timer_fired();
    waiters::end_waits(ctx);
    if !is_primary(ctx) {
        waiters::send_all_away(ctx, DropReason::Demoted);
        return;
    }
    if !ctx.may_write() {
        waiters::arm_timer_after(ctx, RETRY_MS);
        return;
    }
    let mut refused = false;
    while let Some((lock, grant)) = waiters::queues(|queues| queues.next_take_back()) {
        if take_back(ctx, &lock, &grant) == Looked::Refused {
            waiters::queues(|queues| queues.take_back_later(lock, grant));
            refused = true;
            break;
        }
    }
    let now = ctx.real_time();
    // What is left is due at once again, after whatever else the server has to do.
    for lock in waiters::queues(|queues| queues.due(now, LOOKS_AT_ONCE)) {
        refused |= look_at(ctx, &lock) == Looked::Refused;
    }
    waiters::arm_timer_after(ctx, if refused { RETRY_MS } else { 0 });
}

#[derive(PartialEq, Eq)]
enum Looked {
    Done,
    /// The server refuses writes for now.
    Refused,
}

/// Looks at a lock with waiters outside a command.
fn look_at(ctx: Ctx<'_>, lock: &LockId) -> Looked {
    if !ctx.select(lock.db) {
        return Looked::Done;
    }
    let name = OwnedString::new(&lock.key);
    if !serve::is_free(&Key::open_write(ctx, name.borrow())) {
        // Somebody holds it, or the key holds something else for a while.
        serve::look_again(ctx, name.borrow(), lock);
        return Looked::Done;
    }
    match ctx.ground(name.borrow()) {
        Ground::Firm => {}
        Ground::Closed => return Looked::Refused,
        Ground::Moved => {
            let moved = waiters::queues(|queues| queues.drain(lock));
            let moved = moved.into_iter().map(|waiter| (lock.clone(), waiter)).collect();
            waiters::send_away(ctx, moved, DropReason::Moved);
            return Looked::Done;
        }
    }
    serve::serve_unseen(ctx, name.borrow(), lock, ctx.real_time());
    Looked::Done
}

/// Takes a grant back whose client went before its answer, and serves the next.
fn take_back(ctx: Ctx<'_>, lock: &LockId, grant: &Grant) -> Looked {
    if !ctx.select(lock.db) {
        return Looked::Done;
    }
    let (name, owner) = (OwnedString::new(&lock.key), OwnedString::new(&grant.owner));
    let change_of = |key: &Key<'_>| {
        let state = keyspace::state(key, Some(owner.borrow())).ok()?;
        decide::take_back(state, grant.ends)
    };
    if change_of(&Key::open_write(ctx, name.borrow())).is_none() {
        return Looked::Done;
    }
    match ctx.ground(name.borrow()) {
        Ground::Firm => {}
        Ground::Closed => return Looked::Refused,
        // The lock goes where the key goes, and ends there with its lease.
        Ground::Moved => return Looked::Done,
    }
    // Asking is a command, in which the lease may have ended.
    let key = Key::open_write(ctx, name.borrow());
    let Some(change) = change_of(&key) else { return Looked::Done };
    STATS.take_backs.add(1);
    let now = ctx.real_time();
    // A failure is in the log; the lease ends by itself then.
    let _ = serve::perform_and_serve(ctx, key, Some(owner.borrow()), &change, lock, now);
    Looked::Done
}

/// Every lock with waiters is to be looked at now.
pub(crate) fn look_at_all(ctx: Ctx<'_>) {
    let now = ctx.real_time();
    waiters::queues(|queues| queues.wake_all(now));
    waiters::arm_timer(ctx);
}

/// Some of the locks with waiters are to be looked at now, the next ones at the next call.
pub(crate) fn look_at_some(ctx: Ctx<'_>) {
    let now = ctx.real_time();
    waiters::queues(|queues| queues.wake_some(now, LOOKS_AT_ONCE));
    waiters::arm_timer(ctx);
}

/// A lock with waiters is to be looked at now.
pub(crate) fn look_soon(ctx: Ctx<'_>, lock: &LockId) {
    let now = ctx.real_time();
    waiters::queues(|queues| queues.wake_at(lock, Some(now)));
    waiters::arm_timer(ctx);
}
