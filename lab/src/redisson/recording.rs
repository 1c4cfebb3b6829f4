//! What a release of Redisson sends, recorded by MONITOR.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use rlock_testkit::TestServer;

use super::Release;
use super::process::{Java, java};
use crate::client::Worker;
use crate::resp::command;
use crate::wire::Wire;

/// A command's words.
pub(super) type Command = Vec<String>;

/// What all locks of a recording begin with.
const LOCKS: &str = "lock:recorded";

/// Sent when Redisson has done everything.
const LAST_WORD: &str = "the recording ends here";

/// How long the next command may take to come.
const DEADLINE: Duration = Duration::from_secs(60);

/// The commands that clients sent, without those inside scripts.
pub(super) struct Recording {
    commands: Vec<Command>,
    /// Digest and text of each script that was loaded.
    scripts: Vec<(String, String)>,
}

/// Has a process of this release do what `Recorded.java` says.
pub(super) fn record(server: &TestServer, release: Release) -> Result<Recording, String> {
    let mut wire = Wire::connect(server.port()).map_err(|error| error.to_string())?;
    wire.text(&["SCRIPT", "FLUSH"]);
    let mut monitor = TcpStream::connect((Ipv4Addr::LOCALHOST, server.port())).expect("a connection");
    monitor.set_read_timeout(Some(DEADLINE)).expect("a time-out");
    monitor.write_all(&command(&["MONITOR"])).expect("sending to the server");
    let mut worker = Worker::spawn(java(Java::Redisson(release), server.port()));
    worker.ask(&format!("record {LOCKS}"));
    wire.text(&["ECHO", LAST_WORD]);
    let mut commands = Vec::new();
    for line in BufReader::new(monitor).lines() {
        let line = line.map_err(|error| format!("MONITOR: {error}"))?;
        match words(&line) {
            Some(words) if words.iter().any(|word| word == LAST_WORD) => break,
            Some(words) => commands.push(words),
            None => {}
        }
    }
    let loaded = commands.iter().filter_map(|words| match &words[..] {
        [script, load, text] if script == "SCRIPT" && load == "LOAD" => Some(text.clone()),
        _ => None,
    });
    let texts: Vec<String> = loaded.collect();
    let scripts = texts.into_iter().map(|text| (wire.text(&["SCRIPT", "LOAD", &text]), text)).collect();
    Ok(Recording { commands, scripts })
}

impl Recording {
    /// An acquire and a release of this lock.
    pub(super) fn pair(&self) -> (String, Vec<Command>) {
        self.about("pair")
    }

    /// One waits while another holds the lock, gets it, and releases it too.
    pub(super) fn hand_off(&self) -> (String, Vec<Command>) {
        self.about("hand-off")
    }

    /// An acquire and a release by a reader, after the acquire of another one.
    pub(super) fn read(&self) -> (String, Vec<Command>) {
        self.about("read")
    }

    /// The name of a lock, and what was sent about it.
    fn about(&self, name: &str) -> (String, Vec<Command>) {
        let lock = format!("{LOCKS}:{name}");
        // The process itself asks for the subscribers, which no lock does.
        let is_about =
            |words: &&Command| words[0] != "PUBSUB" && words.iter().any(|word| word.contains(&lock));
        let commands = self.commands.iter().filter(is_about).cloned().collect();
        (lock, commands)
    }

    /// The text of the script that a command calls.
    pub(super) fn text(&self, call: &Command) -> Option<String> {
        match &call[..] {
            [eval, text, ..] if eval == "EVAL" => Some(text.clone()),
            [eval, digest, ..] if eval == "EVALSHA" => {
                self.scripts.iter().find(|(known, _)| known == digest).map(|(_, text)| text.clone())
            }
            _ => None,
        }
    }
}

/// The words of a command in a line of MONITOR: `+1700000000.123456 [0 127.0.0.1:5] "GET" "a"`. Nothing if it is inside a
/// script, or no command.
fn words(line: &str) -> Option<Command> {
    let (head, rest) = line.split_once("] ")?;
    if head.ends_with(" lua") {
        return None;
    }
    let mut bytes = rest.bytes();
    let mut words = Vec::new();
    while let Some(byte) = bytes.next() {
        if byte == b'"' {
            words.push(String::from_utf8(word(&mut bytes)?).ok()?);
        }
    }
    Some(words).filter(|words| !words.is_empty())
}

/// One word, up to its closing quote, as the server escapes it.
fn word(bytes: &mut impl Iterator<Item = u8>) -> Option<Vec<u8>> {
    let mut word = Vec::new();
    loop {
        match bytes.next()? {
            b'"' => return Some(word),
            b'\\' => word.push(match bytes.next()? {
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                b'a' => 7,
                b'b' => 8,
                b'x' => {
                    let digits = [bytes.next()?, bytes.next()?];
                    u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
                }
                other => other,
            }),
            other => word.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read_as_the_server_shows_them() {
        let line = r#"+1700000000.123456 [0 127.0.0.1:5] "EVAL" "a \"b\"\n\\c\x2d" "1""#;
        assert_eq!(words(line).unwrap(), ["EVAL", "a \"b\"\n\\c-", "1"]);
        assert_eq!(words(r#"+1700000000.123456 [0 lua] "del" "a""#), None);
        assert_eq!(words("+OK"), None);
    }
}
