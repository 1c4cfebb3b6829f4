//! A connection for very many commands: they are sent as lines, and the answers are compared byte by byte, without
//! parsing.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use rlock_testkit::TestServer;

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
}

/// The bytes that a subscriber of `news` receives for a message.
pub(crate) fn news(message: &str) -> String {
    format!("*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n${}\r\n{message}\r\n", message.len())
}

/// As much of the bytes as a message needs.
fn start(bytes: &[u8]) -> String {
    bytes[..bytes.len().min(100)].escape_ascii().to_string()
}

pub(crate) struct Line(BufReader<TcpStream>);

impl Line {
    #[track_caller]
    pub(crate) fn connect(server: &TestServer) -> Line {
        let stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(ANSWER_DEADLINE)).unwrap();
        stream.set_write_timeout(Some(ANSWER_DEADLINE)).unwrap();
        Line(BufReader::new(stream))
    }

    #[track_caller]
    pub(crate) fn send(&mut self, lines: &str) {
        self.0.get_mut().write_all(lines.as_bytes()).unwrap();
    }

    /// Compares the bytes that arrive with the expected ones, until all have arrived.
    #[track_caller]
    pub(crate) fn hears(&mut self, expected: &str) {
        let mut left = expected.as_bytes();
        while !left.is_empty() {
            let heard = self.0.fill_buf().unwrap_or_else(|error| panic!("{error}, and not {}", start(left)));
            assert!(!heard.is_empty(), "the connection ended, and not {}", start(left));
            let length = heard.len().min(left.len());
            if heard[..length] != left[..length] {
                let same = heard.iter().zip(left).take_while(|(heard, wanted)| heard == wanted).count();
                panic!("{}, and not {}", start(&heard[same..]), start(&left[same..]));
            }
            self.0.consume(length);
            left = &left[length..];
        }
    }

    #[track_caller]
    pub(crate) fn ask(&mut self, batch: &Batch) {
        self.send(&batch.lines);
        self.hears(&batch.answers);
    }

    /// Sends one line and compares its answer.
    #[track_caller]
    pub(crate) fn say(&mut self, line: &str, answer: &str) {
        self.send(&format!("{line}\r\n"));
        self.hears(answer);
    }

    #[track_caller]
    pub(crate) fn one_line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// The answer to a line, one line as well.
    #[track_caller]
    pub(crate) fn ask_line(&mut self, line: &str) -> String {
        self.send(&format!("{line}\r\n"));
        self.one_line()
    }

    /// The answer to a line, as a number.
    #[track_caller]
    pub(crate) fn number(&mut self, line: &str) -> i64 {
        let answer = self.ask_line(line);
        let number = answer.strip_prefix(':').and_then(|number| number.parse().ok());
        number.unwrap_or_else(|| panic!("{line}: {answer}"))
    }

    /// A field of a section of `INFO`.
    #[track_caller]
    pub(crate) fn info(&mut self, section: &str, field: &str) -> i64 {
        let head = self.ask_line(&format!("INFO {section}"));
        let length: usize = head.strip_prefix('$').and_then(|length| length.parse().ok()).expect(&head);
        let mut text = vec![0; length + 2];
        self.0.read_exact(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let value = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {field} in {text}"))
    }
}
