//! A reference of the machine that each client implements: one acquisition, decisions only.
//!
//! It exists to keep the stories in `clients/conformance/machine/` consistent. Its numbers are those of the README there.

mod asking;
mod ending;
mod holding;
mod story;

pub use story::play;

/// A time or a length of time, in nanoseconds.
pub(crate) type Nanos = i64;

pub(crate) const MS: Nanos = 1_000_000;
const FIRST_PAUSE: Nanos = 20 * MS;
const LONGEST_PAUSE: Nanos = 1_000 * MS;
const STRAY: Nanos = 1_000 * MS;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    New,
    Asking,
    Queued,
    Confirming,
    Held,
    Releasing,
    Lost,
    Cancelling,
    Ended,
}

impl State {
    fn waits(self) -> bool {
        matches!(self, State::New | State::Asking | State::Queued | State::Confirming)
    }
}

/// What a failed command means for the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    Final,
    Passing,
    Draining,
    Gone,
    Unanswered,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Reply {
    Granted { token: i64 },
    Waits { holder_lease: Option<Nanos> },
    Integer(i64),
    Null,
    Failed(Failure),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Word {
    Granted { token: i64 },
    Timeout,
    Dropped,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Input {
    Start,
    Reply {
        n: u64,
        sent: Nanos,
        reply: Reply,
    },
    Message(Word),
    Down,
    Up,
    Tick,
    /// A command that was sent at this time on the link was answered.
    Alive(Nanos),
    Cancel,
    Release,
    Close,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    /// `lease` of a fixed lease that is tied anew.
    Send {
        n: u64,
        command: &'static str,
        wait: i64,
        look: bool,
        lease: Option<i64>,
    },
    Guard(i64),
    Refused(&'static str),
    Renewed,
    RenewalFailed,
    Lost(&'static str),
    Released(&'static str),
    Ended,
    Timer(Option<Nanos>),
}

pub(crate) struct Plan {
    pub(crate) lease: Nanos,
    /// `None` is for ever, 0 asks once.
    pub(crate) wait: Option<Nanos>,
    pub(crate) renew: bool,
    pub(crate) fenced: bool,
    pub(crate) response: Nanos,
    /// Of a session.
    pub(crate) grace: Option<Nanos>,
}

pub(crate) struct Machine {
    plan: Plan,
    pub(crate) state: State,
    out: Vec<Output>,
    now: Nanos,
    number: u64,
    /// The command whose reply counts.
    pending: Option<u64>,
    down: bool,
    end: Option<Nanos>,
    /// When the next request is due.
    next: Option<Nanos>,
    asks: u32,
    looks: u32,
    pause: Nanos,
    token: i64,
    deadline: Nanos,
    renew_at: Nanos,
    /// With a session: the hold ends with this connection, which lived at `proven`.
    tied: bool,
    proven: Nanos,
    failures: u32,
    /// A request was not answered, and may be carried out late.
    stray: bool,
    /// Nor was a release.
    repeated: bool,
    queued: bool,
    give_up: Nanos,
    timer: Option<Nanos>,
}

impl Machine {
    pub(crate) fn new(plan: Plan) -> Machine {
        Machine {
            plan,
            state: State::New,
            out: Vec::new(),
            now: 0,
            number: 0,
            pending: None,
            down: false,
            end: None,
            next: None,
            asks: 0,
            looks: 0,
            pause: FIRST_PAUSE,
            token: 0,
            deadline: 0,
            renew_at: 0,
            tied: false,
            proven: 0,
            failures: 0,
            stray: false,
            repeated: false,
            queued: false,
            give_up: 0,
            timer: None,
        }
    }

    pub(crate) fn input(&mut self, now: Nanos, input: Input) -> Vec<Output> {
        self.now = now;
        // Before anything else: a reply that comes too late must not bring a lost lock back.
        if self.state == State::Held && now >= self.end_of_hold() {
            self.lose("expired");
        }
        self.take(input);
        let timer = self.wake_at();
        if timer != self.timer {
            self.timer = timer;
            self.out.push(Output::Timer(timer));
        }
        std::mem::take(&mut self.out)
    }

    fn take(&mut self, input: Input) {
        match input {
            Input::Start => self.start(),
            Input::Reply { n, sent, reply } => self.reply(n, sent, reply),
            Input::Message(word) => self.message(word),
            Input::Down => {
                self.down = true;
                self.tied = false;
                self.pending = None;
            }
            Input::Alive(sent) if self.tied => self.proven = self.proven.max(sent),
            Input::Up => self.up(),
            Input::Tick => self.tick(),
            Input::Cancel if self.state.waits() => self.leave("error"),
            Input::Release => self.release(),
            Input::Close if self.state == State::Held => self.lose("closed"),
            Input::Alive(_) | Input::Cancel | Input::Close => (),
        }
    }

    fn send(&mut self, command: &'static str) {
        self.send_more(command, 0, false);
    }

    fn send_more(&mut self, command: &'static str, wait: i64, look: bool) {
        self.number += 1;
        self.pending = Some(self.number);
        self.out.push(Output::Send { n: self.number, command, wait, look, lease: None });
    }

    fn reply(&mut self, n: u64, sent: Nanos, reply: Reply) {
        self.stray |= matches!(reply, Reply::Failed(Failure::Unanswered));
        if self.pending != Some(n) {
            return;
        }
        self.pending = None;
        match self.state {
            State::Asking => self.asked(sent, reply),
            State::Confirming => self.confirmed(sent, reply),
            State::Held => self.renewed(sent, reply),
            State::Releasing => self.released(reply),
            State::Cancelling => self.cancelled(reply),
            State::New | State::Queued | State::Lost | State::Ended => (),
        }
    }

    fn up(&mut self) {
        self.down = false;
        self.pause = FIRST_PAUSE;
        match self.state {
            State::Asking | State::Queued | State::Confirming => self.ask(),
            State::Held if self.plan.renew || self.plan.grace.is_some() => self.send_renewal(),
            State::Releasing => {
                self.next = None;
                self.send("RELEASE");
            }
            State::Cancelling => self.depart(),
            _ => (),
        }
    }

    fn tick(&mut self) {
        let due = !self.down && self.next.is_some_and(|next| self.now >= next);
        match self.state {
            _ if self.state.waits() => self.tick_waiting(due),
            State::Held => self.tick_held(),
            State::Releasing if self.now >= self.give_up => self.settle("unknown"),
            State::Releasing if due => {
                self.next = None;
                self.send("RELEASE");
            }
            State::Cancelling if self.now >= self.give_up => self.finish(),
            State::Cancelling if due => self.depart(),
            _ => (),
        }
    }

    fn rest(&mut self) {
        self.next = Some(self.now + self.pause);
        self.pause = LONGEST_PAUSE.min(self.pause * 2);
    }

    fn wake_at(&self) -> Option<Nanos> {
        let next = self.next.filter(|_| !self.down);
        let times = match self.state {
            _ if self.state.waits() => [self.end, next],
            State::Held => [Some(self.end_of_hold()), self.renews().then_some(self.renew_at)],
            State::Releasing | State::Cancelling => [Some(self.give_up), next],
            _ => [None, None],
        };
        times.into_iter().flatten().min()
    }
}
