//! The commands, from docs/COMMANDS.md.

use super::op::{Channel, Count, Lock, Ms, Owner, Wait, WaitMs, Word};
use super::read_write::arrives;
use super::state::Oracle;
use super::values::{Answer, Ask, Freed, Value, Via, Waiter};

const MOST_HOLDS: i64 = 1 << 53;

impl Oracle {
    /// A command that may write serves the queue first, and confirms the grants to its caller.
    fn arrive(&mut self, lock: Lock, owner: Option<Owner>) {
        self.remove_departed_heads(lock);
        self.seen_at_end = self.serve_if_free(lock);
        self.open.retain(|grant| grant.lock != lock || Some(grant.owner) != owner);
        self.revokes.retain(|grant| grant.lock != lock || Some(grant.owner) != owner);
        self.place(lock).unconfirmed.take_if(|granted| Some(*granted) == owner);
    }

    /// Answers the caller; an error changes nothing, but a lock that was served before it is seen.
    fn answer(&mut self, lock: Lock, answer: Answer) {
        if self.seen_at_end || !matches!(answer, Answer::Error(_)) {
            self.looked(lock);
        }
        self.seen.answer = Some(answer);
    }

    pub(super) fn acquire(&mut self, lock: Lock, owner: Owner, ask: Ask) {
        self.arrive(lock, Some(owner));
        if ask.fair && !self.list(lock).is_empty() {
            self.list_is_met(lock);
        }
        let Some(token) = self.token(lock, ask.fenced) else {
            return self.answer(lock, Answer::Error("ERR"));
        };
        if ask.word != Word::None {
            let answer = self.acquire_read_write(lock, owner, ask, token);
            return self.answer(lock, answer);
        }
        let is_next = !(ask.fair && self.others_stand_before(lock, owner)) && self.queue(lock).is_empty();
        let mut answer = match self.value(lock) {
            Value::Other => Answer::Error("WRONGTYPE"),
            Value::ReadWrite(_) | Value::Permits(..) => Answer::Error("WRONGLOCK"),
            Value::Held { by, holds: has, ends } if by == owner => {
                self.re_enter(lock, owner, ask.lease, ask.holds, has, ends)
            }
            _ if !self.accept => Answer::Error("ERR"),
            // A caller that counts on earlier holds has lost them.
            _ if ask.holds.is_some_and(|n| n > 1) => Answer::Null,
            Value::Nothing if is_next => {
                self.set(lock, Value::Held { by: owner, holds: 1, ends: Some(self.now + ask.lease) });
                Answer::Holds(1, ask.lease, token)
            }
            Value::Held { .. } | Value::Nothing => self.wait(lock, owner, ask),
        };
        if let Answer::Holds(_, _, got) = &mut answer {
            *got = token;
            self.use_token(lock, token);
            if ask.fair {
                self.got(lock, owner);
            }
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
        let arrives = match arrives(has, wanted) {
            None => return Answer::Null,
            Some(more) if more > MOST_HOLDS => return Answer::Error("ERR"),
            Some(holds) => holds,
        };
        // A lease never gets shorter; a hold without a lease end stays without one.
        let ends = ends.map(|at| at.max(self.now + lease));
        self.set(lock, Value::Held { by: owner, holds: arrives, ends });
        Answer::Holds(arrives, ends.map_or(-1, |at| at - self.now), 0)
    }

    pub(super) fn wait(&mut self, lock: Lock, owner: Owner, ask: Ask) -> Answer {
        let (wait, channel): (WaitMs, Option<Channel>) = match ask.wait {
            Wait::Block(wait) => (wait, None),
            Wait::Enqueue(wait, channel) => (wait, Some(channel)),
            Wait::No | Wait::BlockInMulti(_) => return Answer::Null,
        };
        if !self.primary {
            return Answer::Null;
        }
        let waits = |word| self.queue(lock).iter().any(|waiter| (waiter.owner, waiter.word) == (owner, word));
        if ask.word == Word::Write && waits(Word::Read) && !waits(Word::Write) {
            // It would wait for itself.
            return Answer::Error("ERR");
        }
        if ask.fair && self.places[lock.0].list_touched {
            // A waiter that was dropped from the fair list keeps its place.
            self.put_right(lock);
        }
        let same = |waiter: &Waiter| (waiter.owner, waiter.word) == (owner, ask.word);
        let known = self.queue(lock).iter().position(same);
        if known.is_none() && self.is_full(lock) {
            return Answer::Error("QUEUEFULL");
        }
        let via = channel.map_or(Via::Call(self.blocked_so_far), Via::Channel);
        let until = (wait.0 > 0).then(|| self.clock + wait.0.unsigned_abs());
        if let Some(channel) = channel {
            self.unsubscribed_since[channel.0] = None;
        }
        let Ask { word, lease, fenced, fair, .. } = ask;
        self.join(lock, known, Waiter { owner, word, lease, fenced, until, via, fair }, wait);
        let Via::Call(call) = via else { return Answer::Enqueued };
        self.blocked_so_far += 1;
        self.calls.insert(call, Answer::Blocked);
        Answer::Blocked
    }

    fn is_full(&self, lock: Lock) -> bool {
        let all: usize = self.places.iter().map(|place| place.queue.len()).sum();
        all >= self.options.max_waiters || self.queue(lock).len() >= self.options.max_waiters_per_key
    }

    /// A waiter joins the queue, or repeats its call with other options and keeps its place.
    fn join(&mut self, lock: Lock, known: Option<usize>, waiter: Waiter, wait: WaitMs) {
        let Waiter { owner, fair, .. } = waiter;
        let back = fair && self.comes_back(lock, owner);
        let has_place = known.is_some_and(|at| self.queue(lock)[at].fair);
        match known {
            None => {
                let last = self.queue(lock).len();
                let at = if back { self.place_of_returned(lock, owner) } else { last };
                self.place(lock).queue.insert(at, waiter);
            }
            Some(at) => {
                let before = std::mem::replace(&mut self.place(lock).queue[at], waiter);
                if let Via::Call(call) = before.via {
                    self.calls.insert(call, Answer::Error("UNBLOCKED"));
                }
                if before.fair && !fair {
                    self.place(lock).gone.push(owner);
                }
            }
        }
        self.remove_departed_heads(lock);
        // A waiter in the queue already has a place: dropped from the fair list, it returns there once it is first.
        if fair && !has_place {
            self.join_list(lock, owner, wait.0);
        }
        self.place(lock).list_touched &= self.has_natives(lock);
    }

    pub(super) fn release(
        &mut self,
        lock: Lock,
        owner: Owner,
        word: Word,
        down_to: Option<Count>,
        lease: Option<Ms>,
    ) {
        self.arrive(lock, Some(owner));
        let value = self.value(lock);
        if word != Word::None || matches!(value, Value::ReadWrite(_)) {
            let answer = self.release_read_write(lock, owner, word, down_to, lease);
            return self.answer(lock, answer);
        }
        let answer = match value {
            Value::Other => Answer::Error("WRONGTYPE"),
            Value::Held { by, holds, ends } if by == owner => {
                let left = down_to.map_or(holds - 1, |Count(n)| n.min(holds));
                if left == 0 {
                    self.free(lock, Freed::Entirely);
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

    pub(super) fn renew(&mut self, lock: Lock, owner: Owner, word: Word, lease: Ms) {
        self.arrive(lock, Some(owner));
        let value = self.value(lock);
        if word != Word::None || matches!(value, Value::ReadWrite(_)) {
            let answer = self.renew_read_write(lock, owner, word, lease);
            return self.answer(lock, answer);
        }
        let answer = match value {
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
        let mut known = false;
        while let Some(at) = self.queue(lock).iter().position(|waiter| waiter.owner == owner) {
            known = true;
            if let Via::Call(call) = self.remove(lock, at).via {
                self.calls.insert(call, Answer::Null);
            }
        }
        self.remove_departed_heads(lock);
        if known {
            // The waiters behind it may have waited only for this one.
            self.serve_found_free(lock);
        }
        if self.seen_at_end {
            self.looked(lock);
        }
        self.seen.answer = Some(if known { Answer::One } else { Answer::Zero });
    }

    pub(super) fn force_release(&mut self, lock: Lock, owner: Option<Owner>) {
        self.arrive(lock, owner);
        let answer = match self.value(lock) {
            Value::Other => Answer::Error("WRONGTYPE"),
            Value::Held { by, .. } if owner.is_none_or(|owner| owner == by) => {
                self.free(lock, Freed::Entirely);
                Answer::One
            }
            Value::ReadWrite(hash) => self.force_read_write(lock, owner, hash),
            _ => Answer::Zero,
        };
        self.answer(lock, answer);
    }
}
