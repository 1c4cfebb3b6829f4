//! What a call does to the tie of its owner's holds, and when a tie ends with its hold.

use crate::at::At;
use crate::decision::{Change, Decision, KeyChange, LockEvent, Reply};
use crate::error::Error;
use crate::locks::{Call, Cause, LockName, Session, User};
use crate::node::Node;
use crate::note::Note;
use crate::port::{InCommand, Server};
use crate::request::{Acquire, Wait};
use crate::types::{Holds, LeaseMs};

/// What a successful call does to the tie of its owner's holds.
#[derive(Clone, Copy)]
pub(crate) enum Tying {
    /// ACQUIRE and RENEW set it with this grace period, or remove it.
    Set(Option<LeaseMs>),
    /// RELEASE keeps it while holds remain; FORCERELEASE has no part in it.
    Keep,
}

impl Tying {
    pub(crate) fn ties(self) -> bool {
        matches!(self, Self::Set(Some(_)))
    }

    /// Refuses one tie more than the server or the user may have, and a tie that would stay with a younger connection, where a
    /// call that ties would succeed. Returns the user for which the tie counts. A call that ties nothing costs nothing here.
    #[inline]
    pub(crate) fn check<'l, P: InCommand>(
        self,
        node: Node<'_, P>,
        lock: impl FnOnce() -> LockName<'l>,
        owner: &[u8],
        decision: &Decision,
    ) -> Result<Option<User>, Error> {
        let succeeds = matches!(decision.reply, Reply::Acquired { .. } | Reply::Renewed);
        if self.ties() && succeeds { check(node, lock(), owner, &decision.change) } else { Ok(None) }
    }

    /// Changes the tie of the hold after a successful call with this decision. A call without SESSION skips this on a lock that is not
    /// watched, since that lock has no ties.
    #[cold]
    pub(crate) fn note<P: InCommand>(
        self,
        node: Node<'_, P>,
        lock: LockName<'_>,
        owner: &[u8],
        (decision, user): (&Decision, Option<User>),
    ) {
        let mode = decision.change.mode;
        node.locks(|locks| match (self, decision.reply) {
            (Self::Set(grace), Reply::Acquired { .. } | Reply::Renewed) => {
                locks.tie(lock, owner, mode, (Call { client: node.port.client_id(), grace }, user));
            }
            (Self::Keep, Reply::StillHeld) => locks.supersede_ended(lock, owner, mode),
            _ => {}
        });
    }
}

#[cold]
fn check<P: InCommand>(
    node: Node<'_, P>,
    lock: LockName<'_>,
    owner: &[u8],
    change: &Change,
) -> Result<Option<User>, Error> {
    let (hold, client) = ((owner, change.mode), node.port.client_id());
    let (user, limits) = (node.port.user(), node.port.settings().max_ties);
    let allowed = node.locks(|locks| {
        // The tie of an earlier hold, which has ended, keeps no connection from the next one.
        if !is_first_hold(change) {
            locks.check_tie_moves(lock, hold, client)?;
        }
        locks.may_tie(lock, hold, user.as_deref(), limits)
    });
    allowed.inspect_err(|why| note_refused(node, why))?;
    Ok(user)
}

/// Counts a refusal for the share of its user.
#[cold]
pub(crate) fn note_refused<P: Server>(node: Node<'_, P>, why: &Error) {
    if matches!(why, Error::UserQueueFull | Error::UserHasTooManyTies) {
        node.port.note(Note::RefusedByShare);
    }
}

impl<P: InCommand> At<'_, '_, P> {
    /// The connection that a waiter is tied to, if there is room for one more tie. A blocked waiter leaves the connection to which
    /// the one before it was tied, even a younger one: it ends with the connection that it blocks.
    pub(crate) fn waiters_session(
        &self,
        request: &Acquire<'_>,
        user: Option<&[u8]>,
    ) -> Result<Option<Session>, Error> {
        let Some(grace) = request.session else { return Ok(None) };
        let (waiter, limits) = ((request.owner.bytes(), request.mode()), self.node.port.settings().max_ties);
        let (client, blocks) = (self.node.port.client_id(), matches!(request.wait, Some(Wait::Block(_))));
        let allowed = self.locks(|locks, lock| {
            if !blocks {
                locks.check_waiters_tie_moves(lock, waiter, client)?;
            }
            locks.may_tie_waiter(lock, waiter, user, limits)
        });
        allowed.inspect_err(|why| note_refused(self.node, why))?;
        Ok(Some(Session { client, grace }))
    }
}

impl<P: Server> At<'_, '_, P> {
    /// A tie ends with its hold. Called before the lock is served: the next holder may be tied.
    pub(crate) fn holds_changed(&self, owner: Option<&[u8]>, change: &Change) {
        self.locks(|locks, lock| match (change.key, owner) {
            (KeyChange::Delete, _) => locks.untie_all(lock),
            (KeyChange::Remove, Some(owner)) => locks.untie(lock, owner, change.mode),
            (_, Some(owner)) if is_first_hold(change) => locks.untie(lock, owner, change.mode),
            _ => {}
        });
    }
}

/// Whether the owner held nothing in this mode before. A dead reader and an ended permit may be in the key until then, and
/// their ties in memory.
fn is_first_hold(change: &Change) -> bool {
    let acquired = matches!(change.event, Some(LockEvent::Acquire | LockEvent::HandOff));
    acquired && (change.key.holds() == Some(Holds::ONE) || change.key.permit_end().is_some())
}

/// A key was removed or renamed: its holds are not tied any more. The end of a shortened lease is announced now.
pub(crate) fn key_ended<P: Server>(node: Node<'_, P>, lock: LockName<'_>, cause: Cause) {
    let now = node.port.now();
    node.locks(|locks| {
        if cause == Cause::Expired && locks.make_end_due(lock, now) {
            locks.untie_holds(lock);
        } else {
            locks.untie_all(lock);
        }
    });
}
