//! Wrong arguments: each error line exactly, and that nothing happens besides.

use rlock_testkit::prelude::*;

const OWNER: &str = "!ERR invalid owner: use 1 to 512 bytes, not 'mode' and not ending in ':write'";
const LEASE: &str = "!ERR invalid lease: use an integer from 1 to 8796093022208 (milliseconds)";
const HOLDS_FROM_1: &str = "!ERR invalid HOLDS: use an integer from 1 to 9007199254740992";
const HOLDS_FROM_0: &str = "!ERR invalid HOLDS: use an integer from 0 to 9007199254740992";
const LIMIT: &str = "!ERR invalid LIMIT: use an integer from 0 to 4294967295";
const ALL_AND_HOLDS: &str = "!ERR ALL and HOLDS exclude each other; ALL means HOLDS 0";

/// Strings of any size that are not an integer as the server writes it.
pub(crate) const NO_INTEGERS: [&str; 24] = [
    "",
    "-",
    "+1",
    "-0",
    "00",
    "01",
    "007",
    " 1",
    "1 ",
    "1\n",
    "1\0",
    "\t1",
    "1.0",
    "1.5",
    "1e3",
    "0x10",
    "1_000",
    "1,000",
    "one",
    "\u{661}",
    "99999999999999999999",
    "9223372036854775808",
    "nan",
    "30s",
];

fn unknown(word: &str) -> String {
    format!("!ERR unknown option '{word}'; see COMMAND DOCS")
}

#[test]
fn wrong_numbers_of_arguments_are_refused() {
    let (_server, client) = &mut TestServer::start_and_connect();
    let cases = [
        ("ACQUIRE", ["", "lock", "lock me"].as_slice()),
        ("RELEASE", &["", "lock"]),
        ("RENEW", &["", "lock", "lock me"]),
        ("INFO", &[""]),
        ("FORCERELEASE", &["", "lock me you", "lock me ALL", "lock me HOLDS 0"]),
    ];
    for (name, argument_lists) in cases {
        let line = format!("!ERR wrong number of arguments for 'rlock.{}' command", name.to_lowercase());
        for arguments in argument_lists {
            assert_eq!(say(client, &format!("RLOCK.{name} {arguments}")), line, "{arguments}");
        }
    }
}

#[test]
fn bad_owners_are_refused() {
    let (_server, client) = &mut TestServer::start_and_connect();
    let (too_long, write) = ([b'o'; 513], [&[b'o'; 506][..], b":write"].concat());
    let owners: [&[u8]; 8] =
        [b"", b"mode", b":write", b"me:write", b"\0:write", b":write:write", &too_long, &write];
    for owner in owners {
        let commands: [&[&[u8]]; 6] = [
            &[b"RLOCK.ACQUIRE", b"lock", owner, b"100000"],
            &[b"RLOCK.ACQUIRE", b"lock", owner, b"100000", b"HOLDS", b"1"],
            &[b"RLOCK.RELEASE", b"lock", owner],
            &[b"RLOCK.RELEASE", b"lock", owner, b"ALL"],
            &[b"RLOCK.RENEW", b"lock", owner, b"100000"],
            &[b"RLOCK.FORCERELEASE", b"lock", owner],
        ];
        for command in commands {
            assert_eq!(say_words(client, command), OWNER, "{}", command.join(&b' ').escape_ascii());
        }
    }
    assert_eq!(say(client, "DBSIZE"), "0");
}

#[test]
fn bad_leases_are_refused() {
    let (_server, client) = &mut TestServer::start_and_connect();
    client.story(&[("RLOCK.ACQUIRE held me 100000", "[1, 100000, 0]"), ("HSET held me 5", "0")]);
    let before = state(client, "held");
    let out_of_range = ["0", "-1", "-30000", "8796093022209", "9223372036854775807", "-9223372036854775808"];
    for lease in out_of_range.iter().chain(&NO_INTEGERS) {
        for key in ["held", "free"] {
            let commands: [&[&str]; 6] = [
                &["RLOCK.ACQUIRE", key, "me", lease],
                &["RLOCK.ACQUIRE", key, "me", lease, "HOLDS", "1"],
                &["RLOCK.RENEW", key, "me", lease],
                &["RLOCK.RELEASE", key, "me", "LEASE", lease],
                &["RLOCK.RELEASE", key, "me", "ALL", "LEASE", lease],
                &["RLOCK.RELEASE", key, "me", "LEASE", lease, "HOLDS", "2"],
            ];
            for command in commands {
                assert_eq!(say_words(client, command), LEASE, "{command:?}");
            }
        }
    }
    assert_eq!(state(client, "held"), before);
    assert_eq!(say(client, "DBSIZE"), "1");
}

#[test]
fn bad_counts_and_limits_are_refused() {
    let (_server, client) = &mut TestServer::start_and_connect();
    let counts = ["-1", "9007199254740993", "9223372036854775807", "ALL", "LEASE"];
    for count in counts.iter().chain(&NO_INTEGERS) {
        let acquire = ["RLOCK.ACQUIRE", "lock", "me", "100000", "HOLDS", count];
        assert_eq!(say_words(client, &acquire), HOLDS_FROM_1, "{acquire:?}");
        let release = ["RLOCK.RELEASE", "lock", "me", "HOLDS", count];
        assert_eq!(say_words(client, &release), HOLDS_FROM_0, "{release:?}");
    }
    assert_eq!(say(client, "RLOCK.ACQUIRE lock me 100000 HOLDS 0"), HOLDS_FROM_1);
    for limit in ["-1", "4294967296", "9223372036854775807", "LIMIT"].iter().chain(&NO_INTEGERS) {
        assert_eq!(say_words(client, &["RLOCK.INFO", "lock", "LIMIT", limit]), LIMIT, "{limit:?}");
    }
    assert_eq!(say(client, "DBSIZE"), "0");
}

#[test]
fn words_come_in_any_case_and_order_but_once() {
    let (_server, client) = &mut TestServer::start_and_connect();
    let seven = ("HSET lock me 7", "0");
    client.story(&[
        ("RLOCK.ACQUIRE lock me 100000 holds 1", "[1, 100000, 0]"),
        ("RLOCK.ACQUIRE lock me 100000 HoLdS 2", "[2, ~100000, 0]"),
        seven,
        ("RLOCK.RELEASE lock me HOLDS 5 LEASE 300000", "0"),
        ("PTTL lock", "~300000"),
        ("RLOCK.RELEASE lock me lease 600000 holds 4", "0"),
        ("PTTL lock", "~600000"),
        ("HGET lock me", r#""4""#),
        ("rlock.release lock me Lease 100000 all", "1"),
        ("RLOCK.INFO lock limit 4294967296", LIMIT),
    ]);
}

#[test]
fn words_are_given_once_and_with_their_value() {
    let (_server, client) = &mut TestServer::start_and_connect();
    for (line, word) in [
        ("RLOCK.ACQUIRE lock me 100000 HOLDS 1 HOLDS 1", "HOLDS"),
        ("RLOCK.ACQUIRE lock me 100000 HOLDS 1 holds 2", "HOLDS"),
        ("RLOCK.RELEASE lock me HOLDS 1 HOLDS 1", "HOLDS"),
        ("RLOCK.RELEASE lock me HOLDS 1 LEASE 5 HOLDS 1", "HOLDS"),
        ("RLOCK.RELEASE lock me ALL ALL", "ALL"),
        ("RLOCK.RELEASE lock me LEASE 5 all LEASE 5", "LEASE"),
        ("RLOCK.INFO lock LIMIT 1 LIMIT 1", "LIMIT"),
        ("RLOCK.ACQUIRE lock me 100000 BLOCK 1 BLOCK 1", "BLOCK"),
        ("RLOCK.ACQUIRE lock me 100000 FENCED fenced", "FENCED"),
        ("RLOCK.ACQUIRE lock me 100000 FAIR FAIR", "FAIR"),
        ("RLOCK.ACQUIRE lock me 100000 WRITE write", "WRITE"),
    ] {
        client.story(&[(line, &format!("!ERR {word} appears twice; use it once"))]);
    }
    for (line, word) in [
        ("RLOCK.ACQUIRE lock me 100000 HOLDS", "HOLDS"),
        ("RLOCK.RELEASE lock me holds", "HOLDS"),
        ("RLOCK.RELEASE lock me ALL LEASE", "LEASE"),
        ("RLOCK.INFO lock LIMIT", "LIMIT"),
        ("RLOCK.ACQUIRE lock me 100000 BLOCK", "BLOCK"),
        ("RLOCK.ACQUIRE lock me 100000 ENQUEUE", "ENQUEUE"),
    ] {
        client.story(&[(line, &format!("!ERR {word} needs a value"))]);
    }
}

#[test]
fn all_and_holds_exclude_each_other() {
    let (_server, client) = &mut TestServer::start_and_connect();
    client.story(&[
        ("RLOCK.ACQUIRE lock me 100000", "[1, 100000, 0]"),
        ("RLOCK.RELEASE lock me ALL HOLDS 0", ALL_AND_HOLDS),
        ("RLOCK.RELEASE lock me HOLDS 0 ALL", ALL_AND_HOLDS),
        ("RLOCK.RELEASE lock me holds 3 lease 100000 all", ALL_AND_HOLDS),
        ("HGETALL lock", r#"["me", "1"]"#),
    ]);
}

#[test]
fn unknown_words_are_repeated_readably() {
    let (_server, client) = &mut TestServer::start_and_connect();
    let lines = [
        ("RLOCK.ACQUIRE lock me 5 HOLD 1", "HOLD"),
        ("RLOCK.ACQUIRE lock me 5 ALL", "ALL"),
        ("RLOCK.ACQUIRE lock me 5 LEASE 5", "LEASE"),
        ("RLOCK.ACQUIRE lock me 5 5", "5"),
        ("RLOCK.RELEASE lock me 30000", "30000"),
        ("RLOCK.RELEASE lock me LIMIT 1", "LIMIT"),
        ("RLOCK.RENEW lock me 5 HOLDS 1", "HOLDS"),
        ("RLOCK.RENEW lock me 5 6", "6"),
        ("RLOCK.INFO lock HOLDS 1", "HOLDS"),
        ("RLOCK.INFO lock me", "me"),
    ];
    for (line, word) in lines {
        assert_eq!(say(client, line), unknown(word), "{line}");
    }
    let words: [(&[u8], &str); 4] = [
        (b"", ""),
        (b"a\r\n-ERR \0\xff'", r"a\r\n-ERR \x00\xff\'"),
        (b"HOLDS\0", r"HOLDS\x00"),
        (&[b'x'; 1000], &"x".repeat(64)),
    ];
    for (word, shown) in words {
        let release: [&[u8]; 4] = [b"RLOCK.RELEASE", b"lock", b"me", word];
        assert_eq!(say_words(client, &release), unknown(shown));
    }
}

#[test]
fn holds_cannot_exceed_the_maximum() {
    let most = "!ERR the owner has 9007199254740992 holds, the maximum; release some first";
    let (_server, client) = &mut TestServer::start_and_connect();
    client.story(&[
        ("HSET lock me 9007199254740991", "1"),
        ("RLOCK.ACQUIRE lock me 5", "[9007199254740992, -1, 0]"),
        ("RLOCK.ACQUIRE lock me 5", most),
        ("RLOCK.ACQUIRE lock me 5 HOLDS 9007199254740992", "[9007199254740992, -1, 0]"),
        ("HGETALL lock", r#"["me", "9007199254740992"]"#),
        ("RLOCK.RELEASE lock me", "0"),
        ("RLOCK.ACQUIRE lock me 5", "[9007199254740992, -1, 0]"),
        ("RLOCK.ACQUIRE lock you 5", "null"),
    ]);
}

/// Commands that are wrong whatever the key `_` holds.
const ALWAYS_WRONG: [&str; 15] = [
    "ACQUIRE _ mode 5",
    "ACQUIRE _ me 0",
    "ACQUIRE _ me 5 HOLDS 0",
    "ACQUIRE _ me 5 FAIR READ",
    "ACQUIRE _ me",
    "RELEASE _ mode",
    "RELEASE _ me ALL HOLDS 0",
    "RELEASE _ me LEASE 0",
    "RELEASE _ me ALL x",
    "RELEASE _",
    "RENEW _ mode 5",
    "RENEW _ me 0",
    "RENEW _ me 5 x",
    "FORCERELEASE _ mode",
    "FORCERELEASE _ me x",
];

/// Keys of every kind, the last of which is not there, and what ACQUIRE by `me` answers to the others.
const KEYS: [&str; 6] = ["held", "full", "shared", "hash", "text", "free"];
const WRONG_FOR: [(&str, &str); 4] =
    [("full", "!ERR "), ("shared", "!WRONGLOCK "), ("hash", "!WRONGLOCK "), ("text", "!WRONGTYPE ")];

/// Makes every error that the keys above can give.
#[track_caller]
fn make_every_error(client: &mut Connection) {
    for (line, key) in ALWAYS_WRONG.iter().flat_map(|line| KEYS.map(|key| (line, key))) {
        let answer = say(client, &format!("RLOCK.{}", line.replace('_', key)));
        assert!(answer.starts_with("!ERR "), "{line}, {key}: {answer}");
    }
    for (key, prefix) in WRONG_FOR {
        let answer = say(client, &format!("RLOCK.ACQUIRE {key} me 5"));
        assert!(answer.starts_with(prefix), "{key}: {answer}");
    }
}

#[test]
fn an_error_changes_nothing() {
    let server = TestServer::builder().conf("notify-keyspace-events", "KEA").start();
    let (client, mut watcher) = (&mut server.connect(), server.connect());
    client.story(&[
        ("RLOCK.ACQUIRE held me 100000", "[1, 100000, 0]"),
        ("HSET full me 9007199254740992", "1"),
        ("HSET shared mode read me 1", "2"),
        ("HSET hash name value", "1"),
        ("SET text 1", "OK"),
    ]);
    let before = KEYS.map(|key| state(client, key));
    let mut heard = Subscriber::connect(&server).psubscribe(&["__key*", "redisson*"]);
    let mut stream = ReplicaStream::open(&server);
    let changes = || server.info("persistence")["rdb_changes_since_last_save"].clone();
    let changes_before = changes();
    watcher.story(&[("WATCH held full shared hash text free", "OK")]);
    make_every_error(client);
    assert_eq!(KEYS.map(|key| state(client, key)), before);
    assert!(stream.so_far(&server).is_empty(), "nothing is replicated");
    assert_eq!(heard.drain(), [], "nothing is published");
    assert_eq!(changes(), changes_before);
    watcher.story(&[("MULTI", "OK"), ("PING", "QUEUED"), ("EXEC", "[PONG]")]);
}
