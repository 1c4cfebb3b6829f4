//! Giving a free lock to the first waiter.

use super::fair::Next;
use super::op::{Channel, Lock, Owner, Word};
use super::state::Oracle;
use super::values::{Access, Answer, Freed, OpenGrant, Value, Via, Waiter, named};

impl Oracle {
    /// A lock that may have become free without a command goes to the first waiter, or, if no native takes it,
    /// to Redisson waiters.
    pub(super) fn serve_found_free(&mut self, lock: Lock) {
        if self.serve_if_free(lock) {
            self.looked(lock);
        }
    }

    /// The same; returns whether the lease is seen afterwards, which a command does at its end.
    pub(super) fn serve_if_free(&mut self, lock: Lock) -> bool {
        self.check_head_reader(lock);
        if self.queue(lock).is_empty() {
            return false;
        }
        let access = self.head_access(lock);
        if access == Access::No {
            self.place(lock).row.yielding.close_window();
            return false;
        }
        if access == Access::Shared {
            if !self.serve(lock, access) {
                return false;
            }
        } else if self.window_ends(lock).is_none() {
            // Any other end, or change of its lease, was seen when it happened.
            self.seen.unconfirmed += u32::from(self.place(lock).unconfirmed.take().is_some());
            if !self.serve(lock, access) && self.queue(lock).is_empty() {
                self.row_ends(lock);
                self.publish(lock);
            }
        }
        true
    }

    /// A command has freed the lock, or opened it to readers.
    pub(super) fn free(&mut self, lock: Lock, freed: Freed) {
        if freed == Freed::Entirely {
            if matches!(self.value(lock), Value::ReadWrite(_)) && self.queue(lock).is_empty() {
                self.is_free_now(lock);
            }
            self.set(lock, Value::Nothing);
            self.place(lock).unconfirmed = None;
        }
        let access = self.head_access(lock);
        if access == Access::Free && self.window_ends(lock).is_some() {
            // It was free already, except for dead readers.
            return;
        }
        let given = access != Access::No && self.serve(lock, access);
        if !given && freed == Freed::Entirely {
            self.row_ends(lock);
        }
        // Redisson readers may join the native readers that were granted it.
        if !given || freed == Freed::ToReaders {
            self.publish(lock);
        }
        if !given && !self.list(lock).is_empty() {
            self.list_is_met(lock);
        }
    }

    /// Whether this owner could have the lock in this way, if it were its turn.
    pub(super) fn access(&self, lock: Lock, owner: Owner, word: Word) -> Access {
        match (self.value(lock), word) {
            (Value::Nothing, _) => Access::Free,
            (Value::ReadWrite(hash), Word::Read) if hash.writes[owner.0] > 0 => Access::Shared,
            (Value::ReadWrite(hash), Word::Read) if !hash.writing => {
                let reads = self.reads_until(lock, owner).is_some();
                if reads || !self.is_held_back(lock) { Access::Shared } else { Access::No }
            }
            (Value::ReadWrite(hash), Word::Write) if !hash.writing && self.all_are_dead(lock, &hash) => {
                Access::Free
            }
            _ => Access::No,
        }
    }

    /// The same for the first waiter; `No` if the queue is empty.
    pub(super) fn head_access(&self, lock: Lock) -> Access {
        self.queue(lock).first().map_or(Access::No, |head| self.access(lock, head.owner, head.word))
    }

    /// The module has checked a lock.
    pub(super) fn looked(&mut self, lock: Lock) {
        let (value, access) = (self.value(lock), self.head_access(lock));
        let place = self.place(lock);
        if place.queue.is_empty() || access != Access::No {
            return;
        }
        place.row.yielding.close_window();
        place.called = None;
        // Redisson waiters need no message when a value that is not a lock is deleted.
        place.seen_end = value.key_end().map(|ends| ends.unwrap_or(i64::MAX));
    }

    /// Grants a lock that the first waiter can have, or yields it to Redisson clients for a while. Returns whether it
    /// did either.
    fn serve(&mut self, lock: Lock, access: Access) -> bool {
        if access == Access::Free && self.yields(lock) {
            return true;
        }
        let (mut given, mut opened) = (false, false);
        loop {
            self.remove_departed_heads(lock);
            let access = self.head_access(lock);
            if access == Access::No {
                break;
            }
            let at = match self.next(lock) {
                Next::Native(at) => at,
                Next::Redisson if !given => {
                    // It is known to be free, and the row of hand-offs continues.
                    self.place(lock).value = Value::Nothing;
                    return true;
                }
                Next::Redisson | Next::Nobody => break,
            };
            let reads = self.queue(lock)[at].word == Word::Read;
            if self.grant(lock, at) {
                given = true;
                opened |= access == Access::Free && reads;
            }
        }
        if opened {
            // Redisson readers may join.
            self.publish(lock);
        }
        given
    }

    /// Grants the lock to a waiter in the queue. Returns whether it did.
    fn grant(&mut self, lock: Lock, at: usize) -> bool {
        let head = self.queue(lock)[at];
        let Some(token) = self.token(lock, head.fenced) else {
            self.remove(lock, at);
            let message = format!("dropped {} no-token{}", named(lock, head.owner), head.in_which_way());
            self.tell_waiter(head, Answer::Error("ERR"), message);
            return false;
        };
        let granted = match head.via {
            Via::Call(call) => {
                self.grant_to_call(lock, at, call, token);
                true
            }
            Via::Channel(channel) => self.grant_by_message(lock, at, channel, token),
        };
        if granted {
            self.use_token(lock, token);
        }
        granted
    }

    fn grant_to_call(&mut self, lock: Lock, at: usize, call: usize, token: i64) {
        let Waiter { owner, word, lease, .. } = self.queue(lock)[at];
        let reads_already = word == Word::Read && self.reads_until(lock, owner).is_some();
        let ends = self.give(lock, at, lease);
        if let (true, Value::ReadWrite(hash)) = (reads_already, self.value(lock)) {
            // The owner reads already, by another call: this grant needs no revoke.
            self.calls.insert(call, Answer::Holds(hash.reads[owner.0], ends - self.now, token));
            return;
        }
        self.calls.insert(call, Answer::Holds(1, lease, token));
        if word != Word::Read {
            self.open.retain(|grant| grant.lock != lock);
        }
        self.open.push(OpenGrant { call, lock, owner, word, ends });
    }

    /// Returns whether a subscriber receives it; if not, all waiters of the channel leave.
    fn grant_by_message(&mut self, lock: Lock, at: usize, channel: Channel, token: i64) -> bool {
        let head = self.queue(lock)[at];
        let lease = head.lease.min(self.options.grant_confirm);
        let (to, way) = (named(lock, head.owner), head.in_which_way());
        if !self.tell(channel, format!("granted {to} 1 {lease} {token}{way}")) {
            self.drop_channel(lock, channel);
            return false;
        }
        self.give(lock, at, lease);
        let others_wait = !self.queue(lock).is_empty();
        self.place(lock).unconfirmed = others_wait.then_some(head.owner);
        true
    }

    /// Removes the waiters of a channel without a subscriber.
    pub(super) fn drop_channel(&mut self, lock: Lock, channel: Channel) {
        while let Some(at) = self.queue(lock).iter().position(|waiter| waiter.via == Via::Channel(channel)) {
            self.remove(lock, at);
        }
    }

    /// Gives the lock to a waiter in the queue. Returns when its lease ends.
    fn give(&mut self, lock: Lock, at: usize, lease: i64) -> i64 {
        let head = self.queue(lock)[at];
        let ends = self.now.saturating_add(lease);
        if head.word != Word::Read || self.reads_until(lock, head.owner).is_none() {
            self.is_handed_on(lock, head.word);
        }
        let place = self.place(lock);
        // Redisson waiters that sleep until the end of the old lease, and would miss that of the new one, must be
        // notified. Those that may know an even later end, or an end that was not seen, may be.
        let must = place.seen_end > Some(ends);
        let may = place.seen_end.is_none() || place.latest_end > Some(ends);
        // A Redisson waiter that was called while the lock was free is called again.
        place.called = None;
        self.remove(lock, at);
        self.remove_departed_heads(lock);
        if head.word == Word::Read {
            match self.value(lock) {
                Value::ReadWrite(hash) if self.reads_until(lock, head.owner).is_some() => {
                    return self.read_again(lock, head.owner, lease, Some(1), hash).1;
                }
                Value::ReadWrite(hash) => self.read_as_well(lock, head.owner, lease, hash),
                _ => self.take_read_write(lock, head.owner, Word::Read, lease),
            }
            return ends;
        }
        if must {
            self.publish(lock);
        } else if may {
            self.seen.published[lock.0].most += 1;
        }
        if head.word == Word::Write {
            self.take_read_write(lock, head.owner, Word::Write, lease);
        } else {
            self.set(lock, Value::Held { by: head.owner, holds: 1, ends: Some(ends) });
        }
        ends
    }

    /// Redisson waiters are notified to try again, and no longer know an end.
    pub(super) fn publish(&mut self, lock: Lock) {
        let published = &mut self.seen.published[lock.0];
        published.least += 1;
        published.most += 1;
        self.was_published(lock);
    }

    /// Redisson waiters have asked again, and know the lease that is in force.
    pub(super) fn was_published(&mut self, lock: Lock) {
        let value = self.value(lock);
        let place = self.place(lock);
        place.seen_end = None;
        place.latest_end = None;
        self.set(lock, value);
    }
}
