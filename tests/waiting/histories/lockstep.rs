//! One history in lockstep: each step happens to the oracle and to the simulated server, then to the real one.

use rlock_oracle::operations::{
    Budget, CHANNELS, Channel, History, LOCKS, Lock, Op, OtherWrite, Published, Run, Span,
};

use super::lines::{How, line};
use super::server::{Server, place, read_write_channel, unlock_channel};

/// The wall clock of the first step, in ms: histories set the clock back, and a server counts no ms before 1970.
const FIRST: i64 = 1 << 32;
/// The server notices a step of the wall clock at its next beat, within this time in ms.
const BEAT: u64 = 2;
/// The module takes no notice of a smaller step, in ms.
const SMALLEST_STEP: i64 = 51;
/// The server's cron runs no sooner again, in ms.
const CRON: u64 = 2;
/// The module checks some locks at a beat this long after the last time, in ms …
const LOOK: u64 = 90;
/// … and sweeps all of them at one of these beats, this long after the last sweep.
const SWEEP: u64 = 10_000;
/// In this number of rounds each waiter has had a turn.
const ROUNDS: usize = 30;
/// The timer fires at most this often without a pause.
const CYCLES: usize = 100;

struct Lockstep<'a> {
    server: &'a mut Server,
    run: Run,
    /// The number of calls that have blocked.
    blocked: usize,
    accepts: bool,
    beats: Beats,
    repeat: &'a str,
    steps: Vec<String>,
}

/// When the server's cron ran last, and what it did then, by the clock that never steps.
#[derive(Default)]
struct Beats {
    cron: u64,
    look: u64,
    sweep: u64,
}

impl Beats {
    /// Whether the module sweeps all locks now.
    fn sweeps(&mut self, clock: u64) -> bool {
        let is_due = |last: &mut u64, every| {
            let is_due = clock.saturating_sub(*last) >= every;
            *last = if is_due { clock } else { *last };
            is_due
        };
        is_due(&mut self.cron, CRON) && is_due(&mut self.look, LOOK) && is_due(&mut self.sweep, SWEEP)
    }
}

impl Drop for Lockstep<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "{}\nthe steps, each with the clocks before it:\n{}",
                self.repeat,
                self.steps.join("\n")
            );
        }
    }
}

/// Lets a history happen; panics where the server differs. `repeat` says how to repeat it.
pub(crate) fn check(server: &mut Server, repeat: &str, history: &History) {
    let options = rlock_oracle::operations::Options { budget: Budget::Usual, ..history.options };
    let run = Run::new(options).with_one_timer_a_ms();
    let steps = vec![format!("{options:?}")];
    let beats = Beats::default();
    let mut lockstep = Lockstep { server, run, blocked: 0, accepts: true, beats, repeat, steps };
    lockstep.happens(Op::Step(FIRST));
    lockstep.server.begin(&options, &lockstep.run);
    history.ops.iter().for_each(|op| lockstep.step(options.kinds.of(*op)));
    lockstep.end();
}

impl Lockstep<'_> {
    /// One step, and what is due after it.
    fn step(&mut self, op: Op) {
        match op {
            Op::Pass(Span(ms)) | Op::Stall(Span(ms)) => self.pass(ms),
            Op::Step(ms) if ms.abs() < SMALLEST_STEP => {}
            Op::Step(_) => self.step_clock(op),
            Op::Disconnect(nth) => {
                if let Some(call) = self.run.call(nth) {
                    self.happens(op);
                    self.server.disconnect(call, nth % 2 == 0);
                    self.settle();
                }
            }
            Op::Subscribe(channel, is_heard) => {
                self.happens(op);
                self.server.hear(channel, is_heard);
                self.settle();
            }
            Op::Listen(listens) if listens != self.server.is_listened() => {
                self.happens(op);
                self.server.listen(listens);
                self.settle();
            }
            Op::Accept(accepts) => self.accept(op, accepts),
            Op::Listen(_) | Op::Deliver(_) | Op::Ground(_) | Op::Primary(_) | Op::Sweep => {}
            Op::On { .. } | Op::Connect(_) | Op::Close(_) => {}
            // No key, no event.
            Op::ByOther { lock, what: OtherWrite::Delete } if self.run.seen(lock).key.starts_with("none") => {
            }
            Op::ByList { lock, .. } => {
                let seen = self.run.seen(lock);
                // The script would end with an error, or put an owner into the list twice.
                if !seen.key.starts_with("string") && !seen.list.contains("=-") {
                    self.command(op);
                }
            }
            _ => self.command(op),
        }
    }

    /// The wall clock steps, and the server notices it.
    fn step_clock(&mut self, op: Op) {
        // A timer that is due before that beat would see the new time, and no step.
        while let Some(at) = self.run.timer_in().filter(|at| *at <= BEAT) {
            self.pass(at.max(1));
        }
        self.happens(op);
        self.happens(Op::Stall(Span(BEAT)));
        self.settle();
    }

    /// Not while clients wait: they would be sent away, which the oracle does not know.
    fn accept(&mut self, op: Op, accepts: bool) {
        let waits = |lock| !self.run.seen(Lock(lock)).queue.is_empty();
        if accepts != self.accepts && (accepts || !(0..LOCKS.len()).any(waits)) {
            self.accepts = accepts;
            self.command(op);
        }
    }

    fn command(&mut self, op: Op) {
        let before = if let Op::ByOther { lock, .. } = op { self.run.seen(lock).key } else { String::new() };
        let line = line(op, &before, self.run.clocks().0, self.steps.len());
        self.happens(op);
        let Some(line) = line else { return };
        let expected = self.run.take_answer();
        let unheard = self.unheard(op);
        let reply = if let Some((_, call)) = unheard {
            self.server.send_and_kill(line, call)
        } else {
            let call = (line.how == How::Blocks && expected.is_none()).then_some(self.blocked);
            self.blocked += usize::from(call.is_some());
            self.server.send(line, call)
        };
        self.steps.push(format!("    {}", reply.as_deref().unwrap_or("blocked")));
        if let (Some(reply), Some(expected)) = (reply, expected) {
            assert!(agrees(&reply, &expected), "{op:?}: the reply is {reply}, and not {expected}");
        }
        if let Some((nth, _)) = unheard {
            self.happens(Op::Disconnect(nth));
        }
        self.settle();
    }

    /// Of a command that grants the lock to a blocked client, in every second step: that client, which is killed before its
    /// reply is written.
    fn unheard(&self, op: Op) -> Option<(u8, usize)> {
        let is_plain =
            matches!(op, Op::Release { .. } | Op::Cancel { .. } | Op::ForceRelease { .. } | Op::Renew { .. });
        let calls = self.run.calls();
        let is_granted =
            |(_, reply): &(usize, Option<String>)| reply.as_ref().is_some_and(|reply| reply.starts_with('['));
        let nth =
            calls.iter().position(is_granted).filter(|_| is_plain && self.steps.len().is_multiple_of(2))?;
        Some((u8::try_from(nth).ok()?, calls[nth].0))
    }

    /// Happens to the oracle and the simulated server.
    fn happens(&mut self, op: Op) {
        self.steps.push(format!("{:?} {op:?}", self.run.clocks()));
        self.run.step(op, &format!("step {}: {op:?}", self.steps.len()));
    }

    /// Time passes, from one firing of the timer to the next.
    fn pass(&mut self, ms: u64) {
        let mut left = ms;
        while left > 0 {
            let jump = self.run.timer_in().map_or(left, |at| at.clamp(1, left));
            self.happens(Op::Stall(Span(jump)));
            self.settle();
            left -= jump;
        }
    }

    /// Everything that is due is done on both sides and compared.
    fn settle(&mut self) {
        for cycle in 0.. {
            self.run.step(Op::Pass(Span(0)), "what is due");
            // The server runs its timers before its cron.
            if self.beats.sweeps(self.run.clocks().1) {
                self.happens(Op::Sweep);
                self.run.step(Op::Pass(Span(0)), "what is due after the sweep");
            }
            self.server.go_to(&self.run);
            if self.run.timer_in() != Some(0) {
                break;
            }
            assert!(cycle < CYCLES, "the timer fires without a pause");
            self.happens(Op::Stall(Span(1)));
        }
        for (call, expected) in self.run.calls() {
            let Some(expected) = expected else { continue };
            let reply = self.server.reply(call);
            self.steps.push(format!("    call {call}: {reply}"));
            assert!(agrees(&reply, &expected), "the reply to call {call} is {reply}, and not {expected}");
        }
        while self.run.calls().iter().any(|(_, reply)| reply.is_some()) {
            self.run.step(Op::Deliver(0), "the replies arrive");
        }
        self.run.clean_up();
        self.compare_messages();
        self.compare_locks();
    }

    fn compare_messages(&mut self) {
        let Published { messages: mut expected, unlock_messages, called } = self.run.take_published();
        let (mut messages, heard) = self.server.messages();
        messages.sort();
        expected.sort();
        assert_eq!(messages, expected, "messages (left: server, right: oracle)");
        if !self.server.is_listened() {
            return;
        }
        for key in ["a", "b"] {
            let on = |channel: String| heard.iter().filter(move |(of, _)| *of == channel);
            // A writer's message is `0`, then `1`.
            let shared = on(read_write_channel(key)).filter(|(_, text)| text == "0").count();
            let count = on(unlock_channel(key)).count() + shared;
            let of_key = (0..LOCKS.len()).filter(|lock| place(Lock(*lock)).1 == key);
            let expected: usize = of_key.map(|lock| unlock_messages[lock]).sum();
            assert_eq!(count, expected, "unlock messages of {key} (left: server, right: oracle)");
        }
        for (lock, owner) in called {
            let owner = rlock_oracle::operations::OWNERS[owner.0];
            let channel = format!("{}:{owner}", unlock_channel(place(lock).1));
            assert!(heard.iter().any(|(of, _)| *of == channel), "{owner} was not called");
        }
    }

    fn compare_locks(&mut self) {
        let mut expected = [0, 1, 2].map(|lock| self.run.seen(Lock(lock)));
        // RLOCK.INFO answers with an error where the key is not a lock.
        let asks = expected.each_ref().map(|seen| !seen.is_left_free() && !seen.key.starts_with("string"));
        for (seen, asks) in expected.iter_mut().zip(asks) {
            if !asks {
                seen.queue.clear();
            }
        }
        assert_eq!(self.server.look(asks)[..], expected, "the locks (left: server, right: oracle)");
    }

    /// No channel has a subscriber any more, and all locks are deleted again and again: each waiter has its turn.
    fn end(&mut self) {
        for n in 0..CHANNELS.len() {
            self.step(Op::Subscribe(Channel(n), false));
        }
        for _ in 0..ROUNDS {
            if self.run.is_over() {
                return;
            }
            self.step(Op::Flush);
            self.pass(100);
        }
        panic!("a waiter is left behind");
    }
}

/// Whether a reply is the expected one, of an error the first word.
fn agrees(reply: &str, expected: &str) -> bool {
    reply == expected || expected.starts_with('!') && reply.starts_with(&format!("{expected} "))
}
