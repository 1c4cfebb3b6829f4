//! SESSION: holds and waits that end with a connection.
//!
//! The end of a connection is only noted. The timer shortens the leases of its holds a few at a time, and removes its
//! enqueued waiters. The end of a shortened lease is told to waiting Redisson clients, which sleep until the end that they
//! knew.

use crate::decision::{Change, Decision, HashChange, Reply, UnlockMessage};
use crate::departures::drop_waiters;
use crate::error::Error;
use crate::locks::{Cause, DropReason, EndedTie, LockName, Locks, Session};
use crate::look::{Picture, look};
use crate::port::{Server, Site, WriteAccess};
use crate::read_leases;
use crate::rules;
use crate::serve::perform_and_serve;
use crate::timing::{Outcome, check_soon, entry};
use crate::types::{LeaseMs, Mode, UnixMs};
use crate::view::{Need, Step, View};
use crate::yielding::notify_redisson;

/// What a successful call does to the tie of its owner's holds.
#[derive(Clone, Copy)]
pub(crate) enum Tying {
    /// ACQUIRE and RENEW set it, or remove it.
    Set(Option<Session>),
    /// RELEASE keeps it while holds remain; FORCERELEASE has no part in it.
    Keep,
}

impl Tying {
    /// What a call with this grace period does.
    pub(crate) fn of<V: Server>(server: &V, grace: Option<LeaseMs>) -> Self {
        Self::Set(grace.map(|grace| Session { client: server.client_id(), grace }))
    }

    pub(crate) fn ties(self) -> bool {
        matches!(self, Self::Set(Some(_)))
    }

    /// Refuses one tie more than the server may have, where the call would succeed.
    pub(crate) fn check<S: Site>(self, site: &S, owner: &[u8], decision: &Decision) -> Result<(), Error> {
        let succeeds = matches!(decision.reply, Reply::Acquired { .. } | Reply::Renewed);
        if self.ties() && succeeds { check_room(site, owner, decision.change.mode) } else { Ok(()) }
    }

    /// The call has succeeded with this reply.
    pub(crate) fn note<S: Site>(self, site: &S, owner: &[u8], mode: Mode, reply: Reply) {
        let lock = site.lock();
        site.server().locks(|locks| match (self, reply) {
            (Self::Set(session), Reply::Acquired { .. } | Reply::Renewed) => {
                locks.tie(lock, owner, mode, session);
            }
            (Self::Keep, Reply::StillHeld) => locks.supersede_ended(lock, owner, mode),
            _ => {}
        });
    }
}

/// Refuses one tie more than the server may have.
pub(crate) fn check_room<S: Site>(site: &S, owner: &[u8], mode: Mode) -> Result<(), Error> {
    let (lock, most) = (site.lock(), site.server().settings().max_ties);
    let room = site.server().locks(|locks| locks.may_tie(lock, owner, mode, most));
    if room { Ok(()) } else { Err(Error::TooManyTies) }
}

/// A tie ends with its hold. Called before the lock is served: the next holder may be tied.
pub(crate) fn holds_changed<S: Site>(site: &S, owner: Option<&[u8]>, change: &Change) {
    let lock = site.lock();
    site.server().locks(|locks| match (change.hash, owner) {
        (HashChange::Delete, _) => locks.untie_all(lock),
        (HashChange::Remove, Some(owner)) => locks.untie(lock, owner, change.mode),
        _ => {}
    });
}

/// A connection has ended. This only notes it, in time that does not depend on the number of its ties.
pub fn connection_ended<V: Server>(server: &V, client: u64) {
    if !server.locks(|locks| locks.has_session(client)) {
        return;
    }
    let _entry = entry(server);
    server.locks(|locks| locks.session_ended(client));
}

/// Retries the ends of sessions that could not be written, and removes some ties whose holds are gone.
pub fn on_beat<V: Server>(server: &V) {
    if !server.locks(|locks| locks.has_ties()) || !server.may_write() {
        return;
    }
    let _entry = entry(server);
    server.locks(Locks::unpark_sessions);
    let most = server.settings().at_once.looked;
    for (lock, owner, mode) in server.locks(|locks| locks.next_swept_ties(most)) {
        if server.at(lock.name(), |site| is_held(site, &owner, mode)) == Some(false) {
            server.locks(|locks| locks.untie(lock.name(), &owner, mode));
        }
    }
}

/// Whether the owner's holds are still in the lock's hash; a dead reader's count until they are removed.
fn is_held<S: Site>(site: &S, owner: &[u8], mode: Mode) -> bool {
    site.state(&site.open(), Some(owner)).is_ok_and(|fields| match mode {
        Mode::Read => fields.reads.is_some(),
        Mode::Mutex | Mode::Write => fields.sole.is_some(),
    })
}

/// Removes enqueued waiters whose connections have ended, and tells their channels. This writes nothing.
pub(crate) fn drop_ended_waiters<V: Server>(server: &V) {
    let most = server.settings().at_once.ended;
    let gone = server.locks(|locks| locks.next_ended_waiters(most));
    drop_waiters(server, gone, DropReason::Session);
}

/// Shortens the leases of holds whose connections have ended, and tells of the ends of those that were shortened.
pub(crate) fn end_sessions<V: Server>(server: &V) -> Outcome {
    for _ in 0..server.settings().at_once.looked {
        let Some(tie) = server.locks(Locks::next_ended_tie) else { break };
        if server.at(tie.lock.name(), |site| end_session(site, &tie)) == Some(Outcome::Refused) {
            server.locks(Locks::park_sessions);
            return Outcome::Refused;
        }
        server.locks(|locks| locks.untie(tie.lock.name(), &tie.owner, tie.mode));
    }
    tell_ends(server);
    Outcome::Done
}

fn end_session<S: Site>(site: &S, tie: &EndedTie) -> Outcome {
    let ends = || site.server().now().after(tie.grace);
    let reads = || (tie.mode == Mode::Read).then(|| read_leases::read_end(site, &tie.owner)).flatten();
    let (latest, end) = (reads(), ends());
    let rule = |view: &View| rules::end_session(view, tie.mode, latest, end);
    let first = look(site, Some(&tie.owner), Need::Mine).and_then(|picture| rule(picture.view()));
    if !first.is_ok_and(|step| !matches!(step, Step::Done(decision) if decision.change.is_empty())) {
        return Outcome::Done;
    }
    match site.write_access() {
        WriteAccess::Allowed => {}
        WriteAccess::Refused => return Outcome::Refused,
        // The lease stands alone where the key goes.
        WriteAccess::SlotMoved => return Outcome::Done,
    }
    // Asking is a command, in which the lease may have ended; the grace period counts from now.
    let (latest, end) = (reads(), ends());
    let mut picture = Picture::of(site, Some(&tie.owner));
    let Ok(decision) = picture.decide(|view| rules::end_session(view, tie.mode, latest, end)) else {
        return Outcome::Done;
    };
    // A failure is in the log; the lease ends by itself then.
    if perform_and_serve(&mut picture, &decision.change, site.server().now()).is_ok() {
        watch(site, &decision.change);
    }
    Outcome::Done
}

/// Waiting Redisson clients sleep until the lease end that they were told: the new one is noticed by the timer.
fn watch<S: Site>(site: &S, change: &Change) {
    let lock = site.lock();
    if let Some(at) = change.expire_at {
        site.server().locks(|locks| locks.watch_end(lock, at, change.mode));
    }
}

fn tell_ends<V: Server>(server: &V) {
    let now: UnixMs = server.now();
    for _ in 0..server.settings().at_once.looked {
        let Some((lock, mode)) = server.locks(|locks| locks.next_end(now)) else { break };
        server.at(lock.name(), |site| tell_end(site, mode));
    }
}

fn tell_end<S: Site>(site: &S, mode: Mode) {
    let (server, lock) = (site.server(), site.lock());
    if server.locks(|locks| locks.head(lock).is_some()) {
        // Whoever serves the queue tells of it.
        check_soon(server, lock);
        return;
    }
    let wanted = if mode == Mode::Mutex { Mode::Mutex } else { Mode::Write };
    let free = look(site, None, Need::AnyOther).is_ok_and(|picture| picture.view().is_free_for(wanted));
    if free {
        site.raise_expired();
    } else if mode == Mode::Read {
        // Other readers hold the lock, until the end that its key has.
        return;
    }
    // Another holder has it by now: its lease may end before the end that was told.
    notify_redisson(site, UnlockMessage::to_all(mode));
}

/// A key has gone, or has another name: its holds are not tied any more. The end of a shortened lease is told now.
pub(crate) fn key_ended<V: Server>(server: &V, lock: LockName<'_>, cause: Cause) {
    let now = server.now();
    server.locks(|locks| {
        if cause == Cause::Expired && locks.end_is_due(lock, now) {
            locks.untie_holds(lock);
        } else {
            locks.untie_all(lock);
        }
    });
}
