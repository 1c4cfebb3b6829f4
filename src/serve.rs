//! Serving the queues: in the commands that free a lock, and by the timer for all that frees one
//! otherwise: a lease that ends, a foreign client's DEL, FLUSHALL, a client that goes with a grant on its way.

use rlock_core::decide;
use rlock_core::queue::{Grant, LockId};
use rlock_core::{Change, Expiry, Holds, LockState, Reply, UnixMs};

use crate::ffi::{Ctx, Ground, Key, OwnedString, StringRef};
use crate::perform::{perform, publish};
use crate::stats::STATS;
use crate::{keyspace, waiters};

/// How soon to look again while the server refuses writes.
const RETRY_MS: u64 = 20;

/// The lock of this name in the database of the call under way.
pub(crate) fn lock_id(ctx: Ctx<'_>, name: StringRef<'_>) -> LockId {
    LockId { db: ctx.db(), key: name.bytes().into() }
}

/// Gives the lock to the one who waits first, if it is free and somebody waits. In a command that writes,
/// the server has checked that writing is allowed; elsewhere ask for [`Ctx::ground`] first.
///
/// True if the lock was given away.
pub(crate) fn serve(ctx: Ctx<'_>, key: &mut Key<'_>, lock: &LockId, now: UnixMs) -> bool {
    let Some((owner, lease)) =
        waiters::queues(|queues| queues.head(lock).map(|head| (OwnedString::new(&head.owner), head.lease)))
    else {
        return false;
    };
    let Ok(state) = keyspace::state(key, Some(owner.borrow())) else { return false };
    let Some(change) = decide::hand_off(state, lease, now) else { return false };
    if perform(ctx, key, Some(owner.borrow()), &change).is_err() {
        return false;
    }
    let ends = now.after(lease);
    let (told, waiter) = waiters::queues(|queues| (queues.last_seen(lock), queues.pop(lock)));
    if let Some(message) = decide::message_on_hand_off(told.unwrap_or(Expiry::Never), ends) {
        publish(ctx, key.name(), message);
    }
    if let Some(waiter) = waiter {
        STATS.hand_offs.add(1);
        STATS.waited.record(ctx.clock().0.saturating_sub(waiter.since.0));
        let reply = Reply::Acquired { holds: Holds::ONE, lease_ms: lease.get(), token: 0 };
        waiters::finish_with_grant(lock, waiter, reply, ends);
    }
    true
}

/// Performs a change that a command has decided, and serves the queue if the change frees the lock: those
/// who wait by Redisson's protocol then hear of it only if nobody here takes the lock.
pub(crate) fn perform_and_serve(
    ctx: Ctx<'_>,
    key: &mut Key<'_>,
    owner: Option<StringRef<'_>>,
    change: &Change,
    lock: &LockId,
    now: UnixMs,
) -> Result<(), rlock_core::Error> {
    let silent = Change { unlock_message: None, ..*change };
    perform(ctx, key, owner, &silent)?;
    let given = serve(ctx, key, lock, now);
    if let (Some(message), false) = (change.unlock_message, given) {
        publish(ctx, key.name(), message);
    }
    look_again(ctx, key, lock);
    Ok(())
}

/// Notes when the lock is to be looked at next.
pub(crate) fn look_again(ctx: Ctx<'_>, key: &Key<'_>, lock: &LockId) {
    let expiry = key.expiry();
    waiters::queues(|queues| queues.seen_held(lock, expiry));
    waiters::arm_timer(ctx);
}

/// Called when the timer fires.
pub(crate) fn on_timer(ctx: Ctx<'_>) {
    waiters::timer_fired();
    end_waits(ctx);
    if !ctx.may_write() {
        waiters::arm_timer_after(ctx, RETRY_MS);
        return;
    }
    let mut refused = false;
    for (lock, grant) in std::iter::from_fn(|| waiters::queues(|queues| queues.next_take_back())) {
        if !take_back(ctx, &lock, &grant) {
            refused = true;
        }
    }
    let due = waiters::queues(|queues| queues.due(ctx.real_time()));
    for lock in due {
        refused |= look_at(ctx, &lock) == Looked::Refused;
    }
    waiters::arm_timer_after(ctx, if refused { RETRY_MS } else { 0 });
}

/// Answers those whose wait has ended.
fn end_waits(ctx: Ctx<'_>) {
    let clock = ctx.clock();
    for waiter in waiters::queues(|queues| queues.timed_out(clock)) {
        STATS.timeouts.add(1);
        waiters::finish(crate::ffi::Outcome { ticket: waiter.ticket, answer: Ok(Reply::Denied) });
    }
}

#[derive(PartialEq, Eq)]
enum Looked {
    Done,
    Refused,
}

/// Looks at a lock with waiters outside a command.
fn look_at(ctx: Ctx<'_>, lock: &LockId) -> Looked {
    if !ctx.select(lock.db) {
        return Looked::Done;
    }
    let name = OwnedString::new(&lock.key);
    let Some(owner) = waiters::queues(|queues| queues.head(lock).map(|head| OwnedString::new(&head.owner)))
    else {
        return Looked::Done;
    };
    let mut key = Key::open_write(ctx, name.borrow());
    match keyspace::state(&key, None) {
        Ok(LockState::Free | LockState::Abandoned) => {}
        // Somebody holds it, or the key holds something else for a while.
        Ok(_) | Err(_) => {
            look_again(ctx, &key, lock);
            return Looked::Done;
        }
    }
    match ctx.ground(name.borrow(), owner.borrow()) {
        Ground::Firm => {
            STATS.wakeups.add(1);
            serve(ctx, &mut key, lock, ctx.real_time());
            look_again(ctx, &key, lock);
            Looked::Done
        }
        Ground::Closed => Looked::Refused,
        Ground::Moved => {
            let moved = waiters::queues(|queues| queues.drain(lock));
            waiters::send_away(moved, "the lock's slot is served by another server; ask the cluster where");
            Looked::Done
        }
    }
}

/// Takes a grant back whose client went before its answer, and serves the next; false if the server
/// refuses writes for now.
fn take_back(ctx: Ctx<'_>, lock: &LockId, grant: &Grant) -> bool {
    if !ctx.select(lock.db) {
        return true;
    }
    let (name, owner) = (OwnedString::new(&lock.key), OwnedString::new(&grant.owner));
    let mut key = Key::open_write(ctx, name.borrow());
    let Ok(state) = keyspace::state(&key, Some(owner.borrow())) else { return true };
    let Some(change) = decide::take_back(state, grant.ends) else { return true };
    STATS.take_backs.add(1);
    // A failure is in the log; the lease ends by itself then.
    let now = ctx.real_time();
    let _ = perform_and_serve(ctx, &mut key, Some(owner.borrow()), &change, lock, now);
    true
}

/// Every lock with waiters is to be looked at by the timer, now.
pub(crate) fn look_at_all(ctx: Ctx<'_>) {
    let now = ctx.real_time();
    waiters::queues(|queues| queues.wake_all(now));
    waiters::arm_timer(ctx);
}

/// A lock with waiters is to be looked at by the timer, now.
pub(crate) fn look_soon(ctx: Ctx<'_>, lock: &LockId, now: UnixMs) {
    waiters::queues(|queues| queues.wake_at(lock, Some(now)));
    waiters::arm_timer(ctx);
}
