//! A server, the model of its locks, and what compares them.

use std::collections::VecDeque;
use std::thread::sleep;
use std::time::{Duration, Instant};

use redis::{Connection, RedisResult, Value};
use rlock_testkit::{Subscriber, TestServer, eventually};

use rlock_testkit::commands::{SOON, number, say, text};
use rlock_testkit::waiting::queue;

pub(crate) const KEYS: [&str; 3] = ["{a}", "lock:b", "c"];

/// How each lock is asked for.
pub(crate) const MODES: [&str; 3] = ["", "WRITE", "FAIR"];

/// On all but this one there is a listener.
pub(crate) const DEAF: &str = "deaf";
pub(crate) const CHANNELS: [&str; 5] = ["one", "two", "three", "two", DEAF];

/// How many clients are blocked at most.
pub(crate) const BLOCKED: usize = 30;

pub(crate) const LEASE: u64 = 600_000;
pub(crate) const CONFIRM: u64 = 60_000;

/// What an owner says who asks for a lock.
pub(crate) fn ask(n: usize, owner: &str, rest: &str) -> String {
    format!("RLOCK.ACQUIRE {} {owner} {LEASE} {} {rest}", KEYS[n], MODES[n])
}

/// The end of a message about a lock.
pub(crate) fn told_as(n: usize) -> &'static str {
    if MODES[n] == "WRITE" { " write" } else { "" }
}

/// How somebody waits.
pub(crate) enum Via {
    Channel(&'static str),
    /// A client of its own, and its number.
    Block(Connection, i64),
}

impl Via {
    pub(crate) fn is_deaf(&self) -> bool {
        matches!(self, Via::Channel(DEAF))
    }
}

pub(crate) struct Waiter {
    pub(crate) owner: String,
    pub(crate) via: Via,
}

/// What a lock and its queue should be.
#[derive(Default)]
pub(crate) struct Lock {
    /// The owner and its holds.
    pub(crate) holder: Option<(String, u32)>,
    pub(crate) queue: VecDeque<Waiter>,
}

pub(crate) struct Churn {
    pub(crate) server: TestServer,
    pub(crate) client: Connection,
    pub(crate) heard: Subscriber,
    pub(crate) dice: fastrand::Rng,
    pub(crate) seed: u64,
    pub(crate) locks: [Lock; 3],
    pub(crate) came: u64,
    pub(crate) grants: u64,
    /// What was done, the last at the end.
    pub(crate) steps: Vec<String>,
}

impl Drop for Churn {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let last = &self.steps[self.steps.len().saturating_sub(15)..];
            eprintln!("RLOCK_SEED={}, step {}:\n{}", self.seed, self.steps.len(), last.join("\n"));
        }
    }
}

/// What a client that was blocked is answered.
#[track_caller]
pub(crate) fn answer(connection: &mut Connection) -> String {
    let outcome: RedisResult<Value> = connection.recv_response();
    match outcome {
        Ok(value) => text(&value),
        Err(error) => match error.code() {
            Some(code) => format!("!{code} {}", error.detail().unwrap_or_default()),
            None if error.is_timeout() => "nothing".into(),
            None => "the connection ended".into(),
        },
    }
}

/// Who stands in Redisson's list of a lock that is asked for with FAIR.
#[track_caller]
fn fair_list(client: &mut Connection, n: usize) -> Option<Vec<String>> {
    let mut command = redis::cmd("LRANGE");
    command.arg(format!("redisson_lock_queue:{{{}}}", KEYS[n])).arg(0).arg(-1);
    (MODES[n] == "FAIR").then(|| command.query(client).expect("a list"))
}

impl Churn {
    pub(crate) fn new(seed: u64) -> Churn {
        let server = TestServer::builder().conf("rlock.grant-confirm-ms", CONFIRM).start();
        let heard = Subscriber::connect(&server).subscribe(&["one", "two", "three"]);
        let (client, dice, locks) = (server.connect(), fastrand::Rng::with_seed(seed), Default::default());
        Churn { server, client, heard, dice, seed, locks, came: 0, grants: 0, steps: Vec::new() }
    }

    pub(crate) fn one_of(&mut self, choices: &[&'static str]) -> &'static str {
        choices[self.dice.usize(..choices.len())]
    }

    /// Says a line and compares the answer.
    #[track_caller]
    pub(crate) fn tell(&mut self, line: &str, expected: &str) {
        self.steps.push(format!("{line} -> {expected}"));
        assert_eq!(say(&mut self.client, line), expected, "{line}");
    }

    #[track_caller]
    pub(crate) fn hear(&mut self, channel: &str, message: &str) {
        let (on, heard) = self.heard.next(SOON).unwrap_or_else(|| panic!("not heard: {message}"));
        assert_eq!((on.escape_ascii().to_string(), heard.escape_ascii().to_string()), {
            (channel.to_owned(), message.to_owned())
        });
    }

    fn blocked(&self) -> usize {
        let waiters = self.locks.iter().flat_map(|lock| &lock.queue);
        waiters.filter(|waiter| matches!(waiter.via, Via::Block(..))).count()
    }

    /// Blocks a client, and returns once it is seen to wait.
    #[track_caller]
    fn block(&mut self, n: usize, owner: &str, wait: &str) -> Via {
        let mut connection = self.server.connect();
        let id = number(&mut connection, "CLIENT ID");
        let line = ask(n, owner, &format!("BLOCK {wait}"));
        self.steps.push(format!("{line} by client {id}"));
        let words: Vec<_> = line.split_ascii_whitespace().collect();
        let packed = redis::cmd(words[0]).arg(&words[1..]).get_packed_command();
        connection.send_packed_command(&packed).unwrap();
        if wait != "1" {
            let client = &mut self.client;
            eventually("the client to wait", SOON, || {
                queue(client, KEYS[n]).iter().any(|entry| entry.client_id == id).then_some(())
            });
        }
        Via::Block(connection, id)
    }

    /// An owner waits, or waits anew.
    #[track_caller]
    pub(crate) fn wait(&mut self, n: usize, owner: &str, wait: &str) -> Via {
        if self.blocked() < BLOCKED && self.dice.usize(..6) == 0 {
            return self.block(n, owner, wait);
        }
        let channel = CHANNELS[self.dice.usize(..CHANNELS.len())];
        self.tell(&ask(n, owner, &format!("ENQUEUE {wait} {channel}")), "[0, 0, 0]");
        Via::Channel(channel)
    }

    /// Compares a lock and its queue with the model; what the timer does may take `within`.
    #[track_caller]
    pub(crate) fn check(&mut self, n: usize, within: Duration) {
        let holder = self.locks[n].holder.as_ref();
        let hash = holder.map_or("[]".into(), |(owner, holds)| match MODES[n] {
            "WRITE" => format!(r#"["mode", "write", "{owner}:write", "{holds}"]"#),
            _ => format!(r#"["{owner}", "{holds}"]"#),
        });
        let owners: Vec<&str> = self.locks[n].queue.iter().map(|waiter| waiter.owner.as_str()).collect();
        let owned: Vec<String> = owners.iter().map(|owner| (*owner).to_owned()).collect();
        let deadline = Instant::now() + within;
        loop {
            let last = Instant::now() >= deadline;
            let found_hash = say(&mut self.client, &format!("HGETALL {}", KEYS[n]));
            let found = queue(&mut self.client, KEYS[n]);
            let found: Vec<&str> = found.iter().map(|entry| entry.owner.as_str()).collect();
            let listed = fair_list(&mut self.client, n);
            let listed = listed.as_ref().unwrap_or(&owned);
            let as_told = found_hash == hash && found == owners;
            if as_told && *listed == owned {
                return;
            }
            // The timer removes the entry of an owner that left, unless it is the first.
            let last = if as_told { Instant::now() >= deadline + SOON } else { last };
            assert!(!last, "{}: {found_hash} {found:?} {listed:?}, and not {hash} {owners:?}", KEYS[n]);
            sleep(Duration::from_millis(1));
        }
    }
}
