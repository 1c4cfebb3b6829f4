//! The links of a client: what is on the way in each direction, in the order of sending.

use std::collections::VecDeque;

use rlock_machine::{Command, Nanos, Reply};

/// A request on its way to the server.
#[derive(Clone, Copy, Debug, Hash)]
pub(crate) struct Request {
    /// The machine's number; 0 for one of the shell's.
    pub(crate) n: u64,
    /// When it was sent.
    pub(crate) sent: Nanos,
    /// The owner's number.
    pub(crate) life: u8,
    /// What it asks for.
    pub(crate) what: What,
}

/// What a request asks for.
#[derive(Clone, Copy, Debug, Hash)]
pub(crate) enum What {
    /// A command of the machine.
    Command(Command),
    /// RELEASE for an owner whose acquisition has ended.
    GiveBack,
}

/// An answer on its way to the client.
#[derive(Clone, Copy, Debug, Hash)]
pub(crate) struct Answer {
    pub(crate) n: u64,
    pub(crate) sent: Nanos,
    pub(crate) reply: Reply,
}

/// A command connection that the client has given up: the server may read more of it, and learns of its end late.
#[derive(Clone, Debug, Hash)]
pub(crate) struct Late {
    pub(crate) connection: u8,
    /// Each with the channel that was in use when it was sent.
    pub(crate) requests: VecDeque<(Request, u8)>,
}

/// Both links of a client.
#[derive(Clone, Debug, Hash)]
pub(crate) struct Links {
    /// Whether the client has a command link.
    pub(crate) is_up: bool,
    /// The number of the command connection.
    pub(crate) connection: u8,
    /// Requests on their way, each with its channel.
    pub(crate) requests: VecDeque<(Request, u8)>,
    /// Answers on their way.
    pub(crate) answers: VecDeque<Answer>,
    /// The connections that were given up.
    pub(crate) late: Option<Late>,
    /// The number of the subscription, and of its channel.
    pub(crate) channel: u8,
    /// The channel of the last ENQUEUE.
    pub(crate) asked_channel: u8,
    /// Messages on their way.
    pub(crate) messages: VecDeque<Box<[u8]>>,
    /// A subscription that the client has given up, and the server has not.
    pub(crate) half_open: Option<u8>,
}

impl Links {
    pub(crate) fn new() -> Self {
        Self {
            is_up: true,
            connection: 0,
            requests: VecDeque::new(),
            answers: VecDeque::new(),
            late: None,
            channel: 0,
            asked_channel: 0,
            messages: VecDeque::new(),
            half_open: None,
        }
    }

    /// Sends a request on the command link.
    pub(crate) fn send(&mut self, request: Request) {
        if let What::Command(Command::Enqueue { .. }) = request.what {
            self.asked_channel = self.channel;
        }
        self.requests.push_back((request, self.channel));
    }

    /// The client gives the command connection up. Returns what it did not get an answer to.
    pub(crate) fn cut(&mut self) -> Vec<(u64, Nanos)> {
        let answered = self.answers.iter().map(|answer| (answer.n, answer.sent));
        let unheard = self.requests.iter().map(|(request, _)| (request.n, request.sent));
        let without_answer = answered.chain(unheard).filter(|(n, _)| *n > 0).collect();
        self.late = Some(Late { connection: self.connection, requests: std::mem::take(&mut self.requests) });
        self.answers.clear();
        self.is_up = false;
        without_answer
    }

    /// A new command connection.
    pub(crate) fn connect(&mut self) {
        self.connection += 1;
        self.is_up = true;
    }

    /// The client gives its subscription up, and has another one at once, with a channel of its own.
    pub(crate) fn subscribe_anew(&mut self) {
        self.half_open = Some(self.channel);
        self.channel += 1;
        self.messages.clear();
    }

    /// The links of the process after this one: the server has not noticed the end of the old ones.
    pub(crate) fn after_death(&mut self) -> Self {
        if self.is_up {
            self.cut();
        }
        self.connect();
        self.subscribe_anew();
        self.clone()
    }

    /// The server has restarted: nothing of the client's is on its way to it any more.
    pub(crate) fn server_restarted(&mut self) -> Vec<(u64, Nanos)> {
        let without_answer = if self.is_up { self.cut() } else { Vec::new() };
        (self.late, self.half_open) = (None, None);
        without_answer
    }
}
