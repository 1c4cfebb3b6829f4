//! The waiters: the queues of `rlock-core` together with the blocked clients and the one timer.
//!
//! No function of the server is called while the state is borrowed, since many of them call back into the
//! module.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;

use rlock_core::departures;
use rlock_core::locks::DropReason;
use rlock_core::locks::{Locks, Ticket};
use rlock_core::node::Node;
use rlock_core::port::Server;
use rlock_core::{Error, Reply};

use crate::ffi::{
    Blocked, CommandCtx, Ctx, EventCtx, Handle, Respond, Shared, TaskCtx, Timer, WaitOutcome, fault,
    start_timer, stop_timer, take_doubt,
};

/// A client that rlock has blocked, or has unblocked and not yet answered.
struct Client {
    handle: Handle,
    /// Gone once it is unblocked.
    blocked: Option<Blocked>,
    /// Whether it was logged in as another user than the default one when it was blocked. It cannot change that while it is blocked.
    has_own_user: bool,
}

#[derive(Default)]
struct State {
    clients: BTreeMap<Ticket, Client>,
    handles: BTreeMap<Handle, Ticket>,
    timer: Option<Timer>,
}

static STATE: Shared<RefCell<Option<State>>> = Shared::lazy();

static LOCKS: Shared<OnceCell<RefCell<Locks>>> = Shared::once();

/// The state for as long as `body` runs, which calls nothing of the server's.
fn with<T>(body: impl FnOnce(&mut State) -> T) -> T {
    STATE.with(body)
}

/// The queues for as long as `body` runs, which calls nothing of the server's.
pub(crate) fn locks<T>(body: impl FnOnce(&mut Locks) -> T) -> T {
    body(&mut LOCKS.get().borrow_mut())
}

/// The server with its waiters, for the rules.
pub(crate) fn node<P: Server>(server: &P) -> Node<'_, P> {
    Node::new(server, LOCKS.get())
}

/// Sends all waiters away if the state may be inconsistent, as it may after a panic.
#[inline(always)]
pub(crate) fn clear_doubt<P: Server>(server: &P) {
    if take_doubt() {
        send_all_away(server);
    }
}

#[cold]
fn send_all_away<P: Server>(server: &P) {
    departures::drop_all_now(node(server), DropReason::InDoubt);
    // Clients whose waiters had left the queue when the panic came, and that are not answered yet.
    let left = with(|state| {
        let blocked = state.clients.iter().filter(|(_, client)| client.blocked.is_some());
        blocked.map(|(ticket, _)| *ticket).collect::<Vec<_>>()
    });
    for ticket in left {
        unblock(ticket, Err(Error::Unblocked(DropReason::InDoubt.sentence())));
    }
}

/// Blocks the client of the command under way, which waits by this ticket. A panic after that finds the client
/// here, so that [`clear_doubt`] answers it.
pub(crate) fn block(ctx: CommandCtx<'_>, ticket: Ticket, has_own_user: bool) -> Result<(), Error> {
    let blocked = ctx.block().ok_or(Error::NotBlockable)?;
    let handle = blocked.handle();
    let client = Client { handle, blocked: Some(blocked), has_own_user };
    with(|state| {
        state.handles.insert(handle, ticket);
        state.clients.insert(ticket, client);
    });
    fault::strike_blocked();
    Ok(())
}

/// Unblocks the client of a call with an answer, if one is blocked by it. The waiter must be out of the
/// queue by now.
pub(crate) fn unblock(ticket: Ticket, answer: Result<Reply, Error>) {
    fault::strike_answer();
    let blocked = with(|state| state.clients.get_mut(&ticket).and_then(|client| client.blocked.take()));
    if let Some(blocked) = blocked {
        blocked.unblock(WaitOutcome { ticket, answer });
    }
}

/// Called to answer an unblocked client.
///
/// A client that the server is about to close gets no answer: the server would discard it, and frees the client later
/// without another word to the module. So its grant is revoked. No other grant is revoked: the server writes answers before
/// it closes clients for any other reason, so a client that is closed a moment later may know that it holds the lock.
pub(crate) fn answer(ctx: EventCtx<'_>, outcome: &WaitOutcome) {
    let ticket = outcome.ticket;
    let client = forget(ticket);
    match &outcome.answer {
        Ok(reply) => reply.send(*ctx),
        Err(error) => ctx.reply_error(error),
    }
    let Some(Client { has_own_user, .. }) = client else { return };
    let granted = locks(|locks| locks.calls.is_undelivered(ticket));
    // Asked after the answer, which may itself have been too much for the client's output buffer.
    if granted && ctx.is_closing(has_own_user) {
        departures::client_disconnected(node(&ctx), ticket);
    } else if granted {
        locks(|locks| locks.answered(ticket));
    }
}

/// Called when a client disconnects that is blocked, or unblocked and not answered yet.
pub(crate) fn client_disconnected(ctx: EventCtx<'_>, handle: Handle) {
    if let Some(ticket) = with(|state| state.handles.get(&handle).copied()) {
        departures::client_disconnected(node(&ctx), ticket);
        forget(ticket);
    }
}

fn forget(ticket: Ticket) -> Option<Client> {
    with(|state| {
        let client = state.clients.remove(&ticket)?;
        state.handles.remove(&client.handle);
        Some(client)
    })
}

/// Lets the timer fire once in `in_ms` ms, or not at all.
pub(crate) fn set_timer(ctx: Ctx<'_>, in_ms: Option<u64>) {
    if let Some(timer) = with(|state| state.timer.take()) {
        stop_timer(ctx, timer);
    }
    if let Some(in_ms) = in_ms {
        // The server's timers fire up to 2 ms late. Firing early and checking again until it is time costs a
        // millisecond of checks at most, and the next holder knows at once.
        let timer = start_timer(ctx, in_ms.saturating_sub(2));
        with(|state| state.timer = Some(timer));
    }
}

/// The timer has fired, and no longer exists.
pub(crate) fn timer_fired(ctx: TaskCtx<'_>) {
    with(|state| state.timer = None);
    rlock_core::timer::on_timer(node(&ctx));
}
