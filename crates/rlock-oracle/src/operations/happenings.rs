//! Events besides commands: time, the timer, disconnects, writes of other clients, the server's role.

use super::op::{ByList, CHANNELS, Channel, Count, LOCKS, Lock, Ms, Op, OtherWrite};
use super::state::Oracle;
use super::values::{Answer, Ask, Value, Via, named};
use super::{other_write, redisson_fair};

impl Oracle {
    /// Performs an operation. The caller lets time pass: [`Self::pass`] and [`Self::look`].
    #[expect(clippy::too_many_lines, reason = "a case for each operation")]
    pub(super) fn step(&mut self, op: Op) {
        self.notice_ends();
        self.forget_passes();
        match op {
            Op::Acquire { lock, owner, word, lease: Ms(lease), holds, wait, fenced, fair } => {
                let holds = holds.map(|Count(n)| n.max(1));
                self.acquire(lock, owner, Ask { word, lease, holds, wait, fenced, fair });
            }
            Op::Release { lock, owner, word, down_to, lease } => {
                self.release(lock, owner, word, down_to, lease);
            }
            Op::Renew { lock, owner, word, lease } => self.renew(lock, owner, word, lease),
            Op::Cancel { lock, owner } => self.cancel(lock, owner),
            Op::ForceRelease { lock, owner } => self.force_release(lock, owner),
            Op::ByOther { lock, what } => self.other_write(lock, what),
            Op::Flush => {
                for lock in self.all_locks() {
                    self.set(lock, Value::Nothing);
                    self.place(lock).unconfirmed = None;
                    self.place(lock).leases.clear();
                    self.place(lock).token = None;
                    self.place(lock).list.clear();
                    self.has_ended(lock);
                }
                self.touch_all();
            }
            Op::Step(ms) => {
                self.all_locks().for_each(|lock| self.clean_up(lock));
                let now = self.now;
                self.places.iter_mut().for_each(|place| place.leases.retain(|_, at| *at >= now));
                self.now += ms;
                self.touch_all();
            }
            Op::Subscribe(Channel(channel), subscribed) => self.subscribed[channel] = subscribed,
            Op::Listen(listened) => self.listened = listened,
            Op::Ground(ground) => self.ground = ground,
            Op::Primary(true) => {
                if !std::mem::replace(&mut self.primary, true) {
                    self.promoted();
                }
            }
            Op::Primary(false) => {
                if !std::mem::replace(&mut self.primary, false) {
                    self.synchronise();
                }
                self.send_all_away();
                self.demoted();
            }
            Op::Accept(accept) => self.accept = accept,
            Op::ByList { lock, what } => self.by_list(lock, what),
            Op::Sweep => {
                self.all_locks().for_each(|lock| self.touch_list(lock));
                (0..CHANNELS.len()).for_each(|channel| self.check_channel(Channel(channel)));
            }
            Op::Pass(_) | Op::Stall(_) | Op::Deliver(_) | Op::Disconnect(_) => {}
            // Histories with SESSION run in `follow`.
            Op::On { .. } | Op::Connect(_) | Op::Close(_) => {}
        }
    }

    /// A channel without a subscriber at two sweeps in a row, ten seconds apart, loses its waiters.
    fn check_channel(&mut self, channel: Channel) {
        let waits = |lock: Lock| self.queue(lock).iter().any(|waiter| waiter.via == Via::Channel(channel));
        if self.subscribed[channel.0] || !self.all_locks().any(waits) {
            self.unsubscribed_since[channel.0] = None;
            return;
        }
        let since = *self.unsubscribed_since[channel.0].get_or_insert(self.clock);
        if self.clock - since >= 9_000 {
            self.all_locks().for_each(|lock| self.drop_channel(lock, channel));
        }
    }

    /// Notices leases that have ended while no native waits.
    fn notice_ends(&mut self) {
        for lock in self.all_locks() {
            if self.places[lock.0].value != Value::Nothing && self.value(lock) == Value::Nothing {
                self.has_ended(lock);
            }
        }
    }

    /// The server deleted the key in a check of the timer, or the key did not exist. If its lease has ended, the module
    /// notices it now; whether the waiters left before, which ends the row of hand-offs, is left open.
    pub(super) fn may_be_deleted(&mut self, lock: Lock) {
        if self.places[lock.0].value != Value::Nothing && self.value(lock) == Value::Nothing {
            self.place(lock).row.handed = None;
            self.has_ended(lock);
            self.clean_up(lock);
        }
    }

    pub(super) fn all_locks(&self) -> impl Iterator<Item = Lock> + use<> {
        (0..LOCKS.len()).map(Lock)
    }

    /// Another client uses Redisson's fair lock.
    fn by_list(&mut self, lock: Lock, what: ByList) {
        let (before, value, now) = (self.list(lock).to_vec(), self.value(lock), self.now);
        let becomes = redisson_fair::run(what, &mut self.place(lock).list, value, now);
        if self.list(lock) != before {
            self.touch_list(lock);
            self.list_is_met(lock);
        }
        if becomes != value {
            self.becomes(lock, becomes);
            self.written(lock);
        }
    }

    /// Every key may have changed.
    fn touch_all(&mut self) {
        self.all_locks().for_each(|lock| self.touch_list(lock));
    }

    /// An expired key stays expired, also when the clock is set back.
    fn clean_up(&mut self, lock: Lock) {
        self.place(lock).value = self.value(lock);
    }

    /// A lock whose lease ended while no native waited was free for Redisson waiters too.
    pub(super) fn has_ended(&mut self, lock: Lock) {
        if self.queue(lock).is_empty() {
            self.row_ends(lock);
        }
    }

    fn other_write(&mut self, lock: Lock, what: OtherWrite) {
        if let OtherWrite::Token(token) = what {
            // Another key than the lock's.
            self.place(lock).token = Some(token.map(|Count(n)| n));
            return;
        }
        let (value, now) = (self.value(lock), self.now);
        let ends_before = if let Value::ReadWrite(hash) = value { hash.ends } else { None };
        let Some(becomes) = other_write::run(what, value, &mut self.place(lock).leases, now) else { return };
        self.becomes(lock, becomes);
        if matches!(becomes, Value::ReadWrite(hash) if hash.ends.is_some() && hash.ends != ends_before) {
            self.is_met(lock);
        }
        self.written(lock);
    }

    /// Another client has set the key to this value.
    fn becomes(&mut self, lock: Lock, value: Value) {
        self.set(lock, value);
        if value == Value::Nothing {
            self.has_ended(lock);
        }
    }

    /// Another client has written the key.
    fn written(&mut self, lock: Lock) {
        self.place(lock).unconfirmed = None;
    }

    /// Time passes on both clocks.
    pub(super) fn pass(&mut self, ms: u64) {
        self.forget_passes();
        self.clock += ms;
        self.now += i64::try_from(ms).expect("a span");
    }

    pub(super) fn drop_waiters(&mut self, lock: Lock, why: &str) {
        while !self.queue(lock).is_empty() {
            let waiter = self.remove(lock, 0);
            let message = format!("dropped {} {why}{}", named(lock, waiter.owner), waiter.in_which_way());
            self.tell_waiter(waiter, Answer::Error("UNBLOCKED"), message);
        }
    }

    /// Only a primary has queues: a replica writes nothing, and defers its work on grants and lists.
    pub(super) fn send_all_away(&mut self) {
        for lock in self.all_locks() {
            self.drop_waiters(lock, "demoted");
            self.forget_row(lock);
        }
    }

    /// Grants and lists are as the primary has them.
    fn synchronise(&mut self) {
        self.open.clear();
        self.revokes.clear();
        self.places.iter_mut().for_each(|place| place.gone.clear());
    }

    /// The answer of a call arrives.
    pub(super) fn deliver(&mut self, call: usize) -> Option<Answer> {
        self.open.retain(|grant| grant.call != call);
        self.calls.remove(&call)
    }

    /// The client of a call disconnects. An undelivered grant to it must be revoked.
    pub(super) fn disconnect(&mut self, call: usize) {
        self.calls.remove(&call);
        for lock in self.all_locks() {
            if let Some(at) = self.queue(lock).iter().position(|waiter| waiter.via == Via::Call(call)) {
                self.remove(lock, at);
            }
        }
        let (gone, open) = self.open.drain(..).partition(|grant| grant.call == call);
        self.open = open;
        self.revokes.extend::<Vec<_>>(gone);
    }
}
