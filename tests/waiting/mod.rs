//! What the tests of waiting share: a call that waits on a connection and in a thread of its own.
//!
//! Answers are text: `1`, `null`, `OK`, `"a string"`, `[1, 2]`, and an error as its whole line after `!`.
//! No wait sends anything to the lock that it waits for: each command of ours would serve its queue, and
//! asking by `RLOCK.INFO` lets the timer look at it, so that a waiter left asleep would go unnoticed.

#![allow(dead_code, reason = "each test file uses its own part of this")]

use std::cell::RefCell;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use redis::{Cmd, Connection, RedisResult, Value};
use rlock_testkit::{TestServer, eventually};

/// How long anything may take that does not depend on time: the machine may be very busy.
pub(crate) const SOON: Duration = Duration::from_secs(10);

/// A call that waits.
pub(crate) struct Waiting {
    client_id: i64,
    arrives: Receiver<RedisResult<Value>>,
    arrived: RefCell<Option<RedisResult<Value>>>,
}

impl Waiting {
    /// Sends `RLOCK.ACQUIRE key owner …` on a connection of its own, and returns once `RLOCK.INFO` shows
    /// that the owner waits by it, or once it is answered.
    #[track_caller]
    pub(crate) fn start<A: AsRef<[u8]>>(server: &TestServer, words: &[A]) -> Waiting {
        Waiting::start_on(server, server.connect(), words)
    }

    /// The same, for a lock in another database.
    #[track_caller]
    pub(crate) fn start_in<A: AsRef<[u8]>>(server: &TestServer, db: u32, words: &[A]) -> Waiting {
        let mut connection = server.connect();
        assert_eq!(say(&mut connection, &format!("SELECT {db}")), "OK");
        Waiting::start_on(server, connection, words)
    }

    /// The same on a given connection.
    #[track_caller]
    pub(crate) fn start_on<A: AsRef<[u8]>>(
        server: &TestServer,
        mut connection: Connection,
        words: &[A],
    ) -> Waiting {
        let words: Vec<Vec<u8>> = words.iter().map(|word| word.as_ref().to_vec()).collect();
        let (key, owner) = (words[1].clone(), words[2].clone());
        let client_id = number(&mut connection, "CLIENT ID");
        let db = text(&ask(&mut connection, &["CLIENT", "INFO"]));
        let db = db.split_once(" db=").and_then(|(_, rest)| rest.split(' ').next()).unwrap().to_owned();
        let (sender, arrives) = channel();
        thread::spawn(move || {
            // The test has its deadline; this thread ends with its server at the latest.
            connection.set_read_timeout(None).unwrap();
            sender.send(words_of(&words).query(&mut connection))
        });
        let waiting = Waiting { client_id, arrives, arrived: RefCell::default() };
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
    pub(crate) fn client_id(&self) -> i64 {
        self.client_id
    }

    /// Whether no answer has come up to now.
    pub(crate) fn still_waits(&self) -> bool {
        self.look(Duration::ZERO);
        self.arrived.borrow().is_none()
    }

    /// Panics if an answer comes `within`: only for tests of time itself.
    #[track_caller]
    pub(crate) fn waits_on(&self, within: Duration) {
        self.look(within);
        if let Some(outcome) = self.arrived.borrow().as_ref() {
            panic!("it waits no more, but was answered {}", outcome_text(outcome));
        }
    }

    /// What it is answered; panics if that does not come `within`.
    #[track_caller]
    pub(crate) fn outcome(&self, within: Duration) -> RedisResult<Value> {
        self.look(within);
        match self.arrived.borrow_mut().take() {
            Some(outcome) => outcome,
            None => panic!("no answer to the call that waits within {within:?}"),
        }
    }

    /// What it is answered as text, within 10 seconds.
    #[track_caller]
    pub(crate) fn answer(&self) -> String {
        outcome_text(&self.outcome(SOON))
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
pub(crate) struct Entry {
    pub(crate) owner: String,
    pub(crate) via: String,
    pub(crate) age_ms: i64,
    pub(crate) wait_left_ms: i64,
    pub(crate) client_id: i64,
}

/// Who waits for a lock, in order. This lets the timer look at the lock if it is free.
#[track_caller]
pub(crate) fn queue(connection: &mut Connection, key: impl AsRef<[u8]>) -> Vec<Entry> {
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

/// Names and values of a map of RESP3, or of its flat array in RESP2.
#[track_caller]
pub(crate) fn fields(value: Value) -> Vec<(String, Value)> {
    let pairs = match value {
        Value::Map(pairs) => pairs,
        Value::Array(flat) => flat.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect(),
        other => panic!("no map: {}", text(&other)),
    };
    pairs.into_iter().map(|(name, value)| (redis::from_redis_value(name).unwrap(), value)).collect()
}

/// The owners that wait for a lock, in order, parted by blanks.
#[track_caller]
pub(crate) fn waiters(connection: &mut Connection, key: &str) -> String {
    queue(connection, key).into_iter().map(|entry| entry.owner).collect::<Vec<_>>().join(" ")
}

/// The answer to a command given as a line of words.
#[track_caller]
pub(crate) fn say(connection: &mut Connection, line: &str) -> String {
    text(&ask(connection, &line.split_ascii_whitespace().collect::<Vec<_>>()))
}

/// Says each line and compares the answer.
#[track_caller]
pub(crate) fn story(connection: &mut Connection, lines: &[(&str, &str)]) {
    for (number, (line, expected)) in lines.iter().enumerate() {
        assert_eq!(say(connection, line), *expected, "step {number}, {line}");
    }
}

/// Says lines in one transaction; the answers.
#[track_caller]
pub(crate) fn transaction(connection: &mut Connection, lines: &[&str]) -> String {
    assert_eq!(say(connection, "MULTI"), "OK");
    for line in lines {
        assert_eq!(say(connection, line), "QUEUED", "{line}");
    }
    say(connection, "EXEC")
}

/// The number that a line is answered with.
#[track_caller]
pub(crate) fn number(connection: &mut Connection, line: &str) -> i64 {
    let answer = say(connection, line);
    answer.parse().unwrap_or_else(|_| panic!("{line}: {answer}, which is no number"))
}

/// The answer to a command whose words may have any bytes; an error of the server is a value as well.
#[track_caller]
pub(crate) fn ask<A: AsRef<[u8]>>(connection: &mut Connection, words: &[A]) -> Value {
    match redis::ConnectionLike::req_command(connection, &words_of(words)) {
        Ok(answer) => answer,
        Err(error) => panic!("{}: {error}", words[0].as_ref().escape_ascii()),
    }
}

fn words_of<A: AsRef<[u8]>>(words: &[A]) -> Cmd {
    let mut command = Cmd::new();
    for word in words {
        command.arg(word.as_ref());
    }
    command
}

/// The server's clock in milliseconds.
#[track_caller]
pub(crate) fn server_time(connection: &mut Connection) -> i64 {
    let (seconds, micros): (i64, i64) = redis::from_redis_value(ask(connection, &["TIME"])).unwrap();
    seconds * 1000 + micros / 1000
}

/// A counter of our section in `INFO`, named without `rlock_`.
#[track_caller]
pub(crate) fn counter(server: &TestServer, name: &str) -> u64 {
    let info = server.info("rlock");
    let value = info.get(&format!("rlock_{name}")).unwrap_or_else(|| panic!("no rlock_{name} in INFO"));
    value.parse().unwrap()
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

/// A value as the tests show it.
pub(crate) fn text(value: &Value) -> String {
    let list = |values: &[Value]| values.iter().map(text).collect::<Vec<_>>().join(", ");
    match value {
        Value::Nil => "null".into(),
        Value::Int(number) => number.to_string(),
        Value::BulkString(bytes) => format!("\"{}\"", bytes.escape_ascii()),
        Value::SimpleString(word) => word.clone(),
        Value::VerbatimString { text, .. } => format!("\"{}\"", text.escape_default()),
        Value::Okay => "OK".into(),
        Value::Array(values) => format!("[{}]", list(values)),
        Value::Map(pairs) => {
            let pairs = pairs.iter().map(|(key, value)| format!("{}: {}", text(key), text(value)));
            format!("{{{}}}", pairs.collect::<Vec<_>>().join(", "))
        }
        Value::ServerError(error) => match error.details() {
            Some(details) => format!("!{} {details}", error.code()),
            None => format!("!{}", error.code()),
        },
        other => format!("{other:?}"),
    }
}
