//! The queues of a server that is a replica for a while.

use std::mem::take;

use super::sweep::Sweeps;
use super::{Job, Locks};

impl Locks {
    /// The server is a replica: forgets what its primary knows better. Waiters stay until they are sent away. Grants that
    /// did not arrive stay too, and departed owners in fair lists: the grants are revoked and the owners leave the lists if
    /// the server is the primary again before it has other data.
    pub fn demoted(&mut self) {
        self.is_synchronised &= self.is_replica;
        for job in [Job::RepairReads, Job::CapFairList] {
            self.agenda.clear(job);
        }
        for job in [Job::LeaveFairList, Job::Revoke] {
            self.agenda.park_all(job);
        }
        (self.is_replica, self.sweeps) = (true, Sweeps::default());
        // There may be a million records: none is looked at here.
        self.term = self.term.wrapping_add(1);
        self.counts.begin_term();
        // Also where no hold is tied any more: the end of a shortened lease would be due here for ever.
        self.sessions.forget_holds();
    }

    /// The server is the primary again, and may write.
    pub fn promoted(&mut self) {
        (self.is_replica, self.is_synchronised) = (false, false);
        self.unpark();
    }

    /// The server has the data of another primary. There an owner may have asked again and received the lock that it was
    /// granted here, which can leave the data as they are; and it manages the fair lists.
    pub fn synchronised(&mut self) {
        self.is_synchronised = true;
        let granted = take(&mut self.granted).into_values();
        let waiting = [Job::LeaveFairList, Job::Revoke].map(|job| self.agenda.all_even_parked(job));
        for lock in granted.chain(waiting.into_iter().flatten()) {
            self.edit_known(lock.name(), |record| {
                record.grants.clear();
                record.revokes.clear();
                record.leaving = None;
            });
        }
        self.agenda.clear(Job::LeaveFairList);
        self.agenda.clear(Job::Revoke);
    }
}
