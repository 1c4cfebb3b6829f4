//! `rlock-core` and the oracle side by side.

use std::collections::BTreeMap;

use super::after::After;
use super::hash::owners;
use super::op::{CHANNELS, Channel, Ground, LOCKS, Lock, OWNERS, Op, OtherWrite, Owner};
use super::options::{Kinds, Options};
use super::output::Shown;
use super::real::Real;
use super::state::{Oracle, Published};
use super::values::Answer;

/// How late the timer may be while the server refuses writes, in ms.
pub(super) const RETRY: u64 = 20;
/// How often in a row the timer may fire without due work before it counts as firing without end.
const FOR_NOTHING: u32 = 100;

/// The number of hand-offs, with yield windows between them, that empties every queue.
pub(super) const TURNS: usize = 20;

/// Both, and their visible output so far.
pub struct Run {
    pub(super) real: Real,
    pub(super) oracle: Oracle,
    pub(super) shown: Shown,
    /// How often the timer fires at one instant.
    pub(super) fires_at_once: u32,
    ground: Ground,
    /// Until when the timer may be late, since writes were refused.
    late_until: u64,
    /// Whether work may be left until the server's next beat, since the slot moved.
    put_off: bool,
    for_nothing: u32,
}

impl Run {
    /// An empty server with these options, and the oracle of it.
    pub fn new(options: Options) -> Self {
        Self {
            real: Real::new(options),
            oracle: Oracle::new(options),
            shown: Shown::default(),
            fires_at_once: 2,
            ground: Ground::Firm,
            late_until: 0,
            put_off: false,
            for_nothing: 0,
        }
    }

    /// Runs one operation in both, and panics if they differ. `story` describes it.
    pub fn step(&mut self, op: Op, story: &str) {
        match op {
            Op::Pass(span) => {
                self.pass(span.0, story);
                return self.judge_read_ends(story);
            }
            Op::Stall(span) => self.let_pass(span.0),
            Op::Deliver(nth) => self.deliver(nth, story),
            Op::Disconnect(nth) => self.disconnect(nth),
            // A server that refuses writes refuses the module's commands itself.
            _ if op.is_command() && self.ground != Ground::Firm => return,
            _ => {
                let answer = self.real.step(op);
                self.see(Some(op), answer.clone());
                self.oracle.step(op);
                self.shown.answer.clone_from(&answer);
                self.compare(answer, story);
            }
        }
        match op {
            Op::Ground(ground) => self.ground = ground,
            Op::Sweep => self.put_off = false,
            _ => {}
        }
        self.put_off |= self.ground == Ground::Moved;
        self.compare(None, story);
        self.note_refusal();
    }

    /// While writes are refused, the timer need not be on time.
    fn note_refusal(&mut self) {
        if self.is_refused() {
            self.late_until = self.oracle.clock + RETRY;
        }
    }

    fn is_refused(&self) -> bool {
        matches!(self.ground, Ground::Paused | Ground::Refused)
    }

    fn let_pass(&mut self, ms: u64) {
        self.real.sim.pass(ms);
        self.oracle.pass(ms);
    }

    /// Time passes, and the timer fires whenever it is due, at most twice at each instant.
    fn pass(&mut self, ms: u64, story: &str) {
        let end = self.oracle.clock + ms;
        let mut fired = 0;
        loop {
            self.check_timer(story);
            let now = self.oracle.clock;
            match self.real.timer().filter(|at| *at <= end) {
                Some(at) if at > now => {
                    self.let_pass(at - now);
                    fired = 0;
                }
                Some(_) if fired < self.fires_at_once => {
                    self.fire(&format!("{story}, timer at {now}"));
                    fired += 1;
                }
                Some(_) if now < end => {
                    self.let_pass(1);
                    fired = 0;
                }
                Some(_) => return,
                None => return self.let_pass(end - now),
            }
        }
    }

    /// Once all due work is done, no lock ends before the leases of its native readers.
    fn judge_read_ends(&self, story: &str) {
        let now = self.oracle.clock;
        let is_due = self.real.timer().is_some_and(|at| at <= now);
        if self.ground == Ground::Firm && !self.put_off && now > self.late_until && !is_due {
            (0..LOCKS.len()).for_each(|lock| self.oracle.judge_read_end(Lock(lock), story));
        }
    }

    fn fire(&mut self, story: &str) {
        let due = self.oracle.due().is_some_and(|at| at <= self.oracle.clock);
        // While writes are refused, the module retries; while readers are held back, it checks that a Redisson client listens.
        let repeats = self.is_refused() || self.oracle.holds_readers_back();
        self.for_nothing = if due || repeats { 0 } else { self.for_nothing + 1 };
        assert!(self.for_nothing < FOR_NOTHING, "{story}: the timer fires without end");
        self.real.sim.fire();
        if self.is_refused() {
            // The check that cannot serve a lock is the one that notices its end.
            for lock in (0..LOCKS.len()).map(Lock).filter(|lock| self.real.is_gone(*lock)) {
                self.oracle.may_be_deleted(lock);
            }
        }
        self.see(None, None);
        self.oracle.look();
        for lock in (0..LOCKS.len()).map(Lock) {
            self.oracle.mend_end(lock, &self.real.value(lock));
        }
        self.compare(None, story);
        self.note_refusal();
    }

    /// Shows the oracle the outcome of the last step.
    fn see(&mut self, op: Option<Op>, answer: Option<Answer>) {
        self.oracle.after = After::of(&self.real, op, answer);
    }

    /// The timer is set in time for the next due work.
    fn check_timer(&self, story: &str) {
        let Some(due) = self.oracle.due() else { return };
        let latest = due.max(self.late_until).max(self.oracle.clock);
        let timer = self.real.timer();
        assert!(
            timer.is_some_and(|at| at <= latest),
            "{story}: work is due at {latest}, but the timer is at {timer:?}"
        );
    }

    fn deliver(&mut self, nth: u8, story: &str) {
        let answered = |(call, answer): (&usize, &Answer)| (*answer != Answer::Blocked).then_some(*call);
        let calls: Vec<_> = self.oracle.calls.iter().filter_map(answered).collect();
        if let Some(call) = pick(&calls, nth) {
            assert_eq!(self.real.deliver(call), self.oracle.deliver(call), "{story}");
        }
    }

    fn disconnect(&mut self, nth: u8) {
        let calls: Vec<_> = self.oracle.calls.keys().copied().collect();
        if let Some(call) = pick(&calls, nth) {
            self.real.disconnect(call);
            self.see(None, None);
            self.oracle.disconnect(call);
        }
    }

    /// Compares the visible state of both.
    fn compare(&mut self, answer: Option<Answer>, story: &str) {
        let seen = std::mem::take(&mut self.oracle.seen);
        self.oracle.note_messages();
        assert_eq!(answer, seen.answer, "{story}: the answer (left: core, right: oracle)");
        for lock in (0..LOCKS.len()).map(Lock) {
            let name = LOCKS[lock.0];
            let value = self.real.value(lock);
            self.oracle.clear_away(lock, &value);
            assert_eq!(value, self.oracle.value(lock), "{story}: lock {name:?}");
            let leases = self.oracle.leases(lock);
            assert_eq!(self.real.leases(lock), leases, "{story}: read leases of {name:?}");
            assert_eq!(self.real.queue(lock), self.oracle.queue(lock), "{story}: queue of {name:?}");
            let list = self.real.list(lock);
            self.oracle.may_have_raised(lock, &list);
            self.oracle.may_have_put_back(lock, &list);
            assert_eq!(list, self.oracle.list(lock), "{story}: Redisson's list of {name:?}");
        }
        self.compare_calls(&seen.called, story);
        assert_eq!(self.real.calls(), self.oracle.calls, "{story}: answers to blocked clients");
        let (mut messages, mut expected) = (self.real.take_messages(), seen.messages);
        messages.sort();
        expected.sort();
        assert_eq!(messages, expected, "{story}: messages");
        self.shown.published.messages.append(&mut messages);
        for (lock, Published { least, most }) in seen.published.into_iter().enumerate() {
            let published = self.real.unlock_messages(Lock(lock));
            assert!(
                (least as usize..=most as usize).contains(&published),
                "{story}: {published} unlock messages of {:?} instead of {least} to {most}",
                LOCKS[lock]
            );
            self.shown.published.unlock_messages[lock] += published;
        }
        self.real.take_unlock_messages();
        let unconfirmed = self.real.take_unconfirmed();
        // Of several readers only the last counts, and only when the key ends.
        if self.oracle.options.kinds == Kinds::Plain {
            assert_eq!(unconfirmed, seen.unconfirmed, "{story}: unconfirmed grants");
        }
    }

    /// Only Redisson waiters that have a turn are notified on their own channels.
    fn compare_calls(&mut self, expected: &BTreeMap<(Lock, Owner), Published>, story: &str) {
        let called = self.real.take_called();
        self.shown.published.called.extend(&called);
        for (lock, owner) in (0..LOCKS.len()).flat_map(|lock| owners().map(move |owner| (Lock(lock), owner)))
        {
            let times = called.iter().filter(|of| **of == (lock, owner)).count();
            let Published { least, most } = expected.get(&(lock, owner)).copied().unwrap_or_default();
            let (least, most) = (least as usize, most as usize);
            let (name, lock) = (OWNERS[owner.0], LOCKS[lock.0]);
            assert!(
                (least..=most).contains(&times),
                "{story}: {name} was notified {times} times of {lock:?} instead of {least} to {most}"
            );
        }
    }

    /// The server is the primary, the channels have no subscribers, all clients receive their answers, and each holder
    /// loses its lock. So each waiter gets a turn, and the core has nothing left to remember.
    pub(super) fn end(&mut self) {
        self.step(Op::Ground(Ground::Firm), "at the end");
        self.step(Op::Primary(true), "at the end");
        (0..CHANNELS.len()).for_each(|n| self.step(Op::Subscribe(Channel(n), false), "at the end"));
        for _ in 0..TURNS {
            for lock in (0..LOCKS.len()).map(Lock) {
                self.step(Op::ByOther { lock, what: OtherWrite::Delete }, "at the end");
            }
            self.pass(2 * RETRY + self.oracle.options.fair_turn.unsigned_abs(), "at the end");
            while self.oracle.calls.values().any(|answer| *answer != Answer::Blocked) {
                self.deliver(0, "at the end");
            }
        }
        assert!(
            self.oracle.calls.is_empty() && self.real.is_blank(),
            "at the end a call or lock state is left"
        );
    }
}

pub(super) fn pick(calls: &[usize], nth: u8) -> Option<usize> {
    let at = usize::from(nth).checked_rem(calls.len())?;
    calls.get(at).copied()
}
