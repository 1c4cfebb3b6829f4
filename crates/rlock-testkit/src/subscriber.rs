//! Receiving published messages.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::frame::Frame;
use crate::server::TestServer;
use crate::wire::Wire;

/// How long the server may take to confirm a subscription.
const ANSWER_DEADLINE: Duration = Duration::from_secs(10);

/// A connection that receives published messages, channels and payloads in any bytes.
#[derive(Debug)]
pub struct Subscriber {
    wire: Wire,
    /// What arrived while an answer was awaited: channel and payload.
    waiting: VecDeque<(Vec<u8>, Vec<u8>)>,
}

impl Subscriber {
    /// Connects without any subscription yet.
    #[must_use]
    #[track_caller]
    pub fn connect(server: &TestServer) -> Subscriber {
        Subscriber { wire: server.wire(), waiting: VecDeque::new() }
    }

    /// Connects and subscribes to one channel.
    #[must_use]
    #[track_caller]
    pub fn channel(server: &TestServer, channel: impl AsRef<[u8]>) -> Subscriber {
        Subscriber::connect(server).subscribe(&[channel])
    }

    /// Connects and subscribes to one pattern.
    #[must_use]
    #[track_caller]
    pub fn pattern(server: &TestServer, pattern: impl AsRef<[u8]>) -> Subscriber {
        Subscriber::connect(server).psubscribe(&[pattern])
    }

    /// Subscribes to channels and waits until the server has confirmed all.
    #[must_use]
    #[track_caller]
    pub fn subscribe<A: AsRef<[u8]>>(self, channels: &[A]) -> Subscriber {
        self.add("subscribe", channels)
    }

    /// Subscribes to patterns and waits until the server has confirmed all.
    #[must_use]
    #[track_caller]
    pub fn psubscribe<A: AsRef<[u8]>>(self, patterns: &[A]) -> Subscriber {
        self.add("psubscribe", patterns)
    }

    /// Subscribes to shard channels (servers from 7.0 on) and waits for the confirmation.
    #[must_use]
    #[track_caller]
    pub fn ssubscribe<A: AsRef<[u8]>>(self, channels: &[A]) -> Subscriber {
        self.add("ssubscribe", channels)
    }

    /// Ends the subscription of channels and waits for the confirmation.
    #[must_use]
    #[track_caller]
    pub fn unsubscribe<A: AsRef<[u8]>>(self, channels: &[A]) -> Subscriber {
        self.add("unsubscribe", channels)
    }

    #[track_caller]
    fn add<A: AsRef<[u8]>>(mut self, command: &str, names: &[A]) -> Subscriber {
        let words = std::iter::once(command.as_bytes()).chain(names.iter().map(AsRef::as_ref));
        let words: Vec<&[u8]> = words.collect();
        self.wire.send(&words).unwrap_or_else(|error| panic!("{command}: {error}"));
        for _ in names {
            self.await_answer(command);
        }
        self
    }

    /// The next message, channel first; `None` if none arrives `within`.
    #[track_caller]
    pub fn next(&mut self, within: Duration) -> Option<(Vec<u8>, Vec<u8>)> {
        let deadline = Instant::now() + within;
        loop {
            if let Some(message) = self.waiting.pop_front() {
                return Some(message);
            }
            self.receive(deadline.saturating_duration_since(Instant::now()))?;
        }
    }

    /// The text of the next message; panics if none arrives within ten seconds.
    #[track_caller]
    pub fn next_text(&mut self) -> String {
        let (_, message) = self.next(ANSWER_DEADLINE).expect("a message");
        String::from_utf8(message).expect("a message in UTF-8")
    }

    /// The texts of the messages that the server had published before this call.
    #[track_caller]
    pub fn texts(&mut self) -> Vec<String> {
        self.drain().into_iter().map(|(_, message)| String::from_utf8(message).expect("UTF-8")).collect()
    }

    /// Keyspace events and messages that the server had published before this call, without the marks of the kit:
    /// event or channel, and what it is about.
    #[track_caller]
    pub fn events(&mut self) -> Vec<String> {
        let messages = self.drain().into_iter();
        let line = |(channel, message): (Vec<u8>, Vec<u8>)| {
            format!("{} {}", channel.escape_ascii(), message.escape_ascii()).replace("__keyevent@0__:", "")
        };
        messages.map(line).filter(|line| !line.starts_with("rlock-testkit:")).collect()
    }

    /// Panics if a message arrives `within`.
    #[track_caller]
    pub fn none_within(&mut self, within: Duration) {
        if let Some((channel, payload)) = self.next(within) {
            let (channel, payload) = (channel.escape_ascii(), payload.escape_ascii());
            panic!("unexpected message on {channel}: {payload}");
        }
    }

    /// All messages the server had published before this call, without waiting for more.
    #[track_caller]
    pub fn drain(&mut self) -> Vec<(Vec<u8>, Vec<u8>)> {
        // The server answers in order: what was published before comes before the answer.
        self.wire.send(&["PING"]).unwrap_or_else(|error| panic!("PING: {error}"));
        self.await_answer("pong");
        self.waiting.drain(..).collect()
    }

    #[track_caller]
    fn await_answer(&mut self, kind: &str) {
        let deadline = Instant::now() + ANSWER_DEADLINE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.receive(left) {
                Some(Some(other)) if other.eq_ignore_ascii_case(kind.as_bytes()) => return,
                Some(_) => {}
                None => panic!("no {kind} from the server within {ANSWER_DEADLINE:?}"),
            }
        }
    }

    /// Takes one frame: queues a message, or returns the kind of anything else.
    #[track_caller]
    fn receive(&mut self, within: Duration) -> Option<Option<Vec<u8>>> {
        let frame = match self.wire.frame(within) {
            Ok(frame) => frame?,
            Err(error) => panic!("the subscriber's connection broke: {error}"),
        };
        let mut words = match frame {
            // Without any subscription, PING is answered as on any other connection.
            Frame::Text(text) => return Some(Some(text)),
            Frame::Error(text) => panic!("{}", String::from_utf8_lossy(&text)),
            frame => frame.into_words().expect("messages and confirmations are lists of words"),
        };
        match (words[0].as_slice(), words.len()) {
            (b"message" | b"smessage", 3) | (b"pmessage", 4) => {
                let payload = words.pop().expect("counted");
                let channel = words.pop().expect("counted");
                self.waiting.push_back((channel, payload));
                Some(None)
            }
            _ => Some(Some(words.swap_remove(0))),
        }
    }
}
