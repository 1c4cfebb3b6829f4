//! Every kind of lock, held and awaited: these locks must survive every change of servers.

use crate::commands::{SOON, say, story};
use crate::waiting::Waiting;
use crate::{Subscriber, TestServer};
use redis::Connection;

/// A lock, and the mode in which it is held and awaited.
pub struct Kind {
    name: &'static str,
    /// Its acquisitions: the owner, the words after the lease, and the number of holds that results.
    held: &'static [(&'static str, &'static str, u32)],
    /// How a waiter asks for it.
    pub awaited: &'static str,
    /// Its renewals: the owner, and the mode.
    renewed: &'static [(&'static str, &'static str)],
    /// Its releases in order, by owner: the last one frees the lock.
    given_back: &'static [&'static str],
}

/// One of each kind.
pub const KINDS: [Kind; 6] = [
    PLAIN,
    Kind {
        name: "page",
        held: &[("n:1", "READ", 1), ("n:1", "READ", 2), ("n:2", "READ", 1)],
        awaited: "WRITE",
        renewed: &[("n:1", "READ"), ("n:2", "READ")],
        given_back: &["n:1 ALL", "n:2"],
    },
    Kind {
        name: "book",
        held: &[("n:1", "WRITE", 1), ("n:1", "READ", 1)],
        awaited: "READ",
        renewed: &[("n:1", "WRITE"), ("n:1", "READ")],
        given_back: &["n:1 WRITE", "n:1 READ"],
    },
    Kind { name: "fair", held: &[("n:1", "FAIR", 1)], awaited: "FAIR", ..PLAIN },
    Kind { name: "fenced", held: &[("n:1", "FENCED", 1)], awaited: "FENCED", ..PLAIN },
    Kind {
        name: "slots",
        held: &[("n:1", "PERMITS 2", 1), ("n:2", "PERMITS 2", 1)],
        awaited: "PERMITS 2",
        renewed: &[("n:1", ""), ("n:2", "")],
        given_back: &["n:1", "n:2"],
    },
];

const PLAIN: Kind = Kind {
    name: "plain",
    held: &[("n:1", "", 1)],
    awaited: "",
    renewed: &[("n:1", "")],
    given_back: &["n:1"],
};

impl Kind {
    /// The lock's name in this place: the place is empty or a hash tag.
    pub fn key(&self, place: &str) -> String {
        format!("{place}{}", self.name)
    }

    /// Whether its owners get tokens.
    pub fn is_fenced(&self) -> bool {
        self.name == "fenced"
    }

    /// The request of an owner for the lock, in a mode that its holders exclude.
    pub fn ask(&self, place: &str, owner: &str) -> String {
        format!("RLOCK.ACQUIRE {} {owner} 50000 {}", self.key(place), self.awaited)
    }

    /// The commands that renew every hold.
    pub fn renewals(&self, place: &str) -> Vec<String> {
        let line =
            |(owner, mode): &(&str, &str)| format!("RLOCK.RENEW {} {owner} 900000 {mode}", self.key(place));
        self.renewed.iter().map(line).collect()
    }
}

/// The number of holds, the lease and the token of an acquisition.
#[track_caller]
pub fn acquisition(answer: &str) -> [i64; 3] {
    let numbers = answer.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let numbers = numbers.unwrap_or_else(|| panic!("not acquired: {answer}"));
    let mut numbers = numbers.split(", ").map(|number| number.parse().unwrap());
    [(); 3].map(|()| numbers.next().unwrap())
}

/// Acquires a lock of every kind in a place; returns the token of the fenced one.
#[track_caller]
pub fn hold(client: &mut Connection, place: &str) -> i64 {
    let mut last = 0;
    for kind in &KINDS {
        for (owner, words, holds) in kind.held {
            let answer = say(client, &format!("RLOCK.ACQUIRE {} {owner} 1000000 {words}", kind.key(place)));
            let [now, _, token] = acquisition(&answer);
            assert_eq!(now, i64::from(*holds), "{}: {answer}", kind.name);
            last = last.max(token);
        }
    }
    last
}

/// Checks that every lock of [`hold`] is held, and that other owners are denied.
#[track_caller]
pub fn all_is_held(client: &mut Connection, place: &str) {
    for kind in &KINDS {
        story(client, &[(&kind.ask(place, "s:1"), "null")]);
        kind.renewals(place).iter().for_each(|line| story(client, &[(line, "1")]));
    }
}

/// The waiters for a lock of every kind: a blocked one, and an enqueued one behind it.
pub struct Awaited {
    /// A blocked waiter for each kind.
    pub blocked: Vec<Waiting>,
    /// The messages to the enqueued waiters.
    pub grants: Subscriber,
    channel: String,
    place: String,
}

impl Awaited {
    /// Starts both waiters for each kind in this place.
    #[track_caller]
    pub fn start(server: &TestServer, place: &str) -> Awaited {
        let channel = format!("{place}grants");
        let grants = Subscriber::connect(server);
        let grants =
            if place.is_empty() { grants.subscribe(&[&channel]) } else { grants.ssubscribe(&[&channel]) };
        let client = &mut server.connect();
        let blocked = KINDS.iter().map(|kind| {
            let waiting = Waiting::line(server, &format!("{} BLOCK 0", kind.ask(place, "b:1")));
            let line =
                format!("RLOCK.ACQUIRE {} e:1 4000 {} ENQUEUE 0 {channel}", kind.key(place), kind.awaited);
            story(client, &[(&line, "[0, 0, 0]")]);
            waiting
        });
        Awaited { blocked: blocked.collect(), grants, channel, place: place.to_owned() }
    }

    /// Asserts that no waiter has received a grant or any other answer.
    #[track_caller]
    pub fn wait_on(&mut self) {
        for (waiting, kind) in self.blocked.iter().zip(&KINDS) {
            assert!(waiting.still_waits(), "{}: {}", kind.name, waiting.answer());
        }
        assert_eq!(self.grants.drain(), []);
    }

    /// Asserts that all blocked waiters were sent away by an error.
    #[track_caller]
    pub fn were_sent_away(self) {
        for (waiting, kind) in self.blocked.iter().zip(&KINDS) {
            let answer = waiting.answer();
            assert!(answer.starts_with("!UNBLOCKED "), "{}: {answer}", kind.name);
        }
    }

    /// Releases every hold of [`hold`], and asserts that each lock is granted to the blocked waiter and after that to
    /// the enqueued one. Only the tokens remain, and they have grown.
    #[track_caller]
    pub fn are_served(mut self, client: &mut Connection, token: i64) {
        for (waiting, kind) in self.blocked.iter().zip(&KINDS) {
            let key = kind.key(&self.place);
            for owner in kind.given_back {
                story(client, &[(&format!("RLOCK.RELEASE {key} {owner}"), "1")]);
            }
            let [holds, lease, first] = acquisition(&waiting.answer());
            assert_eq!((holds, lease, first > token), (1, 50_000, kind.is_fenced()), "{key}");
            story(client, &[(&format!("RLOCK.RELEASE {key} b:1"), "1")]);
            let granted = granted(&mut self.grants);
            let words: Vec<_> = granted.split(' ').collect();
            assert_eq!(words[..6], ["granted", "0", "e:1", &key, "1", "4000"], "{granted}");
            assert_eq!(words[6].parse::<i64>().unwrap() > first, kind.is_fenced(), "{granted}");
            story(client, &[(&format!("RLOCK.RELEASE {key} e:1"), "1"), (&format!("EXISTS {key}"), "0")]);
        }
        assert!(self.grants.drain().iter().all(|(_, message)| message.starts_with(b"dropped ")));
        let keys: Vec<String> = redis::cmd("KEYS").arg("*").query(client).unwrap();
        assert!(keys.iter().all(|key| key.starts_with("redisson_lock_token:")), "{keys:?}");
    }

    /// The channel of the enqueued waiters.
    pub fn channel(&self) -> &str {
        &self.channel
    }
}

/// The next grant. A server that was the primary can still send messages about its former waiters; they are skipped.
#[track_caller]
fn granted(grants: &mut Subscriber) -> String {
    loop {
        let message = text(grants.next(SOON));
        if !message.starts_with("dropped ") {
            return message;
        }
    }
}

#[track_caller]
fn text(message: Option<(Vec<u8>, Vec<u8>)>) -> String {
    String::from_utf8(message.expect("a message").1).unwrap()
}
