//! What happens besides commands: time, the timer, clients that go, others who write, the server's role.

use super::op::{Channel, Count, Foreign, Ground, LOCKS, Lock, Ms, Op};
use super::state::{Answer, LastToken, Oracle, Value, Via, Waiter, named};

impl Oracle {
    /// Lets it happen. Time that passes is the caller's: [`Self::pass`] and [`Self::look`].
    pub(super) fn step(&mut self, op: Op) {
        self.notice_ends();
        match op {
            Op::Acquire { lock, owner, lease, holds, wait, fenced } => {
                self.acquire(lock, owner, lease, holds, wait, fenced);
            }
            Op::Release { lock, owner, down_to, lease } => self.release(lock, owner, down_to, lease),
            Op::Renew { lock, owner, lease } => self.renew(lock, owner, lease),
            Op::Cancel { lock, owner } => self.cancel(lock, owner),
            Op::ForceRelease { lock, owner } => self.force_release(lock, owner),
            Op::Foreign { lock, what } => self.foreign(lock, what),
            Op::Flush => {
                for lock in self.all_locks() {
                    self.set(lock, Value::Nothing);
                    self.place(lock).unconfirmed = None;
                    self.place(lock).token = LastToken::None;
                    self.has_ended(lock);
                }
                self.touch_all();
            }
            Op::Step(ms) => {
                self.all_locks().for_each(|lock| self.clean_up(lock));
                self.now += i64::from(ms);
                self.touch_all();
            }
            Op::Subscribe(Channel(channel), heard) => self.heard[channel] = heard,
            Op::Listen(listened) => self.listened = listened,
            Op::Ground(ground) => self.ground = ground,
            Op::Primary(true) => self.primary = true,
            Op::Primary(false) => {
                self.primary = false;
                self.send_all_away();
            }
            Op::Accept(accept) => self.accept = accept,
            Op::Pass(_) | Op::Stall(_) | Op::Deliver(_) | Op::Disconnect(_) => {}
        }
    }

    /// Leases that have run out while nobody waits here.
    fn notice_ends(&mut self) {
        for lock in self.all_locks() {
            if self.places[lock.0].value != Value::Nothing && self.is_free(lock) {
                self.has_ended(lock);
            }
        }
    }

    fn all_locks(&self) -> impl Iterator<Item = Lock> + use<> {
        (0..LOCKS.len()).map(Lock)
    }

    /// Something has happened to every key.
    fn touch_all(&mut self) {
        self.places.iter_mut().for_each(|place| place.touched = !place.queue.is_empty());
    }

    /// What has expired stays so, also when the clock goes back.
    fn clean_up(&mut self, lock: Lock) {
        let value = self.value(lock);
        let place = self.place(lock);
        if std::mem::replace(&mut place.value, value) != value {
            place.unconfirmed = None;
        }
    }

    /// A lock that has ended while nobody waits here was free to foreign waiters too.
    pub(super) fn has_ended(&mut self, lock: Lock) {
        if self.queue(lock).is_empty() {
            self.place(lock).streak = None;
        }
    }

    fn foreign(&mut self, lock: Lock, what: Foreign) {
        let value = self.value(lock);
        let after = |ms: Ms| self.now + ms.0;
        if let Foreign::Token(token) = what {
            // Another key than the lock's.
            self.place(lock).token = token.map_or(LastToken::Spoiled, |Count(n)| LastToken::Is(n));
            return;
        }
        match (what, value) {
            (Foreign::Delete, _) => {
                self.set(lock, Value::Nothing);
                self.has_ended(lock);
            }
            (Foreign::Take { owner, lease }, Value::Nothing) => {
                self.set(lock, Value::Held { by: owner, holds: 1, ends: lease.map(after) });
            }
            (Foreign::Put { owner, holds: Count(holds), lease }, _) => {
                self.set(lock, Value::Held { by: owner, holds: holds.max(1), ends: lease.map(after) });
            }
            (Foreign::Spoil, _) => self.set(lock, Value::Other),
            (Foreign::Expire(ms), Value::Held { by, holds, .. }) => {
                self.set(lock, Value::Held { by, holds, ends: Some(after(ms)) });
            }
            (Foreign::Persist, Value::Held { by, holds, .. }) => {
                self.set(lock, Value::Held { by, holds, ends: None });
            }
            (Foreign::Take { .. } | Foreign::Expire(_) | Foreign::Persist | Foreign::Token(_), _) => return,
        }
        let place = self.place(lock);
        place.touched = !place.queue.is_empty();
        place.unconfirmed = None;
    }

    /// Time passes on both clocks.
    pub(super) fn pass(&mut self, ms: u64) {
        self.clock += ms;
        self.now += i64::try_from(ms).expect("a span");
    }

    /// When the timer has to fire at the latest, by the clock that never steps.
    pub(super) fn due(&self) -> Option<u64> {
        let from_now = |at: i64| self.clock + at.saturating_sub(self.now).max(0).unsigned_abs();
        let ends = self.places.iter().flat_map(|place| &place.queue).filter_map(|waiter| waiter.until);
        let looks = self.all_locks().filter(|lock| !self.queue(*lock).is_empty()).filter_map(|lock| {
            match self.value(lock) {
                // Its key is there still when its time has come, and not after that.
                Value::Held { ends, .. } => ends.map(|at| from_now(at + 1)),
                Value::Nothing if self.is_left_to_others(lock) => self.places[lock.0].window,
                Value::Nothing => Some(self.clock),
                Value::Other => None,
            }
        });
        let take_backs = self.take_backs.first().map(|_| self.clock);
        ends.chain(looks).chain(take_backs).min()
    }

    /// The timer fires.
    pub(super) fn look(&mut self) {
        for lock in self.all_locks() {
            while let Some(at) =
                self.position(lock, |waiter, clock| waiter.until.is_some_and(|at| at <= clock))
            {
                let waiter = self.remove(lock, at);
                self.tell_waiter(waiter, Answer::Null, format!("timeout {}", named(lock, waiter.owner)));
            }
        }
        if !self.primary {
            self.send_all_away();
            return;
        }
        if self.ground != Ground::Paused {
            self.take_back();
            self.all_locks().for_each(|lock| self.look_at(lock));
        }
    }

    fn position(&self, lock: Lock, wanted: impl Fn(&Waiter, u64) -> bool) -> Option<usize> {
        self.queue(lock).iter().position(|waiter| wanted(waiter, self.clock))
    }

    /// Grants that nobody got go back, if nothing has happened to them since.
    fn take_back(&mut self) {
        while let Some(grant) = self.take_backs.first().copied() {
            let granted = Value::Held { by: grant.owner, holds: 1, ends: Some(grant.ends) };
            let stands = self.value(grant.lock) == granted;
            if stands && self.ground == Ground::Refused {
                return;
            }
            self.take_backs.remove(0);
            if stands && self.ground == Ground::Firm {
                self.free(grant.lock);
                self.looked(grant.lock);
            }
        }
    }

    fn look_at(&mut self, lock: Lock) {
        if !self.is_free(lock) {
            self.looked(lock);
            return;
        }
        if self.is_left_to_others(lock) && !self.places[lock.0].touched {
            return;
        }
        match self.ground {
            Ground::Firm => self.serve_unseen(lock),
            Ground::Moved => {
                self.send_away(lock, "moved");
                self.place(lock).streak = None;
            }
            Ground::Refused | Ground::Paused => {}
        }
    }

    fn send_away(&mut self, lock: Lock, why: &str) {
        while !self.queue(lock).is_empty() {
            let waiter = self.remove(lock, 0);
            let message = format!("dropped {} {why}", named(lock, waiter.owner));
            self.tell_waiter(waiter, Answer::Error("UNBLOCKED"), message);
        }
    }

    /// The queues are a primary's: a replica forgets everything.
    fn send_all_away(&mut self) {
        for lock in self.all_locks() {
            self.send_away(lock, "demoted");
            self.place(lock).streak = None;
        }
        self.open.clear();
        self.take_backs.clear();
    }

    /// The answer of a call arrives.
    pub(super) fn deliver(&mut self, call: usize) -> Option<Answer> {
        self.open.retain(|grant| grant.call != call);
        self.calls.remove(&call)
    }

    /// The client of a call goes. A grant that was on its way to it is to be taken back.
    pub(super) fn disconnect(&mut self, call: usize) {
        self.calls.remove(&call);
        for lock in self.all_locks() {
            if let Some(at) = self.position(lock, |waiter, _| waiter.via == Via::Call(call)) {
                self.remove(lock, at);
            }
        }
        let (gone, open) = self.open.drain(..).partition(|grant| grant.call == call);
        self.open = open;
        self.take_backs.extend::<Vec<_>>(gone);
    }
}
