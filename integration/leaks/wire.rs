//! The answers of very many commands, and batches of these.

use std::fmt::Write as _;
use std::time::Duration;

use rlock_testkit::{Inline, TestServer};

/// The time limit for an answer: under valgrind everything takes some thirty times as long.
const ANSWER_DEADLINE: Duration = Duration::from_secs(60);

pub(crate) const ACQUIRED: &str = "*3\r\n:1\r\n:30000\r\n:0\r\n";
pub(crate) const TWO_HOLDS: &str = "*3\r\n:2\r\n:30000\r\n:0\r\n";
pub(crate) const QUEUED: &str = "*3\r\n:0\r\n:0\r\n:0\r\n";
pub(crate) const DENIED: &str = "*-1\r\n";
pub(crate) const NOT_HELD: &str = "$-1\r\n";
pub(crate) const OK: &str = "+OK\r\n";
pub(crate) const ONE: &str = ":1\r\n";
pub(crate) const ZERO: &str = ":0\r\n";

#[track_caller]
pub(crate) fn connect(server: &TestServer) -> Inline {
    Inline::connect(server, ANSWER_DEADLINE)
}

/// Commands that are sent together, and all expected answers.
#[derive(Default)]
pub(crate) struct Batch {
    lines: String,
    answers: String,
}

impl Batch {
    pub(crate) fn add(&mut self, line: &str, answer: &str) {
        write!(self.lines, "{line}\r\n").unwrap();
        self.answers.push_str(answer);
    }

    /// Sends all, and compares the answers.
    #[track_caller]
    pub(crate) fn exchange(&self, connection: &mut Inline) {
        connection.send(&self.lines);
        connection.hears(&self.answers);
    }
}

/// The bytes that a subscriber of `news` receives for a message.
pub(crate) fn news(message: &str) -> String {
    format!("*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n${}\r\n{message}\r\n", message.len())
}
