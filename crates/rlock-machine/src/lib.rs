//! The machine that every client of rlock implements: one acquisition, from its first request to its last. The machine only
//! decides: it reads no clock and does no I/O. Its shell feeds it inputs with the time, and carries out its orders.
//!
//! The stories in `clients/conformance/machine/` specify the machine, line by line, in all five languages; the README there lists
//! its numbers. All times are in nanoseconds on one clock of the process, if possible one that counts the time in suspend.
//!
//! **One trip.** A grant by message is held at once where the machine can prove that the grant is not older than the sending of the
//! acquisition's first ENQUEUE: the owner was never used before, so no earlier grant of this owner exists. The lease in the message
//! then counts from that sending. A RENEW confirms it later, with the next batch, or never if the caller has released before. Where
//! the proof does not hold (a named owner, a message of another server, a link that was replaced, a fenced lock after a repeat, less
//! than half of the lease left), a RENEW confirms the grant before the caller has the lock.

mod asking;
mod ending;
mod holding;
mod plan;

pub use plan::Plan;

/// A time or a length of time, in nanoseconds.
pub type Nanos = i64;

/// A millisecond.
pub const MS: Nanos = 1_000_000;

const FIRST_PAUSE: Nanos = 20 * MS;
const LONGEST_PAUSE: Nanos = 1_000 * MS;
/// How long after the last answer the machine undoes what a late request may have done.
const STRAY: Nanos = 1_000 * MS;

/// The state of an acquisition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Nothing was asked for yet.
    New,
    /// A request for the lock is under way, or due.
    Asking,
    /// The owner stands in the lock's queue.
    Queued,
    /// The lock was granted by message, and the server is asked whether the grant is still valid.
    Confirming,
    /// The caller holds the lock.
    Held,
    /// The caller has released the lock, and the server has not answered yet.
    Releasing,
    /// The caller has lost the lock, and not released it yet.
    Lost,
    /// The caller has no lock, and the server may have something of the acquisition.
    Cancelling,
    /// Nothing of the acquisition is left, here or, as far as is known, in the server.
    Ended,
}

impl State {
    /// Whether the caller waits for the lock.
    pub fn waits(self) -> bool {
        matches!(self, State::New | State::Asking | State::Queued | State::Confirming)
    }
}

/// What a failed command means for the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Failure {
    /// Asking again changes nothing.
    Final,
    /// The server refused the command for now.
    Passing,
    /// The server admits no new owners for now.
    Draining,
    /// The key holds something else.
    Gone,
    /// The command was sent, and the server may carry it out at any time.
    Unanswered,
}

/// The answer to a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reply {
    /// The owner holds the lock.
    Granted {
        /// The fencing token; 0 of a lock that is not fenced.
        token: i64,
    },
    /// The owner stands in the queue.
    Waits {
        /// The rest of the holder's lease, if it was asked for and answered.
        holder_lease: Option<Nanos>,
    },
    /// An integer, as RENEW, RELEASE and CANCEL answer.
    Integer(i64),
    /// Null, as ACQUIRE and RELEASE answer.
    Null,
    /// The command failed.
    Failed(Failure),
}

/// A message on the channel of the waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Message {
    /// The lock was granted.
    Granted {
        /// The fencing token in the message.
        token: i64,
        /// The lease in the message; 0 if it is not to be relied on.
        lease: Nanos,
        /// Whether the message came by the subscription at the server to which the last ENQUEUE went, while the command link to that
        /// server was up.
        current: bool,
    },
    /// The wait has ended.
    Timeout,
    /// The server has sent the waiter away.
    Dropped,
}

/// What happens to an acquisition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Input {
    /// The acquisition begins. This input comes once, and first.
    Start,
    /// The acquisition begins with the hold of an owner that another process has detached.
    Adopt,
    /// A command was answered, or failed.
    Reply {
        /// Its number, from [`Output::Send`].
        n: u64,
        /// When it was sent.
        sent: Nanos,
        /// The answer.
        reply: Reply,
    },
    /// A message about the owner arrived.
    Message(Message),
    /// The command link broke. Before this input, the shell answers the command under way with [`Failure::Unanswered`].
    Down,
    /// The command link is up again.
    Up,
    /// The timer has fired, or the shell checks the time.
    Tick,
    /// A command that was sent at this time on the link was answered. Only sessions need this input, at least for each heartbeat.
    Alive(Nanos),
    /// The caller gives up waiting, or is gone without having received the lock.
    Cancel,
    /// The caller releases the lock, or has seen that it is lost.
    Release,
    /// The caller leaves the lock to another process, which adopts it.
    Detach,
    /// The client is closed while the lock is held.
    Close,
}

/// A command on the command link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Command {
    /// ACQUIRE … HOLDS 1 ENQUEUE.
    Enqueue {
        /// How long to wait, in ms; 0 is for ever.
        wait: i64,
        /// Whether to ask for the holder's lease in the same pipeline, by PTTL.
        look: bool,
    },
    /// ACQUIRE … HOLDS 1.
    Acquire,
    /// RENEW.
    Renew {
        /// The lease in ms; `None` for that of the plan.
        lease: Option<i64>,
    },
    /// RENEW without a session: the hold then ends by itself.
    Keep {
        /// The lease in ms.
        lease: i64,
    },
    /// CANCEL.
    Cancel,
    /// RELEASE; ALL after CANCEL.
    Release,
}

/// Why the caller has no lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// The wait timed out.
    Timeout,
    /// The lock was asked for once, and another owner holds it.
    Denied,
    /// A command failed, or the caller gave up.
    Error,
    /// The server says that the owner holds nothing that could be adopted.
    Lost,
}

/// Why a lock is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Loss {
    /// No renewal was confirmed in time.
    Expired,
    /// The lock was held for as long as the plan allows, and was not renewed after that.
    Overdue,
    /// The server says that the owner does not hold the lock.
    Taken,
    /// The client was closed.
    Closed,
}

/// The outcome of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The lock is released.
    Ok,
    /// The lock was lost before.
    Lost,
    /// The outcome is unknown: the answer to a release never arrived.
    Unknown,
    /// The server refused the release.
    Error,
}

/// An order to the shell. Several are carried out in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Output {
    /// Send a command; the answer is an input.
    Send {
        /// Numbers count from 1.
        n: u64,
        /// The command.
        command: Command,
    },
    /// The caller has the lock.
    Guard {
        /// The fencing token; 0 of a lock that is not fenced.
        token: i64,
    },
    /// The caller has an error instead.
    Refused(Refusal),
    /// For the event hook: the server has confirmed the hold.
    Renewed,
    /// For the event hook: a renewal failed, and is tried again.
    RenewalFailed,
    /// The lock is lost; once, and for good.
    Lost(Loss),
    /// The outcome of the caller's release.
    Released(Outcome),
    /// Nothing is left of the acquisition. If a `granted` for its owner arrives later, the shell sends RELEASE.
    Ended,
    /// The time of the next tick. This output is the last one, and only follows if the time has changed.
    Timer(Option<Nanos>),
}

/// How a hold ends that its caller has released.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Ending {
    /// By RELEASE.
    Release,
    /// By its lease, at this time at the earliest.
    At(Nanos),
    /// In another process.
    Elsewhere,
}

/// One acquisition.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Machine {
    plan: Plan,
    state: State,
    now: Nanos,
    number: u64,
    /// The command whose reply counts.
    pending: Option<u64>,
    down: bool,
    /// When the wait is over.
    end: Option<Nanos>,
    /// When the next request is due.
    next: Option<Nanos>,
    asks: u32,
    looks: u32,
    pause: Nanos,
    token: i64,
    /// When the first request was sent: no grant of this owner is older.
    first_sent: Nanos,
    deadline: Nanos,
    renew_at: Nanos,
    /// The lease of a grant by message that no RENEW has confirmed.
    unconfirmed: Option<Nanos>,
    /// Whether all requests went by the present connection, or it has confirmed the hold. With a session, the hold ends with it.
    tied: bool,
    /// When the present connection was last proven to be alive.
    proven: Nanos,
    failures: u32,
    /// A request was not answered, and may be carried out late.
    stray: bool,
    /// A request was not answered yet when a message ended the wait.
    overtaken: bool,
    /// A release was not answered.
    repeated: bool,
    queued: bool,
    /// When the caller got the lock.
    held_at: Nanos,
    /// How a hold ends that its caller has released.
    ending: Ending,
    /// Whether it began with the hold of another process, which may have sent a RENEW that is carried out late: 1 s after the first, the
    /// lease is asked for once more.
    adopts: bool,
    give_up: Nanos,
    timer: Option<Nanos>,
}

impl Machine {
    /// An acquisition that has not begun; the link is up.
    pub fn new(plan: Plan) -> Machine {
        Machine {
            plan,
            state: State::New,
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
            first_sent: 0,
            deadline: 0,
            renew_at: 0,
            unconfirmed: None,
            tied: false,
            proven: 0,
            failures: 0,
            stray: false,
            overtaken: false,
            repeated: false,
            queued: false,
            held_at: 0,
            ending: Ending::Release,
            adopts: false,
            give_up: 0,
            timer: None,
        }
    }

    /// The state of the acquisition.
    pub fn state(&self) -> State {
        self.state
    }

    /// Whether the machine takes the command link for broken.
    pub fn is_down(&self) -> bool {
        self.down
    }

    /// The command whose reply counts, if one is under way.
    pub fn pending(&self) -> Option<u64> {
        self.pending
    }

    /// Whether the hold has a renewal under way, or one that failed and is tried again, or that waits for a link.
    pub fn is_renewing(&self) -> bool {
        let tries = self.pending.is_some() || self.failures > 0 || self.down && self.wants_renewal();
        self.state == State::Held && tries
    }

    /// When the machine needs an [`Input::Tick`]: the time of the last [`Output::Timer`].
    pub fn timer(&self) -> Option<Nanos> {
        self.timer
    }

    /// Takes an input, and adds the orders to the shell to `out`.
    pub fn input(&mut self, now: Nanos, input: Input, out: &mut Vec<Output>) {
        self.now = now;
        // Before anything else: a reply that comes too late must not bring a lost lock back.
        if self.state == State::Held && now >= self.end_of_hold() {
            self.lose(if self.is_overdue() { Loss::Overdue } else { Loss::Expired }, out);
        }
        self.take(input, out);
        let timer = self.wake_at();
        if timer != self.timer {
            self.timer = timer;
            out.push(Output::Timer(timer));
        }
    }

    fn take(&mut self, input: Input, out: &mut Vec<Output>) {
        match input {
            Input::Start => self.start(out),
            Input::Reply { n, sent, reply } => self.reply(n, sent, reply, out),
            Input::Message(message) => self.message(message, out),
            Input::Down => {
                self.down = true;
                self.tied = false;
                self.pending = None;
            }
            Input::Alive(sent) if self.tied => self.proven = self.proven.max(sent),
            Input::Up => self.up(out),
            Input::Tick => self.tick(out),
            Input::Cancel if self.state.waits() => self.leave(Refusal::Error, out),
            Input::Cancel => self.end(Ending::Release, out),
            Input::Release => self.release(out),
            Input::Detach => self.end(Ending::Elsewhere, out),
            Input::Adopt => self.adopt(out),
            Input::Close if self.state == State::Held => self.lose(Loss::Closed, out),
            Input::Alive(_) | Input::Close => (),
        }
    }

    fn send(&mut self, command: Command, out: &mut Vec<Output>) {
        self.number += 1;
        self.pending = Some(self.number);
        out.push(Output::Send { n: self.number, command });
    }

    fn reply(&mut self, n: u64, sent: Nanos, reply: Reply, out: &mut Vec<Output>) {
        self.stray |= matches!(reply, Reply::Failed(Failure::Unanswered));
        if self.pending != Some(n) {
            return;
        }
        self.pending = None;
        match self.state {
            State::Asking => self.asked(sent, reply, out),
            State::Confirming => self.confirmed(sent, reply, out),
            State::Held => self.renewed(sent, reply, out),
            State::Releasing => self.released(sent, reply, out),
            State::Cancelling => self.cancelled(reply, out),
            State::New | State::Queued | State::Lost | State::Ended => (),
        }
    }

    fn up(&mut self, out: &mut Vec<Output>) {
        self.down = false;
        self.pause = FIRST_PAUSE;
        match self.state {
            State::Asking | State::Queued | State::Confirming => self.ask(out),
            State::Held if self.wants_renewal() => self.send_renewal(out),
            State::Releasing => self.send_end(out),
            State::Cancelling => self.depart(out),
            _ => (),
        }
    }

    fn tick(&mut self, out: &mut Vec<Output>) {
        let due = !self.down && self.next.is_some_and(|next| self.now >= next);
        match self.state {
            _ if self.state.waits() => self.tick_waiting(due, out),
            State::Held => self.tick_held(out),
            State::Releasing if self.now >= self.give_up => self.settle(Outcome::Unknown, out),
            State::Releasing if due => self.send_end(out),
            State::Cancelling if self.now >= self.give_up => self.finish(out),
            State::Cancelling if due => self.depart(out),
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
