//! Serving the queues: in the commands that free a lock, and by the timer for all that frees one
//! otherwise: a lease that ends, a foreign client's DEL, FLUSHALL, a client that goes with a grant on its way.

use rlock_core::decide::{self, UnlockMessage};
use rlock_core::queue::{Grant, LockId, Via, Waiter};
use rlock_core::{Change, Error, Expiry, Holds, LeaseMs, LockState, Reply, UnixMs, message};

use crate::ffi::{Ctx, EventClass, Key, OwnedString, StringRef};
use crate::perform::{perform, publish};
use crate::stats::STATS;
use crate::{keyspace, options, waiters};

/// How soon to look again at a lock that could not be given away.
const AGAIN: LeaseMs = LeaseMs::SHORTEST;

/// Why a free lock comes to be looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Freed {
    /// The command under way has released it.
    Now,
    /// It was found free: its lease has ended, or somebody without the module has deleted it.
    Unseen,
}

/// What became of a lock that may be free.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Served {
    /// It is not free.
    NotFree,
    /// The one who waited first has it.
    Given,
    /// Nobody here took it.
    Free,
    /// It is left to foreign waiters, who were told.
    ForeignTurn,
}

/// The lock of this name in the database of the call under way.
pub(crate) fn lock_id(ctx: Ctx<'_>, name: StringRef<'_>) -> LockId {
    LockId { db: ctx.db(), key: name.bytes().into() }
}

/// Gives the lock to the one who waits first, if it is free. In a command that writes, the server has
/// checked that writing is allowed; elsewhere ask for [`Ctx::ground`] first.
pub(crate) fn serve(ctx: Ctx<'_>, name: StringRef<'_>, lock: &LockId, now: UnixMs, freed: Freed) -> Served {
    if waiters::queues(|queues| queues.head(lock).is_none()) || !is_free(&Key::open_write(ctx, name)) {
        return Served::NotFree;
    }
    if waiters::queues(|queues| queues.window(lock, now)).is_some() {
        return Served::ForeignTurn;
    }
    let ended = waiters::queues(|queues| queues.note_free(lock));
    if let (Freed::Unseen, Some(ended)) = (freed, ended) {
        note_end(ctx, name, lock, ended, now);
    }
    if foreign_turn(ctx, name, lock, now) {
        return Served::ForeignTurn;
    }
    while let Some(head) = waiters::queues(|queues| queues.head(lock).cloned()) {
        if !is_free(&Key::open_write(ctx, name)) {
            // Another module has heard of an event of ours, and taken the lock.
            return Served::NotFree;
        }
        let lease = match &head.via {
            Via::Block => head.lease,
            Via::Enqueue(channel) => {
                let lease = head.lease.min(options::grant_confirm());
                if !offer(ctx, lock, &head, channel, lease) {
                    continue;
                }
                lease
            }
        };
        return if give(ctx, name, lock, &head, lease, now) { Served::Given } else { Served::NotFree };
    }
    Served::Free
}

/// Serves a lock that may have become free unseen; where nobody here takes it, those who wait by
/// Redisson's protocol are told.
pub(crate) fn serve_unseen(ctx: Ctx<'_>, name: StringRef<'_>, lock: &LockId, now: UnixMs) {
    match serve(ctx, name, lock, now, Freed::Unseen) {
        Served::NotFree => return,
        Served::Free => {
            waiters::queues(|queues| queues.end_streak(lock));
            call_foreign_waiters(ctx, name, lock, UnlockMessage::Free);
        }
        Served::Given | Served::ForeignTurn => {}
    }
    look_again(ctx, name, lock);
}

/// Tells those who wait by Redisson's protocol to try again, and says how many here heard it.
fn call_foreign_waiters(ctx: Ctx<'_>, name: StringRef<'_>, lock: &LockId, message: UnlockMessage) -> u64 {
    waiters::queues(|queues| queues.told_anew(lock));
    publish(ctx, name, message)
}

/// Whether nobody holds the lock.
pub(crate) fn is_free(key: &Key<'_>) -> bool {
    matches!(keyspace::state(key, None), Ok(LockState::Free | LockState::Abandoned))
}

/// Notes that a lock was found free, and whether by its lease's end.
fn note_end(ctx: Ctx<'_>, name: StringRef<'_>, lock: &LockId, ended: Expiry, now: UnixMs) {
    // Some servers delete a key in the very millisecond in which it expires.
    if !matches!(ended, Expiry::At(at) if at <= now) {
        STATS.found_deleted.add(1);
        return;
    }
    STATS.found_expired.add(1);
    ctx.notify(EventClass::Module, c"rlock.expire", name);
    if waiters::queues(|queues| queues.ended_unconfirmed(lock, now)) {
        STATS.unconfirmed.add(1);
    }
}

/// Leaves the lock to those who wait by Redisson's protocol, if they have been passed over for long
/// enough and there are any: true then.
fn foreign_turn(ctx: Ctx<'_>, name: StringRef<'_>, lock: &LockId, now: UnixMs) -> bool {
    let (turns, window, clock) = (options::turns(), options::foreign_window(), ctx.clock());
    let due = waiters::queues(|queues| queues.foreign_turn_is_due(lock, turns, clock));
    let Some(window) = window.filter(|_| due) else { return false };
    if call_foreign_waiters(ctx, name, lock, UnlockMessage::Free) == 0 {
        waiters::queues(|queues| queues.end_streak(lock));
        return false;
    }
    STATS.foreign_turns.add(1);
    waiters::queues(|queues| queues.open_window(lock, now.after(window)));
    true
}

/// Offers the lock to an enqueued waiter by its message. Where nobody hears it, there is no grant, and
/// all who wait for this lock on that channel are gone with it.
fn offer(ctx: Ctx<'_>, lock: &LockId, head: &Waiter, channel: &[u8], lease: LeaseMs) -> bool {
    if ctx.tell(channel, &message::granted(lock, &head.owner, lease)) > 0 {
        return true;
    }
    let gone = waiters::queues(|queues| queues.drop_channel(lock, channel));
    STATS.waiters_gone.add(gone as u64);
    false
}

/// Makes the head of the queue the holder.
fn give(
    ctx: Ctx<'_>,
    name: StringRef<'_>,
    lock: &LockId,
    head: &Waiter,
    lease: LeaseMs,
    now: UnixMs,
) -> bool {
    let (owner, key) = (OwnedString::new(&head.owner), Key::open_write(ctx, name));
    let Ok(state) = keyspace::state(&key, Some(owner.borrow())) else { return false };
    let Some(change) = decide::hand_off(state, lease, now) else { return false };
    if perform(ctx, key, Some(owner.borrow()), &change).is_err() {
        return false;
    }
    let (clock, ends) = (ctx.clock(), now.after(lease));
    let told = waiters::queues(|queues| {
        queues.count_grant(lock, clock);
        let told = queues.told(lock);
        queues.pop(lock);
        told
    });
    if let Some(message) = decide::message_on_hand_off(told.unwrap_or(Expiry::Never), ends) {
        call_foreign_waiters(ctx, name, lock, message);
    }
    STATS.hand_offs.add(1);
    STATS.waited.record(clock.0.saturating_sub(head.since.0));
    let (ticket, owner) = (head.ticket, head.owner.clone());
    match head.via {
        Via::Enqueue(_) => waiters::queues(|queues| queues.granted_by_message(lock, &owner, ends)),
        Via::Block => {
            waiters::queues(|queues| queues.granted(lock, Grant { ticket, owner, ends }));
            let reply = Reply::Acquired { holds: Holds::ONE, lease_ms: lease.get(), token: 0 };
            waiters::unblock(ticket, Ok(reply));
        }
    }
    true
}

/// Performs a change that was decided, and serves the queue if the change frees the lock: those who wait
/// by Redisson's protocol then hear of it only if nobody here takes the lock.
pub(crate) fn perform_and_serve(
    ctx: Ctx<'_>,
    key: Key<'_>,
    owner: Option<StringRef<'_>>,
    change: &Change,
    lock: &LockId,
    now: UnixMs,
) -> Result<(), Error> {
    let name = key.name();
    let silent = Change { unlock_message: None, ..*change };
    perform(ctx, key, owner, &silent)?;
    let served = serve(ctx, name, lock, now, Freed::Now);
    if let (Some(message), Served::Free | Served::NotFree) = (change.unlock_message, served) {
        waiters::queues(|queues| queues.end_streak(lock));
        call_foreign_waiters(ctx, name, lock, message);
    }
    look_again(ctx, name, lock);
    Ok(())
}

/// Notes when a lock with waiters is to be looked at next: after its lease, or when a window closes.
pub(crate) fn look_again(ctx: Ctx<'_>, name: StringRef<'_>, lock: &LockId) {
    let key = Key::open_write(ctx, name);
    if is_free(&key) {
        let now = ctx.real_time();
        waiters::queues(|queues| {
            let again = queues.window(lock, now).unwrap_or_else(|| now.after(AGAIN));
            queues.wake_at(lock, Some(again));
        });
    } else {
        let expiry = key.expiry();
        waiters::queues(|queues| queues.seen_held(lock, expiry));
    }
    waiters::arm_timer(ctx);
}
