//! The commands. Each has the same steps: serve the queue, read the lock, decide, perform or wait.

use crate::bugs::{Bug, planted};
use crate::decision::{Decision, Reply};
use crate::error::Error;
use crate::fair;
use crate::locks::DropReason;
use crate::locks::{Via, Waiter};
use crate::look::Picture;
use crate::port::{Note, Server, Site};
use crate::request::{Acquire, Cancel, ForceRelease, Release, Renew, Wait};
use crate::rules;
use crate::serve::{next_token, perform_and_serve, schedule_next_check, serve_found_free};
use crate::timing::{Entry, entry};
use crate::types::{Holds, Mode, UnixMs};
use crate::view::View;
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
pub fn acquire<S: Site>(site: &S, request: &Acquire<'_>) -> Result<Answer, Error> {
    let arrival = Arrival::of(site, Some(request.owner.bytes()));
    let token = if request.fenced { Some(next_token(site, arrival.now)?) } else { None };
    let ahead = request.fair && fair::is_ahead(site, request.owner.bytes(), arrival.now);
    let mut picture = arrival.picture();
    let decision = picture.decide(|view| {
        let kept_out = ahead || arrival.is_kept_out(view, request.mode);
        let admission = site.server().settings().admission;
        rules::acquire(view, request, token, arrival.now, admission, kept_out)
    })?;
    // Only the first hold is worth waiting for: later ones build on what is lost by now.
    let first = request.arrive_at.is_none_or(|wanted| wanted == Holds::ONE);
    match request.wait.filter(|wait| first && may_wait(site.server(), *wait)) {
        Some(wait) if decision.reply == Reply::Denied => arrival.wait(&mut picture, &decision, request, wait),
        _ => {
            let reply = arrival.perform(&mut picture, &decision)?;
            if request.fair && reply != Reply::Denied {
                fair::leave_unless_waiting(site, request.owner.bytes());
            }
            Ok(Answer::Now(reply))
        }
    }
}

/// RLOCK.RELEASE.
pub fn release<S: Site>(site: &S, request: &Release<'_>) -> Result<Reply, Error> {
    let arrival = Arrival::of(site, Some(request.owner.bytes()));
    let mut picture = arrival.picture();
    let decision = picture.decide(|view| rules::release(view, request, arrival.now))?;
    check_lease_keys(&picture, &decision)?;
    arrival.perform(&mut picture, &decision)
}

/// RLOCK.RENEW.
pub fn renew<S: Site>(site: &S, request: &Renew<'_>) -> Result<Reply, Error> {
    let arrival = Arrival::of(site, Some(request.owner.bytes()));
    let mut picture = arrival.picture();
    let decision = picture.decide(|view| rules::renew(view, request, arrival.now))?;
    check_lease_keys(&picture, &decision)?;
    arrival.perform(&mut picture, &decision)
}

/// RLOCK.CANCEL.
pub fn cancel<S: Site>(site: &S, request: &Cancel<'_>) -> Result<Reply, Error> {
    let (server, owner) = (site.server(), request.owner.bytes());
    let arrival = Arrival::of(site, Some(owner));
    if arrival.entry.is_none() {
        return Ok(Reply::NotQueued);
    }
    let lock = site.lock();
    let waiters = server.locks(|locks| locks.cancel(lock, owner));
    if waiters.is_empty() {
        return Ok(Reply::NotQueued);
    }
    for waiter in waiters {
        server.note(Note::Cancelled);
        if !planted(Bug::CancelInSilence) {
            server.answer(waiter.ticket, Ok(Reply::Denied));
        }
    }
    fair::remove_departed_heads(site);
    // A writer that goes lets the readers behind it in.
    serve_found_free(site, server.now());
    Ok(Reply::Cancelled)
}

/// RLOCK.FORCERELEASE.
pub fn force_release<S: Site>(site: &S, request: &ForceRelease<'_>) -> Result<Reply, Error> {
    let owner = request.owner.map(|owner| owner.bytes());
    let arrival = Arrival::of(site, owner);
    let mut picture = arrival.picture();
    let decision = picture.decide(|view| Ok(rules::force_release(view, owner.is_some())))?;
    check_lease_keys(&picture, &decision)?;
    arrival.perform(&mut picture, &decision)
}

/// Whether a command on this lock must look at its record.
fn is_watched<S: Site>(site: &S) -> bool {
    let lock = site.lock();
    site.server().locks(|locks| locks.watches(lock))
}

/// Refuses a caller that may not write its lease keys. Only the key tells whether the call concerns these.
fn check_lease_keys<S: Site>(picture: &Picture<'_, S>, decision: &Decision) -> Result<(), Error> {
    match picture.owner().filter(|_| decision.change.is_of_reader()) {
        Some(owner) => picture.site().check_leases(owner),
        None => Ok(()),
    }
}

/// Whether this caller can wait here: no client is blocked in a transaction or a script, and nobody waits
/// on a replica, not even on one that takes writes.
fn may_wait<V: Server>(server: &V, wait: Wait<'_>) -> bool {
    match wait {
        Wait::Block(_) => server.may_block(),
        Wait::Enqueue(..) => server.is_primary(),
    }
}

/// How a waiter receives the outcome, and what its call answers now.
fn way_of(wait: Wait<'_>) -> (Via, Answer) {
    match wait {
        Wait::Block(_) => (Via::Block, Answer::Later),
        Wait::Enqueue(_, channel) => (Via::Enqueue(channel.into()), Answer::Now(Reply::Enqueued)),
    }
}

/// A caller whose turn it is: the lock's queue was served before.
struct Arrival<'a, S: Site> {
    site: &'a S,
    owner: Option<&'a [u8]>,
    now: UnixMs,
    /// Where the lock has waiters, pending grants or the like; otherwise the call cannot cause work outside commands.
    entry: Option<Entry<'a, S::Server>>,
}

impl<'a, S: Site> Arrival<'a, S> {
    /// Serves the key's queue first: nobody barges in where a lock has become free unseen.
    fn of(site: &'a S, owner: Option<&'a [u8]>) -> Self {
        let server = site.server();
        let now = server.now();
        let watched = server.locks(|locks| locks.is_watched()) && is_watched(site);
        let entry = watched.then(|| entry(server));
        if entry.is_some() {
            // A release calls the head of the fair list, if nobody here takes the lock.
            fair::remove_departed_heads(site);
            serve_found_free(site, now);
            if let Some(owner) = owner.filter(|_| !planted(Bug::ForgetSettle)) {
                // The owner is here and learns what it holds: no grant of it is taken back any more.
                let lock = site.lock();
                server.locks(|locks| locks.confirm(lock, owner));
            }
        }
        Self { site, owner, now, entry }
    }

    /// The lock, for the caller to decide on.
    fn picture(&self) -> Picture<'a, S> {
        Picture::of(self.site, self.owner)
    }

    /// Whether an owner without holds must not acquire yet: the lock has waiters, or is left to Redisson clients.
    fn is_kept_out(&self, view: &View, mode: Mode) -> bool {
        let awaited = self.is_awaited() && !planted(Bug::SkipQueue);
        awaited || mode != Mode::Mutex && yielding::holds_back(self.site, view, mode)
    }

    fn is_awaited(&self) -> bool {
        let awaited = |lock| self.site.server().locks(|locks| locks.head(lock).is_some());
        self.entry.is_some() && awaited(self.site.lock())
    }

    /// Performs what was decided.
    #[inline(always)]
    fn perform(self, picture: &mut Picture<'_, S>, decision: &Decision) -> Result<Reply, Error> {
        let Self { site, now, entry, .. } = self;
        picture.check_leases_local(&decision.change)?;
        if entry.is_some() {
            perform_and_serve(picture, &decision.change, now)?;
        } else {
            picture.commit(&decision.change)?;
            note_reads(site, &decision.change);
        }
        site.server().note(Note::Decided(decision));
        Ok(decision.reply)
    }

    /// Blocks the caller's client unless it waits for a message, and puts it at the end of the lock's queue, or at
    /// its owner's place.
    fn wait(
        self,
        picture: &mut Picture<'_, S>,
        denied: &Decision,
        request: &Acquire<'_>,
        wait: Wait<'_>,
    ) -> Result<Answer, Error> {
        let Self { site, entry: begun, .. } = self;
        // Closed: what follows may open it again.
        picture.commit(&denied.change)?;
        let (server, lock) = (site.server(), site.lock());
        let _entry = begun.unwrap_or_else(|| entry(server));
        if request.fair {
            fair::repair_changed(site);
        }
        let (since, client_id, limits) = (server.clock(), server.client_id(), server.settings().limits);
        let (via, answer) = way_of(wait);
        let ticket = server.locks(|locks| {
            locks.admit(lock, request.owner.bytes(), request.mode, limits)?;
            Ok(locks.new_ticket())
        })?;
        if answer == Answer::Later {
            // The last step that can fail: before it nobody has joined, and after it no reply can be sent.
            server.block(ticket)?;
        }
        if request.fair {
            // Not before: who is refused has not come back.
            fair::rejoin(site, request.owner.bytes());
        }
        let (replaced, count) = server.locks(|locks| {
            let until = wait.wait().until(since).filter(|_| !planted(Bug::EndlessWait));
            let owner = request.owner.bytes().into();
            let Acquire { mode, lease, fenced, fair, .. } = *request;
            let waiter = Waiter { owner, mode, lease, fenced, fair, since, until, ticket, via, client_id };
            (locks.join(lock, waiter), locks.len())
        });
        server.note(Note::Waiting(count));
        let belongs_in_list = replaced.as_ref().is_some_and(|replaced| replaced.fair);
        if let Some(replaced) = replaced {
            // One who waited for a message gets none: it is the same owner that asks again.
            server.answer(replaced.ticket, Err(Error::Unblocked(DropReason::Replaced.sentence())));
        }
        fair::remove_departed_heads(site);
        // An owner that was dropped and asks again goes back to its own place.
        if request.fair && !belongs_in_list {
            fair::join(site, request.owner.bytes(), wait.wait());
        }
        schedule_next_check(site);
        Ok(answer)
    }
}
