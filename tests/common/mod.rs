//! What the tests of the commands share: a line is a command, and its answer is text.
//!
//! Answers are written as the tables of the tests show them: `1`, `null`, `OK`, `"a string"`,
//! `[1, 2]`, `{"key": 1}`, and an error as its whole line after `!`.

#![allow(dead_code, reason = "each test file uses its own part of this")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use redis::{Cmd, Connection, ConnectionLike, Value};
use rlock_testkit::TestServer;

/// How much of a lease may have passed before a test looks: the machine may be very busy.
const SLACK_MS: i64 = 20_000;

/// The answer to a command given as a line of words.
#[track_caller]
pub(crate) fn say(connection: &mut Connection, line: &str) -> String {
    say_words(connection, &line.split_ascii_whitespace().collect::<Vec<_>>())
}

/// The answer to a command whose words may have any bytes.
#[track_caller]
pub(crate) fn say_words<A: AsRef<[u8]>>(connection: &mut Connection, words: &[A]) -> String {
    text(&ask_words(connection, words))
}

/// Like [`say_words`], as the client library has it; an error of the server is a value as well.
#[track_caller]
pub(crate) fn ask_words<A: AsRef<[u8]>>(connection: &mut Connection, words: &[A]) -> Value {
    let words: Vec<&[u8]> = words.iter().map(AsRef::as_ref).collect();
    let answer = connection.req_command(Cmd::new().arg(&words[..]));
    answer.unwrap_or_else(|error| panic!("{}: {error}", words.concat().escape_ascii()))
}

/// Says each line and compares the answer; in what is expected, `~N` is N or up to 20 s less.
#[track_caller]
pub(crate) fn story(connection: &mut Connection, lines: &[(&str, &str)]) {
    for (number, (line, expected)) in lines.iter().enumerate() {
        let answer = say(connection, line);
        assert!(agrees(&answer, expected), "step {number}, {line}: {answer}, and not {expected}");
    }
}

/// Whether an answer is the expected one, `~N` standing for a number from N - 20,000 to N.
pub(crate) fn agrees(answer: &str, expected: &str) -> bool {
    let (mut answers, mut wanted) = (answer.split(' '), expected.split(' '));
    loop {
        match (answers.next(), wanted.next()) {
            (None, None) => return true,
            (Some(answer), Some(wanted)) if answer == wanted || is_near(answer, wanted) => {}
            _ => return false,
        }
    }
}

/// Whether a word is the wanted one but for the number that `~N` stands for.
fn is_near(answer: &str, wanted: &str) -> bool {
    let Some((before, rest)) = wanted.split_once('~') else { return false };
    let after = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    let number = answer.strip_prefix(before).and_then(|answer| answer.strip_suffix(after));
    let number = number.and_then(|number| number.parse::<i64>().ok());
    let at_most = rest[..rest.len() - after.len()].parse::<i64>().ok();
    number.zip(at_most).is_some_and(|(number, at_most)| (at_most - SLACK_MS..=at_most).contains(&number))
}

/// How Redisson 3 takes a lock: null when taken, else what is left of the other's lease.
pub(crate) const REDISSON_TAKES: &str = "
    if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[2]) == 1 then
        redis.call('hincrby', KEYS[1], ARGV[2], 1)
        redis.call('pexpire', KEYS[1], ARGV[1])
        return nil
    end
    return redis.call('pttl', KEYS[1])";

/// How Redisson 3 gives a lock back, but for the message: null where it was not held, 1 when free.
pub(crate) const REDISSON_GIVES_BACK: &str = "
    if redis.call('hexists', KEYS[1], ARGV[2]) == 0 then return nil end
    if redis.call('hincrby', KEYS[1], ARGV[2], -1) > 0 then
        redis.call('pexpire', KEYS[1], ARGV[1])
        return 0
    end
    redis.call('del', KEYS[1])
    return 1";

/// What one of Redisson's scripts answers, for a lease of 100 seconds.
#[track_caller]
pub(crate) fn redisson(connection: &mut Connection, script: &str, key: &str, owner: &str) -> String {
    say_words(connection, &["EVAL", script, "1", key, "100000", owner])
}

/// All that a key is: its type, its bytes and the time at which it expires.
#[track_caller]
pub(crate) fn state(connection: &mut Connection, key: impl AsRef<[u8]>) -> [String; 3] {
    ["TYPE", "DUMP", "PEXPIRETIME"].map(|word| say_words(connection, &[word.as_bytes(), key.as_ref()]))
}

/// The bytes that the server answers to lines, without those to `HELLO` and `QUIT`.
#[track_caller]
pub(crate) fn on_the_wire(server: &TestServer, protocol: u8, lines: &[&str]) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let said = format!("HELLO {protocol}\r\nECHO begin\r\n{}\r\nECHO end\r\nQUIT\r\n", lines.join("\r\n"));
    stream.write_all(said.as_bytes()).unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let heard = String::from_utf8(bytes).unwrap();
    let (_, heard) = heard.split_once("$5\r\nbegin\r\n").unwrap();
    heard.split_once("$3\r\nend\r\n").unwrap().0.to_owned()
}

/// A value as the tables of the tests show it.
pub(crate) fn text(value: &Value) -> String {
    let list = |values: &[Value]| values.iter().map(text).collect::<Vec<_>>().join(", ");
    match value {
        Value::Nil => "null".into(),
        Value::Int(number) => number.to_string(),
        Value::BulkString(bytes) => format!("\"{}\"", bytes.escape_ascii()),
        Value::SimpleString(word) => word.clone(),
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
