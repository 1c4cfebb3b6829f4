//! The work outside commands: ended waits, revoked grants, and checks of locks that may have become free. Timers only
//! wake: every decision uses the server's state at that time.

use std::cell::OnceCell;

use crate::access::Access;
use crate::departures::{continue_dropping, demoted, drop_waiters, end_waits};
use crate::facts::WriteAccess;
use crate::fair::due::{cap_lists, clear_fair_lists};
use crate::locks::{DropReason, Job, LockName, Locks};
use crate::node::Node;
use crate::observed::{check_channels, continue_sweeps};
use crate::port::{FairList, InTask, Lock, Server};
use crate::revoking::revoke;
use crate::sessions::{drop_ended_waiters, end_sessions, free_untied};
use crate::timing::{Share, WorkOutcome, entry};
use crate::turn::Turn;
use crate::types::{MonoMs, Wanted};
use crate::weight::{Weighed, weight};

/// How soon to look again while the server refuses writes, in ms.
const RETRY_MS: u64 = 20;

/// The timer has fired: one cycle of work, with a bound for each kind. The rest is due again at once, but the server serves
/// other clients before that.
pub fn on_timer<P: InTask>(node: Node<'_, P>) {
    let _entry = entry(node);
    node.locks(|locks| locks.agenda.timer_fired_or_lost());
    // Waits end, and waiters are sent away, also while the server refuses writes.
    end_waits(node);
    drop_ended_waiters(node);
    free_untied(node);
    if !node.port.is_primary() {
        demoted(node);
        return;
    }
    continue_dropping(node);
    check_channels(node);
    if !node.port.may_write() {
        node.locks(Locks::park_sessions);
    }
    if !node.port.may_write() || work_on_locks(node) == WorkOutcome::Refused {
        let retry = MonoMs(node.port.clock().0.saturating_add(RETRY_MS));
        node.locks(|locks| locks.agenda.put_off(retry));
    }
}

fn work_on_locks<P: InTask>(node: Node<'_, P>) -> WorkOutcome {
    continue_sweeps(node);
    let mut done = WorkOutcome::Done;
    for work in [clear_fair_lists, revoke_grants, end_sessions, repair_read_leases, cap_lists] {
        // A server that refuses one write refuses them all.
        if done == WorkOutcome::Done {
            done = work(node);
        }
    }
    if serve_due(node) == WorkOutcome::Refused { WorkOutcome::Refused } else { done }
}

/// Revokes grants whose clients disconnected before the answer.
fn revoke_grants<P: InTask>(node: Node<'_, P>) -> WorkOutcome {
    let (share, mut done) = (Share::of(node), 0_usize);
    while done < share.most {
        let Some((lock, grant)) = node.locks(Locks::next_revoke) else { break };
        done = done.saturating_add(weight(lock.bytes().saturating_add(grant.owner.len())));
        if revoke(node, lock.name(), &grant) == WorkOutcome::Refused {
            node.locks(|locks| locks.revoke_later(lock, grant));
            return WorkOutcome::Refused;
        }
        if share.is_used_up(node) {
            break;
        }
    }
    WorkOutcome::Done
}

/// Checks the locks that are due.
fn serve_due<P: InTask>(node: Node<'_, P>) -> WorkOutcome {
    let (now, share, mut looked) = (node.port.now(), Share::of(node), WorkOutcome::Done);
    let most = node.port.settings().at_once.looked;
    for lock in node.locks(|locks| locks.line_up_due(now, most)) {
        match node.visit(lock.name(), |at| Turn::run(at, Turn::check)) {
            Some(WorkOutcome::Refused) => looked = WorkOutcome::Refused,
            Some(WorkOutcome::Done) => {}
            None => drop_moved(node, lock.name()),
        }
        if share.is_used_up(node) {
            break;
        }
    }
    looked
}

/// Checks the expiry of locks that are read and that another client has changed.
fn repair_read_leases<P: InTask>(node: Node<'_, P>) -> WorkOutcome {
    let (most, mut done) = (node.port.settings().at_once.looked, 0_usize);
    while done < most {
        let Some(lock) = node.locks(|locks| locks.agenda.next(Job::RepairReads)) else { break };
        // A change while this lock is checked is another change.
        node.locks(|locks| locks.agenda.remove(Job::RepairReads, &lock));
        let left = most.saturating_sub(done);
        match node.visit(lock.name(), |at| Turn::run(at, |turn| turn.repair_reads(left))) {
            Some((WorkOutcome::Refused, _)) => {
                node.locks(|locks| locks.schedule_read_repair(lock.name()));
                return WorkOutcome::Refused;
            }
            Some((WorkOutcome::Done, read)) => done = done.saturating_add(read),
            // The database does not exist, or another server decides about the lock.
            None => node.locks(|locks| locks.forget_read_end(lock.name())),
        }
    }
    WorkOutcome::Done
}

impl<P: Server> Turn<'_, '_, P> {
    /// Checks a lock with waiters outside a command. It asks for write access once, and only before it writes.
    fn check(&mut self) -> WorkOutcome {
        let node = self.at.node;
        if self.at.locks(|locks, lock| locks.records.doubts_slot(lock)) {
            if self.at.lock.slot_has_moved() {
                drop_moved(node, self.at.name());
                return WorkOutcome::Done;
            }
            self.at.locks(|locks, lock| locks.records.slot_is_here(lock));
        }
        let Some((owner, wanted)) = self.at.head() else { return WorkOutcome::Done };
        let asked = OnceCell::new();
        if let Err(outcome) = self.check_fair_list(&owner, wanted, &asked) {
            return outcome;
        }
        // In doubt the look that removes dead readers is the only one: two would find others each.
        let in_doubt = self.at.locks(|locks, lock| locks.records.take_in_doubt(lock));
        // Asking is a command, in which the lease may have ended: the state is read after it.
        if !in_doubt && let Access::Until { .. } = self.access(&owner, wanted) {
            return self.check_held(wanted, &asked);
        }
        match *asked.get_or_init(|| self.at.lock.write_access()) {
            WriteAccess::Allowed => {
                self.forget_all();
                self.serve_found_free();
            }
            WriteAccess::Refused => return WorkOutcome::Refused,
            WriteAccess::SlotMoved => drop_moved(node, self.at.name()),
        }
        WorkOutcome::Done
    }

    /// Checks a lock whose first waiter cannot have it now.
    fn check_held(&mut self, wanted: Wanted, asked: &OnceCell<WriteAccess>) -> WorkOutcome {
        let is_of_permits = matches!(wanted, Wanted::Permit(_));
        match if is_of_permits { self.repair_permits(asked) } else { WriteAccess::Allowed } {
            WriteAccess::Allowed => self.schedule_next_check(),
            // An end that is due now would be due in each event-loop cycle until the slot has moved.
            WriteAccess::SlotMoved => drop(self.schedule_without_repair()),
            WriteAccess::Refused => return WorkOutcome::Refused,
        }
        WorkOutcome::Done
    }

    /// Repairs the fair list, if the lock has waiters in it; an error is the end of the check.
    fn check_fair_list(
        &mut self,
        owner: &[u8],
        wanted: Wanted,
        asked: &OnceCell<WriteAccess>,
    ) -> Result<(), WorkOutcome> {
        if !self.at.locks(|locks, lock| locks.records.has_fair(lock)) {
            return Ok(());
        }
        let may_have_migrated = self.at.lock.fair_list().may_have_migrated();
        if !may_have_migrated && !self.at.fair_list_needs_repair(self.now) {
            self.at.locks(|locks, lock| locks.records.fair_list_checked(lock));
            return Ok(());
        }
        let access = *asked.get_or_init(|| self.at.lock.write_access());
        self.forget_all();
        match access {
            WriteAccess::Allowed if may_have_migrated => {
                drop_moved(self.at.node, self.at.name());
                return Err(WorkOutcome::Done);
            }
            // Asking is a command, and other modules may have reacted to it: the list is read again.
            WriteAccess::Allowed => self.at.repair_fair_list(self.now),
            WriteAccess::Refused => {
                if let Access::Until { .. } = self.access(owner, wanted) {
                    // Waiting Redisson clients may know the end of this lease.
                    self.schedule_next_check();
                }
                return Err(WorkOutcome::Refused);
            }
            // The list is on another server: a check of it would be due for ever.
            WriteAccess::SlotMoved => self.at.locks(|locks, lock| locks.records.forget_fair_change(lock)),
        }
        Ok(())
    }
}

/// Drops the waiters of a lock that moves to another server: they ask again where it is served.
fn drop_moved<P: Server>(node: Node<'_, P>, lock: LockName<'_>) {
    let most = node.port.settings().at_once.served;
    // The remaining waiters stay in the queue, and the lock is due again.
    let moved = node.locks(|locks| {
        locks.records.end_count(lock);
        locks.drain(lock, most)
    });
    drop_waiters(node, moved, DropReason::Moved);
}
