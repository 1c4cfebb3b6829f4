//! Names that must not be used side by side: the keys of their locks have the same names, as in Redisson.

use rlock_testkit::prelude::*;

#[test]
fn a_name_and_the_same_in_braces_share_what_belongs_to_them() {
    let (_server, client) = &mut TestServer::start_and_connect();
    client.story(&[
        // They are two locks.
        ("SET redisson_lock_token:{x} 9007199254740000", "OK"),
        ("RLOCK.ACQUIRE x alice 100000 FENCED", "[1, 100000, 9007199254740001]"),
        ("RLOCK.ACQUIRE {x} bob 100000 FENCED", "[1, 100000, 9007199254740002]"),
        ("RLOCK.RELEASE {x} bob", "1"),
        // A fair waiter for one of them keeps other owners from the other.
        ("RLOCK.ACQUIRE x carol 100000 FAIR ENQUEUE 0 news", "[0, 0, 0]"),
        ("RLOCK.ACQUIRE {x} bob 100000 FAIR", "null"),
        ("RLOCK.ACQUIRE {y} bob 100000 FAIR", "[1, 100000, 0]"),
        // An owner that reads both loses both when it releases one of them.
        ("RLOCK.ACQUIRE r alice:1 100000 READ", "[1, 100000, 0]"),
        ("RLOCK.ACQUIRE {r} alice:1 100000 READ", "[1, 100000, 0]"),
        ("RLOCK.ACQUIRE {r} bob:1 100000 WRITE", "null"),
        ("RLOCK.RELEASE r alice:1", "1"),
        ("RLOCK.ACQUIRE {r} bob:1 100000 WRITE", "[1, 100000, 0]"),
    ]);
}

/// An owner reads a lock; another reads and releases a lock whose name is the first lock's, a colon and more. Returns
/// whether a writer can acquire the first lock beside its reader.
#[track_caller]
fn a_writer_comes_in(client: &mut Connection, read: [&str; 2], also_read: [&str; 2]) -> bool {
    let say = |client: &mut Connection, verb: &str, [name, owner]: [&str; 2], rest: &str| {
        say(client, &format!("RLOCK.{verb} {name} {owner} {rest}"))
    };
    assert_eq!(say(client, "ACQUIRE", read, "100000 READ"), "[1, 100000, 0]");
    assert_eq!(say(client, "ACQUIRE", also_read, "100000 READ"), "[1, 100000, 0]");
    assert_eq!(say(client, "RELEASE", also_read, ""), "1");
    let came_in = say(client, "ACQUIRE", [read[0], "writer"], "100000 WRITE") != "null";
    say(client, "FORCERELEASE", read, "");
    say(client, "FORCERELEASE", [read[0], "writer"], "");
    came_in
}

#[test]
fn a_name_with_a_brace_and_the_same_with_a_colon_and_more_share_leases() {
    let (_server, client) = &mut TestServer::start_and_connect();
    for name in ["h", "{h}"] {
        assert!(a_writer_comes_in(client, [name, "b:c"], ["{h}:b", "c"]), "{name}");
        // Names and owners with random parts do not match by chance.
        assert!(!a_writer_comes_in(client, [name, "b:c"], ["{h}:b", "d"]), "{name}");
        assert!(!a_writer_comes_in(client, [name, "c"], ["{h}:b", "c"]), "{name}");
        assert!(!a_writer_comes_in(client, [name, "8d9e1f:1"], ["{h}:b", "2c7a04:1"]), "{name}");
    }
    assert!(!a_writer_comes_in(client, ["h", "b:c"], ["h:b", "c"]));
    assert!(!a_writer_comes_in(client, ["a:{h}", "b:c"], ["a:b:{h}", "c"]));
    assert!(!a_writer_comes_in(client, ["{h}:b", "b:c"], ["{h}:c", "c"]));
}

#[test]
fn the_name_of_a_key_that_belongs_to_a_lock_is_not_a_name_for_another() {
    let (_server, client) = &mut TestServer::start_and_connect();
    let wrong_type = "!WRONGTYPE Operation against a key holding the wrong kind of value";
    client.story(&[
        ("RLOCK.ACQUIRE h alice 100000 READ", "[1, 100000, 0]"),
        ("RLOCK.ACQUIRE {h}:alice:rwlock_timeout:1 bob 100000", wrong_type),
        ("RLOCK.ACQUIRE redisson_lock_token:{i} bob 100000", "[1, 100000, 0]"),
    ]);
    assert!(say(client, "RLOCK.ACQUIRE i alice 100000 FENCED").starts_with("!WRONGTYPE "));
}

/// A user's patterns must end where all names that they allow are its own: `{h}:b*` allows the lease keys of `{h}`
/// that belong to `b…`.
#[test]
fn a_user_of_names_beneath_a_lock_reaches_its_readers() {
    let (server, admin) = &mut TestServer::start_and_connect();
    let commands = "+rlock.acquire +rlock.release +rlock.renew +rlock.cancel +rlock.info";
    let rules = format!("ACL SETUSER app on >secret resetchannels ~{{h}}:b* {commands}");
    assert_eq!(say(admin, &rules), "OK");
    let app = &mut server.connect_as("app", "secret");
    assert_eq!(say(admin, "RLOCK.ACQUIRE {h} b:c 100000 READ"), "[1, 100000, 0]");
    assert!(say(app, "RLOCK.RELEASE {h} b:c").starts_with("!NOPERM "));
    assert_eq!(say(admin, "RLOCK.ACQUIRE {h} writer 100000 WRITE"), "null");
    assert_eq!(say(app, "RLOCK.ACQUIRE {h}:b c 100000 READ"), "[1, 100000, 0]");
    assert_eq!(say(app, "RLOCK.RELEASE {h}:b c"), "1");
    assert_eq!(say(admin, "RLOCK.ACQUIRE {h} writer 100000 WRITE"), "[1, 100000, 0]");
}

const BAD_NAME: &str = "!ERR invalid lock name: use 1 to 1024 bytes";

/// Calls that may wait, or end a wait, for a lock of this name.
fn calls(name: &str) -> Vec<Vec<String>> {
    let words = |rest: &str| rest.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let ways = ["", " READ", " WRITE", " PERMITS 5", " FAIR", " FENCED", " SESSION 5", " BLOCK 0"];
    let all = ways.map(|way| format!("RLOCK.ACQUIRE _ me 100000{way}"));
    let more = ["RLOCK.ACQUIRE _ me 100000 ENQUEUE 0 news", "RLOCK.CANCEL _ me"].map(str::to_owned);
    let named = |word: String| if word == "_" { name.to_owned() } else { word };
    all.into_iter().chain(more).map(|line| words(&line).into_iter().map(named).collect()).collect()
}

#[test]
fn locks_are_acquired_and_awaited_under_names_of_1_to_1024_bytes() {
    let (_server, client) = &mut TestServer::start_and_connect();
    for name in [String::new(), "k".repeat(1_025), "k".repeat(300_000)] {
        // Of the right type or of a wrong one, the key is not read.
        for value in ["", "text"] {
            if !value.is_empty() {
                say_words(client, &["SET", &name, value]);
            }
            let before = state(client, &name);
            for words in calls(&name) {
                assert_eq!(say_words(client, &words), BAD_NAME, "{} bytes: {:?}", name.len(), &words[2..]);
            }
            assert_eq!(state(client, &name), before);
        }
        let script = "return redis.pcall('RLOCK.ACQUIRE', KEYS[1], 'me', 1000)";
        assert_eq!(say_words(client, &["EVAL", script, "1", &name]), BAD_NAME);
        say_words(client, &["DEL", &name]);
    }
    for name in ["k".to_owned(), "k".repeat(1_024)] {
        let acquire = ["RLOCK.ACQUIRE", &name, "me", "100000"];
        assert_eq!(say_words(client, &acquire), "[1, 100000, 0]");
        assert_eq!(say_words(client, &["RLOCK.CANCEL", &name, "me"]), "0");
        assert_eq!(say_words(client, &["RLOCK.RELEASE", &name, "me"]), "1");
    }
    assert_eq!(say(client, "DBSIZE"), "0");
}

/// Locks that Redisson's scripts hold, or an earlier version granted, may have any name.
#[test]
fn locks_under_longer_names_are_renewed_shown_and_released() {
    let (_server, client) = &mut TestServer::start_and_connect();
    for name in [String::new(), "k".repeat(1_025), "k".repeat(300_000)] {
        let hold = |client: &mut Connection| {
            say_words(client, &["HSET", &name, "me", "2"]);
            say_words(client, &["PEXPIRE", &name, "50000"]);
        };
        hold(client);
        assert_eq!(say_words(client, &["RLOCK.RENEW", &name, "me", "100000"]), "1");
        assert!(agrees(&say_words(client, &["PTTL", &name]), "~100000"));
        let info = say_words(client, &["RLOCK.INFO", &name]);
        assert!(info.contains(r#"["owner", "me", "mode", null, "holds", 2,"#), "{info}");
        assert_eq!(say_words(client, &["RLOCK.RENEW", &name, "me", "100000", "SESSION", "60000"]), "1");
        assert_eq!(say_words(client, &["RLOCK.RELEASE", &name, "me"]), "0");
        assert_eq!(say_words(client, &["RLOCK.RELEASE", &name, "me"]), "1");
        hold(client);
        assert_eq!(say_words(client, &["RLOCK.FORCERELEASE", &name]), "1");
    }
    assert_eq!(say(client, "DBSIZE"), "0");
}

/// A reader that another client made, with this number of holds.
fn reads(client: &mut Connection, name: &str, owner: &str, holds: usize) {
    say_words(client, &["HSET", name, "mode", "read", owner, &holds.to_string()]);
    let lease = format!("{{{name}}}:{owner}:rwlock_timeout:");
    for hold in 1..=holds {
        say_words(client, &["SET", &format!("{lease}{hold}"), "1", "PX", "50000"]);
    }
    say_words(client, &["PEXPIRE", name, "50000"]);
}

/// One call touches fewer lease keys of a reader under a longer name, the newest ones: the reader keeps its lock, and each release
/// hands the lease on.
#[test]
fn a_reader_under_a_long_name_is_renewed_by_its_newest_lease_keys() {
    const HOLDS: usize = 40;
    let (_server, client) = &mut TestServer::start_and_connect();
    // 1,536,000 bytes of names are fifteen of these.
    let name = "k".repeat(100_000);
    let lease = |hold: usize| format!("{{{name}}}:me:rwlock_timeout:{hold}");
    reads(client, &name, "me", HOLDS);
    assert_eq!(say_words(client, &["RLOCK.RENEW", &name, "me", "900000"]), "1");
    let renewed: Vec<usize> =
        (1..=HOLDS).filter(|hold| agrees(&say_words(client, &["PTTL", &lease(*hold)]), "~900000")).collect();
    assert_eq!(renewed, (26..=HOLDS).collect::<Vec<_>>());
    for left in (1..HOLDS).rev() {
        assert_eq!(say_words(client, &["RLOCK.RELEASE", &name, "me"]), "0");
        assert!(agrees(&say_words(client, &["PTTL", &lease(left)]), "~900000"), "{left}");
    }
    assert_eq!(say_words(client, &["RLOCK.RELEASE", &name, "me"]), "1");
    assert_eq!(say(client, "DBSIZE"), "0");
}
