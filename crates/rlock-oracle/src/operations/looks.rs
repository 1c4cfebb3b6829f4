//! The timer: when it must fire, and what it does.

use super::op::{Ground, Lock, Word};
use super::options::Kinds;
use super::state::Oracle;
use super::values::{Access, Answer, Freed, OpenGrant, Value, Waiter, named};

impl Oracle {
    /// When the timer must fire at the latest, by the clock that never steps.
    pub(super) fn due(&self) -> Option<u64> {
        let from_now = |at: i64| self.clock + at.saturating_sub(self.now).max(0).unsigned_abs();
        let ends = self.places.iter().flat_map(|place| &place.queue).filter_map(|waiter| waiter.until);
        let looks = self.all_locks().filter(|lock| !self.queue(*lock).is_empty()).filter_map(|lock| {
            match self.head_access(lock) {
                _ if self.places[lock.0].list_touched => Some(self.clock),
                Access::Free if self.window_ends(lock).is_some() => self.window_ends(lock),
                Access::Free if self.turn(lock).is_some() => self.turn(lock).map(|at| from_now(at + 1)),
                // A Redisson waiter must be notified of its turn, or the native no longer waits for a turn.
                Access::Free if self.options.kinds == Kinds::Fair => Some(self.clock + 1),
                Access::Free | Access::Shared => Some(self.clock),
                // The key still exists in the ms of its expiry, and not after it.
                Access::No => {
                    let ends = self.may_be_had(lock).map(|at| from_now(at + 1));
                    ends.into_iter().chain(self.seen_at(lock)).min()
                }
            }
        });
        let revokes = self.revokes.first().filter(|_| self.primary).map(|_| self.clock);
        let gone = self.primary && self.places.iter().any(|place| !place.gone.is_empty());
        let gone = gone.then_some(self.clock);
        let found = self.must_cap().then_some(self.clock);
        ends.chain(looks).chain(revokes).chain(gone).chain(found).min()
    }

    /// When the lock ends for the first waiter, by the wall clock: a writer waits for live readers.
    fn may_be_had(&self, lock: Lock) -> Option<i64> {
        match self.value(lock) {
            Value::Held { ends, .. } => ends,
            Value::ReadWrite(hash) => {
                let writer = self.queue(lock).first().is_some_and(|head| head.word == Word::Write);
                let readers = hash.latest(&self.places[lock.0].leases, None, self.now);
                let readers = readers.filter(|_| writer && !hash.writing);
                hash.ends.into_iter().chain(readers).min()
            }
            Value::Nothing | Value::Permits(..) | Value::Other => None,
        }
    }

    /// The timer fires.
    pub(super) fn look(&mut self) {
        for lock in self.all_locks() {
            while let Some(at) =
                self.position(lock, |waiter, clock| waiter.until.is_some_and(|at| at <= clock))
            {
                let waiter = self.remove(lock, at);
                self.tell_waiter(
                    waiter,
                    Answer::Null,
                    format!("timeout {}{}", named(lock, waiter.owner), waiter.in_which_way()),
                );
            }
        }
        if !self.primary {
            self.send_all_away();
            return;
        }
        if self.ground != Ground::Paused {
            self.revoke();
            // Before bounds are set to deadlines, which count from the end of the lease.
            let seen = self.after.values;
            self.all_locks().for_each(|lock| self.mend_end(lock, &seen[lock.0]));
            self.forget_empty_lists();
            if self.ground != Ground::Refused {
                self.all_locks().for_each(|lock| self.remove_departed(lock));
                self.cap_lists();
            }
            self.all_locks().for_each(|lock| self.look_at(lock));
        }
    }

    fn position(&self, lock: Lock, wanted: impl Fn(&Waiter, u64) -> bool) -> Option<usize> {
        self.queue(lock).iter().position(|waiter| wanted(waiter, self.clock))
    }

    /// Revokes undelivered grants, if nothing has happened to them since.
    fn revoke(&mut self) {
        while let Some(grant) = self.revokes.first().copied() {
            let stands = self.stands(grant);
            if stands && self.ground == Ground::Refused {
                return;
            }
            self.revokes.remove(0);
            if stands && self.ground == Ground::Firm {
                match (grant.word, self.value(grant.lock)) {
                    (Word::Read, Value::ReadWrite(hash)) => self.end_read(grant.lock, grant.owner, hash),
                    (Word::Write, Value::ReadWrite(hash)) => self.end_write(grant.lock, grant.owner, hash),
                    _ => self.free(grant.lock, Freed::Entirely),
                }
                // A reader that departed waiters kept out joins the remaining readers before the next revoke.
                if self.head_access(grant.lock) == Access::Shared {
                    self.serve_found_free(grant.lock);
                }
                self.looked(grant.lock);
            }
        }
    }

    /// Whether a grant is still as it was made.
    fn stands(&self, grant: OpenGrant) -> bool {
        let OpenGrant { lock, owner, word, ends, .. } = grant;
        match (word, self.value(lock)) {
            (Word::None, value) => value == Value::Held { by: owner, holds: 1, ends: Some(ends) },
            (Word::Read, Value::ReadWrite(hash)) => {
                hash.reads[owner.0] == 1 && self.reads_until(lock, owner) == Some(ends)
            }
            // The hash may be there for longer than the write's lease: for as long as the owner's own read.
            (Word::Write, Value::ReadWrite(hash)) => {
                let read = self.reads_until(lock, owner).filter(|_| hash.reads[owner.0] > 0);
                hash.writes[owner.0] == 1
                    && (hash.ends == Some(ends) || hash.ends.is_some() && read == hash.ends)
            }
            _ => false,
        }
    }

    fn look_at(&mut self, lock: Lock) {
        if self.places[lock.0].list_touched {
            match self.ground {
                Ground::Firm => self.put_right(lock),
                Ground::Moved => self.place(lock).list_touched = false,
                _ if self.is_in_order(lock) => self.place(lock).list_touched = false,
                Ground::Refused | Ground::Paused => {
                    if self.head_access(lock) == Access::No {
                        self.looked(lock);
                    }
                    return;
                }
            }
        } else if self.may_be_left(lock) {
            return;
        }
        let access = self.head_access(lock);
        if access == Access::No {
            self.looked(lock);
            return;
        }
        let dropped_waiters = self.ground == Ground::Moved && self.after.queues[lock.0].is_empty();
        if access == Access::Free && self.window_ends(lock).is_some() && !dropped_waiters {
            return;
        }
        match self.ground {
            Ground::Firm => self.serve_found_free(lock),
            Ground::Moved => {
                self.drop_waiters(lock, "moved");
                self.row_ends(lock);
            }
            Ground::Refused | Ground::Paused => {}
        }
    }
}
