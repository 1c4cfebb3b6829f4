//! Who waits here: the queues of `rlock-core` together with the blocked clients and the one timer.
//!
//! Everything lives on the server's main thread. No function of the server is called while the state is
//! borrowed, since many of them call back into the module.

use std::cell::RefCell;
use std::collections::HashMap;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, Ordering};

use rlock_core::message::{self, DropReason};
use rlock_core::queue::{LockId, Queues, Ticket, Via, Waiter};
use rlock_core::request::{Acquire, Wait};
use rlock_core::{Error, MonoMs, Reply};

use crate::ffi::{Blocked, Ctx, Handle, Outcome, Respond, Timer};
use crate::ffi::{block, client_id, start_timer, stop_timer};
use crate::options;
use crate::stats::STATS;

/// A client of ours that is blocked, or unblocked and not yet answered.
struct Client {
    lock: LockId,
    handle: Handle,
    /// Gone once it is unblocked.
    blocked: Option<Blocked>,
}

#[derive(Default)]
struct State {
    queues: Queues,
    clients: HashMap<Ticket, Client>,
    handles: HashMap<Handle, Ticket>,
    timer: Option<(Timer, MonoMs)>,
    last_ticket: u64,
}

/// A minute: then the timer looks, and arms the next. Redis 7.0 counts a timer's period in 32 bits of
/// microseconds, and one of more than 35 minutes keeps it turning without rest.
const LONGEST_TIMER_MS: u64 = 60_000;

thread_local! {
    /// Never dropped by the thread: a destructor of the thread's would keep the library in memory after it
    /// was unloaded, so that loading a newer one from the same path would bring this one back.
    static STATE: ManuallyDrop<RefCell<State>> = ManuallyDrop::default();
}

/// Gives back what the state holds; called when the module is unloaded.
pub(crate) fn tear_down() {
    with(|state| *state = State::default());
}

/// Set after a caught panic: what the state says is in doubt then.
static IN_DOUBT: AtomicBool = AtomicBool::new(false);

/// The state for as long as `body` runs, which calls nothing of the server's.
fn with<T>(body: impl FnOnce(&mut State) -> T) -> T {
    STATE.with(|state| body(&mut state.borrow_mut()))
}

/// The queues for as long as `body` runs, which calls nothing of the server's.
pub(crate) fn queues<T>(body: impl FnOnce(&mut Queues) -> T) -> T {
    with(|state| body(&mut state.queues))
}

/// Whether nobody waits anywhere and nothing is to be taken back.
pub(crate) fn idle() -> bool {
    queues(|queues| queues.is_idle())
}

/// Whether there is nothing to know of any lock.
pub(crate) fn blank() -> bool {
    queues(|queues| queues.is_blank())
}

/// Says that the state is in doubt: everybody is to be sent away.
pub(crate) fn doubt() {
    IN_DOUBT.store(true, Ordering::Relaxed);
}

/// Sends everybody away if the state is in doubt.
pub(crate) fn clear_doubt(ctx: Ctx<'_>) {
    if IN_DOUBT.swap(false, Ordering::Relaxed) {
        send_all_away(ctx, DropReason::InDoubt);
        // Whoever was out of its queue already when the panic came, and not answered yet.
        let left = with(|state| {
            let blocked = state.clients.iter().filter(|(_, client)| client.blocked.is_some());
            blocked.map(|(ticket, _)| *ticket).collect::<Vec<_>>()
        });
        for ticket in left {
            unblock(ticket, Err(Error::Unblocked(DropReason::InDoubt.sentence())));
        }
    }
}

/// Puts a caller at the end of the lock's queue, or at its owner's place, and blocks its client unless it
/// waits for a message.
pub(crate) fn join(ctx: Ctx<'_>, lock: &LockId, request: &Acquire<'_>, wait: Wait<'_>) -> Result<(), Error> {
    let (since, client_id, limits) = (ctx.clock(), client_id(ctx), options::limits());
    let via = match wait {
        Wait::Block(_) => Via::Block,
        Wait::Enqueue(_, channel) => Via::Enqueue(channel.into()),
    };
    let blocks = via == Via::Block;
    let (ticket, replaced) = with(|state| {
        state.last_ticket = state.last_ticket.wrapping_add(1);
        let ticket = Ticket(state.last_ticket);
        let (owner, until) = (request.owner.bytes().into(), wait.wait().until(since));
        let waiter = Waiter { owner, lease: request.lease, since, until, ticket, via, client_id };
        let replaced = state.queues.join(lock, waiter, limits)?;
        STATS.waiters_peak.raise_to(state.queues.len() as u64);
        Ok((ticket, replaced))
    })?;
    if let Some(replaced) = replaced {
        // One who waited for a message gets none: it is the same owner that asks again.
        unblock(replaced.ticket, Err(Error::Unblocked(DropReason::Replaced.sentence())));
    }
    if blocks {
        let blocked = block(ctx);
        let handle = blocked.handle();
        with(|state| {
            state.handles.insert(handle, ticket);
            state.clients.insert(ticket, Client { lock: lock.clone(), handle, blocked: Some(blocked) });
        });
    }
    Ok(())
}

/// Unblocks the client of a call with an answer, if one is blocked by it. The waiter must be out of the
/// queue by now.
pub(crate) fn unblock(ticket: Ticket, answer: Result<Reply, Error>) {
    let blocked = with(|state| state.clients.get_mut(&ticket).and_then(|client| client.blocked.take()));
    if let Some(blocked) = blocked {
        blocked.unblock(Outcome { ticket, answer });
    }
}

/// Called to answer an unblocked client.
pub(crate) fn answer(ctx: Ctx<'_>, outcome: &Outcome) {
    forget(outcome.ticket, |queues, lock| queues.answered(lock, outcome.ticket));
    match &outcome.answer {
        Ok(reply) => reply.send(ctx),
        Err(error) => ctx.reply_error(error),
    }
}

/// Called when a client goes that is blocked, or unblocked and not answered yet. Nothing may be written
/// here: a grant is marked to be taken back.
pub(crate) fn client_is_gone(ctx: Ctx<'_>, handle: Handle) {
    let Some(ticket) = with(|state| state.handles.get(&handle).copied()) else { return };
    if queues(|queues| queues.leave(ticket)).is_some() {
        STATS.waiters_gone.add(1);
        // The server frees what it keeps for the client only then.
        unblock(ticket, Ok(Reply::Denied));
    }
    forget(ticket, |queues, lock| queues.unanswerable(lock, ticket));
    arm_timer(ctx);
}

fn forget(ticket: Ticket, body: impl FnOnce(&mut Queues, &LockId)) {
    with(|state| {
        if let Some(client) = state.clients.remove(&ticket) {
            state.handles.remove(&client.handle);
            body(&mut state.queues, &client.lock);
        }
    });
}

/// Takes everybody out of all queues and tells them why.
pub(crate) fn send_all_away(ctx: Ctx<'_>, why: DropReason) {
    send_away(ctx, queues(|queues| queues.drain_all()), why);
    arm_timer(ctx);
}

/// Tells those who were taken out of their queues why.
pub(crate) fn send_away(ctx: Ctx<'_>, waiters: Vec<(LockId, Waiter)>, why: DropReason) {
    for (lock, waiter) in waiters {
        STATS.waiters_sent_away.add(1);
        match &waiter.via {
            Via::Block => unblock(waiter.ticket, Err(Error::Unblocked(why.sentence()))),
            Via::Enqueue(channel) => {
                ctx.tell(channel, &message::dropped(&lock, &waiter.owner, why));
            }
        }
    }
}

/// Answers those whose wait has ended.
pub(crate) fn end_waits(ctx: Ctx<'_>) {
    let clock = ctx.clock();
    for (lock, waiter) in queues(|queues| queues.timed_out(clock)) {
        STATS.timeouts.add(1);
        match &waiter.via {
            Via::Block => unblock(waiter.ticket, Ok(Reply::Denied)),
            Via::Enqueue(channel) => {
                ctx.tell(channel, &message::timeout(&lock, &waiter.owner));
            }
        }
    }
}

/// Starts, moves or stops the timer, so that it fires when there is something to do next. One timer
/// serves all, and none is left when nobody waits: the server does not unload a module with timers.
pub(crate) fn arm_timer(ctx: Ctx<'_>) {
    let clock = ctx.clock();
    arm_timer_in(ctx, clock, queues_next_in(ctx, clock));
}

fn queues_next_in(ctx: Ctx<'_>, clock: MonoMs) -> Option<u64> {
    let now = ctx.real_time();
    queues(|queues| queues.next_in(now, clock))
}

/// The same, but not before so many milliseconds have passed.
pub(crate) fn arm_timer_after(ctx: Ctx<'_>, least: u64) {
    let clock = ctx.clock();
    arm_timer_in(ctx, clock, queues_next_in(ctx, clock).map(|next| next.max(least)));
}

fn arm_timer_in(ctx: Ctx<'_>, clock: MonoMs, next: Option<u64>) {
    let next = next.map(|next| next.min(LONGEST_TIMER_MS));
    let fires_at = next.map(|next| MonoMs(clock.0.saturating_add(next)));
    let stale = with(|state| match (&state.timer, fires_at) {
        // One that fires early does no harm: it looks, and arms the next.
        (Some((_, armed)), Some(wanted)) if *armed <= wanted => Err(()),
        _ => Ok(state.timer.take()),
    });
    let Ok(stale) = stale else { return };
    if let Some((timer, _)) = stale {
        stop_timer(ctx, timer);
    }
    if let (Some(next), Some(fires_at)) = (next, fires_at) {
        // The server's timers fire up to 2 ms late. Firing early and looking again until it is time costs
        // a millisecond of looking at most, and the next holder knows at once.
        let timer = start_timer(ctx, next.saturating_sub(2));
        with(|state| state.timer = Some((timer, fires_at)));
    }
}

/// The timer has fired, and is no more.
pub(crate) fn timer_fired() {
    with(|state| state.timer = None);
}

/// Stops the timer and starts it anew: the server's timers run by a clock that may have stepped.
pub(crate) fn restart_timer(ctx: Ctx<'_>) {
    if let Some((timer, _)) = with(|state| state.timer.take()) {
        stop_timer(ctx, timer);
    }
    arm_timer(ctx);
}
