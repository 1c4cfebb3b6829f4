//! A connection that sends commands as lines, and compares the bytes of the answers without parsing them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::TestServer;

/// As much of the bytes as a message needs.
fn start(bytes: &[u8]) -> String {
    bytes[..bytes.len().min(100)].escape_ascii().to_string()
}

/// The connection.
#[derive(Debug)]
pub struct Inline(BufReader<TcpStream>);

impl Inline {
    /// Connects to a server, each of whose answers may take this long.
    #[track_caller]
    pub fn connect(server: &TestServer, within: Duration) -> Inline {
        let stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(within)).unwrap();
        stream.set_write_timeout(Some(within)).unwrap();
        Inline(BufReader::new(stream))
    }

    /// Sends whole lines.
    #[track_caller]
    pub fn send(&mut self, lines: &str) {
        self.0.get_mut().write_all(lines.as_bytes()).unwrap();
    }

    /// Compares the bytes that arrive with the expected ones, until all have arrived.
    #[track_caller]
    pub fn hears(&mut self, expected: &str) {
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

    /// Sends one line and compares its answer.
    #[track_caller]
    pub fn say(&mut self, line: &str, answer: &str) {
        self.send(&format!("{line}\r\n"));
        self.hears(answer);
    }

    /// The next line.
    #[track_caller]
    pub fn one_line(&mut self) -> String {
        let mut line = String::new();
        let length = self.0.read_line(&mut line).unwrap();
        assert!(length > 0, "the connection ended, and not a line");
        line.trim_end().to_owned()
    }

    /// The bytes that arrive up to where `end` stands.
    #[track_caller]
    pub fn read_to(&mut self, end: &str) -> String {
        let (mut read, mut byte) = (Vec::new(), [0]);
        while !read.ends_with(end.as_bytes()) {
            let arrived = self.0.read_exact(&mut byte);
            arrived.unwrap_or_else(|error| panic!("{error} before {end:?}: {:?}", start(&read)));
            read.push(byte[0]);
        }
        String::from_utf8(read).unwrap()
    }

    /// The whole answer to a line, however many lines it has.
    #[track_caller]
    pub fn answer(&mut self, line: &str) -> String {
        self.send(&format!("{line}\r\nPING\r\n"));
        self.read_to("+PONG\r\n").trim_end_matches("+PONG\r\n").to_owned()
    }

    /// The answer to a line, one line as well.
    #[track_caller]
    pub fn ask_line(&mut self, line: &str) -> String {
        self.send(&format!("{line}\r\n"));
        self.one_line()
    }

    /// The answer to a line, as a number.
    #[track_caller]
    pub fn number(&mut self, line: &str) -> i64 {
        let answer = self.ask_line(line);
        let number = answer.strip_prefix(':').and_then(|number| number.parse().ok());
        number.unwrap_or_else(|| panic!("{line}: {answer}"))
    }

    /// A field of a section of `INFO`.
    #[track_caller]
    pub fn info(&mut self, section: &str, field: &str) -> i64 {
        let head = self.ask_line(&format!("INFO {section}"));
        let length: usize = head.strip_prefix('$').and_then(|length| length.parse().ok()).expect(&head);
        let mut text = vec![0; length + 2];
        self.0.read_exact(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let value = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {field} in {text}"))
    }
}
