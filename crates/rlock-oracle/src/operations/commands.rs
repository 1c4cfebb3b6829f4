//! The commands, from docs/COMMANDS.md.

use super::op::{Channel, Count, Lock, Ms, Owner, Wait, WaitMs};
use super::state::{Answer, Oracle, Value, Via, Waiter};

const MOST_HOLDS: i64 = 1 << 53;

impl Oracle {
    /// Any command that may write first serves the queue; and its caller is heard of.
    fn arrive(&mut self, lock: Lock, owner: Option<Owner>) {
        self.serve_unseen(lock);
        self.open.retain(|grant| grant.lock != lock || Some(grant.owner) != owner);
        self.take_backs.retain(|grant| grant.lock != lock || Some(grant.owner) != owner);
        self.place(lock).unconfirmed.take_if(|granted| Some(*granted) == owner);
    }

    /// The caller is answered; an error leaves everything as it is.
    fn answer(&mut self, lock: Lock, answer: Answer) {
        if !matches!(answer, Answer::Error(_)) {
            self.looked(lock);
        }
        self.seen.answer = Some(answer);
    }

    pub(super) fn acquire(
        &mut self,
        lock: Lock,
        owner: Owner,
        lease: Ms,
        holds: Option<Count>,
        wait: Wait,
        fenced: bool,
    ) {
        self.arrive(lock, Some(owner));
        let Some(token) = self.token(lock, fenced) else {
            return self.answer(lock, Answer::Error("ERR"));
        };
        let holds = holds.map(|Count(n)| n.max(1));
        let mut answer = match self.value(lock) {
            Value::Other => Answer::Error("WRONGTYPE"),
            Value::Held { by, holds: has, ends } if by == owner => {
                self.re_enter(lock, owner, lease.0, holds, has, ends)
            }
            _ if !self.accept => Answer::Error("ERR"),
            // Who counts on holds of before has lost them.
            _ if holds.is_some_and(|n| n > 1) => Answer::Null,
            Value::Nothing if self.queue(lock).is_empty() => {
                self.set(lock, Value::Held { by: owner, holds: 1, ends: Some(self.now + lease.0) });
                Answer::Holds(1, lease.0, token)
            }
            Value::Held { .. } | Value::Nothing => self.wait(lock, owner, (lease, fenced), wait),
        };
        if let Answer::Holds(_, _, got) = &mut answer {
            *got = token;
            self.use_token(lock, token);
        }
        self.answer(lock, answer);
    }

    fn re_enter(
        &mut self,
        lock: Lock,
        owner: Owner,
        lease: i64,
        wanted: Option<i64>,
        has: i64,
        ends: Option<i64>,
    ) -> Answer {
        let arrives = match wanted {
            None if has == MOST_HOLDS => return Answer::Error("ERR"),
            None => has + 1,
            Some(n) if n <= has => has,
            Some(n) if n == has + 1 => n,
            Some(_) => return Answer::Null,
        };
        // Never shorter, and none stays none.
        let ends = ends.map(|at| at.max(self.now + lease));
        self.set(lock, Value::Held { by: owner, holds: arrives, ends });
        Answer::Holds(arrives, ends.map_or(-1, |at| at - self.now), 0)
    }

    fn wait(&mut self, lock: Lock, owner: Owner, (lease, fenced): (Ms, bool), wait: Wait) -> Answer {
        let (wait, channel): (WaitMs, Option<Channel>) = match wait {
            Wait::Block(wait) => (wait, None),
            Wait::Enqueue(wait, channel) => (wait, Some(channel)),
            Wait::No | Wait::BlockInMulti(_) => return Answer::Null,
        };
        if !self.primary {
            return Answer::Null;
        }
        let all: usize = self.places.iter().map(|place| place.queue.len()).sum();
        let known = self.queue(lock).iter().position(|waiter| waiter.owner == owner);
        let full =
            all >= self.options.max_waiters || self.queue(lock).len() >= self.options.max_waiters_per_key;
        if known.is_none() && full {
            return Answer::Error("QUEUEFULL");
        }
        let via = channel.map_or(Via::Call(self.blocked_so_far), Via::Channel);
        let until = (wait.0 > 0).then(|| self.clock + wait.0.unsigned_abs());
        let waiter = Waiter { owner, lease: lease.0, fenced, until, via };
        match known {
            None => self.place(lock).queue.push(waiter),
            Some(at) => {
                let before = std::mem::replace(&mut self.place(lock).queue[at], waiter);
                if let Via::Call(call) = before.via {
                    self.calls.insert(call, Answer::Error("UNBLOCKED"));
                }
            }
        }
        let Via::Call(call) = via else { return Answer::Enqueued };
        self.blocked_so_far += 1;
        self.calls.insert(call, Answer::Blocked);
        Answer::Blocked
    }

    pub(super) fn release(&mut self, lock: Lock, owner: Owner, down_to: Option<Count>, lease: Option<Ms>) {
        self.arrive(lock, Some(owner));
        let answer = match self.value(lock) {
            Value::Other => Answer::Error("WRONGTYPE"),
            Value::Held { by, holds, ends } if by == owner => {
                let left = down_to.map_or(holds - 1, |Count(n)| n.min(holds));
                if left == 0 {
                    self.free(lock);
                    Answer::One
                } else {
                    let ends = lease.map_or(ends, |Ms(ms)| Some(self.now + ms));
                    self.set(lock, Value::Held { by, holds: left, ends });
                    Answer::Zero
                }
            }
            _ => Answer::Null,
        };
        self.answer(lock, answer);
    }

    pub(super) fn renew(&mut self, lock: Lock, owner: Owner, lease: Ms) {
        self.arrive(lock, Some(owner));
        let answer = match self.value(lock) {
            Value::Other => Answer::Error("WRONGTYPE"),
            Value::Held { by, holds, .. } if by == owner => {
                self.set(lock, Value::Held { by, holds, ends: Some(self.now + lease.0) });
                Answer::One
            }
            _ => Answer::Zero,
        };
        self.answer(lock, answer);
    }

    pub(super) fn cancel(&mut self, lock: Lock, owner: Owner) {
        self.arrive(lock, Some(owner));
        let known = self.queue(lock).iter().position(|waiter| waiter.owner == owner);
        if let Some(at) = known
            && let Via::Call(call) = self.remove(lock, at).via
        {
            self.calls.insert(call, Answer::Null);
        }
        // It has nothing to do with the key, and does not look at it.
        self.seen.answer = Some(if known.is_some() { Answer::One } else { Answer::Zero });
    }

    pub(super) fn force_release(&mut self, lock: Lock, owner: Option<Owner>) {
        self.arrive(lock, owner);
        let answer = match self.value(lock) {
            Value::Other => Answer::Error("WRONGTYPE"),
            Value::Held { by, .. } if owner.is_none_or(|owner| owner == by) => {
                self.free(lock);
                Answer::One
            }
            _ => Answer::Zero,
        };
        self.answer(lock, answer);
    }
}
