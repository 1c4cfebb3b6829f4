//! The commands, the same steps in each: serve the queue, read the lock, decide, perform or wait.

use crate::bugs::{Bug, planted};
use crate::decide::{self, Change, Decision, Reply};
use crate::error::Error;
use crate::message::DropReason;
use crate::port::{Note, Server, Site};
use crate::queue::{Via, Waiter};
use crate::request::{Acquire, Cancel, ForceRelease, Release, Renew, Wait};
use crate::serve::{next_token, perform_and_serve, serve_unseen};
use crate::shape::LockState;
use crate::timer::{arm_timer, look_again};
use crate::types::{Holds, UnixMs};

/// What ACQUIRE answers now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// This.
    Now(Reply),
    /// Nothing: the client is blocked, and answered later.
    Later,
}

/// RLOCK.ACQUIRE.
pub fn acquire<S: Site>(site: &S, request: &Acquire<'_>) -> Result<Answer, Error> {
    let arrival = Arrival::of(site, Some(request.owner.bytes()));
    let token = if request.fenced { Some(next_token(site, arrival.now)?) } else { None };
    let (call, admission) = (arrival.open(), site.server().settings().admission);
    let decision = decide::acquire(call.state_to_acquire()?, request, token, call.now, admission)?;
    // Only the first hold is worth waiting for: later ones build on what is lost by now.
    let first = request.arrive_at.is_none_or(|wanted| wanted == Holds::ONE);
    match request.wait.filter(|wait| first && may_wait(site.server(), *wait)) {
        Some(wait) if decision.reply == Reply::Denied => call.wait(request, wait),
        _ => call.perform(&decision).map(Answer::Now),
    }
}

/// RLOCK.RELEASE.
pub fn release<S: Site>(site: &S, request: &Release<'_>) -> Result<Reply, Error> {
    let call = Call::open(site, Some(request.owner.bytes()));
    let decision = decide::release(call.state()?, request, call.now);
    call.perform(&decision)
}

/// RLOCK.RENEW.
pub fn renew<S: Site>(site: &S, request: &Renew<'_>) -> Result<Reply, Error> {
    let call = Call::open(site, Some(request.owner.bytes()));
    let decision = decide::renew(call.state()?, request, call.now);
    call.perform(&decision)
}

/// RLOCK.CANCEL.
pub fn cancel<S: Site>(site: &S, request: &Cancel<'_>) -> Result<Reply, Error> {
    let (server, owner) = (site.server(), request.owner.bytes());
    if !Call::open(site, Some(owner)).watched {
        return Ok(Reply::NotQueued);
    }
    let lock = site.lock();
    let Some(waiter) = server.queues(|queues| queues.cancel(lock, owner)) else {
        return Ok(Reply::NotQueued);
    };
    server.note(Note::Cancelled);
    if !planted(Bug::CancelInSilence) {
        server.answer(waiter.ticket, Ok(Reply::Denied));
    }
    arm_timer(server);
    Ok(Reply::Cancelled)
}

/// RLOCK.FORCERELEASE.
pub fn force_release<S: Site>(site: &S, request: &ForceRelease<'_>) -> Result<Reply, Error> {
    let call = Call::open(site, request.owner.map(|owner| owner.bytes()));
    let decision = decide::force_release(call.state()?, request);
    call.perform(&decision)
}

/// Whether this caller can wait here: no client is blocked in a transaction or a script, and nobody waits
/// on a replica, not even on one that takes writes.
fn may_wait<V: Server>(server: &V, wait: Wait<'_>) -> bool {
    match wait {
        Wait::Block(_) => server.may_block(),
        Wait::Enqueue(..) => server.is_primary(),
    }
}

/// A caller whose turn it is: the lock's queue was served before.
struct Arrival<'a, S: Site> {
    site: &'a S,
    owner: Option<&'a [u8]>,
    watched: bool,
    now: UnixMs,
}

/// A call that may change a lock.
struct Call<'a, S: Site> {
    site: &'a S,
    key: S::Key,
    /// The caller's field, where it may have one.
    owner: Option<&'a [u8]>,
    /// Whether there is anything to know of any lock; where not, nobody is to be served.
    watched: bool,
    now: UnixMs,
}

impl<'a, S: Site> Arrival<'a, S> {
    /// Serves the key's queue first: nobody barges in where a lock has become free unseen.
    fn of(site: &'a S, owner: Option<&'a [u8]>) -> Self {
        let server = site.server();
        let now = server.now();
        let watched = !server.queues(|queues| queues.is_blank());
        if watched {
            serve_unseen(site, now);
            if let Some(owner) = owner.filter(|_| !planted(Bug::ForgetSettle)) {
                // The owner is here and learns what it holds: no grant of it is taken back any more.
                let lock = site.lock();
                server.queues(|queues| queues.settle(lock, owner));
            }
        }
        Self { site, owner, watched, now }
    }

    /// Opens the key.
    fn open(self) -> Call<'a, S> {
        let Self { site, owner, watched, now } = self;
        Call { site, key: site.open(), owner, watched, now }
    }
}

impl<'a, S: Site> Call<'a, S> {
    fn open(site: &'a S, owner: Option<&'a [u8]>) -> Self {
        Arrival::of(site, owner).open()
    }

    /// The state of the lock as the owner sees it.
    fn state(&self) -> Result<LockState, Error> {
        self.site.state(&self.key, self.owner)
    }

    /// The same to whoever wants to acquire: a lock that is free while others wait is not free for one
    /// who comes later.
    fn state_to_acquire(&self) -> Result<LockState, Error> {
        let state = self.state()?;
        let free = matches!(state, LockState::Free | LockState::Abandoned);
        let in_line = free && self.watched && self.is_awaited() && !planted(Bug::SkipQueue);
        Ok(if in_line { LockState::Theirs } else { state })
    }

    fn is_awaited(&self) -> bool {
        let lock = self.site.lock();
        self.site.server().queues(|queues| queues.head(lock).is_some())
    }

    /// Performs what was decided.
    fn perform(self, decision: &Decision) -> Result<Reply, Error> {
        let Self { site, key, owner, watched, now } = self;
        if watched {
            perform_and_serve(site, key, owner, &decision.change, now)?;
        } else if decision.change != Change::default() {
            site.perform(key, owner, &decision.change)?;
        }
        site.server().note(Note::Decided(decision));
        Ok(decision.reply)
    }

    /// Puts the caller at the end of the lock's queue, or at its owner's place, and blocks its client unless
    /// it waits for a message.
    fn wait(self, request: &Acquire<'_>, wait: Wait<'_>) -> Result<Answer, Error> {
        let site = self.site;
        // Closed: what follows may open it again.
        drop(self);
        let (server, lock) = (site.server(), site.lock());
        let (since, client_id, limits) = (server.clock(), server.client_id(), server.settings().limits);
        let (via, answer) = match wait {
            Wait::Block(_) => (Via::Block, Answer::Later),
            Wait::Enqueue(_, channel) => (Via::Enqueue(channel.into()), Answer::Now(Reply::Enqueued)),
        };
        let (ticket, replaced, count) = server.queues(|queues| {
            let ticket = queues.new_ticket();
            let until = wait.wait().until(since).filter(|_| !planted(Bug::EndlessWait));
            let owner = request.owner.bytes().into();
            let (lease, fenced) = (request.lease, request.fenced);
            let waiter = Waiter { owner, lease, fenced, since, until, ticket, via, client_id };
            Ok((ticket, queues.join(lock, waiter, limits)?, queues.len()))
        })?;
        server.note(Note::Waiting(count));
        if let Some(replaced) = replaced {
            // One who waited for a message gets none: it is the same owner that asks again.
            server.answer(replaced.ticket, Err(Error::Unblocked(DropReason::Replaced.sentence())));
        }
        if answer == Answer::Later {
            server.block(lock, ticket);
        }
        look_again(site);
        Ok(answer)
    }
}
