//! Hand-offs: in the commands that free a lock, and by the timer for all other causes: a lease end, another client's DEL,
//! FLUSHALL, a client that disconnects with a pending grant.

mod grant;
mod in_turn;
mod next_check;

pub(crate) use self::grant::next_token;
use self::in_turn::{End, grant_in_turn};
pub(crate) use self::next_check::schedule_next_check;
use crate::access::{Access, access_and_bury, head};
use crate::decision::{Change, UnlockMessage};
use crate::error::Error;
use crate::locks::{Cause, DropReason, Wanted};
use crate::look::Picture;
use crate::node::Node;
use crate::note::Note;
use crate::port::{Lock, Server};
use crate::tying;
use crate::types::{Expiry, Mode, UnixMs};
use crate::yielding::{expire_window, note_reads, notify_redisson, open_window_if_due};

/// How a lock became free.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Freed {
    /// This command, or this cycle of the timer, freed it.
    Now,
    /// It was found free: its lease has ended, or another client has deleted it.
    Unseen,
}

/// The result for a lock that may be free.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Served {
    /// It has no waiters, or its first waiter cannot have it now.
    NotFree,
    /// At least one waiter was granted it.
    Given,
    /// It is free, and no waiter is left: each of them left the queue without a grant.
    Free,
    /// It is left to Redisson clients, which were notified.
    Yielded,
    /// More waiters left its queue without a grant than one event-loop cycle handles. The timer continues with the rest, but
    /// these may leave before that: Redisson clients are notified as if the lock had no waiters.
    Later,
}

/// Serves a lock that may have become free without a command of the module. If no native waiter gets it, Redisson clients
/// are notified.
pub(crate) fn serve_found_free<P: Server>(node: Node<'_, P>, lock: &mut P::Lock<'_>, now: UnixMs) {
    let Some((_, Wanted { mode, .. })) = head(node, lock) else { return };
    match serve(node, lock, now, Freed::Unseen) {
        Served::NotFree => return,
        Served::Free | Served::Later => {
            node.locks(|locks| locks.end_count(lock.name()));
            if let Some(message) = UnlockMessage::to_all(mode) {
                notify_redisson(node, lock, message);
            }
        }
        Served::Given | Served::Yielded => {}
    }
    schedule_next_check(node, lock);
}

/// Commits a change, and serves the queue if the change frees the lock. The change's unlock message is sent after the grants,
/// and only if no native waiter got the lock, or Redisson readers may join.
pub(crate) fn perform_and_serve<'l, 'n, P: Server>(
    node: Node<'_, P>,
    picture: Picture<'l, P::Lock<'n>>,
    change: &Change,
    now: UnixMs,
) -> Result<&'l mut P::Lock<'n>, Error> {
    let owner = picture.owner();
    let lock = picture.commit(&Change { unlock_message: None, ..change.clone() })?;
    tying::holds_changed(node, lock.name(), owner, change);
    // Before the grants: a reader that is granted the lock now has its own lease.
    note_reads(node, lock, change);
    let served = serve(node, lock, now, Freed::Now);
    match (change.unlock_message, served) {
        (Some(message), Served::Free | Served::NotFree | Served::Later) => {
            // After a downgrade the lock is free for readers only.
            if change.becomes != Some(Mode::Read) {
                node.locks(|locks| locks.end_count(lock.name()));
            }
            notify_redisson(node, lock, message);
        }
        // After a downgrade Redisson readers may join, too.
        (Some(message), Served::Given) if change.becomes == Some(Mode::Read) => {
            notify_redisson(node, lock, message);
        }
        _ => {}
    }
    schedule_next_check(node, lock);
    Ok(lock)
}

/// Grants a lock to its waiters, if the first of them can have it. In a command that writes, the server has checked that
/// writing is allowed; elsewhere ask for [`Lock::write_access`] first.
fn serve<P: Server>(node: Node<'_, P>, lock: &mut P::Lock<'_>, now: UnixMs, freed: Freed) -> Served {
    let Some((owner, wanted)) = head(node, lock) else { return Served::NotFree };
    // This call serves the waiters that an earlier one left, or notes anew that it leaves some.
    node.locks(|locks| locks.note_unserved(lock.name(), false));
    if node.locks(|locks| locks.dropping() == Some(DropReason::Demoted)) {
        // A replica grants nothing, even if it accepts writes.
        return Served::NotFree;
    }
    let head_access = access_and_bury(node, lock, &owner, wanted);
    match head_access {
        Access::Until(_) => {
            node.locks(|locks| locks.close_window(lock.name()));
            return Served::NotFree;
        }
        Access::InDoubt => {
            node.locks(|locks| locks.note_in_doubt(lock.name()));
            return Served::NotFree;
        }
        // Redisson knows no permits of this kind.
        _ if wanted.mode == Mode::Permit => note_found_free(node, lock, now, freed),
        Access::Free if yield_if_due(node, lock, wanted.mode, now, freed) => return Served::Yielded,
        Access::Free | Access::Shared => {}
    }
    let grants = grant_in_turn(node, lock, now);
    if grants.opened {
        // Redisson readers may join: they wait for the end of another lease.
        notify_redisson(node, lock, UnlockMessage::WriterGone);
    }
    let is_left_free =
        || head_access == Access::Free && node.locks(|locks| locks.head(lock.name()).is_none());
    match grants.end {
        _ if grants.any => Served::Given,
        End::RedissonTurn => Served::Yielded,
        _ if is_left_free() => Served::Free,
        End::Unfinished => Served::Later,
        End::Settled => Served::NotFree,
    }
}

/// Leaves a free lock to Redisson clients if a yield window is open, or opens. Returns whether it did. Unless a window was
/// open already, the end of the last hold is noted.
fn yield_if_due<P: Server>(
    node: Node<'_, P>,
    lock: &P::Lock<'_>,
    mode: Mode,
    now: UnixMs,
    freed: Freed,
) -> bool {
    if expire_window(node, lock.name()).is_some() {
        return true;
    }
    note_found_free(node, lock, now, freed);
    open_window_if_due(node, lock, mode)
}

/// A waiter can have the lock: notes the end of the hold before it, unless this command ended that.
fn note_found_free<P: Server>(node: Node<'_, P>, lock: &P::Lock<'_>, now: UnixMs, freed: Freed) {
    let (ended, unconfirmed) =
        node.locks(|locks| (locks.found_free(lock.name()), locks.take_unconfirmed(lock.name())));
    if let (Freed::Unseen, Some((ended, seen))) = (freed, ended) {
        note_end(node, lock, ended, seen, unconfirmed, now);
    }
}

/// Counts the end of a hold by its cause: the last event of the key, or the lease end. A lease end raises its event.
fn note_end<P: Server>(
    node: Node<'_, P>,
    lock: &P::Lock<'_>,
    ended: Expiry,
    seen: Option<Cause>,
    unconfirmed: bool,
    now: UnixMs,
) {
    // Some servers delete a key in the very millisecond in which it expires.
    let in_time = matches!(ended, Expiry::At(at) if at <= now);
    let seen = seen.filter(|seen| *seen != Cause::Other);
    let cause = seen.unwrap_or(if in_time { Cause::Expired } else { Cause::Other });
    node.port.note(Note::Found(cause));
    if cause != Cause::Expired {
        return;
    }
    lock.raise_expired();
    if unconfirmed {
        node.port.note(Note::Unconfirmed);
    }
}
