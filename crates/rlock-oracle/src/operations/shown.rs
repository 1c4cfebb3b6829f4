//! A history step by step, with what it shows as text: for a real server to which the same happens.

use super::hash::owners;
use super::op::{Lock, OWNERS, Owner, Word};
use super::output::Published;
use super::real_words::id;
use super::run::{Run, pick};
use super::values::{Answer, Value, Via, Waiter};

/// What belongs to a lock, as text.
#[derive(Debug, PartialEq, Eq)]
pub struct Seen {
    /// The key's type, its expiry and its fields by name, without those of dead readers.
    pub key: String,
    /// The lease keys of readers by name, with their expiry.
    pub leases: String,
    /// The fair list with its deadlines.
    pub list: String,
    /// The last fencing token.
    pub token: String,
    /// Each waiter in order: its owner, its mode, how it waits and by which call, and how long it waits on.
    pub queue: Vec<String>,
}

impl Run {
    /// The timer fires once in each ms, as a real server's timer does.
    #[must_use]
    pub fn with_one_timer_a_ms(mut self) -> Self {
        self.fires_at_once = 1;
        self
    }

    /// The wall clock in ms, and the ms since the start on the clock that never steps.
    pub fn clocks(&self) -> (i64, u64) {
        self.real.sim.with(|world| (world.now.0, world.clock.0))
    }

    /// The time until the timer fires, in ms.
    pub fn timer_in(&self) -> Option<u64> {
        let (_, clock) = self.clocks();
        self.real.timer().map(|at| at.saturating_sub(clock))
    }

    /// The reply to the last command; none while its client is blocked.
    pub fn take_answer(&mut self) -> Option<String> {
        self.shown.answer.take().as_ref().and_then(Answer::text)
    }

    /// What was published since this was last called.
    pub fn take_published(&mut self) -> Published {
        std::mem::take(&mut self.shown.published)
    }

    /// The calls that have blocked and have received no reply, each with its undelivered reply.
    pub fn calls(&self) -> Vec<(usize, Option<String>)> {
        self.oracle.calls.iter().map(|(call, answer)| (*call, answer.text())).collect()
    }

    /// The call that [`super::Op::Disconnect`] means.
    pub fn call(&self, nth: u8) -> Option<usize> {
        pick(&self.oracle.calls.keys().copied().collect::<Vec<_>>(), nth)
    }

    /// Deletes expired keys and forgets what is over, as a real server does in its own time.
    pub fn clean_up(&self) {
        self.real.expire_all();
        let (now, clock) = self.real.sim.with(|world| (world.now, world.clock));
        self.real.sim.locks(|locks| locks.forget_old(now, clock, usize::MAX));
    }

    /// Whether nothing is left to remember.
    pub fn is_over(&self) -> bool {
        self.oracle.calls.is_empty() && self.real.is_blank()
    }

    /// What belongs to a lock.
    pub fn seen(&self, lock: Lock) -> Seen {
        let leases = self.real.leases(lock);
        let is_alive = |owner| leases.keys().any(|(of, _)| *of == owner);
        let (kind, ends, mut fields) = match self.real.value(lock) {
            Value::Nothing => ("none", Some(-2), Vec::new()),
            Value::Other => ("string", None, Vec::new()),
            Value::Held { by, holds, ends } => ("hash", ends, vec![format!("{}={holds}", OWNERS[by.0])]),
            Value::Permits(..) => unreachable!("histories with permits are followed"),
            Value::ReadWrite(hash) => {
                let reads = owners().filter(|of| hash.reads[of.0] > 0 && is_alive(*of));
                let reads = reads.map(|of| format!("{}={}", OWNERS[of.0], hash.reads[of.0]));
                let writes = owners().filter(|of| hash.writes[of.0] > 0);
                let writes = writes.map(|of| format!("{}:write={}", OWNERS[of.0], hash.writes[of.0]));
                let mode = if hash.writing { "mode=write" } else { "mode=read" };
                ("hash", hash.ends, reads.chain(writes).chain([mode.to_owned()]).collect())
            }
        };
        fields.sort();
        let named = |((of, hold), ends): (&(Owner, i64), &i64)| format!("{}:{hold}={ends}", OWNERS[of.0]);
        let mut leases: Vec<_> = leases.iter().map(named).collect();
        leases.sort();
        let list = self.real.list(lock).into_iter().map(|entry| {
            let deadline = entry.deadline.map_or("-".to_owned(), |at| at.to_string());
            format!("{}={deadline}", OWNERS[entry.owner.0])
        });
        let token = self.real.sim.with(|world| world.tokens.get(&id(lock)).copied());
        Seen {
            key: format!("{kind} {} {}", ends.unwrap_or(-1), fields.join(" ")),
            leases: leases.join(" "),
            list: list.collect::<Vec<_>>().join(" "),
            token: token
                .map_or(String::new(), |token| token.map_or("x".to_owned(), |token| token.to_string())),
            queue: self.real.queue(lock).into_iter().map(|waiter| self.waiter(waiter)).collect(),
        }
    }

    fn waiter(&self, waiter: Waiter) -> String {
        let (_, clock) = self.clocks();
        let mode = if waiter.word == Word::None { "null" } else { waiter.word.text() };
        let left = waiter.until.map_or(-1, |until| until.saturating_sub(clock).cast_signed());
        let via = match waiter.via {
            Via::Call(call) => format!("block {call}"),
            Via::Channel(_) => "enqueue".to_owned(),
        };
        format!("{} {mode} {via} {left}", OWNERS[waiter.owner.0])
    }
}

impl Seen {
    /// Whether waiters wait for a lock without a holder, as they do in a yield window. `RLOCK.INFO` would let the timer
    /// check it.
    pub fn is_left_free(&self) -> bool {
        let is_free =
            self.key.starts_with("none") || self.key.contains("mode=read") && self.leases.is_empty();
        is_free && !self.queue.is_empty()
    }
}

impl Answer {
    /// As a client receives it; of an error the first word. None of a blocked client.
    fn text(&self) -> Option<String> {
        Some(match self {
            Self::Holds(holds, lease, token) => format!("[{holds}, {lease}, {token}]"),
            Self::Enqueued => "[0, 0, 0]".into(),
            Self::Null => "null".into(),
            Self::One => "1".into(),
            Self::Zero => "0".into(),
            Self::Error(prefix) => format!("!{prefix}"),
            Self::Blocked => return None,
        })
    }
}
