//! Who waits here: the queues of `rlock-core` together with the blocked clients and the one timer.
//!
//! Everything lives on the server's main thread. No function of the server is called while the state is
//! borrowed, since many of them call back into the module.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use rlock_core::queue::{Grant, LockId, Queues, Ticket, Waiter};
use rlock_core::{Error, LeaseMs, MonoMs, Reply};

use crate::ffi::{Blocked, Ctx, Handle, Outcome, Respond, Timer, block, client_id, start_timer, stop_timer};
use crate::options;
use crate::stats::STATS;

/// A client of ours that is blocked, or unblocked and not yet answered.
struct Client {
    lock: LockId,
    handle: Handle,
    id: u64,
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

thread_local! {
    static STATE: RefCell<State> = RefCell::default();
}

/// Set after a caught panic: what the state says is in doubt then.
static IN_DOUBT: AtomicBool = AtomicBool::new(false);

/// The state for as long as `body` runs, which calls nothing of the server's.
fn with<T>(body: impl FnOnce(&mut State) -> T) -> T {
    STATE.with_borrow_mut(body)
}

/// The queues for as long as `body` runs, which calls nothing of the server's.
pub(crate) fn queues<T>(body: impl FnOnce(&mut Queues) -> T) -> T {
    with(|state| body(&mut state.queues))
}

/// Whether nobody waits anywhere and nothing is to be taken back.
pub(crate) fn idle() -> bool {
    queues(|queues| queues.is_idle())
}

/// Says that the state is in doubt: everybody is to be sent away.
pub(crate) fn doubt() {
    IN_DOUBT.store(true, Ordering::Relaxed);
}

/// Sends everybody away if the state is in doubt.
pub(crate) fn clear_doubt(ctx: Ctx<'_>) {
    if IN_DOUBT.swap(false, Ordering::Relaxed) {
        send_all_away(ctx, "the module had an internal error; try again");
    }
}

/// Who asks to wait, for what.
pub(crate) struct Wait<'a> {
    pub(crate) lock: &'a LockId,
    pub(crate) owner: &'a [u8],
    pub(crate) lease: LeaseMs,
    pub(crate) until: Option<MonoMs>,
}

/// Blocks the client of the command under way at the end of the lock's queue, or at its owner's place.
pub(crate) fn join(ctx: Ctx<'_>, wait: &Wait<'_>) -> Result<(), Error> {
    let (since, limits) = (ctx.clock(), options::limits());
    let (ticket, replaced) = with(|state| {
        state.last_ticket = state.last_ticket.wrapping_add(1);
        let ticket = Ticket(state.last_ticket);
        let owner = wait.owner.into();
        let waiter = Waiter { owner, lease: wait.lease, since, until: wait.until, ticket };
        state.queues.join(wait.lock, waiter, limits).map(|replaced| (ticket, replaced))
    })?;
    if let Some(replaced) = replaced {
        let why = Error::Unblocked("the same owner waits by a later call");
        finish(Outcome { ticket: replaced, answer: Err(why) });
    }
    let (blocked, id) = (block(ctx), client_id(ctx));
    let handle = blocked.handle();
    with(|state| {
        state.handles.insert(handle, ticket);
        let client = Client { lock: wait.lock.clone(), handle, id, blocked: Some(blocked) };
        state.clients.insert(ticket, client);
        STATS.waiters_peak.raise_to(state.queues.len() as u64);
    });
    Ok(())
}

/// Unblocks a client with an answer. Its waiter must be out of the queue by now.
pub(crate) fn finish(outcome: Outcome) {
    let blocked =
        with(|state| state.clients.get_mut(&outcome.ticket).and_then(|client| client.blocked.take()));
    if let Some(blocked) = blocked {
        blocked.unblock(outcome);
    }
}

/// Unblocks the client of a waiter that got the lock; until the answer arrives the grant can be taken back.
pub(crate) fn finish_with_grant(lock: &LockId, waiter: Waiter, reply: Reply, grant_ends: rlock_core::UnixMs) {
    let ticket = waiter.ticket;
    queues(|queues| queues.granted(lock, Grant { ticket, owner: waiter.owner, ends: grant_ends }));
    finish(Outcome { ticket, answer: Ok(reply) });
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
    let waited = queues(|queues| queues.leave(ticket)).is_some();
    if waited {
        STATS.waiters_gone.add(1);
        // The server frees what it keeps for the client only then.
        finish(Outcome { ticket, answer: Ok(Reply::Denied) });
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
pub(crate) fn send_all_away(ctx: Ctx<'_>, why: &'static str) {
    send_away(queues(|queues| queues.drain_all()), why);
    arm_timer(ctx);
}

/// Tells those who were taken out of a queue why.
pub(crate) fn send_away(waiters: Vec<Waiter>, why: &'static str) {
    for waiter in waiters {
        STATS.waiters_sent_away.add(1);
        finish(Outcome { ticket: waiter.ticket, answer: Err(Error::Unblocked(why)) });
    }
}

/// The number of the client that waits by this call.
pub(crate) fn client_of(ticket: Ticket) -> Option<u64> {
    with(|state| state.clients.get(&ticket).map(|client| client.id))
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
        let timer = start_timer(ctx, next);
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
