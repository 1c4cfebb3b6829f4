//! What happens besides commands: time, the timer, clients that go, others who write, the server's role.

use super::commands::Ask;
use super::hash::Hash;
use super::op::{Channel, Count, Foreign, Ground, LOCKS, Lock, Ms, Op, Word};
use super::redisson;
use super::state::{Access, Answer, Freed, LastToken, OpenGrant, Oracle, Value, Via, Waiter, named};

impl Oracle {
    /// Lets it happen. Time that passes is the caller's: [`Self::pass`] and [`Self::look`].
    pub(super) fn step(&mut self, op: Op) {
        self.notice_ends();
        match op {
            Op::Acquire { lock, owner, word, lease: Ms(lease), holds, wait, fenced } => {
                let holds = holds.map(|Count(n)| n.max(1));
                self.acquire(lock, owner, Ask { word, lease, holds, wait, fenced });
            }
            Op::Release { lock, owner, word, down_to, lease } => {
                self.release(lock, owner, word, down_to, lease);
            }
            Op::Renew { lock, owner, word, lease } => self.renew(lock, owner, word, lease),
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
                let now = self.now;
                self.places.iter_mut().for_each(|place| place.leases.retain(|_, at| *at >= now));
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
            if self.places[lock.0].value != Value::Nothing && self.value(lock) == Value::Nothing {
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
            (Foreign::Expire(ms), Value::ReadWrite(hash)) => {
                self.set(lock, Value::ReadWrite(Hash { ends: Some(after(ms)), ..hash }));
            }
            (Foreign::Persist, Value::ReadWrite(hash)) => {
                self.set(lock, Value::ReadWrite(Hash { ends: None, ..hash }));
            }
            (Foreign::Redisson { script, owner, lease: Ms(lease) }, Value::Nothing | Value::ReadWrite(_)) => {
                let before = if let Value::ReadWrite(hash) = value { Some(hash) } else { None };
                let now = self.now;
                let hash = redisson::run(script, owner, lease, before, &mut self.place(lock).leases, now);
                if hash == before {
                    return;
                }
                self.set(lock, hash.map_or(Value::Nothing, Value::ReadWrite));
                if hash.is_none() {
                    self.has_ended(lock);
                }
            }
            (
                Foreign::Take { .. }
                | Foreign::Expire(_)
                | Foreign::Persist
                | Foreign::Token(_)
                | Foreign::Redisson { .. },
                _,
            ) => return,
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
            match self.head_access(lock) {
                Access::Free if self.is_left_to_others(lock) => self.places[lock.0].window,
                Access::Free | Access::Shared => Some(self.clock),
                // Its key is there still when its time has come, and not after that.
                Access::No => self.may_be_had(lock).map(|at| from_now(at + 1)),
            }
        });
        let take_backs = self.take_backs.first().map(|_| self.clock);
        ends.chain(looks).chain(take_backs).min()
    }

    /// When the lock ends for who waits first, by the wall clock: a writer waits for readers that live.
    fn may_be_had(&self, lock: Lock) -> Option<i64> {
        match self.value(lock) {
            Value::Held { ends, .. } => ends,
            Value::ReadWrite(hash) => {
                let writer = self.queue(lock).first().is_some_and(|head| head.word == Word::Write);
                let readers = hash.latest(&self.places[lock.0].leases, None, self.now);
                let readers = readers.filter(|_| writer && !hash.writing);
                hash.ends.into_iter().chain(readers).min()
            }
            Value::Nothing | Value::Other => None,
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
            let stands = self.stands(grant);
            if stands && self.ground == Ground::Refused {
                return;
            }
            self.take_backs.remove(0);
            if stands && self.ground == Ground::Firm {
                match (grant.word, self.value(grant.lock)) {
                    (Word::Read, Value::ReadWrite(hash)) => self.end_read(grant.lock, grant.owner, hash),
                    (Word::Write, Value::ReadWrite(hash)) => self.end_write(grant.lock, grant.owner, hash),
                    _ => self.free(grant.lock, Freed::Entirely),
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
        let access = self.head_access(lock);
        if access == Access::No {
            self.looked(lock);
            return;
        }
        if access == Access::Free && self.is_left_to_others(lock) && !self.places[lock.0].touched {
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
            let message = format!("dropped {} {why}{}", named(lock, waiter.owner), waiter.in_which_way());
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
