//! The queues of a server that is a replica for a while.

use std::mem::take;

use super::agenda::Agenda;
use super::record::LockRecord;
use super::sweep::Sweeps;
use super::undelivered::Undelivered;
use super::{Job, LockRef, Locks, Waiter};
use crate::types::MonoMs;

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
        self.lists_doubted_until = None;
        self.channels.end_round();
        // There may be a million records: none is read here.
        self.term = self.term.wrapping_add(1);
        self.counts.begin_term();
        // Also where no hold is tied any more: the end of a shortened lease would be due here for ever.
        self.sessions.forget_holds();
        self.users.forget_holds();
    }

    /// The server has data whose owners other servers know.
    pub fn data_arrived(&mut self, clock: MonoMs) {
        self.begin_era();
        self.doubt_fair_lists(clock);
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
                (record.grants, record.leaving) = (Undelivered::None, None);
                record.rare_mut().revokes.clear();
            });
        }
        self.agenda.clear(Job::LeaveFairList);
        self.agenda.clear(Job::Revoke);
    }

    /// Removes all waiters, and forgets the grants to revoke.
    pub fn drain_all(&mut self) -> Vec<(LockRef, Waiter)> {
        let all = std::mem::take(&mut self.records);
        let mut agenda = Agenda::default();
        agenda.keep_timer_of(&self.agenda);
        *self = Self {
            next_place: self.next_place,
            last_ticket: self.last_ticket,
            agenda,
            is_replica: self.is_replica,
            is_synchronised: self.is_synchronised,
            era: self.era,
            lists_doubted_until: self.lists_doubted_until,
            ..Self::default()
        };
        let waiters_of = |(lock, record): (LockRef, LockRecord)| {
            let waiters = record.queue.into_iter().flat_map(|queue| queue.waiters.into_iter());
            waiters.map(move |waiter| (lock.clone(), waiter)).collect::<Vec<_>>()
        };
        all.into_iter().flat_map(waiters_of).collect()
    }
}
