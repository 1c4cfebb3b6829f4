//! The steps of each command: serve the queue, read the lock, decide, write or wait.

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
use crate::serve::{next_token, perform_and_serve, schedule_next_check, serve_found_free};
use crate::timing::{Entry, entry};
use crate::tying::{Tying, note_refused, waiters_session};
use crate::types::{Holds, Mode, MonoMs, UnixMs};
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
    let owner = request.owner.bytes();
    let arrival = Arrival::begin(node, lock, Some(owner));
    if request.fair {
        fair::meet(node, lock);
    }
    let token = if request.fenced { Some(next_token(lock, arrival.now)?) } else { None };
    let ahead = request.fair && fair::call_first_ahead_of(node, lock, owner, arrival.now);
    let mut picture = Picture::of(lock, Some(owner));
    let decision = picture.decide(node, Need::Own, |picture| {
        let kept_out = ahead || arrival.hold_back(picture, request.mode);
        let admission = node.port.settings().admission;
        rules::acquire(picture.view(), request, token, arrival.now, admission, kept_out)
    })?;
    // HOLDS n above 1 builds on holds that the owner has lost by now: no wait brings them back.
    let is_first_hold = request.arrive_at.is_none_or(|wanted| wanted == Holds::ONE);
    let tying = Tying::Set(request.session);
    let user = tying.check(node, picture.name(), owner, &decision)?;
    match request.wait.filter(|wait| is_first_hold && may_wait(node, *wait)) {
        Some(wait) if decision.reply == Reply::Denied => {
            // The commit closes the key: the steps of a wait may open it again.
            let lock = picture.commit(&decision.change)?;
            arrival.wait(lock, request, wait)
        }
        _ => {
            let (lock, reply) = arrival.conclude(picture, owner, &decision, (tying, user))?;
            match reply {
                Reply::Denied => note_denied(node, lock.name()),
                _ if request.fair => fair::leave_unless_waiting(node, lock, owner),
                _ => {}
            }
            Ok(Answer::Now(reply))
        }
    }
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
    let arrival = Arrival::begin(node, lock, owner);
    let mut picture = Picture::of(lock, owner);
    let decision = picture.decide(node, need, |picture| rule(picture.view(), arrival.now))?;
    // Refuses a caller that may not write its lease keys. Only the key tells whether the call concerns these.
    if let Some(owner) = owner.filter(|_| decision.change.is_of_reader()) {
        picture.close().check_leases(owner)?;
    }
    let owner = owner.unwrap_or_default();
    let user = tying.check(node, picture.name(), owner, &decision)?;
    let (_, reply) = arrival.conclude(picture, owner, &decision, (tying, user))?;
    Ok(reply)
}

/// RLOCK.CANCEL.
pub fn cancel<P: InCommand>(
    node: Node<'_, P>,
    lock: &mut P::Lock<'_>,
    request: &Cancel<'_>,
) -> Result<Reply, Error> {
    let owner = request.owner.bytes();
    let arrival = Arrival::begin(node, lock, Some(owner));
    if arrival.entry.is_none() {
        return Ok(Reply::NotQueued);
    }
    let waiters = node.locks(|locks| locks.cancel(lock.name(), owner));
    if waiters.is_empty() {
        return Ok(Reply::NotQueued);
    }
    for waiter in waiters {
        node.port.note(Note::Cancelled);
        node.port.answer(waiter.ticket, Ok(Reply::Denied));
    }
    fair::remove_departed_heads(node, lock);
    // The departure of a writer lets in the readers behind it.
    serve_found_free(node, lock, node.port.now());
    Ok(Reply::Cancelled)
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
    let Acquire { owner, mode, permits, lease, fenced, fair, .. } = *request;
    let owner = owner.bytes().into();
    Waiter { owner, mode, permits, lease, fenced, fair, since, until, ticket, via, client_id, session, user }
}

/// How a waiter receives the outcome, and what its call answers now.
fn way_of(wait: Wait<'_>) -> (Via, Answer) {
    match wait {
        Wait::Block(_) => (Via::Block, Answer::Later),
        Wait::Enqueue(_, channel) => (Via::Enqueue(channel.into()), Answer::Now(Reply::Enqueued)),
    }
}

/// A caller whose turn it is: the lock's queue was served before.
struct Arrival<'a, P: InCommand> {
    node: Node<'a, P>,
    now: UnixMs,
    /// Where the lock has waiters, pending grants or the like; otherwise the call cannot cause work outside commands.
    entry: Option<Entry<'a, P>>,
}

impl<'a, P: InCommand> Arrival<'a, P> {
    /// Serves the lock's queue first: the caller must not overtake its waiters if the lock became free unseen.
    fn begin(node: Node<'a, P>, lock: &mut P::Lock<'_>, owner: Option<&[u8]>) -> Self {
        let now = node.port.now();
        let watched = node.locks(|locks| locks.is_watched() && locks.watches(lock.name()));
        let entry = watched.then(|| entry(node));
        if entry.is_some() {
            // A release calls the head of the fair list if no native waiter gets the lock.
            fair::remove_departed_heads(node, lock);
            serve_found_free(node, lock, now);
            if let Some(owner) = owner {
                // The owner is connected and learns what it holds: none of its grants is revoked any more.
                node.locks(|locks| locks.confirm(lock.name(), owner));
            }
        }
        Self { node, now, entry }
    }

    /// Holds an owner without holds back if the lock has waiters, or is left to Redisson clients. Returns whether it did.
    fn hold_back(&self, picture: &mut Picture<'_, P::Lock<'_>>, mode: Mode) -> bool {
        let awaited = || self.node.locks(|locks| locks.head(picture.name()).is_some());
        let awaited = self.entry.is_some() && awaited();
        let shares = matches!(mode, Mode::Read | Mode::Write);
        awaited || shares && yielding::hold_back(self.node, picture, mode)
    }

    /// Commits what was decided, serves the queue if that freed the lock, and gives the reply.
    #[inline(always)]
    fn conclude<'l, 'n>(
        self,
        picture: Picture<'l, P::Lock<'n>>,
        owner: &[u8],
        decision: &Decision,
        (tying, user): (Tying, Option<User>),
    ) -> Result<(&'l mut P::Lock<'n>, Reply), Error> {
        let Self { node, now, entry } = self;
        picture.check_leases_local(&decision.change)?;
        let lock = if entry.is_some() {
            perform_and_serve(node, picture, &decision.change, now)?
        } else {
            let lock = picture.commit(&decision.change)?;
            note_reads(node, lock, &decision.change);
            lock
        };
        if entry.is_some() || tying.ties() {
            tying.note(node, lock.name(), owner, (decision, user));
        }
        node.port.note(Note::Decided(decision));
        Ok((lock, decision.reply))
    }

    /// Blocks the caller's client unless it waits for a message, and puts it at the end of the lock's queue, or at
    /// its owner's place.
    fn wait(self, lock: &mut P::Lock<'_>, request: &Acquire<'_>, wait: Wait<'_>) -> Result<Answer, Error> {
        let Self { node, entry: begun, .. } = self;
        let _entry = begun.unwrap_or_else(|| entry(node));
        node.locks(|locks| locks.check_upgrade(lock.name(), request.owner.bytes(), request.mode))?;
        if request.fair {
            fair::repair_changed(node, lock);
        }
        let (since, client_id, limits) =
            (node.port.clock(), node.port.client_id(), node.port.settings().limits);
        let (via, answer) = way_of(wait);
        // Asked before the queue is read: in a script it is a command.
        let user = node.port.user();
        let session = waiters_session(node, lock.name(), request, user.as_deref())?;
        let ticket = node.locks(|locks| {
            locks.admit(lock.name(), (request.owner.bytes(), request.mode), user.as_deref(), limits)?;
            Ok(locks.new_ticket())
        });
        let ticket = ticket.inspect_err(|why| note_refused(node, why))?;
        if answer == Answer::Later {
            // The last step that can fail: before it no waiter has joined, and after it no reply can be sent.
            node.port.block(ticket, user.is_some())?;
        }
        if request.fair {
            // Not earlier: an owner that is refused has not rejoined.
            fair::rejoin(node, lock, request.owner.bytes());
        }
        let (replaced, count) = node.locks(|locks| {
            let until = wait.wait().until(since);
            let waiter = waiter_of(request, (since, until), (ticket, via), client_id, (session, user));
            (locks.join(lock.name(), waiter), locks.len())
        });
        node.port.note(Note::Waiting(count));
        let belongs_in_list = replaced.as_ref().is_some_and(|replaced| replaced.fair);
        if let Some(replaced) = replaced {
            // An enqueued waiter gets no message: the same owner asks again.
            node.port.answer(replaced.ticket, Err(Error::Unblocked(DropReason::Replaced.sentence())));
        }
        fair::remove_departed_heads(node, lock);
        // An owner that was dropped and asks again goes back to its own place.
        if request.fair && !belongs_in_list {
            fair::join(node, lock, request.owner.bytes(), wait.wait());
        }
        schedule_next_check(node, lock);
        check_expiry_soon(node, lock, request.mode);
        Ok(answer)
    }
}
