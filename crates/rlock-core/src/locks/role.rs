//! The queues of a server that is a replica for a while.

use std::mem::take;

use super::Locks;

impl Locks {
    /// The server is a replica: forgets what its primary knows better. Waiters stay until they are sent away. Grants that
    /// did not arrive stay too, and departed owners in fair lists: the grants are revoked and the owners leave the lists if
    /// the server is the primary again before it has other data.
    pub fn demoted(&mut self) {
        self.is_synchronised &= self.is_replica;
        while self.next_fair_uncapped().is_some() {}
        *self = Self {
            records: take(&mut self.records),
            places: take(&mut self.places),
            granted: take(&mut self.granted),
            ends: take(&mut self.ends),
            checks: take(&mut self.checks),
            counts: self.counts,
            revoking: take(&mut self.revoking),
            departing: take(&mut self.departing),
            dropped_waiters: self.dropped_waiters,
            next_place: self.next_place,
            last_ticket: self.last_ticket,
            timer: self.timer,
            is_replica: true,
            is_synchronised: self.is_synchronised,
            ..Self::default()
        };
        // The timer asks for it again and again, and there may be a record for each of 100,000 waiters.
        if self.counts.streaks > 0 || self.counts.reading > 0 {
            self.edit_all(|record| (record.streak, record.reading) = (None, None));
        }
    }

    /// The server is the primary again, and may write.
    pub fn promoted(&mut self) {
        (self.is_replica, self.is_synchronised) = (false, false);
    }

    /// The server has the data of another primary. There an owner may have asked again and received the lock that it was
    /// granted here, which can leave the data as they are; and it manages the fair lists.
    pub fn synchronised(&mut self) {
        self.is_synchronised = true;
        self.revoking.clear();
        self.granted.clear();
        self.edit_all(|record| {
            record.grants.clear();
            record.revokes.clear();
            record.leaving = None;
        });
        self.departing.clear();
    }

    /// Whether no client waits and no grant must be revoked; on a replica only if it is promoted.
    pub fn may_end(&self) -> bool {
        self.is_idle() || self.is_replica && self.places.is_empty() && self.granted.is_empty()
    }
}
