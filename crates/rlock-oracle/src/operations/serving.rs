//! Giving a lock that is free to the one who waited first.

use super::op::{Channel, Lock};
use super::state::{Answer, OpenGrant, Oracle, Value, Via, Waiter, named};
use super::told::Told;

impl Oracle {
    /// A lock that may have become free without a command: it goes to the first who waits, and if nobody
    /// here takes it, to whoever waits by Redisson's protocol.
    pub(super) fn serve_unseen(&mut self, lock: Lock) {
        if !self.is_free(lock) {
            self.place(lock).window = None;
        }
        if self.queue(lock).is_empty() || !self.is_free(lock) {
            return;
        }
        if !self.is_left_to_others(lock) {
            // Whoever else ended it, or changed its lease, was seen then.
            self.seen.unconfirmed += u32::from(self.place(lock).unconfirmed.take().is_some());
            if !self.serve(lock) {
                self.place(lock).streak = None;
                self.publish(lock);
            }
        }
        self.looked(lock);
    }

    /// A command has freed the lock.
    pub(super) fn free(&mut self, lock: Lock) {
        self.set(lock, Value::Nothing);
        self.place(lock).unconfirmed = None;
        if !self.serve(lock) {
            self.place(lock).streak = None;
            self.publish(lock);
        }
    }

    /// Somebody of the module has looked at a lock.
    pub(super) fn looked(&mut self, lock: Lock) {
        let value = self.value(lock);
        let place = self.place(lock);
        place.touched = false;
        if place.queue.is_empty() || value == Value::Nothing {
            return;
        }
        place.window = None;
        place.seen_end = match value {
            Value::Held { ends, .. } => Told::of(ends),
            // Not a lease: nobody need be told when it goes.
            Value::Other | Value::Nothing => Told::Nothing,
        };
    }

    pub(super) fn is_left_to_others(&self, lock: Lock) -> bool {
        self.places[lock.0].window.is_some_and(|until| until > self.clock)
    }

    /// Gives a free lock away, or leaves it to foreign waiters for a while: true if it is taken care of.
    fn serve(&mut self, lock: Lock) -> bool {
        if self.queue(lock).is_empty() {
            return false;
        }
        if self.foreign_turn(lock) {
            return true;
        }
        while let Some(head) = self.queue(lock).first().copied() {
            let Some(token) = self.token(lock, head.fenced) else {
                self.remove(lock, 0);
                let message = format!("dropped {} no-token", named(lock, head.owner));
                self.tell_waiter(head, Answer::Error("ERR"), message);
                continue;
            };
            match head.via {
                Via::Call(call) => {
                    let ends = self.give(lock, head, head.lease);
                    self.use_token(lock, token);
                    self.calls.insert(call, Answer::Holds(1, head.lease, token));
                    self.open.retain(|grant| grant.lock != lock);
                    self.open.push(OpenGrant { call, lock, owner: head.owner, ends });
                    return true;
                }
                Via::Channel(channel) => {
                    let lease = head.lease.min(self.options.grant_confirm);
                    if self.tell(channel, format!("granted {} 1 {lease} {token}", named(lock, head.owner))) {
                        self.give(lock, head, lease);
                        self.use_token(lock, token);
                        let others_wait = !self.queue(lock).is_empty();
                        self.place(lock).unconfirmed = others_wait.then_some(head.owner);
                        return true;
                    }
                    self.drop_channel(lock, channel);
                }
            }
        }
        false
    }

    /// Nobody hears the channel: whoever waits for the lock by it is gone.
    fn drop_channel(&mut self, lock: Lock, channel: Channel) {
        while let Some(at) = self.queue(lock).iter().position(|waiter| waiter.via == Via::Channel(channel)) {
            self.remove(lock, at);
        }
    }

    /// The first in the queue has the lock; says when its lease ends.
    fn give(&mut self, lock: Lock, head: Waiter, lease: i64) -> i64 {
        let ends = self.now.saturating_add(lease);
        let clock = self.clock;
        let place = self.place(lock);
        let (grants, since) = place.streak.unwrap_or((0, clock));
        place.streak = Some((grants + 1, since));
        // Whoever sleeps until the end of the old lease, and would miss that of the new one, must be told.
        // Whoever may have heard of an even later end, or of one that was not seen, may be.
        let must = place.seen_end.is_after(ends);
        let may = place.seen_end == Told::Nothing || place.latest_end.is_after(ends);
        self.remove(lock, 0);
        let held = Value::Held { by: head.owner, holds: 1, ends: Some(ends) };
        if must {
            self.publish(lock);
        } else if may {
            self.seen.published[lock.0].most += 1;
        }
        self.set(lock, held);
        ends
    }

    /// Whether foreign waiters have been passed over for long enough, and are there: then they are told,
    /// and the lock is left to them.
    fn foreign_turn(&mut self, lock: Lock) -> bool {
        let (options, clock) = (self.options, self.clock);
        let due = self.places[lock.0]
            .streak
            .is_some_and(|(grants, since)| grants >= options.turn_grants || clock - since >= options.turn_ms);
        if !due || options.window == 0 {
            return false;
        }
        let listened = self.listened;
        self.place(lock).streak = None;
        if listened {
            self.publish(lock);
            self.place(lock).window = Some(clock + options.window);
        } else {
            // A message that nobody hears is none.
            self.was_published(lock);
            self.seen.published[lock.0].most += 1;
        }
        listened
    }
}
