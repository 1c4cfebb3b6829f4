//! Commands as lines, and replies as text.
//!
//! Replies are written as the tables of the tests show them: `1`, `null`, `OK`, `"a string"`,
//! `[1, 2]`, `{"key": 1}`, and an error as its whole line after `!`.

use redis::{Cmd, Connection, ConnectionLike, Value};

pub use crate::wait::SOON;

use crate::inline::Inline;
use crate::server::TestServer;

/// The part of a lease that may have passed before a test checks it: the machine may be very busy.
const SLACK_MS: i64 = 20_000;

/// The answer to a command given as a line of words.
#[track_caller]
pub fn say(connection: &mut Connection, line: &str) -> String {
    say_words(connection, &line.split_ascii_whitespace().collect::<Vec<_>>())
}

/// The answer to a command whose words may have any bytes.
#[track_caller]
pub fn say_words<A: AsRef<[u8]>>(connection: &mut Connection, words: &[A]) -> String {
    text(&ask(connection, words))
}

/// Sends each line and compares the answer; in the expected text, `~N` is N or up to 20 s less, and `…` at the end
/// is the rest.
#[track_caller]
pub fn story(connection: &mut Connection, lines: &[(&str, &str)]) {
    for (number, (line, expected)) in lines.iter().enumerate() {
        let answer = say(connection, line);
        assert!(agrees(&answer, expected), "step {number}, {line}: {answer}, and not {expected}");
    }
}

/// A connection that tells a story, as [`story`] does.
pub trait Story {
    /// Sends each line and compares the answer.
    fn story(&mut self, lines: &[(&str, &str)]);
}

impl Story for Connection {
    #[track_caller]
    fn story(&mut self, lines: &[(&str, &str)]) {
        story(self, lines);
    }
}

/// Whether an answer is the expected one: `~N` stands for a number from N - 20,000 to N, and `…` at the end for the
/// rest of the answer.
pub fn agrees(answer: &str, expected: &str) -> bool {
    if let Some(start) = expected.strip_suffix('…') {
        return answer.starts_with(start);
    }
    let (mut answers, mut wanted) = (answer.split(' '), expected.split(' '));
    loop {
        match (answers.next(), wanted.next()) {
            (None, None) => return true,
            (Some(answer), Some(wanted)) if answer == wanted || is_near(answer, wanted) => {}
            _ => return false,
        }
    }
}

/// Whether a word is the wanted one, except for the number that `~N` stands for.
fn is_near(answer: &str, wanted: &str) -> bool {
    let Some((before, rest)) = wanted.split_once('~') else { return false };
    let after = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    let number = answer.strip_prefix(before).and_then(|answer| answer.strip_suffix(after));
    let number = number.and_then(|number| number.parse::<i64>().ok());
    let at_most = rest[..rest.len() - after.len()].parse::<i64>().ok();
    number.zip(at_most).is_some_and(|(number, at_most)| (at_most - SLACK_MS..=at_most).contains(&number))
}

/// The whole state of a key: its type, its bytes and the time at which it expires.
#[track_caller]
pub fn state(connection: &mut Connection, key: impl AsRef<[u8]>) -> [String; 3] {
    ["TYPE", "DUMP", "PEXPIRETIME"].map(|word| say_words(connection, &[word.as_bytes(), key.as_ref()]))
}

/// The bytes that the server answers to lines, without the one to `HELLO`.
#[track_caller]
pub fn on_the_wire(server: &TestServer, protocol: u8, lines: &[&str]) -> String {
    let mut connection = Inline::connect(server, SOON);
    connection.send(&format!("HELLO {protocol}\r\nECHO begin\r\n{}\r\nECHO end\r\n", lines.join("\r\n")));
    connection.read_to("$5\r\nbegin\r\n");
    let mut answers = connection.read_to("$3\r\nend\r\n");
    answers.truncate(answers.len() - "$3\r\nend\r\n".len());
    answers
}

/// Sends lines in one transaction; the answers.
#[track_caller]
pub fn transaction(connection: &mut Connection, lines: &[&str]) -> String {
    assert_eq!(say(connection, "MULTI"), "OK");
    for line in lines {
        assert_eq!(say(connection, line), "QUEUED", "{line}");
    }
    say(connection, "EXEC")
}

/// The answer to a line, as a number.
#[track_caller]
pub fn number(connection: &mut Connection, line: &str) -> i64 {
    let answer = say(connection, line);
    answer.parse().unwrap_or_else(|_| panic!("{line}: {answer}, which is not a number"))
}

/// The answer to a command whose words may have any bytes; an error of the server is a value as well.
#[track_caller]
pub fn ask<A: AsRef<[u8]>>(connection: &mut Connection, words: &[A]) -> Value {
    match connection.req_command(&words_of(words)) {
        Ok(answer) => answer,
        Err(error) => panic!("{}: {error}", words[0].as_ref().escape_ascii()),
    }
}

pub(crate) fn words_of<A: AsRef<[u8]>>(words: &[A]) -> Cmd {
    let mut command = Cmd::new();
    for word in words {
        command.arg(word.as_ref());
    }
    command
}

/// The server's clock in milliseconds.
#[track_caller]
pub fn server_time(connection: &mut Connection) -> i64 {
    let (seconds, micros): (i64, i64) = redis::from_redis_value(ask(connection, &["TIME"])).unwrap();
    seconds * 1000 + micros / 1000
}

/// Whether no client is blocked by the module, and no timer of it runs: the server refuses to unload a module that has one of
/// these in other words than one that refuses itself.
#[track_caller]
pub fn is_at_rest(connection: &mut Connection) -> bool {
    say(connection, "MODULE UNLOAD rlock") == "!ERR Error unloading module: operation not possible."
}

/// A counter of the module's section in `INFO`, named without `rlock_`.
#[track_caller]
pub fn counter(server: &TestServer, name: &str) -> u64 {
    let info = server.info("rlock");
    let value = info.get(&format!("rlock_{name}")).unwrap_or_else(|| panic!("no rlock_{name} in INFO"));
    value.parse().unwrap()
}

/// Names and values of a map of RESP3, or of its flat array in RESP2.
#[track_caller]
pub fn fields(value: Value) -> Vec<(String, Value)> {
    let pairs = match value {
        Value::Map(pairs) => pairs,
        Value::Array(flat) => flat.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect(),
        other => panic!("no map: {}", text(&other)),
    };
    pairs.into_iter().map(|(name, value)| (redis::from_redis_value(name).unwrap(), value)).collect()
}

/// A value as the tests show it.
pub fn text(value: &Value) -> String {
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
