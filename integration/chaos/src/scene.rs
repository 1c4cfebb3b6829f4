//! The locks of a round, and the clients that use them.

/// How much a lock is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Many clients use it, all the time.
    Busy,
    /// Two or three clients use it now and then, so that no other call wakes a waiter that was left asleep.
    Quiet,
}

/// A lock.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    pub(crate) name: String,
    pub(crate) class: Class,
    /// Whether its clients ask for fencing tokens.
    pub(crate) fenced: bool,
    /// Whether some of them use Redisson's protocol.
    pub(crate) foreign: bool,
    /// How many owners it may have at once, where it is a lock with permits.
    pub(crate) permits: Option<u32>,
}

impl Key {
    fn new(family: &str, name: String, class: Class, kinds: &[&str]) -> Key {
        let comes = |word| kinds.iter().any(|kind| kind.contains(word));
        let permits = PERMITS.iter().find(|(of, _)| *of == family).map(|(_, permits)| *permits);
        Key { name, class, fenced: comes("fenced"), foreign: comes("redisson"), permits }
    }
}

/// All locks of a round.
#[derive(Clone, Debug)]
pub(crate) struct Scene {
    pub(crate) keys: Vec<Key>,
}

/// A client: what it does, and on which locks.
#[derive(Clone, Debug)]
pub(crate) struct Role {
    pub(crate) kind: &'static str,
    pub(crate) keys: Vec<usize>,
}

/// The kinds of clients on the busy locks, by the locks' name.
const BUSY: [(&str, usize, &[&str]); 5] = [
    ("plain", 2, &["try", "block", "block", "enqueue", "enqueue", "redisson", "rust"]),
    ("fenced", 1, &["fenced try", "fenced block", "fenced block", "fenced enqueue", "rust fenced"]),
    ("fair", 1, &["fair block", "fair enqueue", "redisson fair", "redisson fair", "rust fair"]),
    ("rw", 2, &["read", "read", "write", "write", "read enqueue", "write enqueue", "redisson rw", "rust rw"]),
    (
        "slots",
        1,
        &[
            "permit try",
            "permit block",
            "permit block",
            "permit tied block",
            "permit enqueue",
            "permit tied enqueue",
            "rust permit",
            "rust tied permit",
        ],
    ),
];

/// How many permits there are, by the locks' name.
const PERMITS: [(&str, u32); 2] = [("slots", 3), ("seats", 2)];

/// Those on the quiet ones.
const QUIET: [(&str, &[&str]); 24] = [
    ("leases", &["block", "block"]),
    ("rents", &["block", "enqueue"]),
    ("letters", &["enqueue", "enqueue"]),
    ("calls", &["block", "redisson"]),
    ("shouts", &["try", "redisson"]),
    ("books", &["read", "read enqueue", "write"]),
    ("desks", &["redisson rw", "write"]),
    ("lines", &["fair block", "fair enqueue"]),
    ("shares", &["read", "read enqueue", "write"]),
    ("pages", &["redisson rw", "write", "read"]),
    ("turns", &["fair block", "redisson fair", "redisson fair"]),
    ("tickets", &["fenced block", "fenced enqueue"]),
    ("snatched", &["snatch", "block", "block"]),
    ("seized", &["write snatch", "read", "read", "read"]),
    ("aisles", &["read usher", "read behind"]),
    ("galleries", &["read on", "read on", "read on", "read on", "redisson write"]),
    ("drafts", &["write then read", "redisson read"]),
    ("shelves", &["read beside"]),
    ("rows", &["fair herald"]),
    ("stacks", &["read past"]),
    ("cellars", &["read past"]),
    ("archives", &["read past"]),
    ("estates", &["fenced heir"]),
    ("seats", &["permit stay", "permit block", "permit tied block", "permit enqueue", "permit tied enqueue"]),
];

impl Scene {
    /// The locks and the clients of a round.
    pub(crate) fn new() -> (Scene, Vec<Role>) {
        let (mut keys, mut roles) = (Vec::new(), Vec::new());
        for (name, count, kinds) in BUSY {
            let first = keys.len();
            keys.extend((0..count).map(|n| Key::new(name, format!("{name}:{n}"), Class::Busy, kinds)));
            let all: Vec<usize> = (first..keys.len()).collect();
            roles.extend(kinds.iter().map(|kind| Role { kind, keys: all.clone() }));
        }
        for (name, kinds) in QUIET {
            roles.extend(kinds.iter().map(|kind| Role { kind, keys: vec![keys.len()] }));
            keys.push(Key::new(name, name.to_owned(), Class::Quiet, kinds));
        }
        (Scene { keys }, roles)
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.keys.iter().map(|key| key.name.clone()).collect()
    }
}
