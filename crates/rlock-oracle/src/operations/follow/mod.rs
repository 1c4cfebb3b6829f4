//! Histories in which anything may happen while departures and hand-offs are half done. The state of a lock in between
//! depends on how much is done at once, which the contract leaves open. So only facts that are certain at any time are
//! compared:
//!
//! - an owner that was promised a lock holds it, for as long as promised, and no other owner holds it beside;
//! - waiters are served in the order of their arrival, and no owner acquires a lock past them;
//! - once all due work is done, no ended wait lasts, and the timer is set for each free lock with waiters. Redisson
//!   waiters were notified of each lock that a release or the end of a session left free;
//! - a tie is that of the owner's last call that succeeded. A call with SESSION is refused if its connection is older than one that
//!   tied or untied the hold, and not that of the last call; else never. A hold whose connection has ended lasts for the grace period at most, and every other hold for as long as promised;
//! - a permit is given only if there is room for it, and denied only if there is not, or if others wait.
//!
//! At the end every call is answered, and the core has nothing left to remember.

mod claims;
mod permits;
mod quiet;
mod stand;
mod ties;

use std::collections::BTreeMap;

use rlock_core::departures;

use self::stand::Stand;
use self::ties::Ties;
use super::bytes::LINES;
use super::history::History;
use super::op::{CHANNELS, Channel, Ground, LOCKS, Line, Lock, Op, OtherWrite, Owner, Word};
use super::options::{Kinds, Options};
use super::real::Real;
use super::run::{RETRY, TURNS, pick};
use super::values::{Answer, Waiter};

/// How often in a row the timer may be due at once while work is left.
const MOST_CYCLES: u32 = 1_000;

/// The error of a call that cannot tie the hold, which is tied to another connection.
const TIED: &str = "TRYAGAIN";

/// The error of a call that cannot tie the hold, which another connection has untied.
const UNTIED: &str = "UNTIED";

/// An owner that holds a lock, or wants it, in one way.
type Claim = (Lock, Owner, Word);

/// The visible state before a step.
struct Before {
    queues: [Vec<Waiter>; LOCKS.len()],
    stands: [Stand; LOCKS.len()],
    calls: BTreeMap<usize, Answer>,
}

struct Follow {
    real: Real,
    options: Options,
    ground: Ground,
    primary: bool,
    /// Owner, lock and mode of each call that has blocked.
    callers: Vec<Claim>,
    /// Grants with undelivered answers, and their lease ends.
    granted: BTreeMap<usize, (Claim, Option<i64>)>,
    /// The end of each hold that an owner was promised.
    promised: BTreeMap<Claim, Option<i64>>,
    /// Whether a release left the lock free, and Redisson waiters were not notified yet.
    unnotified: [bool; LOCKS.len()],
    ties: Ties,
}

/// Runs a history, and panics if a property does not hold.
pub(super) fn check(history: &History) {
    let options = history.options;
    let mut follow = Follow {
        real: Real::new(options),
        options,
        ground: Ground::Firm,
        primary: true,
        callers: Vec::new(),
        granted: BTreeMap::new(),
        promised: BTreeMap::new(),
        unnotified: [false; LOCKS.len()],
        ties: Ties::default(),
    };
    for (number, op) in history.ops.iter().enumerate() {
        let op = options.kinds.of(*op);
        follow.step(op, &format!("step {number}: {op:?}"));
    }
    follow.end();
}

impl Follow {
    fn step(&mut self, op: Op, story: &str) {
        match op {
            Op::Pass(span) => {
                if let Kinds::Tied(_) = self.options.kinds {
                    self.happens(story, Op::Sweep);
                }
                self.pass(span.0, story);
                self.is_quiet(story);
            }
            Op::Stall(span) => self.real.sim.pass(span.0),
            Op::Deliver(nth) => self.deliver(nth),
            Op::Disconnect(nth) => {
                let calls: Vec<_> = self.real.calls().into_keys().collect();
                pick(&calls, nth).into_iter().for_each(|call| self.disconnect(call, story));
            }
            Op::On { line, late, grace } => self.say(line, late, grace),
            Op::Connect(line) => self.ties.connect(line),
            Op::Close(line) => {
                let client = self.ties.oldest(line);
                self.close(client, story);
            }
            // A server that refuses writes refuses the module's commands itself.
            _ if op.is_command() && self.ground != Ground::Firm => {}
            _ if op.is_command() => {
                self.real.calls_on = self.ties.take_asked();
                self.happens(story, op);
            }
            _ => self.happens(story, op),
        }
    }

    fn happens(&mut self, story: &str, op: Op) {
        self.watched(story, Some(op), |follow| {
            let answer = follow.real.step(op);
            follow.note(op);
            answer
        });
    }

    fn note(&mut self, op: Op) {
        match op {
            Op::Ground(ground) => self.ground = ground,
            Op::Primary(primary) => {
                self.primary = primary;
                if !primary {
                    self.ties.demoted();
                }
            }
            Op::Accept(false) => departures::drain(self.real.sim.node()),
            _ => {}
        }
    }

    fn deliver(&mut self, nth: u8) {
        let answered = |(call, answer): (usize, Answer)| (answer != Answer::Blocked).then_some(call);
        let calls: Vec<_> = self.real.calls().into_iter().filter_map(answered).collect();
        let Some(call) = pick(&calls, nth) else { return };
        self.real.deliver(call);
        if let Some((claim, ends)) = self.granted.remove(&call) {
            // The answer to a later call of the owner is newer.
            self.promised.entry(claim).or_insert(ends);
        }
    }

    /// Time passes, and the timer fires whenever it is due; at the end it fires until no work is left.
    fn pass(&mut self, ms: u64, story: &str) {
        let end = self.clock() + ms;
        let mut fired = 0;
        loop {
            let now = self.clock();
            match self.real.timer().filter(|at| *at <= end) {
                Some(at) if at > now => self.real.sim.pass(at - now),
                Some(_) if fired < 2 || now == end => {
                    fired += 1;
                    assert!(fired < MOST_CYCLES, "{story}: the timer fires without end");
                    self.watched(story, None, |follow| {
                        follow.real.sim.fire();
                        None
                    });
                    continue;
                }
                Some(_) => self.real.sim.pass(1),
                None => return self.real.sim.pass(end - now),
            }
            fired = 0;
        }
    }

    fn clock(&self) -> u64 {
        self.real.sim.with(|world| world.clock.0)
    }

    fn now(&self) -> i64 {
        self.real.sim.with(|world| world.now.0)
    }

    fn disconnect(&mut self, call: usize, story: &str) {
        match self.real.client_of(call) {
            Some(client) if client > 0 => self.close(client, story),
            _ => self.watched(story, None, |follow| {
                follow.real.disconnect(call);
                follow.granted.remove(&call);
                None
            }),
        }
    }

    /// A connection ends, and with it a call that is blocked on it.
    fn close(&mut self, client: u64, story: &str) {
        self.watched(story, None, |follow| {
            let calls = follow.real.calls().into_keys();
            let of_it: Vec<_> = calls.filter(|call| follow.real.client_of(*call) == Some(client)).collect();
            for call in of_it {
                follow.granted.remove(&call);
            }
            follow.real.close(client);
            follow.ties.close(client);
            follow.forget_what_may_be_tied();
            None
        });
    }

    /// Runs a step, and checks its outcome.
    fn watched(&mut self, story: &str, op: Option<Op>, step: impl FnOnce(&mut Self) -> Option<Answer>) {
        let before = Before {
            queues: std::array::from_fn(|lock| self.real.queue(Lock(lock))),
            stands: std::array::from_fn(|lock| self.stand(Lock(lock))),
            calls: self.real.calls(),
        };
        // Holds that have ended by now stay ended, also when the clock is set back.
        self.forget_ended();
        let answer = step(self);
        if let (Some(Op::Acquire { lock, owner, word, .. }), Some(Answer::Blocked)) = (op, &answer) {
            self.callers.push((lock, owner, word));
        }
        if op.is_none() {
            self.note_shortened(&before);
        }
        let served = self.served(&before, story);
        self.in_order(&before, &served, story);
        self.inherit_ties(&before, &served);
        if let Some(op) = op {
            self.judge_permits(op, &before, &served, answer.as_ref(), story);
            self.judge_ties(op, &before, &served, answer.as_ref(), story);
            self.update_ties(op, &before, &served, answer.as_ref());
            self.update_claims(op, &before, answer, story);
        } else {
            self.no_more_than_asked(&served, &before, story);
            self.check_not_longer(&before, &served, story);
        }
        self.forget_ended();
        self.check_ties(story);
        self.real.users_agree(story);
        self.hold_what_was_promised(story);
        self.note_messages(op, &before);
    }

    /// As in a history in which everything is compared: each holder loses its lock, and each waiter gets a turn.
    fn end(&mut self) {
        let story = "at the end";
        self.step(Op::Ground(Ground::Firm), story);
        self.step(Op::Primary(true), story);
        (0..CHANNELS.len()).for_each(|n| self.step(Op::Subscribe(Channel(n), false), story));
        (0..LINES).for_each(|line| self.close_line(Line(line), story));
        for _ in 0..TURNS {
            for lock in (0..LOCKS.len()).map(Lock) {
                self.step(Op::ByOther { lock, what: OtherWrite::Delete }, story);
            }
            self.pass(2 * RETRY + self.options.fair_turn.unsigned_abs(), story);
            self.is_quiet(story);
            while self.real.calls().values().any(|answer| *answer != Answer::Blocked) {
                self.deliver(0);
            }
        }
        assert!(
            self.real.calls().is_empty() && self.real.is_blank(),
            "at the end a call or lock state is left"
        );
    }

    fn close_line(&mut self, line: Line, story: &str) {
        for client in self.ties.all_of(line) {
            self.close(client, story);
        }
    }
}
