//! SESSION: holds and waits that end with a connection.
//!
//! The end of a connection is only noted. The timer shortens the leases of its holds a few at a time, and removes its
//! enqueued waiters. Waiting Redisson clients sleep until the lease end that they knew: at the end of a shortened lease they
//! receive an unlock message.

use crate::at::At;
use crate::decision::{Change, UnlockMessage};
use crate::departures::drop_waiters;
use crate::facts::WriteAccess;
use crate::locks::{DropReason, EndedTie, Locks};
use crate::look::{Picture, fields};
use crate::node::Node;
use crate::port::{InTask, Lock, Server};
use crate::read_leases;
use crate::rules;
use crate::timing::{Share, WorkOutcome, check_soon, entry};
use crate::turn::Turn;
use crate::types::{LeaseMs, Mode, UnixMs};
use crate::view::{Need, Others};
use crate::weight::Weighed;

/// A connection has ended. This only notes it, in time that does not depend on the number of its ties.
pub fn connection_ended<P: Server>(node: Node<'_, P>, client: u64) {
    if !node.locks(|locks| locks.sessions.has_session(client)) {
        return;
    }
    let _entry = entry(node);
    node.locks(|locks| locks.session_ended(client));
}

/// Retries the ends of sessions that could not be written, and removes some ties whose holds are gone.
pub fn on_beat<P: InTask>(node: Node<'_, P>) {
    if !node.locks(|locks| locks.sessions.has_ties()) || !node.port.may_write() {
        return;
    }
    let _entry = entry(node);
    node.locks(Locks::unpark_sessions);
    let usual = node.port.settings().at_once.looked;
    let most =
        if node.locks(|locks| locks.sessions.hurries_sweep()) { usual.saturating_mul(HURRY) } else { usual };
    let (mut done, now) = (0_usize, node.port.now());
    while done < most {
        let Some(hold) = node.locks(|locks| locks.sessions.next_swept_tie()) else { break };
        let hold_weight = hold.weight();
        let (lock, owner, mode) = hold;
        let is_held = |at: At<'_, '_, P>| is_held(at.lock, (&owner, mode), now);
        let (held, keys) = node.visit(lock.name(), is_held).unwrap_or((true, 1));
        if !held {
            node.locks(|locks| locks.untie(lock.name(), &owner, mode));
        }
        done = done.saturating_add(keys.max(hold_weight));
    }
}

/// Whether the owner still holds the lock, and the weight of the keys that were read to find this. Fields of dead readers and ended
/// permits are not holds.
fn is_held<L: Lock>(lock: &mut L, (owner, mode): (&[u8], Mode), now: UnixMs) -> (bool, usize) {
    let Ok(fields) = fields(lock, Some(owner)) else { return (false, 1) };
    match (mode, fields.shared) {
        (Mode::Mutex | Mode::Write, _) => (fields.sole.is_some(), 1),
        (_, None) => (false, 1),
        (Mode::Permit, Some(_)) => {
            let key = lock.open();
            (lock.permits(&key, Some(owner)).own.is_some_and(|end| end > now), 1)
        }
        (Mode::Read, Some(_)) if !fields.is_read_write() => (false, 1),
        (Mode::Read, Some(holds)) => {
            let (end, count) = read_leases::find_lease_end(lock, owner, holds, fields.key_end);
            (end.is_some(), count)
        }
    }
}

/// How much faster the sweep is after a tie was refused.
const HURRY: usize = 10;

/// Frees some ties of locks whose holds all ended at one moment. This writes nothing.
pub(crate) fn free_untied<P: Server>(node: Node<'_, P>) {
    let most = node.port.settings().at_once.ended;
    node.locks(|locks| locks.free_untied(most));
}

/// Removes enqueued waiters whose connections have ended, and tells their channels. This writes nothing.
pub(crate) fn drop_ended_waiters<P: Server>(node: Node<'_, P>) {
    let most = node.port.settings().at_once.ended;
    let gone = node.locks(|locks| locks.next_ended_waiters(most));
    drop_waiters(node, gone, DropReason::Session);
}

/// Shortens the leases of holds whose connections have ended, and announces the ends of shortened leases. A reader
/// counts once for each of its lease keys.
pub(crate) fn end_sessions<P: InTask>(node: Node<'_, P>) -> WorkOutcome {
    let (most, mut done, share) = (node.port.settings().at_once.looked, 0_usize, Share::of(node));
    while done < most && !share.is_used_up(node) {
        let Some(tie) = node.locks(Locks::next_ended_tie) else { break };
        let end =
            |grace| node.visit(tie.lock.name(), |at| Turn::run(at, |turn| turn.end_session(&tie, grace)));
        let (outcome, keys) = tie.grace.and_then(end).unwrap_or((WorkOutcome::Done, 0));
        if outcome == WorkOutcome::Refused {
            node.locks(Locks::park_sessions);
            return WorkOutcome::Refused;
        }
        done = done.saturating_add(keys.max(tie.weight()));
        node.locks(|locks| locks.tie_has_ended(tie));
    }
    tell_ends(node);
    WorkOutcome::Done
}

impl<P: Server> Turn<'_, '_, P> {
    /// Shortens the lease of a tied hold. Returns the outcome, and the weight of the lease keys that were read and written.
    fn end_session(&mut self, tie: &EndedTie, grace: LeaseMs) -> (WorkOutcome, usize) {
        // Asking is a command, in which the lease may end: it comes before the look.
        let access = self.at.lock.write_access();
        if access == WriteAccess::SlotMoved {
            // The lease stands alone where the key goes.
            return (WorkOutcome::Done, 0);
        }
        self.forget_all();
        let end = self.now.after(grace);
        let mut picture = Picture::of(self, Some(&tie.owner));
        let decision = picture.decide(Need::Own, |picture| {
            let reads = tie.mode == Mode::Read;
            rules::end_session(picture.view(), tie.mode, reads.then(|| picture.last_own_end()).flatten(), end)
        });
        let reads = picture.view().shared_holds().filter(|_| tie.mode == Mode::Read);
        let keys = reads.map_or(0, |holds| read_leases::weigh_lease_keys(picture.name(), &tie.owner, holds));
        let Some(decision) = decision.ok().filter(|decision| !decision.change.is_empty()) else {
            return (WorkOutcome::Done, keys);
        };
        if access == WriteAccess::Refused {
            return (WorkOutcome::Refused, keys);
        }
        shorten(picture, tie.mode, &decision.change);
        (WorkOutcome::Done, keys)
    }
}

/// Makes the change by which the lease is shorter.
fn shorten<P: Server>(mut picture: Picture<'_, '_, '_, P>, mode: Mode, change: &Change) {
    // A lease key that has left with its slot: the lease stands alone where it is.
    if picture.check_leases_local(change).is_err() {
        return;
    }
    // A failure is in the log, and the lease ends by itself.
    let Ok(turn) = picture.commit_and_serve(change) else { return };
    if let Some(at) = change.expire_at.filter(|_| mode != Mode::Permit) {
        // Waiting Redisson clients sleep until the lease end that they know.
        turn.at.locks(|locks, lock| locks.watch_end(lock, at, change.mode));
    }
}

fn tell_ends<P: InTask>(node: Node<'_, P>) {
    let (now, share, mut done): (UnixMs, _, _) = (node.port.now(), Share::of(node), 0_usize);
    while done < node.port.settings().at_once.looked && !share.is_used_up(node) {
        let Some((lock, mode)) = node.locks(|locks| locks.sessions.next_end(now)) else { break };
        done = done.saturating_add(lock.weight());
        node.visit(lock.name(), |at| Turn::run(at, |turn| turn.tell_end(mode)));
    }
}

impl<P: Server> Turn<'_, '_, P> {
    fn tell_end(&mut self, mode: Mode) {
        if self.at.locks(|locks, lock| locks.records.head(lock).is_some()) {
            // The check that serves the queue announces it.
            check_soon(self.at.node, self.at.name());
            return;
        }
        let wanted = if mode == Mode::Mutex { Mode::Mutex } else { Mode::Write };
        let view = self.look(None, Need::AnyOther).ok().map(|picture| *picture.view());
        // In doubt Redisson clients are woken as well: each retries for itself.
        let in_doubt = view.is_some_and(|view| view.others == Others::InDoubt);
        if view.is_some_and(|view| view.is_free_for(wanted)) {
            self.at.lock.raise_expired();
        } else if mode == Mode::Read && !in_doubt {
            // Other readers hold the lock, until the end that its key has.
            return;
        }
        // Another holder has the lock by now: its lease may end before the announced end.
        if let Some(message) = UnlockMessage::to_all(mode) {
            self.at.notify_redisson(message);
        }
    }
}
