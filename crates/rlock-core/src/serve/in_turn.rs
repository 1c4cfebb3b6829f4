//! Grants to the waiters of one lock, each in its turn.

use super::grant::{Handed, hand_to};
use crate::access::{Access, access};
use crate::fair::{self, Next};
use crate::locks::Waiter;
use crate::node::Node;
use crate::port::{Lock, Server};
use crate::timing::Share;
use crate::types::{Mode, UnixMs};
use crate::weight::{Weighed, weight};

/// The grants of one call.
pub(super) struct Grants {
    /// Whether at least one waiter was granted the lock.
    pub(super) any: bool,
    /// Whether the free lock went to a reader, which other readers may join.
    pub(super) opened: bool,
    pub(super) end: End,
}

/// Why the grants ended.
pub(super) enum End {
    /// The queue is empty, or its head cannot have the lock now.
    Settled,
    /// A Redisson waiter stands first in the fair list. It was called.
    RedissonTurn,
    /// One event-loop cycle serves no more waiters. The next check is due at once.
    Unfinished,
}

/// Grants the lock to its waiters in order, until the head of the queue cannot have it.
pub(super) fn grant_in_turn<P: Server>(node: Node<'_, P>, lock: &mut P::Lock<'_>, now: UnixMs) -> Grants {
    let (mut any, mut opened) = (false, false);
    let share = Share::of(node);
    let end = loop {
        let head = match next_waiter(node, lock, now, &share) {
            Ok(head) => head,
            Err(end) => break end,
        };
        let weight = weight(lock.name().key.len().saturating_add(head.bytes()));
        match hand_to(node, lock, &head, now) {
            Handed::Over(change) => {
                node.locks(|locks| locks.count_served(weight));
                any = true;
                opened |= change.becomes == Some(Mode::Read);
                // In the other modes the next waiter may share the lock. Behind a writer this is its own wait to read.
                if head.mode == Mode::Mutex {
                    break End::Settled;
                }
            }
            // The lock is as free as before: the next waiter has its turn.
            Handed::SentAway => node.locks(|locks| locks.count_served(weight)),
            Handed::Not => break End::Settled,
        }
    };
    Grants { any, opened, end }
}

/// The next waiter, if it can have the lock now.
fn next_waiter<P: Server>(
    node: Node<'_, P>,
    lock: &mut P::Lock<'_>,
    now: UnixMs,
    share: &Share,
) -> Result<Waiter, End> {
    if share.is_used_up(node) {
        return Err(leave_the_rest(node, lock));
    }
    let head = match fair::call_next(node, lock, now) {
        Next::Waiter(head) => head,
        Next::Later => return Err(leave_the_rest(node, lock)),
        Next::Redisson => return Err(End::RedissonTurn),
        Next::Nobody => return Err(End::Settled),
    };
    match access(node, lock, &head.owner, head.wanted()) {
        Access::Free | Access::Shared => Ok(head),
        // The grants before it are in its way. Or another module reacted to an event of rlock, and acquired the lock.
        Access::Until(_) => Err(End::Settled),
        Access::InDoubt => {
            node.locks(|locks| locks.note_in_doubt(lock.name()));
            Err(End::Settled)
        }
    }
}

/// Leaves the rest of the queue to the next event-loop cycle. Until then every new caller stands behind it.
fn leave_the_rest<P: Server>(node: Node<'_, P>, lock: &P::Lock<'_>) -> End {
    node.locks(|locks| locks.note_unserved(lock.name(), true));
    End::Unfinished
}
