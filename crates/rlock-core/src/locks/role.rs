//! The queues of a server that is a replica for a while.

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
        // The timer asks for it again and again, and there may be a record for each of 100,000 waiters.
        if self.counts.forgotten_by_replicas() {
            self.edit_all(|record| {
                (record.streak, record.read_ends, record.reading) = (None, None, None);
                (record.uncapped, record.ties) = (None, None);
            });
        }
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
        self.granted.clear();
        self.edit_all(|record| {
            record.grants.clear();
            record.revokes.clear();
            record.leaving = None;
        });
        self.agenda.clear(Job::LeaveFairList);
        self.agenda.clear(Job::Revoke);
    }
}
