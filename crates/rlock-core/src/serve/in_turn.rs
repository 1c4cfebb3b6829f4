//! Grants to the waiters of one lock, each in its turn.

use super::grant::GrantOutcome;
use crate::access::Access;
use crate::fair::Next;
use crate::locks::Waiter;
use crate::port::Server;
use crate::timing::Share;
use crate::turn::Turn;
use crate::types::{Mode, Wanted};
use crate::weight::{Weighed, weight};

/// The grants of one call.
pub(super) struct Grants {
    /// Whether at least one waiter was granted the lock.
    pub(super) any: bool,
    /// Whether the free lock went to a reader, which other readers may join.
    pub(super) opened: bool,
    /// Why the grants ended.
    pub(super) end: End,
}

/// Why the grants ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The queue is empty, or its head cannot have the lock now.
    Settled,
    /// A Redisson waiter stands first in the fair list. It was called.
    RedissonTurn,
    /// One event-loop cycle serves no more waiters. The next check is due at once.
    Later,
    /// The server refused a grant, or the lock has changed meanwhile: the next check tries again.
    Failed,
}

impl<P: Server> Turn<'_, '_, P> {
    /// Grants the lock to its waiters in order, until the head of the queue cannot have it.
    pub(super) fn grant_in_turn(&mut self) -> Grants {
        let (mut any, mut opened) = (false, false);
        let share = Share::of(self.at.node);
        let end = loop {
            let head = match self.next_waiter(&share) {
                Ok(head) => head,
                Err(end) => break end,
            };
            let weight = weight(self.at.name().key.len().saturating_add(head.bytes()));
            let wanted = head.wanted;
            match self.hand_to(head) {
                GrantOutcome::Granted { becomes } => {
                    self.at.node.locks(|locks| locks.calls.count_served(weight));
                    any = true;
                    opened |= becomes == Some(Mode::Read);
                    // In the other modes the next waiter may share the lock. Behind a writer this is its own wait to read.
                    if wanted == Wanted::Mutex {
                        break End::Settled;
                    }
                }
                // The lock is as free as before: the next waiter has its turn.
                GrantOutcome::SentAway => self.at.node.locks(|locks| locks.calls.count_served(weight)),
                GrantOutcome::Denied => break End::Settled,
                GrantOutcome::Failed => break End::Failed,
            }
        };
        Grants { any, opened, end }
    }

    /// The next waiter, if it can have the lock now.
    fn next_waiter(&mut self, share: &Share) -> Result<Waiter, End> {
        if share.is_used_up(self.at.node) {
            return Err(self.leave_the_rest());
        }
        let head = match self.call_next() {
            Next::Waiter(head) => head,
            Next::Later => return Err(self.leave_the_rest()),
            Next::Redisson => return Err(End::RedissonTurn),
            Next::Nobody => return Err(End::Settled),
        };
        match self.access(&head.owner, head.wanted) {
            Access::Free | Access::Shared => Ok(head),
            // The grants before it are in its way. Or another module reacted to a command of rlock, and acquired the lock.
            Access::Until { .. } => Err(End::Settled),
            Access::InDoubt => {
                self.at.locks(|locks, lock| locks.note_in_doubt(lock));
                Err(End::Settled)
            }
        }
    }

    /// Leaves the rest of the queue to the next event-loop cycle. Until then every new caller stands behind it.
    fn leave_the_rest(&self) -> End {
        self.at.locks(|locks, lock| locks.records.note_unserved(lock, true));
        End::Later
    }
}
