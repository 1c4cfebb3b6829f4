//! The ways to hold a lock and to wait for it: one of each kind.

use std::time::Duration;

use crate::commands::{SOON, say, story, transaction};
use crate::waiting::Waiting;
use crate::{TestServer, eventually};
use redis::Connection;

/// A way to hold a lock, and a way to wait for it.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// A name for its lock, for tests with one lock of each kind.
    pub name: &'static str,
    /// Its owners.
    pub holders: &'static [&'static str],
    /// The options of the holders.
    pub holds: &'static str,
    /// The options of a waiter.
    pub waits: &'static str,
    /// The type of its key.
    pub stored: Stored,
}

/// The type of a lock's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// A hash with a field for each holder: a lock of Redisson.
    Hash,
    /// A sorted set with a member for each holder: permits.
    SortedSet,
}

impl Stored {
    /// The commands that list the holders, remove some of them, and show one.
    const fn commands(self) -> [&'static str; 3] {
        match self {
            Stored::Hash => ["HKEYS", "HDEL", "HGET"],
            Stored::SortedSet => ["ZRANGE", "ZREM", "ZSCORE"],
        }
    }
}

/// One of each kind.
pub const KINDS: [Kind; 8] = [
    Kind { name: "page", holders: &["alice"], holds: "WRITE", waits: "READ", ..PLAIN },
    Kind { name: "book", holders: &["alice"], holds: "READ", waits: "WRITE", ..PLAIN },
    Kind { name: "news", holders: &["alice", "amy", "anna"], holds: "READ", waits: "WRITE", ..PLAIN },
    Kind { name: "note", holders: &["alice"], holds: "WRITE", waits: "WRITE", ..PLAIN },
    Kind { name: "fair", holders: &["alice"], holds: "FAIR", waits: "FAIR", ..PLAIN },
    Kind { name: "both", holders: &["alice"], holds: "HOLDS 1", waits: "FAIR FENCED", ..PLAIN },
    PLAIN,
    // The waiter wants to be alone.
    Kind {
        name: "slots",
        holders: &["alice", "amy"],
        holds: "PERMITS 2",
        waits: "PERMITS 1",
        stored: Stored::SortedSet,
    },
];

const PLAIN: Kind = Kind { name: "plain", holders: &["alice"], holds: "", waits: "", stored: Stored::Hash };

impl Kind {
    /// Acquires the lock for every holder, with this lease in ms.
    #[track_caller]
    pub fn held(self, client: &mut Connection, key: &str, lease: u32) {
        for holder in self.holders {
            let line = format!("RLOCK.ACQUIRE {key} {holder} {lease} {}", self.holds);
            story(client, &[(&line, &format!("[1, {lease}, 0]"))]);
        }
    }

    /// The request of a waiter.
    pub fn ask(self, key: &str, owner: &str) -> String {
        format!("RLOCK.ACQUIRE {key} {owner} 50000 {}", self.waits)
    }

    /// Waits for the lock.
    #[track_caller]
    pub fn wait(self, server: &TestServer, key: &str, owner: &str) -> Waiting {
        self.wait_in(server, 0, key, owner)
    }

    /// Waits for the lock in another database.
    #[track_caller]
    pub fn wait_in(self, server: &TestServer, db: u32, key: &str, owner: &str) -> Waiting {
        let line = format!("{} BLOCK 60000", self.ask(key, owner));
        Waiting::start_in(server, db, &line.split_ascii_whitespace().collect::<Vec<_>>())
    }

    /// The same with a waiter that shares the lock with no other owner.
    pub fn alone(self) -> Kind {
        Kind { waits: if self.waits == "READ" { "WRITE" } else { self.waits }, ..self }
    }

    /// Acquires the lock for long, and lets bob wait for it.
    #[track_caller]
    pub fn held_and_awaited(self, server: &TestServer, client: &mut Connection, key: &str) -> Waiting {
        self.held(client, key, 100_000);
        self.wait(server, key, "bob")
    }

    /// A line for each of the holders.
    pub fn each_says(self, line: impl Fn(&str) -> String) -> Vec<String> {
        self.holders.iter().map(|holder| line(holder)).collect()
    }

    /// The commands that release the lock; the last one frees it.
    pub fn releases(self, key: &str) -> Vec<String> {
        self.each_says(|holder| format!("RLOCK.RELEASE {key} {holder}"))
    }

    /// The fields of a waiter, or of a former waiter that holds: of a plain lock, and of one with modes.
    pub fn fields_of(self, owner: &str) -> Vec<String> {
        match self.waits {
            "READ" => vec!["mode".into(), owner.into()],
            "WRITE" => vec!["mode".into(), format!("{owner}:write")],
            _ => vec![owner.into()],
        }
    }

    /// The fields of the holders, separated by blanks.
    pub fn fields_of_holders(self) -> String {
        let suffix = if self.holds == "WRITE" { ":write" } else { "" };
        self.each_says(|holder| format!("{holder}{suffix}")).join(" ")
    }

    /// The mode of its waiters in RENEW. Permits are known by their key.
    pub fn renewed_as(self) -> &'static str {
        if self.stored == Stored::Hash { self.mode() } else { "" }
    }

    /// The mode of its waiters at the end of messages.
    pub fn mode(self) -> &'static str {
        match (self.stored, self.waits) {
            (Stored::SortedSet, _) => "permit",
            (Stored::Hash, "READ") => "read",
            (Stored::Hash, "WRITE") => "write",
            (Stored::Hash, _) => "",
        }
    }

    /// The command that lists the holders.
    pub fn lists(self, key: &str) -> String {
        let [list, ..] = self.stored.commands();
        format!("{list} {key}{}", if self.stored == Stored::SortedSet { " 0 -1" } else { "" })
    }

    /// The command of another client that removes all holders.
    pub fn removes(self, key: &str) -> String {
        let [_, remove, _] = self.stored.commands();
        format!("{remove} {key} {}", self.fields_of_holders())
    }

    /// The commands by which another client makes an owner the only holder, in the mode of a waiter, until a far time.
    pub fn taken(self, key: &str, owner: &str) -> Vec<String> {
        const FAR: i64 = 4_102_444_800_000;
        match (self.stored, self.waits) {
            (Stored::SortedSet, _) => {
                vec![format!("ZADD {key} {FAR} {owner}"), format!("PEXPIREAT {key} {FAR}")]
            }
            (Stored::Hash, "READ") => vec![
                format!("HSET {key} mode read {owner} 1"),
                format!("SET {{{key}}}:{owner}:rwlock_timeout:1 1 PX 900000"),
            ],
            (Stored::Hash, "WRITE") => vec![format!("HSET {key} mode write {owner}:write 1")],
            (Stored::Hash, _) => vec![format!("HSET {key} {owner} 1")],
        }
    }

    /// The commands by which another client lets a former waiter hold for another time.
    pub fn prolonged(self, key: &str, owner: &str) -> Vec<String> {
        match (self.stored, self.waits) {
            (Stored::SortedSet, _) => self.taken(key, owner),
            (Stored::Hash, "READ") => {
                let keys = [key.to_owned(), format!("{{{key}}}:{owner}:rwlock_timeout:1")];
                keys.map(|key| format!("PEXPIRE {key} 900000")).into()
            }
            (Stored::Hash, _) => vec![format!("PEXPIRE {key} 900000")],
        }
    }

    /// The commands after which each hold expires: of fields by `way`; members of a sorted set expire by their lease only.
    pub fn expiring(self, key: &str, way: &str, after: &str) -> Vec<String> {
        let (count, fields) = (self.holders.len(), self.fields_of_holders());
        match self.stored {
            Stored::Hash => vec![format!("{way} {key} {after} FIELDS {count} {fields}")],
            Stored::SortedSet => self.each_says(|holder| format!("RLOCK.RENEW {key} {holder} 300")),
        }
    }

    /// Whether, after another client has changed the key's expiry in this way, the lock stays taken for as long as its key.
    pub fn lasts_as_its_key(self, way: &str) -> bool {
        match self.stored {
            Stored::Hash => self.holds != "READ",
            // PERSIST makes the key another sorted set, not a lock; rlock corrects a later expiry.
            Stored::SortedSet => way == "PERSIST",
        }
    }

    /// Whether this former waiter is among the holders.
    #[track_caller]
    pub fn has_holder(self, client: &mut Connection, key: &str, owner: &str) -> bool {
        let [.., show] = self.stored.commands();
        let field = self.fields_of(owner).pop().unwrap_or_default();
        let said = say(client, &format!("{show} {key} {field}"));
        assert!(!said.starts_with('!'), "{self:?}: {said}");
        said != "null"
    }

    /// Asserts that this former waiter is the only holder.
    #[track_caller]
    pub fn is_held_by(self, client: &mut Connection, key: &str, owner: &str, after: &str) {
        let fields = self.fields_of(owner).iter().map(|field| format!("{field:?}")).collect::<Vec<_>>();
        let wanted = format!("[{}]", fields.join(", "));
        assert_eq!(say(client, &self.lists(key)), wanted, "{after}, {self:?}");
    }

    /// Asserts that the waiting call was granted the lock.
    #[track_caller]
    pub fn granted(self, waiting: &Waiting, after: &str) {
        let answer = waiting.answer();
        assert!(answer.starts_with("[1, 50000, "), "{after}, {self:?}: {answer}");
        assert_eq!(self.waits.contains("FENCED"), !answer.ends_with(" 0]"), "{after}, {self:?}: {answer}");
    }

    /// Asserts that bob gets the lock without a further command, and releases it; nothing is left of the lock.
    #[track_caller]
    pub fn bob_has_it(self, client: &mut Connection, key: &str, bob: &Waiting, after: &str) {
        eventually(&format!("bob to have the lock after {after}, {self:?}"), SOON, || {
            (!bob.still_waits()).then_some(())
        });
        self.granted(bob, after);
        self.is_held_by(client, key, "bob", after);
        story(client, &[(&format!("RLOCK.RELEASE {key} bob"), "1")]);
        self.is_gone(client, key);
    }

    /// Asserts that neither the lock nor its fair queue exists.
    #[track_caller]
    pub fn is_gone(self, client: &mut Connection, key: &str) {
        let left = format!("EXISTS {key} redisson_lock_queue:{{{key}}} redisson_lock_timeout:{{{key}}}");
        assert_eq!(say(client, &left), "0", "{self:?}");
    }
}

/// Renews every hold of a lock of each kind, with this lease.
#[track_caller]
pub fn renew_all(client: &mut Connection, lease_ms: u32) {
    for kind in KINDS {
        at_once(client, &kind.each_says(|holder| format!("RLOCK.RENEW {} {holder} {lease_ms}", kind.name)));
    }
}

/// A lock of each kind, with bob as its waiter.
pub struct All(pub Vec<(Kind, Waiting)>);

impl All {
    /// Holds all locks for long.
    #[track_caller]
    pub fn held_and_awaited(server: &TestServer, client: &mut Connection) -> All {
        All::held_for(100_000, server, client)
    }

    /// The leases begin before any waiter waits: `lease` must be longer than it takes to start them all.
    #[track_caller]
    pub fn held_for(lease: u32, server: &TestServer, client: &mut Connection) -> All {
        KINDS.into_iter().for_each(|kind| kind.held(client, kind.name, lease));
        All(KINDS.map(|kind| (kind, kind.wait(server, kind.name, "bob"))).into())
    }

    /// Asserts that all waiters still wait after this time: only for tests of time itself.
    #[track_caller]
    pub fn wait_on(&self, within: Duration) {
        std::thread::sleep(within);
        for (kind, bob) in &self.0 {
            assert!(bob.still_waits(), "{kind:?}: {}", bob.answer());
        }
    }

    /// Asserts that bob gets each lock, and releases it.
    #[track_caller]
    pub fn bobs_have_them(&self, client: &mut Connection, after: &str) {
        for (kind, bob) in &self.0 {
            kind.bob_has_it(client, kind.name, bob, after);
        }
    }

    /// The commands that free all locks.
    pub fn releases(&self) -> Vec<String> {
        self.0.iter().flat_map(|(kind, _)| kind.releases(kind.name)).collect()
    }

    /// The commands that kill all clients of waiters.
    pub fn kills(&self) -> Vec<String> {
        self.0.iter().map(|(_, bob)| format!("CLIENT KILL ID {}", bob.client_id())).collect()
    }
}

/// Sends lines in one transaction, and asserts that none is refused.
#[track_caller]
pub fn at_once(client: &mut Connection, lines: &[String]) {
    let lines: Vec<_> = lines.iter().map(String::as_str).collect();
    let answers = transaction(client, &lines);
    assert!(!answers.contains('!'), "{lines:?}: {answers}");
}
