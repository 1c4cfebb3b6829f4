//! The reach of a user that may lock `locks:*`, with and without the keys beside these locks that READ, FENCED and
//! FAIR use: no command, option, name or channel reaches another lock, a key that the user's patterns do not allow, or
//! a channel other than the lock's own and those that the user may use. Random commands with nasty names; a failure
//! prints the seed, and `RLOCK_SEED` runs it again.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use rlock_testkit::prelude::*;

const COMMANDS: usize = 30_000;

/// The rules of docs/SECURITY.md for locks with and without a hash tag.
const ALL_THAT_BELONGS_TO_LOCKS: [&str; 8] = [
    "locks:*",
    "{locks:*}:*:rwlock_timeout:*",
    "redisson_lock_token:{locks:*}",
    "redisson_lock_token:locks:*",
    "redisson_lock_queue:{locks:*}",
    "redisson_lock_queue:locks:*",
    "redisson_lock_timeout:{locks:*}",
    "redisson_lock_timeout:locks:*",
];

/// Names of locks and of what belongs to other locks, to be used as keys.
const KEYS: [&str; 23] = [
    "locks:1",
    "locks:2",
    READ_BY_ANOTHER,
    "locks:{1}",
    "locks:{other:1}",
    "locks:}{other:1}",
    "locks:{other:2}:bob:rwlock_timeout:1",
    "locks:",
    "locks:1:bob:write",
    "other:1",
    "other:2",
    "{other:1}",
    "{locks:1}",
    "redisson_lock_token:{other:1}",
    "redisson_lock_token:{locks:1}",
    "redisson_lock_queue:{other:1}",
    "redisson_lock_timeout:{other:1}",
    "{other:2}:bob:rwlock_timeout:1",
    "{locks:1}:bob:rwlock_timeout:1",
    "redisson_lock__channel:{other:1}",
    "mode",
    "",
    "text",
];

/// A lock that `bob` reads by a grant to the admin, not to the user.
const READ_BY_ANOTHER: &str = "locks:3";

const OWNERS: [&str; 8] =
    ["bob", "alice", "bob:1", "}:{other:1}", "{other:2}:bob", "x:rwlock_timeout:1", "other:1", "*"];

const CHANNELS: [&str; 10] = [
    "locks.news",
    "locks.news",
    "locks.news",
    "locks.news",
    "other.news",
    "redisson_lock__channel:{other:1}",
    "redisson_lock__channel:{locks:1}",
    "redisson_rwlock:{other:2}",
    "__keyspace@0__:other:1",
    "",
];

/// A sequence of numbers that a seed gives (splitmix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % end as u64).unwrap()
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }
}

/// A command that may do something: often for the key of the one before it, or for its owner.
fn command(dice: &mut Dice, before: &mut (&'static str, &'static str)) -> Vec<&'static str> {
    if dice.below(3) == 0 {
        before.0 = dice.one(&KEYS);
    }
    if dice.below(2) == 0 {
        before.1 = dice.one(&OWNERS);
    }
    let (key, owner) = *before;
    let mut words = match dice.below(9) {
        0..4 => {
            let mut words = vec!["RLOCK.ACQUIRE", key, owner, dice.one(&["1", "40", "60000"])];
            for option in ["READ", "WRITE", "FAIR", "FENCED"] {
                words.extend((dice.below(4) == 0).then_some(option));
            }
            match dice.below(5) {
                0 => words.extend(["BLOCK", "1"]),
                1 | 2 => words.extend(["ENQUEUE", dice.one(&["20", "5000"]), dice.one(&CHANNELS)]),
                _ => {}
            }
            words
        }
        4 | 5 => vec!["RLOCK.RELEASE", key, owner, dice.one(&["ALL", "READ", "WRITE", "HOLDS"])],
        6 => vec!["RLOCK.RENEW", key, owner, "60000"],
        _ => vec!["RLOCK.CANCEL", key, owner],
    };
    match dice.below(30) {
        0 => words = vec!["RLOCK.FORCERELEASE", key],
        1 => words = vec!["RLOCK.INFO", key],
        2 => words = vec!["RLOCK.LIST", "0"],
        _ => {}
    }
    words
}

/// Whether a name fits one of the patterns, in which only `*` is special.
fn is_allowed(patterns: &[&str], name: &str) -> bool {
    patterns.iter().any(|pattern| {
        let (first, rest) = pattern.split_once('*').unwrap();
        let Some(mut name) = name.strip_prefix(first) else { return false };
        let mut parts: Vec<&str> = rest.split('*').collect();
        let last = parts.pop().unwrap();
        for part in parts {
            let Some((_, after)) = name.split_once(part) else { return false };
            name = after;
        }
        name.ends_with(last)
    })
}

/// Whether a channel belongs to a lock that the user may use, or to a FAIR waiter of this lock.
fn is_own_channel(patterns: &[&str], channel: &str) -> bool {
    let prefixes = ["redisson_lock__channel:", "redisson_rwlock:"];
    let Some(name) = prefixes.iter().find_map(|prefix| channel.strip_prefix(prefix)) else { return false };
    let owners = OWNERS.iter().filter_map(|owner| name.strip_suffix(owner)?.strip_suffix(':'));
    owners.chain([name]).any(|name| {
        let plain = name.strip_prefix('{').and_then(|name| name.strip_suffix('}'));
        is_allowed(patterns, name) || plain.is_some_and(|name| is_allowed(patterns, name))
    })
}

/// Everything that is there, but for what the user may write: what is in each key and whether it ends.
fn beyond_reach(admin: &mut Connection, patterns: &[&str]) -> BTreeMap<String, String> {
    let keys: Vec<String> = redis::cmd("KEYS").arg("*").query(admin).unwrap();
    let beyond = keys.into_iter().filter(|key| !is_allowed(patterns, key));
    beyond
        .map(|key| {
            let facts = ["DUMP", "PEXPIRETIME"].map(|word| text(&ask(admin, &[word, &key])));
            (key, facts.join(" "))
        })
        .collect()
}

/// Other people's locks of every kind, held and awaited, and a key of theirs.
fn others(admin: &mut Connection) {
    let lines = [
        "SET text x",
        "RLOCK.ACQUIRE other:1 bob 900000 FENCED",
        "RLOCK.ACQUIRE other:1 alice 900000 FAIR ENQUEUE 0 admin",
        "RLOCK.ACQUIRE other:2 bob 900000 READ",
        "RLOCK.ACQUIRE other:2 alice 900000 WRITE ENQUEUE 0 admin",
        "RLOCK.ACQUIRE {other:1} bob 900000",
    ];
    let read = format!("RLOCK.ACQUIRE {READ_BY_ANOTHER} bob 900000 READ");
    for line in lines.into_iter().chain([&*read]) {
        let said = say(admin, line);
        assert!(!said.starts_with('!'), "{line}: {said}");
    }
}

fn waiters(admin: &mut Connection) -> Vec<String> {
    ["other:1", "other:2"].map(|key| rlock_testkit::waiting::waiters(admin, key)).to_vec()
}

/// What an acquisition that was let through asked for.
fn asked_for<'a>(words: &[&'a str], said: &str) -> Vec<&'a str> {
    if words[0] != "RLOCK.ACQUIRE" || !said.starts_with('[') {
        return Vec::new();
    }
    let options = words.iter().filter(|word| ["READ", "WRITE", "FAIR", "FENCED"].contains(word));
    let waits = (said == "[0, 0, 0]").then_some("to wait");
    let options: Vec<&str> = options.copied().chain(waits).collect();
    if options.is_empty() { vec!["plain"] } else { options }
}

/// Sends random commands as a user of these patterns, and answers how many acquisitions with each option were let
/// through, and how many other commands did what they say.
fn reach_of(patterns: &[&str]) -> BTreeMap<&'static str, usize> {
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
    let seed = std::env::var("RLOCK_SEED").map_or((clock % 1_000_000) as u64, |seed| seed.parse().unwrap());
    println!("RLOCK_SEED={seed}");
    let (server, admin) = &mut TestServer::start_and_connect();
    others(admin);
    // A waiter of a channel without a subscriber leaves the queue.
    let _of_the_waiters = Subscriber::channel(server, "admin");
    let mut heard = Subscriber::pattern(server, "*");
    let commands = "+rlock.acquire +rlock.release +rlock.renew +rlock.cancel +rlock.info";
    let keys: String = patterns.iter().map(|pattern| format!(" ~{pattern}")).collect();
    let rules = format!("ACL SETUSER app on >secret resetchannels &locks.*{keys} {commands}");
    assert_eq!(say(admin, &rules), "OK");
    let app = &mut server.connect_as("app", "secret");
    let (before, waited) = (beyond_reach(admin, patterns), waiters(admin));
    let (dice, mut done, last) = (&mut Dice(seed), BTreeMap::new(), &mut (KEYS[0], OWNERS[0]));
    for number in 0..COMMANDS {
        let words = command(dice, last);
        let said = text(&ask(app, &words));
        assert!(!said.contains("internal error"), "{words:?}: {said}");
        let worked = (said == "1").then_some(words[0]);
        asked_for(&words, &said)
            .into_iter()
            .chain(worked)
            .for_each(|what| *done.entry(what).or_default() += 1);
        if number % 100 == 99 {
            assert_eq!(beyond_reach(admin, patterns), before, "after command {number}, {words:?}");
            assert_eq!(waiters(admin), waited, "after command {number}");
            for (channel, message) in heard.drain() {
                let channel = String::from_utf8_lossy(&channel).into_owned();
                let allowed = is_own_channel(patterns, &channel) || channel.starts_with("locks.");
                assert!(allowed, "{} on {channel}, by command {number}", message.escape_ascii());
            }
            // A lock that one command acquired for a minute would keep the later ones out for as long.
            for key in KEYS.iter().filter(|key| is_allowed(patterns, key) && **key != READ_BY_ANOTHER) {
                say(admin, &format!("RLOCK.FORCERELEASE {key}"));
            }
        }
    }
    // Leases and waits end in the timer, which has all permissions.
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(beyond_reach(admin, patterns), before);
    println!("{done:?}");
    done
}

/// Panics where the random commands have tried something too seldom to show anything.
#[track_caller]
fn was_tried(done: &BTreeMap<&str, usize>, options: &[&str]) {
    let others = ["plain", "WRITE", "to wait", "RLOCK.RELEASE", "RLOCK.RENEW"].iter().map(|what| (what, 10));
    for (what, least) in options.iter().map(|what| (what, 10)).chain(others).chain([(&"RLOCK.CANCEL", 1)]) {
        assert!(done.get(what).is_some_and(|times| *times >= least), "{what}: {done:?}");
    }
}

#[test]
fn a_user_of_locks_reaches_nothing_else() {
    let done = reach_of(&["locks:*"]);
    // To read where the lock has a hash tag.
    was_tried(&done, &["READ"]);
    assert!(!done.contains_key("FAIR") && !done.contains_key("FENCED"), "{done:?}");
}

#[test]
fn a_user_of_locks_and_their_keys_reaches_nothing_else() {
    was_tried(&reach_of(&ALL_THAT_BELONGS_TO_LOCKS), &["READ", "FAIR", "FENCED"]);
}
