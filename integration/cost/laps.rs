//! Clients that hand one lock from each to the next.

use std::time::Duration;

use rlock_testkit::{Frame, TestServer, Wire};

use crate::idle::until_idle;

/// The number of waiters besides the holder, unless the count is about their number.
pub(crate) const WAITERS: usize = 10;

/// A server in valgrind is slow.
const SOON: Duration = Duration::from_secs(20);

/// The lock. For BLPOP it is a list, whose only element the holder has taken.
const LOCK: &str = "lock:invoice:7";

/// The process part of owners and the channel, as long as a UUID.
const PROCESS: &str = "285475da-9152-4c83-822a-67ee2f116a79";

/// A lease that never ends in a measurement.
const LEASE: &str = "30000";

/// How clients wait for the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// BLPOP, which has neither owners nor leases: the server's own blocking.
    Pop,
    /// ACQUIRE … BLOCK.
    Block,
    /// ACQUIRE … ENQUEUE, and a RENEW that confirms the grant. All waiters share two connections.
    Enqueue,
    /// The same without the RENEW.
    Unconfirmed,
}

/// A holder and its waiters. Each acquisition has a number; its client is the remainder by the number of clients.
pub(crate) struct Clients {
    way: Way,
    /// Besides the holder.
    waiters: usize,
    pid: u32,
    connections: Vec<Wire>,
    /// The connection for messages of ENQUEUE.
    messages: Option<Wire>,
    /// The acquisition that holds the lock.
    holder: usize,
}

impl Clients {
    #[track_caller]
    pub(crate) fn start(way: Way, waiters: usize, server: &TestServer) -> Clients {
        let connect = || Wire::connect(server.port(), SOON).expect("a connection");
        let (connections, messages) = match way {
            Way::Pop | Way::Block => (waiters + 1, None),
            Way::Enqueue | Way::Unconfirmed => (1, Some(subscribed(connect()))),
        };
        let connections = (0..connections).map(|_| connect()).collect();
        let mut clients = Clients { way, waiters, pid: server.pid(), connections, messages, holder: 0 };
        if way != Way::Pop {
            clients.ask_for_lock(0);
        }
        if way == Way::Block {
            clients.expect_array(0);
        }
        for waiter in 1..=waiters {
            clients.ask_for_lock(waiter);
        }
        clients
    }

    /// One hand-off: the holder releases the lock, the first waiter gets it, and the former holder waits behind all others.
    #[track_caller]
    pub(crate) fn lap(&mut self) {
        let holder = self.holder;
        match self.way {
            Way::Pop => self.send(holder, &["RPUSH", LOCK, "token"]),
            _ => self.send(holder, &["RLOCK.RELEASE", LOCK, &owner(holder)]),
        }
        assert_eq!(self.reply(holder), Frame::Int(1), "{:?}", self.way);
        self.holder += 1;
        self.expect_grant();
        self.ask_for_lock(holder + self.waiters + 1);
    }

    #[track_caller]
    fn expect_grant(&mut self) {
        let holder = self.holder;
        let Some(messages) = &mut self.messages else { return self.expect_array(holder) };
        let message = messages.frame(SOON).unwrap().and_then(Frame::into_words).expect("a message");
        let text = String::from_utf8_lossy(&message[2]).into_owned();
        assert!(text.starts_with("granted ") && text.contains(&owner(holder)), "{text}");
        if self.way == Way::Enqueue {
            self.send(holder, &["RLOCK.RENEW", LOCK, &owner(holder), LEASE]);
            assert_eq!(self.reply(holder), Frame::Int(1), "{:?}", self.way);
        }
    }

    #[track_caller]
    fn ask_for_lock(&mut self, number: usize) {
        let owner = owner(number);
        let acquire = ["RLOCK.ACQUIRE", LOCK, &owner, LEASE];
        match self.way {
            Way::Pop => self.send(number, &["BLPOP", LOCK, "0"]),
            Way::Block => self.send(number, &[&acquire[..], &["BLOCK", "0"]].concat()),
            Way::Enqueue | Way::Unconfirmed => {
                self.send(number, &[&acquire[..], &["ENQUEUE", "0", &channel()]].concat());
                self.expect_array(number);
            }
        }
    }

    /// Sends a command, and waits until the server has done all its work.
    #[track_caller]
    fn send(&mut self, number: usize, words: &[&str]) {
        let client = number % self.connections.len();
        until_idle(self.pid, || self.connections[client].send(words).unwrap());
    }

    #[track_caller]
    fn reply(&mut self, number: usize) -> Frame {
        let client = number % self.connections.len();
        self.connections[client].frame(SOON).unwrap().expect("a reply")
    }

    #[track_caller]
    fn expect_array(&mut self, number: usize) {
        let reply = self.reply(number);
        assert!(matches!(reply, Frame::Array(_)), "{:?}: {reply:?}", self.way);
    }
}

#[track_caller]
fn subscribed(mut wire: Wire) -> Wire {
    wire.send(&["SUBSCRIBE", &channel()]).unwrap();
    wire.frame(SOON).unwrap().expect("a confirmation");
    wire
}

fn channel() -> String {
    format!("{PROCESS}:news")
}

fn owner(number: usize) -> String {
    format!("{PROCESS}:{number}")
}
