//! How far a user reaches who may lock `locks:*` and nothing else: by no command, option, name or channel to another
//! lock, to a key beside the locks, or to a channel that is not the lock's own or one the user may use. Random commands
//! of nasty names; a failure prints the seed, and `RLOCK_SEED` runs it again.

mod waiting;

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redis::Connection;
use rlock_testkit::{Subscriber, TestServer};
use waiting::{ask, say, text};

const COMMANDS: usize = 6_000;

/// Names of locks and of what belongs to other locks, to be used as keys.
const KEYS: [&str; 22] = [
    "locks:1",
    "locks:2",
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

const OWNERS: [&str; 8] =
    ["bob", "alice", "bob:1", "}:{other:1}", "{other:2}:bob", "x:rwlock_timeout:1", "other:1", "*"];

const CHANNELS: [&str; 7] = [
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

/// A command that may do something.
fn command(dice: &mut Dice) -> Vec<&'static str> {
    let (key, owner) = (dice.one(&KEYS), dice.one(&OWNERS));
    let mut words = match dice.below(8) {
        0..4 => {
            let mut words = vec!["RLOCK.ACQUIRE", key, owner, dice.one(&["1", "40", "60000"])];
            for option in ["READ", "WRITE", "FAIR", "FENCED"] {
                words.extend((dice.below(4) == 0).then_some(option));
            }
            match dice.below(5) {
                0 => words.extend(["BLOCK", "1"]),
                1 | 2 => words.extend(["ENQUEUE", "50", dice.one(&CHANNELS)]),
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

/// Everything that is there, but for what the user may write: what is in each key and whether it ends.
fn beyond_reach(admin: &mut Connection) -> BTreeMap<String, String> {
    let keys: Vec<Vec<u8>> = redis::cmd("KEYS").arg("*").query(admin).unwrap();
    let beyond = keys.into_iter().filter(|key| !key.starts_with(b"locks:"));
    beyond
        .map(|key| {
            let facts = [&b"DUMP"[..], b"PEXPIRETIME"].map(|word| text(&ask(admin, &[word, &key])));
            (key.escape_ascii().to_string(), facts.join(" "))
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
    for line in lines {
        let said = say(admin, line);
        assert!(!said.starts_with('!'), "{line}: {said}");
    }
}

fn waiters(admin: &mut Connection) -> Vec<String> {
    ["other:1", "other:2"].map(|key| waiting::waiters(admin, key)).to_vec()
}

#[test]
fn who_may_lock_reaches_nothing_else() {
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
    let seed = std::env::var("RLOCK_SEED").map_or((clock % 1_000_000) as u64, |seed| seed.parse().unwrap());
    println!("RLOCK_SEED={seed}");
    let server = TestServer::start();
    let admin = &mut server.connect();
    others(admin);
    let mut heard = Subscriber::pattern(&server, "*");
    let commands = "+rlock.acquire +rlock.release +rlock.renew +rlock.cancel +rlock.info";
    let rules = format!("ACL SETUSER app on >secret resetchannels &locks.* ~locks:* {commands}");
    assert_eq!(say(admin, &rules), "OK");
    let app = &mut server.connect_as("app", "secret");
    let (before, waited) = (beyond_reach(admin), waiters(admin));
    let (dice, mut done) = (&mut Dice(seed), 0);
    for number in 0..COMMANDS {
        let words = command(dice);
        let said = text(&ask(app, &words));
        assert!(!said.contains("internal error"), "{words:?}: {said}");
        done += usize::from(!said.starts_with('!'));
        if number % 100 == 99 {
            assert_eq!(beyond_reach(admin), before, "after command {number}, {words:?}");
            assert_eq!(waiters(admin), waited, "after command {number}");
            for (channel, message) in heard.drain() {
                let channel = String::from_utf8_lossy(&channel).into_owned();
                let own = ["redisson_lock__channel:", "redisson_rwlock:"].iter().any(|prefix| {
                    let name = channel.strip_prefix(prefix);
                    name.is_some_and(|name| name.starts_with("{locks:") || name.starts_with("locks:"))
                });
                let allowed = own || channel.starts_with("locks.");
                assert!(allowed, "{} on {channel}, by command {number}", message.escape_ascii());
            }
        }
    }
    // Else this would show nothing.
    assert!(done > COMMANDS / 10, "only {done} commands were let through");
    // What ends by itself goes through the timer, which has all permissions.
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(beyond_reach(admin), before);
}
