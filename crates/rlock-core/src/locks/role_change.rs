//! The queues of a server that is a replica for a while.

use std::mem::take;

use super::agenda::Agenda;
use super::record::LockRecord;
use super::sweep::Sweeps;
use super::undelivered::Undelivered;
use super::{Job, LockRef, Locks, Waiter};

impl Locks {
    /// The server is a replica: forgets what its primary knows better. Waiters stay until they are sent away. Grants that
    /// did not arrive stay too, and departed owners in fair lists: the grants are revoked and the owners leave the lists if
    /// the server is the primary again before it has other data.
    pub fn demoted(&mut self) {
        self.role.demoted();
        for job in [Job::RepairReads, Job::CapFairList] {
            self.agenda.clear(job);
        }
        for job in [Job::LeaveFairList, Job::Revoke] {
            self.agenda.park_all(job);
        }
        self.sweeps = Sweeps::default();
        self.channels.end_round();
        self.records.begin_term();
        // Also where no hold is tied any more: the end of a shortened lease would be due here for ever.
        self.sessions.forget_holds();
        self.users.forget_holds();
    }

    /// The server is the primary again, and may write.
    pub fn promoted(&mut self) {
        self.role.promoted();
        self.unpark();
    }

    /// The server has the data of another primary, which manages the fair lists. An owner may have asked that primary
    /// again, and received there the lock that it was granted here: the data can stay the same.
    pub fn synchronised(&mut self) {
        self.role.synchronised();
        let granted = self.calls.take_undelivered();
        let waiting = [Job::LeaveFairList, Job::Revoke].map(|job| self.agenda.all_even_parked(job));
        for lock in granted.chain(waiting.into_iter().flatten()) {
            self.records.edit_known(lock.name(), |record| {
                (record.grants, record.leaving) = (Undelivered::None, None);
                record.rare_mut().revokes.clear();
            });
        }
        self.agenda.clear(Job::LeaveFairList);
        self.agenda.clear(Job::Revoke);
    }

    /// Removes all waiters, and forgets the grants to revoke.
    pub fn drain_all(&mut self) -> Vec<(LockRef, Waiter)> {
        let mut agenda = Agenda::default();
        agenda.keep_timer_of(&self.agenda);
        let (calls, role) = (self.calls.emptied(), self.role.clone());
        let all = take(self).records;
        *self = Self { agenda, calls, role, ..Self::default() };
        let waiters_of = |(lock, record): (LockRef, LockRecord)| {
            let waiters = record.queue.into_iter().flat_map(|queue| queue.waiters.into_iter());
            waiters.map(move |waiter| (lock.clone(), waiter)).collect::<Vec<_>>()
        };
        all.into_iter().flat_map(waiters_of).collect()
    }
}
