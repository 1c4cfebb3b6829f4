//! Calls that wait, each on a separate connection and thread.
//!
//! No wait sends anything to the lock that it waits for: each command of the module would serve its queue, and
//! `RLOCK.INFO` would make the timer check the lock, so that a missed wake-up would go unnoticed.

use std::cell::RefCell;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use redis::{Connection, RedisResult, Value};

use crate::commands::{SOON, Story, ask, fields, number, say, text, words_of};
use crate::wait::patient;
use crate::{Subscriber, TestServer, eventually};

/// Alice acquires `lock` for 100 seconds, and the answer.
pub const ALICE: (&str, &str) = ("RLOCK.ACQUIRE lock alice 100000", "[1, 100000, 0]");

/// Starts a server whose `lock` alice holds.
#[must_use]
#[track_caller]
pub fn held() -> (TestServer, Connection) {
    let (server, mut client) = TestServer::start_and_connect();
    client.story(&[ALICE]);
    (server, client)
}

/// The same, and a subscriber of this channel.
#[must_use]
#[track_caller]
pub fn held_and_listen(channel: &str) -> (TestServer, Connection, Subscriber) {
    let (server, mut client, listener) = TestServer::start_and_listen(channel);
    client.story(&[ALICE]);
    (server, client, listener)
}

/// Makes an owner wait for `lock` with a lease of 50 seconds, for a minute.
#[track_caller]
pub fn block(server: &TestServer, owner: &str) -> Waiting {
    Waiting::start(server, &["RLOCK.ACQUIRE", "lock", owner, "50000", "BLOCK", "60000"])
}

/// A waiting call.
pub struct Waiting {
    client_id: i64,
    /// The answer to the first hold, for the lease that it asked for.
    granted: String,
    arrives: Receiver<RedisResult<Value>>,
    arrived: RefCell<Option<RedisResult<Value>>>,
}

impl Waiting {
    /// Sends `RLOCK.ACQUIRE key owner …` on a separate connection, and returns once `RLOCK.INFO` shows the owner as
    /// a waiter, or once the call is answered.
    #[track_caller]
    pub fn start<A: AsRef<[u8]>>(server: &TestServer, words: &[A]) -> Waiting {
        Waiting::start_on(server, server.connect(), words)
    }

    /// The same, for a command given as a line of words.
    #[track_caller]
    pub fn line(server: &TestServer, line: &str) -> Waiting {
        Waiting::start(server, &line.split_ascii_whitespace().collect::<Vec<_>>())
    }

    /// The same, for a lock in another database.
    #[track_caller]
    pub fn start_in<A: AsRef<[u8]>>(server: &TestServer, db: u32, words: &[A]) -> Waiting {
        let mut connection = server.connect();
        assert_eq!(say(&mut connection, &format!("SELECT {db}")), "OK");
        Waiting::start_on(server, connection, words)
    }

    /// The same on a given connection.
    #[track_caller]
    pub fn start_on<A: AsRef<[u8]>>(server: &TestServer, mut connection: Connection, words: &[A]) -> Waiting {
        let words: Vec<Vec<u8>> = words.iter().map(|word| word.as_ref().to_vec()).collect();
        let (key, owner) = (words[1].clone(), words[2].clone());
        let granted = format!("[1, {}, 0]", words[3].escape_ascii());
        let client_id = number(&mut connection, "CLIENT ID");
        let db = text(&ask(&mut connection, &["CLIENT", "INFO"]));
        let db = db.split_once(" db=").and_then(|(_, rest)| rest.split(' ').next()).unwrap().to_owned();
        let (sender, arrives) = channel();
        thread::spawn(move || {
            // The test has its deadline; this thread ends with its server at the latest.
            connection.set_read_timeout(None).unwrap();
            sender.send(words_of(&words).query(&mut connection))
        });
        let waiting = Waiting { client_id, granted, arrives, arrived: RefCell::default() };
        let mut observer = server.connect();
        say(&mut observer, &format!("SELECT {db}"));
        eventually("the call to wait", SOON, || {
            let mut queue = queue(&mut observer, &key).into_iter();
            let queued = queue.any(|entry| entry.client_id == client_id && entry.owner.as_bytes() == owner);
            (queued || !waiting.still_waits()).then_some(())
        });
        waiting
    }

    /// The number of its client.
    pub fn client_id(&self) -> i64 {
        self.client_id
    }

    /// Whether no answer has arrived yet.
    pub fn still_waits(&self) -> bool {
        self.look(Duration::ZERO);
        self.arrived.borrow().is_none()
    }

    /// Panics if an answer comes `within`: only for tests of time itself.
    #[track_caller]
    pub fn waits_on(&self, within: Duration) {
        self.look(within);
        if let Some(outcome) = self.arrived.borrow().as_ref() {
            panic!("it waits no more, but was answered {}", outcome_text(outcome));
        }
    }

    /// The answer; panics if it does not arrive `within`.
    #[track_caller]
    pub fn outcome(&self, within: Duration) -> RedisResult<Value> {
        self.look(patient(within));
        match self.arrived.borrow_mut().take() {
            Some(outcome) => outcome,
            None => panic!("no answer to the call that waits within {within:?}"),
        }
    }

    /// The answer as text, within 10 seconds.
    #[track_caller]
    pub fn answer(&self) -> String {
        outcome_text(&self.outcome(SOON))
    }

    /// Panics unless this line is answered 1 and grants the lock to the call, for the lease that it asked for.
    #[track_caller]
    pub fn granted_by(&self, client: &mut Connection, line: &str) {
        client.story(&[(line, "1")]);
        assert_eq!(self.answer(), self.granted, "after {line}");
    }

    #[track_caller]
    fn look(&self, within: Duration) {
        let mut arrived = self.arrived.borrow_mut();
        if arrived.is_some() {
            return;
        }
        match self.arrives.recv_timeout(within) {
            Ok(outcome) => *arrived = Some(outcome),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => panic!("the answer was taken before"),
        }
    }
}

/// An entry of a queue, as `RLOCK.INFO` shows it.
#[derive(Debug)]
pub struct Entry {
    /// The waiter.
    pub owner: String,
    /// `block`, or the channel.
    pub via: String,
    /// The time that it has waited.
    pub age_ms: i64,
    /// The time that it will still wait.
    pub wait_left_ms: i64,
    /// The number of its client.
    pub client_id: i64,
}

/// The waiters for a lock, in order. If the lock is free, this makes the timer check it.
#[track_caller]
pub fn queue(connection: &mut Connection, key: impl AsRef<[u8]>) -> Vec<Entry> {
    let info = fields(ask(connection, &[b"RLOCK.INFO", key.as_ref(), b"LIMIT", b"100000"]));
    let Some((_, Value::Array(entries))) = info.into_iter().find(|(name, _)| name == "queue") else {
        panic!("RLOCK.INFO shows no queue")
    };
    entries.into_iter().map(entry).collect()
}

fn entry(value: Value) -> Entry {
    let fields = fields(value);
    let field = |wanted: &str| {
        let found = fields.iter().find(|(name, _)| name == wanted);
        found.unwrap_or_else(|| panic!("an entry of a queue has no {wanted}")).1.clone()
    };
    let word = |name| redis::from_redis_value(field(name)).unwrap();
    let number = |name| redis::from_redis_value(field(name)).unwrap();
    Entry {
        owner: word("owner"),
        via: word("via"),
        age_ms: number("age-ms"),
        wait_left_ms: number("wait-left-ms"),
        client_id: number("client-id"),
    }
}

/// The owners of the waiters for a lock, in order, separated by blanks.
#[track_caller]
pub fn waiters(connection: &mut Connection, key: &str) -> String {
    queue(connection, key).into_iter().map(|entry| entry.owner).collect::<Vec<_>>().join(" ")
}

fn outcome_text(outcome: &RedisResult<Value>) -> String {
    match outcome {
        Ok(value) => text(value),
        Err(error) => match (error.code(), error.detail()) {
            (Some(code), Some(detail)) => format!("!{code} {detail}"),
            (Some(code), None) => format!("!{code}"),
            (None, _) => format!("the connection ended: {error}"),
        },
    }
}
