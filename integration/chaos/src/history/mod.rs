//! The history that clients and faults recorded, and the rules that it must keep, without a clock or a server.

mod denials;
mod ends;
mod event;
mod exclusion;
mod late;
mod order;
mod refusals;
mod stretches;
#[cfg(test)]
mod tests;
mod tokens;
mod turns;
mod waits;

pub(crate) use event::{Event, Harm, Refusal, Step};
pub(crate) use late::Late;

/// How often each thing was seen.
pub(crate) type Counts = std::collections::BTreeMap<String, u64>;

/// Microseconds since the run began, by a clock that does not step.
pub(crate) type Us = u64;

/// Milliseconds in microseconds.
pub(crate) const fn ms(milliseconds: u64) -> Us {
    milliseconds * 1_000
}

/// Which holders exclude each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// A plain lock, or a writer.
    Alone,
    /// A reader.
    Shared,
    /// An owner of one of this number of permits.
    Permit(u32),
}

impl Mode {
    fn excludes(self, other: Mode) -> bool {
        self == Mode::Alone || other == Mode::Alone
    }

    /// Whether one of this mode does not pass one of the other that waits.
    fn stays_behind(self, other: Mode) -> bool {
        self.excludes(other) || matches!(self, Mode::Permit(_))
    }
}

/// How an owner waits; the order in which waiters are served depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// In the server's queue.
    Native,
    /// In the server's queue and in Redisson's list.
    NativeFair,
    /// As the Rust client waits, which connects again and asks anew by itself.
    Client,
    /// By Redisson's protocol, in no order.
    Foreign,
    /// By Redisson's protocol, in its list.
    ForeignFair,
}

/// A call after which the server said that the owner holds the lock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Confirm {
    pub(crate) sent: Us,
    pub(crate) replied: Us,
    pub(crate) lease: Us,
    /// Whether the replica had it then, as `WAIT` said.
    pub(crate) on_replica: bool,
}

/// How long an owner waited, and what came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It had the lock.
    Held,
    /// It did not get the lock, and received that answer; also if it gave up.
    Denied,
    /// It was refused: by an error, or by the message that it waits no more.
    Refused,
    /// Its wait had lasted as long as it may.
    TimedOut,
    /// The answer was lost, or it never learnt what came of it.
    Unknown,
}

/// One owner and one lock, from the first request to the last answer. An owner is never used again.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    pub(crate) kind: &'static str,
    pub(crate) key: usize,
    pub(crate) owner: String,
    pub(crate) mode: Mode,
    pub(crate) line: Line,
    /// When the first request was sent.
    pub(crate) requested: Us,
    /// Since when the server is known to have it in its queue, or since when a Redisson waiter listens.
    pub(crate) queued: Option<Us>,
    /// How long it wanted to wait; `None` for one try, [`Us::MAX`] for ever.
    pub(crate) limit: Option<Us>,
    /// When the wait ended, or the attempt to have it at once.
    pub(crate) answered: Us,
    pub(crate) outcome: Outcome,
    /// When it learned that its wait had timed out, though it may have asked for another since.
    pub(crate) told_of_end: Option<Us>,
    /// Calls after which it held the lock, the acquisition first.
    pub(crate) confirms: Vec<Confirm>,
    /// The fencing tokens, with when each was requested and known.
    pub(crate) tokens: Vec<Token>,
    /// When it began to release, and no longer believed to hold the lock.
    pub(crate) released: Option<Us>,
    /// When it received a reply that it holds nothing.
    pub(crate) refuted: Option<Us>,
    /// Whether it died without a release, or works on beyond its lease.
    pub(crate) dead: bool,
    /// Whether its hold ended with its connection.
    pub(crate) tied: bool,
    /// The server cannot have the lock held by this owner after this.
    pub(crate) gone: Us,
}

/// A fencing token that an owner received.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token {
    pub(crate) number: i64,
    pub(crate) requested: Us,
    pub(crate) known: Us,
    /// How long the hold lasts by itself that it was given for.
    pub(crate) lease: Us,
}

/// How much sooner than the server's a client's lease ends.
pub(crate) fn margin(lease: Us) -> Us {
    lease / 100 + ms(2)
}

impl Attempt {
    /// One that begins: nothing has come of it yet.
    pub(crate) fn new(kind: &'static str, key: usize, owner: String, line: Line, requested: Us) -> Attempt {
        Attempt {
            kind,
            key,
            owner,
            mode: Mode::Alone,
            line,
            requested,
            queued: None,
            limit: None,
            answered: 0,
            outcome: Outcome::Unknown,
            told_of_end: None,
            confirms: Vec::new(),
            tokens: Vec::new(),
            released: None,
            refuted: None,
            dead: false,
            tied: false,
            gone: 0,
        }
    }

    /// When it began to believe that it holds the lock.
    pub(crate) fn begin(&self) -> Option<Us> {
        self.confirms.first().map(|first| first.replied)
    }

    /// When it stopped to: when it began to release, when the lease ended by its own clock, or when a reply said that
    /// it holds nothing.
    pub(crate) fn end(&self) -> Us {
        let mut until = 0;
        for confirm in &self.confirms {
            if until != 0 && confirm.sent > until {
                break;
            }
            until = confirm.sent + confirm.lease.saturating_sub(margin(confirm.lease));
        }
        until.min(self.released.unwrap_or(Us::MAX)).min(self.refuted.unwrap_or(Us::MAX))
    }

    /// The last call before `at` that showed that it holds the lock.
    fn confirmed_before(&self, at: Us) -> Option<&Confirm> {
        self.confirms.iter().rev().find(|confirm| confirm.replied <= at)
    }
}

/// An owner that another client took out of the queue.
#[derive(Clone, Debug)]
pub(crate) struct Cancelled {
    pub(crate) owner: String,
    /// When that was known; never where the answer was lost.
    pub(crate) known: Option<Us>,
}

/// All that was recorded.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    pub(crate) keys: Vec<String>,
    pub(crate) attempts: Vec<Attempt>,
    pub(crate) events: Vec<Event>,
    pub(crate) steps: Vec<Step>,
    /// Owners that other clients took out of the queue.
    pub(crate) cancelled: Vec<Cancelled>,
    /// Refused calls and dropped waiters.
    pub(crate) refusals: Vec<Refusal>,
    /// The machine's wall clock in ms when the run began.
    pub(crate) epoch_ms: i64,
    /// How long the queue waits for a Redisson waiter at the head of its list.
    pub(crate) fair_turn: Us,
}

impl History {
    fn of_key(&self, key: usize) -> Vec<&Attempt> {
        self.attempts.iter().filter(|attempt| attempt.key == key).collect()
    }

    /// Events that could happen to this lock.
    pub(crate) fn events_of(&self, key: usize) -> impl Iterator<Item = &Event> {
        self.events.iter().filter(move |event| event.key.is_none_or(|only| only == key))
    }

    /// Whether an event with this harm happened to the lock in between.
    pub(crate) fn harmed(&self, key: usize, from: Us, to: Us, harm: impl Fn(&Harm) -> bool) -> bool {
        self.events_of(key).any(|event| event.end > from && event.begin < to && harm(&event.harm))
    }

    /// How much of the time in between stalls took, those that overlap counted more than once.
    fn stalled(&self, key: usize, from: Us, to: Us) -> Us {
        let stalls =
            self.events_of(key).filter(|event| event.harm.stalls && event.end > from && event.begin < to);
        stalls.map(|event| event.end.min(to).saturating_sub(event.begin.max(from))).sum()
    }
}

/// A breach of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) rule: &'static str,
    pub(crate) key: usize,
    pub(crate) at: Us,
    pub(crate) text: String,
}

/// What the rules found, and how much they compared.
#[derive(Clone, Debug, Default)]
pub(crate) struct Verdict {
    pub(crate) violations: Vec<Violation>,
    /// Breaches that a fault excuses, by their rule.
    pub(crate) excused: Counts,
    /// The reasons for which callers were refused or waiters dropped.
    pub(crate) reasons: Counts,
    /// Compared pairs: a check that compares nothing shows nothing.
    pub(crate) compared: usize,
    pub(crate) late: Late,
}

impl Verdict {
    fn violation(&mut self, rule: &'static str, key: usize, at: Us, text: String) {
        self.violations.push(Violation { rule, key, at, text });
    }

    /// A violation, unless a fault explains it.
    fn judge(&mut self, excused: bool, rule: &'static str, key: usize, at: Us, text: String) {
        if excused {
            self.excuse(rule);
        } else {
            self.violation(rule, key, at, text);
        }
    }

    pub(crate) fn excuse(&mut self, rule: &'static str) {
        *self.excused.entry(rule.to_owned()).or_default() += 1;
    }
}

/// Holds a history against every rule.
pub(crate) fn check(history: &History) -> Verdict {
    let mut verdict = Verdict { late: late::count(history), ..Verdict::default() };
    for key in 0..history.keys.len() {
        let attempts = history.of_key(key);
        exclusion::check(history, key, &attempts, &mut verdict);
        tokens::check(history, key, &attempts, &mut verdict);
        waits::check(history, key, &attempts, &mut verdict);
        ends::check(history, key, &attempts, &mut verdict);
        denials::check(history, key, &attempts, &mut verdict);
        order::check(history, key, &attempts, &mut verdict);
        turns::check(history, key, &attempts, &mut verdict);
    }
    refusals::check(history, &mut verdict);
    verdict.violations.sort_by_key(|violation| violation.at);
    verdict
}
