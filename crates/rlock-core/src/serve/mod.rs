//! Hand-offs: in the commands that free a lock, and by the timer for all other causes: a lease end, another client's DEL,
//! FLUSHALL, a client that disconnects with a pending grant.

mod grant;
mod in_turn;
mod next_check;

use self::in_turn::End;
use crate::access::Access;
use crate::decision::{Change, UnlockMessage};
use crate::error::Error;
use crate::first::Dead;
use crate::locks::{Cause, DropReason};
use crate::look::Picture;
use crate::note::Note;
use crate::port::Server;
use crate::turn::Turn;
use crate::types::{Expiry, Mode, Wanted};
use crate::yielding::expire_window;

/// How a lock became free.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Freed {
    /// This command, or this cycle of the timer, freed the lock.
    Now,
    /// The lock was found free: its lease has ended, or another client has deleted it.
    Unseen,
}

/// The result for a lock that may be free.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Served {
    /// The lock has no waiters, or its first waiter cannot have it now.
    NotFree,
    /// At least one waiter was granted the lock.
    Given,
    /// The lock is free, and has no waiter: each of them left the queue without a grant.
    Free,
    /// The lock is left to Redisson clients, which were notified.
    Yielded,
    /// More waiters left its queue without a grant than one event-loop cycle handles. The timer continues with the rest, but
    /// these may leave before that: Redisson clients are notified as if the lock had no waiters.
    Later,
    /// A waiter could have the lock, but its grant failed: the next check tries again.
    Failed,
}

impl<P: Server> Turn<'_, '_, P> {
    /// Serves a lock that may have become free without a command of the module. If no native waiter gets it, Redisson clients
    /// are notified.
    pub(crate) fn serve_found_free(&mut self) {
        let Some(wanted) = self.at.wanted_first() else { return };
        match self.serve(Freed::Unseen) {
            Served::NotFree => return,
            Served::Free | Served::Later => {
                self.at.locks(|locks, lock| locks.records.end_count(lock));
                if let Some(message) = UnlockMessage::to_all(wanted.mode()) {
                    self.send_unlock_message(message);
                }
            }
            Served::Given | Served::Yielded | Served::Failed => {}
        }
        self.needs_check = true;
    }

    /// Grants a lock to its waiters, if the first of them can have it. In a command that writes, the server has checked that
    /// writing is allowed; elsewhere ask for [`crate::port::Lock::write_access`] first.
    fn serve(&mut self, freed: Freed) -> Served {
        let is_demoted = self.at.locks(|locks, lock| {
            // This call serves the waiters that an earlier one left, or notes anew that it leaves some.
            locks.records.note_unserved(lock, false);
            locks.calls.dropping() == Some(DropReason::Demoted)
        });
        if is_demoted {
            // A replica grants nothing, even if it accepts writes.
            return Served::NotFree;
        }
        let Some((wanted, head_access)) = self.first_access(Dead::Bury) else { return Served::NotFree };
        match head_access {
            Access::Until { .. } => {
                self.at.locks(|locks, lock| locks.records.close_window(lock));
                return Served::NotFree;
            }
            Access::InDoubt => {
                self.at.locks(|locks, lock| locks.note_in_doubt(lock));
                return Served::NotFree;
            }
            // Redisson knows no permits of this kind.
            _ if matches!(wanted, Wanted::Permit(_)) => self.note_found_free(freed),
            Access::Free if self.yield_if_due(wanted.mode(), freed) => return Served::Yielded,
            Access::Free | Access::Shared => {}
        }
        let grants = self.grant_in_turn();
        if grants.opened {
            // Redisson readers may join: they wait for the end of another lease.
            self.send_unlock_message(UnlockMessage::WriterGone);
        }
        let is_left_free =
            || head_access == Access::Free && self.at.locks(|locks, lock| locks.records.head(lock).is_none());
        match grants.end {
            _ if grants.any => Served::Given,
            End::RedissonTurn => Served::Yielded,
            _ if is_left_free() => Served::Free,
            End::Later => Served::Later,
            End::Failed => Served::Failed,
            End::Settled => Served::NotFree,
        }
    }

    /// Leaves a free lock to Redisson clients if a yield window is open, or opens. Returns whether it did. Unless a window was
    /// open already, the end of the last hold is noted.
    fn yield_if_due(&mut self, mode: Mode, freed: Freed) -> bool {
        if expire_window(self.at.node, self.at.name()).is_some() {
            return true;
        }
        self.note_found_free(freed);
        self.open_window_if_due(mode)
    }

    /// A waiter can have the lock: notes the end of the hold before it, unless this command ended that.
    fn note_found_free(&mut self, freed: Freed) {
        let found = self
            .at
            .locks(|locks, lock| (locks.records.found_free(lock), locks.records.take_unconfirmed(lock)));
        if let (Freed::Unseen, (Some((ended, seen)), unconfirmed)) = (freed, found) {
            self.note_end(ended, seen, unconfirmed);
        }
    }

    /// Counts the end of a hold by its cause: the last event of the key, or the lease end. A lease end raises its event.
    fn note_end(&mut self, ended: Expiry, seen: Option<Cause>, unconfirmed: bool) {
        // Some servers delete a key in the very millisecond in which it expires.
        let in_time = matches!(ended, Expiry::At(at) if at <= self.now);
        let seen = seen.filter(|seen| *seen != Cause::Other);
        let cause = seen.unwrap_or(if in_time { Cause::Expired } else { Cause::Other });
        self.at.node.port.note(Note::Found(cause));
        if cause != Cause::Expired {
            return;
        }
        self.found_expired();
        if unconfirmed {
            self.at.node.port.note(Note::Unconfirmed);
        }
    }
}

impl<'a, 'l, P: Server> Picture<'_, 'a, 'l, P> {
    /// Commits a change, and serves the queue if the change frees the lock. The change's unlock message is sent only if no native
    /// waiter got the lock, or Redisson readers may join.
    pub(crate) fn commit_and_serve(&mut self, change: &Change) -> Result<&mut Turn<'a, 'l, P>, Error> {
        let owner = self.owner();
        let turn = self.commit(change)?;
        turn.at.holds_changed(owner, change);
        // Before the grants: a reader that is granted the lock now has its own lease.
        turn.at.note_reads(change);
        let served = turn.serve(Freed::Now);
        match (change.unlock_message, served) {
            (Some(message), Served::Free | Served::NotFree | Served::Later | Served::Failed) => {
                // After a downgrade the lock is free for readers only. After a failure natives wait still.
                if change.becomes != Some(Mode::Read) && served != Served::Failed {
                    turn.at.locks(|locks, lock| locks.records.end_count(lock));
                }
                turn.send_unlock_message(message);
            }
            // After a downgrade Redisson readers may join, too.
            (Some(message), Served::Given) if change.becomes == Some(Mode::Read) => {
                turn.send_unlock_message(message)
            }
            _ => {}
        }
        turn.needs_check = true;
        Ok(turn)
    }
}
