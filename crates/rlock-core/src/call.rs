//! The commands. Each has the same steps: serve the queue, read the lock, decide, perform or wait.

use crate::bugs::{Bug, planted};
use crate::decide;
use crate::decision::{Change, Decision, Reply};
use crate::error::Error;
use crate::fair;
use crate::locks::DropReason;
use crate::locks::{Via, Waiter};
use crate::port::{Note, Server, Site};
use crate::read_leases;
use crate::read_write;
use crate::request::{Acquire, Cancel, ForceRelease, Release, Renew, Wait};
use crate::serve::{next_token, perform_and_serve, schedule_next_check, serve_found_free};
use crate::shape::LockState;
use crate::timing::{Entry, entry};
use crate::token::Token;
use crate::types::{Holds, Mode, UnixMs};
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
    let (call, decision) = match request.mode {
        Mode::Mutex => {
            let ahead = request.fair && fair::is_ahead(site, request.owner.bytes(), arrival.now);
            let (call, admission) = (arrival.open(), site.server().settings().admission);
            let state = call.state_to_acquire(ahead)?;
            let decision = decide::acquire(state, request, token, call.now, admission)?;
            (call, decision)
        }
        Mode::Read | Mode::Write => arrival.open().acquire_read_write(request, token)?,
    };
    // Only the first hold is worth waiting for: later ones build on what is lost by now.
    let first = request.arrive_at.is_none_or(|wanted| wanted == Holds::ONE);
    match request.wait.filter(|wait| first && may_wait(site.server(), *wait)) {
        Some(wait) if decision.reply == Reply::Denied => call.wait(request, wait),
        _ => {
            let reply = call.perform(&decision)?;
            if request.fair && reply != Reply::Denied {
                fair::leave_unless_waiting(site, request.owner.bytes());
            }
            Ok(Answer::Now(reply))
        }
    }
}

/// RLOCK.RELEASE.
pub fn release<S: Site>(site: &S, request: &Release<'_>) -> Result<Reply, Error> {
    let owner = request.owner.bytes();
    let call = Call::open(site, Some(owner));
    let (state, now) = (call.state()?, call.now);
    if !is_read_write(state, request.mode)? {
        return call.perform(&decide::release(state, request, now));
    }
    let (call, decision) = call.read_write(|site| {
        let (seen, state) = read_leases::state(site, Some(owner))?;
        read_leases::check_own_leases(site, owner, state, request.mode)?;
        let others = |held| read_leases::check_others(site, owner, held);
        Ok((seen, read_write::release(state, request, now, others)?))
    })?;
    call.perform(&decision)
}

/// RLOCK.RENEW.
pub fn renew<S: Site>(site: &S, request: &Renew<'_>) -> Result<Reply, Error> {
    let owner = request.owner.bytes();
    let call = Call::open(site, Some(owner));
    let (state, now) = (call.state()?, call.now);
    if !is_read_write(state, request.mode)? {
        return call.perform(&decide::renew(state, request, now));
    }
    let (call, decision) = call.read_write(|site| {
        let (seen, state) = read_leases::state(site, Some(owner))?;
        read_leases::check_own_leases(site, owner, state, request.mode)?;
        Ok((seen, read_write::renew(state, request.mode, request.lease, now)?))
    })?;
    call.perform(&decision)
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
    let call = Call::open(site, owner);
    let state = call.state()?;
    let LockState::ReadWrite(hash) = state else {
        return call.perform(&decide::force_release(state, request));
    };
    let (call, decision) = call.read_write(|site| {
        let (seen, state) = read_leases::state(site, owner)?;
        owner.filter(|_| hash.reads.is_some()).map_or(Ok(()), |reader| site.check_leases(reader))?;
        let others = |held| read_leases::check_others(site, owner.unwrap_or_default(), held);
        Ok((seen, read_write::force_release(state, owner.is_some(), hash.reads, others)))
    })?;
    call.perform(&decision)
}

/// Whether the lock is a read/write lock; an error where it is asked for as one and is not.
fn is_read_write(state: LockState, asked: Option<Mode>) -> Result<bool, Error> {
    match state {
        LockState::ReadWrite(_) => Ok(true),
        LockState::Mine { .. } | LockState::Theirs if asked.is_some() => Err(Error::Mutex),
        LockState::Free | LockState::Abandoned | LockState::Mine { .. } | LockState::Theirs => Ok(false),
    }
}

/// Whether a command on this lock must look at its record.
fn is_watched<S: Site>(site: &S) -> bool {
    let lock = site.lock();
    site.server().locks(|locks| locks.watches(lock))
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
    now: UnixMs,
    /// Where the lock has waiters, pending grants or the like; otherwise the call cannot cause work outside commands.
    entry: Option<Entry<'a, S::Server>>,
}

/// A call that may change a lock.
struct Call<'a, S: Site> {
    site: &'a S,
    key: S::Key,
    /// The caller's field, where it may have one.
    owner: Option<&'a [u8]>,
    now: UnixMs,
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

    /// Opens the key.
    fn open(self) -> Call<'a, S> {
        let Self { site, owner, now, entry } = self;
        Call { site, key: site.open(), owner, now, entry }
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
    fn state_to_acquire(&self, others_are_ahead: bool) -> Result<LockState, Error> {
        let state = self.state()?;
        let free = matches!(state, LockState::Free | LockState::Abandoned);
        let awaited = self.is_awaited() && !planted(Bug::SkipQueue);
        let in_line = free && (awaited || others_are_ahead);
        Ok(if in_line { LockState::Theirs } else { state })
    }

    /// What becomes of an ACQUIRE to read or to write.
    fn acquire_read_write(
        self,
        request: &Acquire<'_>,
        token: Option<Token>,
    ) -> Result<(Self, Decision), Error> {
        let (owner, mode, now) = (self.owner, request.mode, self.now);
        let awaited = self.is_awaited() && !planted(Bug::SkipQueue);
        self.read_write(|site| {
            let (seen, state) = read_leases::state_to_acquire(site, owner, mode)?;
            let awaited = awaited || yielding::holds_back(site, state, mode);
            let admission = site.server().settings().admission;
            Ok((seen, read_write::acquire(state, request, token, now, admission, awaited)?))
        })
    }

    /// Looks at a read/write lock and those who read it while its key is closed, and decides; then opens it again.
    fn read_write(
        self,
        decide: impl FnOnce(&S) -> Result<(LockState, Decision), Error>,
    ) -> Result<(Self, Decision), Error> {
        let Self { site, key, owner, now, entry } = self;
        drop(key);
        let (seen, decision) = decide(site)?;
        read_leases::check_own_leases_local(site, owner, seen, decision.change.leases)?;
        let key = site.open();
        if !site.state(&key, owner)?.holds_as(seen) {
            // Another module has heard that a lease key expired, and changed the lock.
            return Err(Error::Internal("the lock changed while it was looked at"));
        }
        Ok((Self { site, key, owner, now, entry }, decision))
    }

    fn is_awaited(&self) -> bool {
        let awaited = |lock| self.site.server().locks(|locks| locks.head(lock).is_some());
        self.entry.is_some() && awaited(self.site.lock())
    }

    /// Performs what was decided.
    fn perform(self, decision: &Decision) -> Result<Reply, Error> {
        let Self { site, key, owner, now, entry } = self;
        if entry.is_some() {
            perform_and_serve(site, key, owner, &decision.change, now)?;
        } else if decision.change != Change::default() {
            site.perform(key, owner, &decision.change)?;
            note_reads(site, &decision.change);
        }
        site.server().note(Note::Decided(decision));
        Ok(decision.reply)
    }

    /// Blocks the caller's client unless it waits for a message, and puts it at the end of the lock's queue, or at
    /// its owner's place.
    fn wait(self, request: &Acquire<'_>, wait: Wait<'_>) -> Result<Answer, Error> {
        let Self { site, key, entry: begun, .. } = self;
        // Closed: what follows may open it again.
        drop(key);
        let (server, lock) = (site.server(), site.lock());
        let _entry = begun.unwrap_or_else(|| entry(server));
        if request.fair && server.locks(|locks| locks.fair_has_changed(lock)) {
            // Before anybody joins: an owner that was dropped and asks again keeps its place.
            fair::repair(site, server.now());
        }
        let (since, client_id, limits) = (server.clock(), server.client_id(), server.settings().limits);
        let (via, answer) = match wait {
            Wait::Block(_) => (Via::Block, Answer::Later),
            Wait::Enqueue(_, channel) => (Via::Enqueue(channel.into()), Answer::Now(Reply::Enqueued)),
        };
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
