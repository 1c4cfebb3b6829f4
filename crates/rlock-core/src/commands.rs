//! The steps of each command: serve the queue, read the lock, decide, write or wait.

use crate::closing::tell;
use crate::decision::{Decision, Reply};
use crate::error::Error;
use crate::fair;
use crate::hot_locks::note_denied;
use crate::locks::{DropReason, Session, Ticket, User, Via, Waiter};
use crate::look::Picture;
use crate::node::Node;
use crate::note::Note;
use crate::permits_repair::check_expiry_soon;
use crate::port::{InCommand, Lock};
use crate::request::{Acquire, Cancel, ForceRelease, Release, Renew, Wait};
use crate::rules;
use crate::serve::next_token;
use crate::turn::Turn;
use crate::tying::{Tying, note_refused, waiters_session};
use crate::types::{Holds, Mode, MonoMs, UnixMs, WaitMs};
use crate::view::{Need, Step, View};
use crate::yielding::{self, note_reads};

/// The immediate answer of ACQUIRE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A reply.
    Now(Reply),
    /// None yet: the client is blocked, and receives its reply later.
    Later,
}

/// RLOCK.ACQUIRE.
pub fn acquire<P: InCommand>(
    node: Node<'_, P>,
    lock: &mut P::Lock<'_>,
    request: &Acquire<'_>,
) -> Result<Answer, Error> {
    let mut turn = Turn::of_command(node, lock);
    let answer = acquire_in(&mut turn, lock, request);
    turn.close(lock);
    answer
}

#[inline(always)]
fn acquire_in<P: InCommand>(
    turn: &mut Turn<'_, P>,
    lock: &mut P::Lock<'_>,
    request: &Acquire<'_>,
) -> Result<Answer, Error> {
    let (node, now, owner) = (turn.node, turn.now, request.owner.bytes());
    if request.fair {
        fair::meet(node, lock);
    }
    // With no queue to serve it is read first, while no key is open.
    let early = request.fenced && !turn.is_watched();
    let mut token = if early { Some(next_token(lock, now)?) } else { None };
    let mut picture = Picture::of(lock, Some(owner));
    let looked = turn.look(&mut picture, Need::Own);
    if request.fenced && !early {
        token = Some(next_token(picture.close(), now)?);
    }
    looked?;
    let ahead = request.fair && is_ahead(turn, &mut picture);
    let decision = picture.decide_seen(node, |picture| {
        let kept_out = ahead || hold_back(turn, picture, request.mode());
        let admission = node.port.settings().admission;
        rules::acquire(picture.view(), request, token, now, admission, kept_out)
    })?;
    // HOLDS n above 1 builds on holds that the owner has lost by now: no wait brings them back.
    let is_first_hold = request.arrive_at.is_none_or(|wanted| wanted == Holds::ONE);
    let tying = Tying::Set(request.session);
    let user = tying.check(node, picture.name(), owner, &decision)?;
    match request.wait.filter(|wait| is_first_hold && may_wait(node, *wait)) {
        Some(wait) if decision.reply == Reply::Denied => {
            turn.enter();
            // The commit closes the key: the steps of a wait may open it again.
            let lock = turn.commit(picture, &decision.change)?;
            begin_wait(turn, lock, request, wait)
        }
        _ => {
            let (lock, reply) = conclude(turn, picture, owner, &decision, (tying, user))?;
            match reply {
                Reply::Denied => note_denied(node, lock.name()),
                _ if request.fair => fair::leave_unless_waiting(node, lock, owner),
                _ => {}
            }
            Ok(Answer::Now(reply))
        }
    }
}

/// Whether another owner stands before this one in the fair list of a free lock. If it is a Redisson waiter, it is called.
fn is_ahead<P: InCommand>(turn: &Turn<'_, P>, picture: &mut Picture<'_, P::Lock<'_>>) -> bool {
    let is_free = picture.view().is_free_for(Mode::Mutex);
    let owner = picture.owner().unwrap_or_default();
    is_free && turn.call_first_ahead_of(picture.close(), owner)
}

/// RLOCK.RELEASE.
pub fn release<P: InCommand>(
    node: Node<'_, P>,
    lock: &mut P::Lock<'_>,
    request: &Release<'_>,
) -> Result<Reply, Error> {
    let owner = Some(request.owner.bytes());
    let need = if request.lease.is_some() { Need::Own } else { Need::Holds };
    change_holds(node, lock, owner, need, Tying::Keep, |view, now| rules::release(view, request, now))
}

/// RLOCK.RENEW.
pub fn renew<P: InCommand>(
    node: Node<'_, P>,
    lock: &mut P::Lock<'_>,
    request: &Renew<'_>,
) -> Result<Reply, Error> {
    let (owner, tying) = (Some(request.owner.bytes()), Tying::Set(request.session));
    change_holds(node, lock, owner, Need::Own, tying, |view, now| rules::renew(view, request, now))
}

/// RLOCK.FORCERELEASE.
pub fn force_release<P: InCommand>(
    node: Node<'_, P>,
    lock: &mut P::Lock<'_>,
    request: &ForceRelease<'_>,
) -> Result<Reply, Error> {
    let owner = request.owner.map(|owner| owner.bytes());
    let rule = |view: &View, _| Ok(rules::force_release(view, owner.is_some()));
    change_holds(node, lock, owner, Need::Own, Tying::Keep, rule)
}

/// A command that changes what its owner, or any owner, holds.
#[inline(always)]
fn change_holds<P: InCommand>(
    node: Node<'_, P>,
    lock: &mut P::Lock<'_>,
    owner: Option<&[u8]>,
    need: Need,
    tying: Tying,
    rule: impl Fn(&View, UnixMs) -> Result<Step, Error>,
) -> Result<Reply, Error> {
    let mut turn = Turn::of_command(node, lock);
    let reply = change_holds_in(&mut turn, lock, (owner, need), tying, rule);
    turn.close(lock);
    reply
}

#[inline(always)]
fn change_holds_in<P: InCommand>(
    turn: &mut Turn<'_, P>,
    lock: &mut P::Lock<'_>,
    (owner, need): (Option<&[u8]>, Need),
    tying: Tying,
    rule: impl Fn(&View, UnixMs) -> Result<Step, Error>,
) -> Result<Reply, Error> {
    let (node, now) = (turn.node, turn.now);
    let mut picture = Picture::of(lock, owner);
    turn.look(&mut picture, need)?;
    let decision = picture.decide_seen(node, |picture| rule(picture.view(), now))?;
    // Refuses a caller that may not write its lease keys. Only the key tells whether the call concerns these.
    if let Some(owner) = owner.filter(|_| decision.change.is_of_reader()) {
        picture.close().check_leases(owner)?;
    }
    let owner = owner.unwrap_or_default();
    let user = tying.check(node, picture.name(), owner, &decision)?;
    let (_, reply) = conclude(turn, picture, owner, &decision, (tying, user))?;
    Ok(reply)
}

/// RLOCK.CANCEL.
pub fn cancel<P: InCommand>(
    node: Node<'_, P>,
    lock: &mut P::Lock<'_>,
    request: &Cancel<'_>,
) -> Result<Reply, Error> {
    let mut turn = Turn::of_command(node, lock);
    let reply = cancel_in(&mut turn, lock, request.owner.bytes());
    turn.close(lock);
    Ok(reply)
}

fn cancel_in<P: InCommand>(turn: &mut Turn<'_, P>, lock: &mut P::Lock<'_>, owner: &[u8]) -> Reply {
    if !turn.is_watched() {
        return Reply::NotQueued;
    }
    let node = turn.node;
    // Another kind of value in the key concerns no wait.
    let _ = turn.look(&mut Picture::of(lock, Some(owner)), Need::Own);
    let waiters = node.locks(|locks| locks.cancel(lock.name(), owner));
    if waiters.is_empty() {
        return Reply::NotQueued;
    }
    for waiter in waiters {
        node.port.note(Note::Cancelled);
        node.port.answer(waiter.ticket, Ok(Reply::Denied));
    }
    fair::remove_departed_heads(node, lock);
    // The departure of a writer lets in the readers behind it.
    turn.serve_found_free(lock);
    Reply::Cancelled
}

/// Whether this caller can wait here: no client is blocked in a transaction or a script, and a replica has no
/// waiters, not even a replica that takes writes.
fn may_wait<P: InCommand>(node: Node<'_, P>, wait: Wait<'_>) -> bool {
    match wait {
        Wait::Block(_) => node.port.may_block(),
        Wait::Enqueue(..) => node.port.is_primary(),
    }
}

/// The entry in the queue of a call that waits from now on.
fn waiter_of(
    request: &Acquire<'_>,
    (since, until): (MonoMs, Option<MonoMs>),
    (ticket, via): (Ticket, Via),
    client_id: u64,
    (session, user): (Option<Session>, Option<User>),
) -> Waiter {
    let Acquire { owner, wanted, lease, fenced, fair, .. } = *request;
    let owner = owner.bytes().into();
    Waiter { owner, wanted, lease, fenced, fair, since, until, ticket, via, client_id, session, user }
}

/// How a waiter receives the outcome, and what its call answers now.
fn way_of(wait: Wait<'_>) -> (Via, Answer) {
    match wait {
        Wait::Block(_) => (Via::Block, Answer::Later),
        Wait::Enqueue(_, channel) => (Via::Enqueue(channel.into()), Answer::Now(Reply::Enqueued)),
    }
}

/// Holds an owner without holds back if the lock has waiters, or is left to Redisson clients. Returns whether it did.
fn hold_back<P: InCommand>(turn: &Turn<'_, P>, picture: &mut Picture<'_, P::Lock<'_>>, mode: Mode) -> bool {
    let awaited = turn.is_watched() && turn.node.locks(|locks| locks.records.head(picture.name()).is_some());
    let shares = matches!(mode, Mode::Read | Mode::Write);
    awaited || shares && yielding::hold_back(turn.node, picture, mode)
}

/// Commits what was decided, serves the queue if that freed the lock, and gives the reply.
#[inline(always)]
fn conclude<'l, 'n, P: InCommand>(
    turn: &mut Turn<'_, P>,
    picture: Picture<'l, P::Lock<'n>>,
    owner: &[u8],
    decision: &Decision,
    (tying, user): (Tying, Option<User>),
) -> Result<(&'l mut P::Lock<'n>, Reply), Error> {
    let (node, change) = (turn.node, &decision.change);
    picture.check_leases_local(change)?;
    let (lock, performed) = if turn.is_watched() {
        (turn.perform_and_serve(picture, change)?, None)
    } else {
        let (lock, performed) = picture.commit(change)?;
        note_reads(node, lock, change);
        (lock, performed)
    };
    if turn.is_watched() || tying.ties() {
        tying.note(node, lock.name(), owner, (decision, user));
    }
    if let Some(performed) = performed {
        tell(node, lock, Some(owner), change, performed);
    }
    node.port.note(Note::Decided(decision));
    Ok((lock, decision.reply))
}

/// Blocks the caller's client unless it waits for a message, and puts it at the end of the lock's queue, or at
/// its owner's place.
fn begin_wait<P: InCommand>(
    turn: &mut Turn<'_, P>,
    lock: &mut P::Lock<'_>,
    request: &Acquire<'_>,
    wait: Wait<'_>,
) -> Result<Answer, Error> {
    let (node, owner) = (turn.node, request.owner.bytes());
    node.locks(|locks| locks.records.check_upgrade(lock.name(), owner, request.mode()))?;
    if request.fair {
        fair::repair_changed(node, lock);
    }
    let (since, client_id, limits) = (node.port.clock(), node.port.client_id(), node.port.settings().limits);
    let (via, answer) = way_of(wait);
    // Asked before the queue is read: in a script it is a command.
    let user = node.port.user();
    let session = waiters_session(node, lock.name(), request, user.as_deref())?;
    let ticket = node.locks(|locks| {
        locks.admit(lock.name(), (owner, request.mode()), user.as_deref(), limits)?;
        Ok(locks.calls.new_ticket())
    });
    let ticket = ticket.inspect_err(|why| note_refused(node, why))?;
    if answer == Answer::Later {
        // The last step that can fail: before it no waiter has joined, and after it no reply can be sent.
        node.port.block(ticket, user.is_some())?;
    }
    let until = wait.wait().until(since);
    let waiter = waiter_of(request, (since, until), (ticket, via), client_id, (session, user));
    join(turn, lock, waiter, wait.wait());
    turn.schedule_next_check(lock);
    // The check below must not be replaced at the end of the turn.
    turn.needs_check = false;
    check_expiry_soon(node, lock, request.wanted);
    Ok(answer)
}

/// Puts a waiter at the end of the lock's queue, or at its owner's place; with FAIR, in the fair list too.
fn join<P: InCommand>(turn: &Turn<'_, P>, lock: &P::Lock<'_>, waiter: Waiter, wait: WaitMs) {
    let node = turn.node;
    let listed = waiter.fair.then(|| waiter.owner.clone());
    if let Some(owner) = &listed {
        // Not earlier: an owner that is refused has not rejoined.
        fair::rejoin(node, lock, owner);
    }
    let (replaced, count) = node.locks(|locks| (locks.join(lock.name(), waiter), locks.calls.waiting()));
    node.port.note(Note::Waiting(count));
    let belongs_in_list = replaced.as_ref().is_some_and(|replaced| replaced.fair);
    if let Some(replaced) = replaced {
        // An enqueued waiter gets no message: the same owner asks again.
        node.port.answer(replaced.ticket, Err(Error::Unblocked(DropReason::Replaced.sentence())));
    }
    fair::remove_departed_heads(node, lock);
    // An owner that was dropped and asks again goes back to its own place.
    if let Some(owner) = listed.filter(|_| !belongs_in_list) {
        fair::join(node, lock, &owner, wait);
    }
}
