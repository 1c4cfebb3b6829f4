//! Histories in which anything may happen while departures and hand-offs are half done. What a lock looks like then depends on
//! how much is done at once, and the contract leaves that open; so only what is certain at any time is compared:
//!
//! - an owner that was told that it holds a lock holds it, for as long as it was told, and nobody holds it beside;
//! - waiters are served in the order in which they came, and nobody gets a lock past them;
//! - once all is done that is due, no wait that has ended lasts on, where a lock is free and awaited the timer is set for it, and
//!   where a release left it free Redisson's waiters were told.
//!
//! At the end everybody was answered, and there is nothing to remember.

use std::collections::BTreeMap;

use rlock_core::departures;

use super::hash::{Hash, owners};
use super::op::{CHANNELS, Channel, Foreign, Ground, History, LOCKS, Lock, Op, Owner, Word};
use super::options::Options;
use super::real::Real;
use super::run::{RETRY, TURNS, is_command, pick};
use super::values::{Answer, Value, Waiter};

/// So often the timer may be due at once on end while there is work left.
const MOST_CYCLES: u32 = 1_000;

/// An owner that holds a lock, or wants it, in one way.
type Party = (Lock, Owner, Word);

/// What showed before a step.
struct Before {
    queues: [Vec<Waiter>; LOCKS.len()],
    values: [Value; LOCKS.len()],
    calls: BTreeMap<usize, Answer>,
}

struct Follow {
    real: Real,
    options: Options,
    ground: Ground,
    primary: bool,
    /// Of whom each call is that has blocked.
    callers: Vec<Party>,
    /// Grants whose answers are on their way, and when their leases end.
    granted: BTreeMap<usize, (Party, Option<i64>)>,
    /// When what each owner was told ends.
    told: BTreeMap<Party, Option<i64>>,
    /// Whether a release left the lock free, and Redisson's waiters were not told yet.
    untold: [bool; LOCKS.len()],
}

/// Lets a history happen, and panics where something is not as it must be.
pub(super) fn check(history: &History) {
    let options = history.options;
    let mut follow = Follow {
        real: Real::new(options),
        options,
        ground: Ground::Firm,
        primary: true,
        callers: Vec::new(),
        granted: BTreeMap::new(),
        told: BTreeMap::new(),
        untold: [false; LOCKS.len()],
    };
    for (number, op) in history.ops.iter().enumerate() {
        let op = options.kinds.of(*op);
        follow.step(op, &format!("step {number}: {op:?}"));
    }
    follow.end();
}

impl Follow {
    fn step(&mut self, op: Op, told: &str) {
        match op {
            Op::Pass(span) => {
                self.pass(span.0, told);
                self.is_quiet(told);
            }
            Op::Stall(span) => self.real.pass(span.0),
            Op::Deliver(nth) => self.deliver(nth),
            Op::Disconnect(nth) => self.watched(told, None, |follow| {
                let calls: Vec<_> = follow.real.calls().into_keys().collect();
                if let Some(call) = pick(&calls, nth) {
                    follow.real.disconnect(call);
                    follow.granted.remove(&call);
                }
                None
            }),
            // Where it refuses writes, the server refuses our commands itself.
            _ if is_command(op) && self.ground != Ground::Firm => {}
            _ => self.watched(told, Some(op), |follow| {
                let answer = follow.real.step(op);
                follow.note(op);
                answer
            }),
        }
    }

    fn note(&mut self, op: Op) {
        match op {
            Op::Ground(ground) => self.ground = ground,
            Op::Primary(primary) => self.primary = primary,
            Op::Accept(false) => departures::drain(self.real.sim.core()),
            _ => {}
        }
    }

    fn deliver(&mut self, nth: u8) {
        let answered = |(call, answer): (usize, Answer)| (answer != Answer::Blocked).then_some(call);
        let calls: Vec<_> = self.real.calls().into_iter().filter_map(answered).collect();
        let Some(call) = pick(&calls, nth) else { return };
        self.real.deliver(call);
        if let Some((party, ends)) = self.granted.remove(&call) {
            // What the owner heard since by another call is newer.
            self.told.entry(party).or_insert(ends);
        }
    }

    /// Time passes, and the timer fires whenever it is due: in the end as often as there is something to do.
    fn pass(&mut self, ms: u64, told: &str) {
        let end = self.clock() + ms;
        let mut fired = 0;
        loop {
            let now = self.clock();
            match self.real.timer().filter(|at| *at <= end) {
                Some(at) if at > now => self.real.pass(at - now),
                Some(_) if fired < 2 || now == end => {
                    fired += 1;
                    assert!(fired < MOST_CYCLES, "{told}: the timer turns without rest");
                    self.watched(told, None, |follow| {
                        follow.real.fire();
                        None
                    });
                    continue;
                }
                Some(_) => self.real.pass(1),
                None => return self.real.pass(end - now),
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

    /// Lets a step happen, and checks what has come of it.
    fn watched(&mut self, told: &str, op: Option<Op>, step: impl FnOnce(&mut Self) -> Option<Answer>) {
        let before = Before {
            queues: std::array::from_fn(|lock| self.real.queue(Lock(lock))),
            values: std::array::from_fn(|lock| self.real.value(Lock(lock))),
            calls: self.real.calls(),
        };
        // What has ended by now stays so, also when the clock is set back.
        self.forget_ended();
        let held_before = op.is_some_and(|op| self.caller_holds(op));
        let answer = step(self);
        if let (Some(Op::Acquire { lock, owner, word, .. }), Some(Answer::Blocked)) = (op, &answer) {
            self.callers.push((lock, owner, word));
        }
        let served = self.served(&before);
        self.in_order(&before, &served, told);
        if let Some(op) = op {
            self.hear(op, &before, held_before, answer, told);
        }
        self.forget_ended();
        self.hold_what_they_were_told(told);
        self.note_messages(op, &before);
    }

    /// Who was granted a lock in this step by waiting for it.
    fn served(&mut self, before: &Before) -> Vec<Party> {
        let mut served = Vec::new();
        for (call, answer) in self.real.calls() {
            let new = before.calls.get(&call).is_none_or(|known| *known == Answer::Blocked);
            if new && matches!(answer, Answer::Holds(..)) {
                let party = self.callers[call];
                self.granted.insert(call, (party, self.ends(party)));
                served.push(party);
            }
        }
        for (_, message) in self.real.take_messages() {
            let words: Vec<_> = message.split(' ').collect();
            if words[0] == "granted" {
                let party = party_of(&words);
                self.granted.retain(|_, (granted, _)| *granted != party);
                self.told.insert(party, self.ends(party));
                served.push(party);
            }
        }
        served
    }

    /// Nobody who was served came after one who waits still.
    fn in_order(&self, before: &Before, served: &[Party], told: &str) {
        for (lock, owner, word) in served {
            let queue = &before.queues[lock.0];
            let Some(place) = queue.iter().position(|by| (by.owner, by.word) == (*owner, *word)) else {
                continue;
            };
            let after = self.real.queue(*lock);
            // With FAIR the list has the order. Who was dropped, and asked again in this step, waits anew.
            let first = queue[..place]
                .iter()
                .find(|first| !(first.fair || queue[place].fair) && after.contains(first));
            assert!(first.is_none(), "{told}: {owner:?} was served before {first:?}");
        }
    }

    fn caller_holds(&self, op: Op) -> bool {
        let Op::Acquire { lock, owner, .. } = op else { return false };
        [Word::None, Word::Read, Word::Write].into_iter().any(|word| self.holds((lock, owner, word)))
    }

    /// What the caller knows now, and whether it may have got what it got.
    fn hear(&mut self, op: Op, before: &Before, held_before: bool, answer: Option<Answer>, told: &str) {
        match (op, answer) {
            (Op::Acquire { lock, owner, word, .. }, Some(Answer::Holds(..))) => {
                let party = (lock, owner, word);
                let waited = before.queues[lock.0].iter().any(|by| by.owner == owner);
                let left = self.real.queue(lock);
                let barges = !held_before && !waited && !left.is_empty();
                assert!(!barges, "{told}: it got the lock past {left:?}");
                self.granted.retain(|_, (granted, _)| *granted != party);
                self.told.insert(party, self.ends(party));
            }
            (Op::Release { lock, owner, .. } | Op::Renew { lock, owner, .. }, Some(_)) => {
                for word in [Word::None, Word::Read, Word::Write] {
                    let party = (lock, owner, word);
                    let held = self.holds(party);
                    self.granted.retain(|_, (granted, _)| *granted != party);
                    if self.told.remove(&party).is_some() && held {
                        self.told.insert(party, self.ends(party));
                    }
                }
            }
            (Op::ForceRelease { lock, .. } | Op::Foreign { lock, .. } | Op::ByList { lock, .. }, _) => {
                self.excuse(lock);
            }
            (Op::Flush, _) => (0..LOCKS.len()).for_each(|lock| self.excuse(Lock(lock))),
            _ => {}
        }
    }

    /// Nobody can count on what it was told of a lock: somebody else has changed it.
    fn excuse(&mut self, lock: Lock) {
        self.told.retain(|(of, ..), _| *of != lock);
        self.granted.retain(|_, ((of, ..), _)| *of != lock);
        self.untold[lock.0] = false;
    }

    fn forget_ended(&mut self) {
        let now = self.now();
        let lasts = |ends: &Option<i64>| ends.is_none_or(|at| at >= now);
        self.told.retain(|_, ends| lasts(ends));
        self.granted.retain(|_, (_, ends)| lasts(ends));
    }

    /// When a hold ends, if ever.
    fn ends(&self, (lock, owner, word): Party) -> Option<i64> {
        match (self.real.value(lock), word) {
            (Value::ReadWrite(hash), Word::Read) => self.reads_until(lock, owner, &hash),
            (Value::ReadWrite(hash), _) => hash.ends,
            (Value::Held { ends, .. }, _) => ends,
            (Value::Nothing | Value::Other, _) => Some(i64::MIN),
        }
    }

    fn reads_until(&self, lock: Lock, owner: Owner, hash: &Hash) -> Option<i64> {
        hash.reads_until(&self.real.leases(lock), owner, self.now())
    }

    fn holds(&self, (lock, owner, word): Party) -> bool {
        match (self.real.value(lock), word) {
            (Value::Held { by, .. }, Word::None) => by == owner,
            (Value::ReadWrite(hash), Word::Read) => self.reads_until(lock, owner, &hash).is_some(),
            (Value::ReadWrite(hash), Word::Write) => hash.writing && hash.writes[owner.0] > 0,
            _ => false,
        }
    }

    fn hold_what_they_were_told(&self, told: &str) {
        for (party, ends) in &self.told {
            let lasts = self.ends(*party).is_none_or(|at| ends.is_some_and(|ends| at >= ends));
            assert!(self.holds(*party) && lasts, "{told}: {party:?} was told that it holds until {ends:?}");
        }
        for lock in (0..LOCKS.len()).map(Lock) {
            let Value::ReadWrite(hash) = self.real.value(lock) else { continue };
            let reads = |owner: &Owner| self.reads_until(lock, *owner, &hash).is_some();
            let writer = owners().find(|owner| hash.writes[owner.0] > 0).filter(|_| hash.writing);
            let beside = owners().find(|owner| reads(owner) && writer.is_some_and(|by| by != *owner));
            assert!(beside.is_none(), "{told}: {beside:?} reads beside the writer {writer:?}");
        }
    }

    /// Where a release has left a lock free, Redisson's waiters are to be told, or somebody here takes it.
    fn note_messages(&mut self, op: Option<Op>, before: &Before) {
        for lock in (0..LOCKS.len()).map(Lock) {
            let free = self.real.value(lock) == Value::Nothing;
            let released = matches!(op, Some(Op::Release { .. })) && before.values[lock.0] != Value::Nothing;
            let heard = self.real.unlock_messages(lock) > 0 || self.real.has_called(lock);
            self.untold[lock.0] = (self.untold[lock.0] || released) && free && !heard;
        }
        self.real.take_unlock_messages();
        self.real.take_called();
        self.real.take_unconfirmed();
    }

    /// All that was due is done.
    fn is_quiet(&self, told: &str) {
        if matches!(self.ground, Ground::Paused | Ground::Refused) || !self.primary {
            return;
        }
        let (clock, now) = (self.clock(), self.now());
        for lock in (0..LOCKS.len()).map(Lock) {
            let queue = self.real.queue(lock);
            let late = queue.iter().find(|waiter| waiter.until.is_some_and(|until| until <= clock));
            assert!(late.is_none(), "{told}: {late:?} waits on");
            let value = self.real.value(lock);
            let untold = self.untold[lock.0] && queue.is_empty() && value == Value::Nothing;
            assert!(!untold, "{told}: {lock:?} is free, and those of Redisson's were not told");
            let within = match value {
                _ if queue.is_empty() => continue,
                Value::Nothing => RETRY + self.options.window.max(self.options.fair_turn.unsigned_abs()),
                Value::Held { ends: Some(at), .. } | Value::ReadWrite(Hash { ends: Some(at), .. }) => {
                    u64::try_from(at + 1 - now).unwrap_or(0) + RETRY
                }
                Value::Held { .. } | Value::ReadWrite(_) | Value::Other => continue,
            };
            let latest = clock + within.min(60_000);
            let timer = self.real.timer();
            assert!(timer.is_some_and(|at| at <= latest), "{told}: {value:?}, {queue:?}, timer at {timer:?}");
        }
    }

    /// As where everything is compared: whoever has a lock loses it, and everybody who waits has a turn.
    fn end(&mut self) {
        let told = "at the end";
        self.step(Op::Ground(Ground::Firm), told);
        self.step(Op::Primary(true), told);
        (0..CHANNELS.len()).for_each(|n| self.step(Op::Subscribe(Channel(n), false), told));
        for _ in 0..TURNS {
            for lock in (0..LOCKS.len()).map(Lock) {
                self.step(Op::Foreign { lock, what: Foreign::Delete }, told);
            }
            self.pass(2 * RETRY + self.options.fair_turn.unsigned_abs(), told);
            self.is_quiet(told);
            while self.real.calls().values().any(|answer| *answer != Answer::Blocked) {
                self.deliver(0);
            }
        }
        assert!(self.real.calls().is_empty() && self.real.is_blank(), "at the end somebody is left behind");
    }
}

/// `granted <db> <owner> <key> …`, with `read` or `write` at the end of what is said of such locks.
fn party_of(words: &[&str]) -> Party {
    let lock = LOCKS.iter().position(|(db, key)| (db.to_string().as_str(), *key) == (words[1], words[3]));
    let owner = super::op::OWNERS.iter().position(|name| *name == words[2]);
    let word = match words.last() {
        Some(&"read") => Word::Read,
        Some(&"write") => Word::Write,
        _ => Word::None,
    };
    (Lock(lock.expect("a lock")), Owner(owner.expect("an owner")), word)
}
