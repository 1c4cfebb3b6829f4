//! The steps of each command: serve the queue, read the lock, decide, write or wait.

use crate::at::At;
use crate::decision::{Decision, Reply};
use crate::error::Error;
use crate::hot_locks::note_denied;
use crate::locks::{DropReason, Session, Ticket, User, Via, Waiter};
use crate::look::Picture;
use crate::node::Node;
use crate::note::Note;
use crate::port::{InCommand, Lock};
use crate::request::{Acquire, Cancel, ForceRelease, Release, Renew, Wait};
use crate::rules;
use crate::turn::Turn;
use crate::tying::{Tying, note_refused};
use crate::types::{Holds, Mode, MonoMs, UnixMs, WaitMs};
use crate::view::{Need, Step, View};

/// The immediate answer of ACQUIRE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A reply.
    Now(Reply),
    /// None yet: the client is blocked, and receives its reply later.
    Later,
}

impl<P: InCommand> At<'_, '_, P> {
    /// RLOCK.ACQUIRE.
    pub fn acquire(self, request: &Acquire<'_>) -> Result<Answer, Error> {
        Turn::of_command(self, |turn| turn.acquire(request))
    }

    /// RLOCK.RELEASE.
    pub fn release(self, request: &Release<'_>) -> Result<Reply, Error> {
        let owner = Some(request.owner.bytes());
        let need = if request.lease.is_some() { Need::Own } else { Need::Holds };
        self.change_holds((owner, need), Tying::Keep, |view, now| rules::release(view, request, now))
    }

    /// RLOCK.RENEW.
    pub fn renew(self, request: &Renew<'_>) -> Result<Reply, Error> {
        let (owner, tying) = (Some(request.owner.bytes()), Tying::Set(request.session));
        self.change_holds((owner, Need::Own), tying, |view, now| rules::renew(view, request, now))
    }

    /// RLOCK.FORCERELEASE.
    pub fn force_release(self, request: &ForceRelease<'_>) -> Result<Reply, Error> {
        let owner = request.owner.map(|owner| owner.bytes());
        let rule = |view: &View, _| Ok(rules::force_release(view, owner.is_some()));
        self.change_holds((owner, Need::Own), Tying::Keep, rule)
    }

    /// RLOCK.CANCEL.
    pub fn cancel(self, request: &Cancel<'_>) -> Result<Reply, Error> {
        Ok(Turn::of_command(self, |turn| turn.cancel(request.owner.bytes())))
    }

    /// A command that changes what its owner, or any owner, holds.
    #[inline(always)]
    fn change_holds(
        self,
        seen_by: (Option<&[u8]>, Need),
        tying: Tying,
        rule: impl Fn(&View, UnixMs) -> Result<Step, Error>,
    ) -> Result<Reply, Error> {
        Turn::of_command(self, |turn| turn.change_holds(seen_by, tying, rule))
    }
}

impl<P: InCommand> Turn<'_, '_, P> {
    #[inline(always)]
    fn acquire(&mut self, request: &Acquire<'_>) -> Result<Answer, Error> {
        let (node, now, owner) = (self.at.node, self.now, request.owner.bytes());
        if request.fair {
            self.at.meet_fair_list();
        }
        // With no queue to serve it is read first, while no key is open.
        let early = request.fenced && !self.is_watched();
        let mut token = if early { Some(self.next_token()?) } else { None };
        let mut picture = Picture::of(self, Some(owner));
        let looked = picture.look_and_settle(Need::Own);
        if request.fenced && !early {
            token = Some(picture.close().next_token()?);
        }
        looked?;
        let ahead = request.fair && picture.is_behind_another();
        let decision = picture.decide_seen(|picture| {
            let kept_out = ahead || picture.hold_back(request.mode());
            let admission = node.port.settings().admission;
            rules::acquire(picture.view(), request, token, now, admission, kept_out)
        })?;
        // HOLDS n above 1 builds on holds that the owner has lost by now: no wait brings them back.
        let is_first_hold = request.arrive_at.is_none_or(|wanted| wanted == Holds::ONE);
        let tying = Tying::Set(request.session);
        let user = tying.check(node, || picture.name(), owner, &decision)?;
        match request.wait.filter(|wait| is_first_hold && may_wait(node, *wait)) {
            Some(wait) if decision.reply == Reply::Denied => {
                picture.begin_entry();
                // The commit closes the key: the steps of a wait may open it again.
                picture.commit(&decision.change)?.begin_wait(request, wait)
            }
            _ => {
                let reply = picture.conclude(owner, &decision, (tying, user))?;
                drop(picture);
                match reply {
                    Reply::Denied => note_denied(node, self.at.name()),
                    _ if request.fair => self.at.leave_fair_list_unless_waiting(owner),
                    _ => {}
                }
                Ok(Answer::Now(reply))
            }
        }
    }

    #[inline(always)]
    fn change_holds(
        &mut self,
        (owner, need): (Option<&[u8]>, Need),
        tying: Tying,
        rule: impl Fn(&View, UnixMs) -> Result<Step, Error>,
    ) -> Result<Reply, Error> {
        let (node, now) = (self.at.node, self.now);
        let mut picture = Picture::of(self, owner);
        picture.look_and_settle(need)?;
        let decision = picture.decide_seen(|picture| rule(picture.view(), now))?;
        // Refuses a caller that may not write its lease keys. Only the key tells whether the call concerns these.
        if let Some(owner) = owner.filter(|_| decision.change.is_of_reader()) {
            picture.close().at.lock.check_leases(owner)?;
        }
        let owner = owner.unwrap_or_default();
        let user = tying.check(node, || picture.name(), owner, &decision)?;
        picture.conclude(owner, &decision, (tying, user))
    }

    fn cancel(&mut self, owner: &[u8]) -> Reply {
        if !self.is_watched() {
            return Reply::NotQueued;
        }
        // Another kind of value in the key concerns no wait.
        let _ = Picture::of(self, Some(owner)).look_and_settle(Need::Own);
        let waiters = self.at.locks(|locks, lock| locks.cancel(lock, owner));
        if waiters.is_empty() {
            return Reply::NotQueued;
        }
        for waiter in waiters {
            self.at.node.port.note(Note::Cancelled);
            self.at.node.port.answer(waiter.ticket, Ok(Reply::Denied));
        }
        self.at.remove_departed_heads();
        // The departure of a writer lets in the readers behind it.
        self.serve_found_free();
        Reply::Cancelled
    }

    /// Blocks the caller's client unless it waits for a message, and puts it at the end of the lock's queue, or at
    /// its owner's place.
    fn begin_wait(&mut self, request: &Acquire<'_>, wait: Wait<'_>) -> Result<Answer, Error> {
        let (node, owner) = (self.at.node, request.owner.bytes());
        self.at.locks(|locks, lock| locks.records.check_upgrade(lock, owner, request.mode()))?;
        if request.fair {
            self.at.repair_changed_fair_list();
        }
        let (since, client_id, limits) =
            (node.port.clock(), node.port.client_id(), node.port.settings().limits);
        let (via, answer) = way_of(wait);
        // Asked before the queue is read: in a script it is a command.
        let user = node.port.user();
        let session = self.at.waiters_session(request, user.as_deref())?;
        let ticket = self.at.locks(|locks, lock| {
            locks.admit(lock, (owner, request.mode()), user.as_deref(), limits)?;
            Ok(locks.calls.new_ticket())
        });
        let ticket = ticket.inspect_err(|why| note_refused(node, why))?;
        if answer == Answer::Later {
            // The last step that can fail: before it no waiter has joined, and after it no reply can be sent.
            node.port.block(ticket, user.is_some())?;
        }
        let until = wait.wait().until(since);
        let waiter = waiter_of(request, (since, until), (ticket, via), client_id, (session, user));
        self.at.join(waiter, wait.wait());
        self.schedule_next_check();
        self.needs_check = false;
        Ok(answer)
    }
}

impl<P: InCommand> Picture<'_, '_, '_, P> {
    /// Whether another owner stands before this one in the fair list of a free lock. If it is a Redisson waiter, it is called.
    fn is_behind_another(&mut self) -> bool {
        let is_free = self.view().is_free_for(Mode::Mutex);
        let owner = self.owner().unwrap_or_default();
        is_free && self.close().call_first_ahead_of(owner)
    }

    /// Holds an owner without holds back if the lock has waiters, or is left to Redisson clients. Returns whether it did.
    fn hold_back(&mut self, mode: Mode) -> bool {
        let awaited =
            self.is_watched() && self.node().locks(|locks| locks.records.head(self.name()).is_some());
        let shares = matches!(mode, Mode::Read | Mode::Write);
        awaited || shares && self.hold_back_for_redisson(mode)
    }

    /// Commits the decision, serves the queue if that freed the lock, and returns the reply.
    #[inline(always)]
    fn conclude(
        &mut self,
        owner: &[u8],
        decision: &Decision,
        (tying, user): (Tying, Option<User>),
    ) -> Result<Reply, Error> {
        let (node, change) = (self.node(), &decision.change);
        self.check_leases_local(change)?;
        let performed = if self.is_watched() {
            self.commit_and_serve(change)?;
            None
        } else {
            let performed = self.perform(change)?;
            self.turn().at.note_reads(change);
            performed
        };
        let turn = self.turn();
        if turn.is_watched() || tying.ties() {
            tying.note(node, turn.at.name(), owner, (decision, user));
        }
        if let Some(performed) = performed {
            turn.at.tell(Some(owner), change, performed);
        }
        node.port.note(Note::Decided(decision));
        Ok(decision.reply)
    }
}

impl<P: InCommand> At<'_, '_, P> {
    /// Puts a waiter at the end of the lock's queue, or at its owner's place; with FAIR, in the fair list too.
    fn join(&self, waiter: Waiter, wait: WaitMs) {
        let node = self.node;
        let listed = waiter.fair.then(|| waiter.owner.clone());
        if let Some(owner) = &listed {
            // Not earlier: an owner that is refused has not rejoined.
            self.rejoin_fair_list(owner);
        }
        let (replaced, count) = self.locks(|locks, lock| (locks.join(lock, waiter), locks.calls.waiting()));
        node.port.note(Note::Waiting(count));
        let belongs_in_list = replaced.as_ref().is_some_and(|replaced| replaced.fair);
        if let Some(replaced) = replaced {
            // An enqueued waiter gets no message: the same owner asks again.
            node.port.answer(replaced.ticket, Err(Error::Unblocked(DropReason::Replaced.sentence())));
        }
        self.remove_departed_heads();
        // An owner that was dropped and asks again goes back to its own place.
        if let Some(owner) = listed.filter(|_| !belongs_in_list) {
            self.join_fair_list(&owner, wait);
        }
    }
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
