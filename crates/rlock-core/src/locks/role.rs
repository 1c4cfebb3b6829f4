//! The queues of a server that is a replica for a while.

use std::mem::take;

use super::Locks;

impl Locks {
    /// The server is a replica: forgets what its primary knows better. Waiters stay until they are sent away. Grants that
    /// did not arrive stay too, and departed owners in fair lists: the grants are revoked and the owners leave the lists if
    /// the server is the primary again before it has other data.
    pub fn demoted(&mut self) {
        *self = Self {
            records: take(&mut self.records),
            places: take(&mut self.places),
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
            ..Self::default()
        };
        self.edit_all(|record| (record.streak, record.reading, record.uncapped) = (None, None, None));
    }

    /// The server is the primary again, and may write.
    pub fn promoted(&mut self) {
        self.is_replica = false;
    }

    /// The server has the data of another primary. There an owner may have asked again and received the lock that it was
    /// granted here, which can leave the data as they are; and it manages the fair lists.
    pub fn synchronised(&mut self) {
        self.revoking.clear();
        self.edit_all(|record| {
            record.grants.clear();
            record.revokes.clear();
            record.leaving = None;
        });
        self.departing.clear();
    }

    /// Whether no client waits and no grant must be revoked; on a replica only if it is promoted.
    pub fn may_end(&self) -> bool {
        self.is_idle() || self.is_replica && self.places.is_empty() && self.counts.undelivered == 0
    }
}
