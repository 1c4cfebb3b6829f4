//! What a restart finds: the locks, from an append only file or a snapshot, with the module or without.

use std::time::Duration;

use redis::Connection;
use rlock_testkit::commands::{say, say_words, story};
use rlock_testkit::waiting::Waiting;
use rlock_testkit::{ServerBuilder, TestServer, eventually};

/// A lock of any bytes.
const BINARY: &[u8] = b"\0\r\n{\xff";

/// Does everything to locks that can be done. One permit has ended then, and is still in the set.
#[track_caller]
pub(crate) fn use_locks(client: &mut Connection) {
    story(
        client,
        &[
            ("RLOCK.ACQUIRE taken alice 1000000", "[1, 1000000, 0]"),
            ("RLOCK.ACQUIRE taken bob 1000000", "null"),
            ("RLOCK.ACQUIRE again alice 1000000", "[1, 1000000, 0]"),
            ("RLOCK.ACQUIRE again alice 2000000", "[2, 2000000, 0]"),
            ("RLOCK.ACQUIRE again alice 2000000 HOLDS 3", "[3, ~2000000, 0]"),
            ("RLOCK.RELEASE again alice LEASE 900000", "0"),
            ("RLOCK.ACQUIRE renewed alice 1000000", "[1, 1000000, 0]"),
            ("RLOCK.RENEW renewed alice 3000000", "1"),
            ("HSET rest mode read", "1"),
            ("RLOCK.ACQUIRE rest alice 1000000", "[1, 1000000, 0]"),
            ("RLOCK.ACQUIRE freed alice 1000000", "[1, 1000000, 0]"),
            ("RLOCK.RELEASE freed alice", "1"),
            ("RLOCK.ACQUIRE forced alice 1000000", "[1, 1000000, 0]"),
            ("RLOCK.FORCERELEASE forced", "1"),
            ("MULTI", "OK"),
            ("RLOCK.ACQUIRE both alice 1000000", "QUEUED"),
            ("RLOCK.ACQUIRE both alice 1000 HOLDS 2", "QUEUED"),
            ("EXEC", "[[1, 1000000, 0], [2, ~1000000, 0]]"),
            ("EVAL return{redis.call('RLOCK.ACQUIRE','script','alice','1000000')} 0", "[[1, 1000000, 0]]"),
            ("RLOCK.ACQUIRE slots alice 1000000 PERMITS 3", "[1, 1000000, 0]"),
            ("RLOCK.ACQUIRE slots bob 900000 PERMITS 3", "[1, 900000, 0]"),
            ("RLOCK.ACQUIRE slots gone 1 PERMITS 3", "[1, 1, 0]"),
            ("SELECT 2", "OK"),
            ("RLOCK.ACQUIRE elsewhere alice 1000000", "[1, 1000000, 0]"),
            ("SELECT 0", "OK"),
        ],
    );
    assert_eq!(say_words(client, &[b"RLOCK.ACQUIRE", BINARY, b"\xfe\0", b"999999"]), "[1, 999999, 0]");
    std::thread::sleep(Duration::from_millis(5));
}

/// Every lock of [`use_locks`]: its holders and the time at which it expires.
#[track_caller]
pub(crate) fn locks(server: &TestServer) -> Vec<[String; 2]> {
    let client = &mut server.connect();
    let keys: [&[u8]; 9] =
        [b"taken", b"again", b"renewed", b"rest", b"freed", b"forced", b"both", b"script", BINARY];
    let mut read = |key: &[u8]| [&b"HGETALL"[..], b"PEXPIRETIME"].map(|word| say_words(client, &[word, key]));
    let mut locks = keys.map(&mut read).to_vec();
    let permits = ["ZRANGE slots 0 -1 WITHSCORES", "PEXPIRETIME slots"].map(|line| say(client, line));
    say(client, "SELECT 2");
    let elsewhere = ["HGETALL elsewhere", "PEXPIRETIME elsewhere"].map(|line| say(client, line));
    locks.extend([permits, elsewhere]);
    locks
}

/// Shows that a server with the locks of [`use_locks`] serves them on.
#[track_caller]
pub(crate) fn goes_on(server: &TestServer) {
    let client = &mut server.connect();
    story(
        client,
        &[
            ("RLOCK.ACQUIRE taken bob 1000", "null"),
            ("RLOCK.ACQUIRE taken alice 1000 HOLDS 2", "[2, ~1000000, 0]"),
            ("RLOCK.RELEASE again alice", "0"),
            ("RLOCK.RELEASE again alice", "1"),
            ("RLOCK.RENEW renewed alice 100000", "1"),
            ("RLOCK.RENEW freed alice 100000", "0"),
            ("RLOCK.ACQUIRE freed bob 100000", "[1, 100000, 0]"),
            ("RLOCK.ACQUIRE forced bob 100000", "[1, 100000, 0]"),
            ("RLOCK.FORCERELEASE both alice", "1"),
            ("RLOCK.ACQUIRE slots carol 1000 PERMITS 2", "null"),
            ("RLOCK.RENEW slots alice 1000000", "1"),
            ("RLOCK.RENEW slots gone 1000", "0"),
        ],
    );
    let carol = Waiting::line(server, "RLOCK.ACQUIRE slots carol 2000000 PERMITS 2 BLOCK 0");
    story(client, &[("RLOCK.RELEASE slots bob", "1")]);
    assert_eq!(carol.answer(), "[1, 2000000, 0]");
    story(client, &[("ZRANGE slots 0 -1", r#"["alice", "carol"]"#)]);
    assert_eq!(say_words(client, &[b"RLOCK.RELEASE", BINARY, b"\xfe\0"]), "1");
}

fn with_aof() -> ServerBuilder {
    // A command that was answered is on the disk.
    TestServer::builder().conf("appendonly", "yes").conf("appendfsync", "always")
}

/// From the AOF as it was written or rewritten, or from a snapshot.
#[test]
fn what_was_kept_is_loaded_without_the_module_and_with_it() {
    let [preamble, without] =
        ["yes", "no"].map(|preamble| move || with_aof().conf("aof-use-rdb-preamble", preamble));
    let ways: [(&str, bool, &dyn Fn() -> ServerBuilder); 5] = [
        ("PING", false, &with_aof),
        ("PING", true, &with_aof),
        ("BGREWRITEAOF", true, &preamble),
        ("BGREWRITEAOF", true, &without),
        ("SAVE", true, &TestServer::builder),
    ];
    for (number, (keep, kill, build)) in ways.into_iter().enumerate() {
        let server = build().start();
        use_locks(&mut server.connect());
        let before = locks(&server);
        assert_eq!((before[1][0].as_str(), &before[4]), (r#"["alice", "2"]"#, &["[]".into(), "-2".into()]));
        assert!(!say(&mut server.connect(), keep).starts_with('!'));
        eventually("the rewrite", Duration::from_secs(20), || {
            let info = server.info("persistence");
            let done = info["aof_rewrite_in_progress"] == "0" && info["aof_rewrite_scheduled"] == "0";
            done.then_some(())
        });
        assert_eq!(server.info("persistence")["aof_last_bgrewrite_status"], "ok");
        let stopped = if kill { server.kill9() } else { server.shutdown() };
        let plain = build().without_module().dir(stopped).start();
        assert_eq!(locks(&plain), before, "way {number}: {keep}");
        assert!(say(&mut plain.connect(), "RLOCK.INFO taken").starts_with("!ERR unknown command"));
        goes_on(&build().dir(plain.shutdown()).start());
    }
}

#[test]
fn a_reload_keeps_the_locks() {
    let server = TestServer::start();
    use_locks(&mut server.connect());
    let before = locks(&server);
    story(&mut server.connect(), &[("DEBUG RELOAD", "OK")]);
    assert_eq!(locks(&server), before);
    goes_on(&server);
}

#[test]
fn a_lease_ends_also_while_the_server_is_down() {
    let server = with_aof().start();
    assert_eq!(say(&mut server.connect(), "RLOCK.ACQUIRE lock alice 100"), "[1, 100, 0]");
    let data = server.kill9();
    std::thread::sleep(Duration::from_millis(200));
    let server = with_aof().dir(data).start();
    assert_eq!(say(&mut server.connect(), "RLOCK.ACQUIRE lock bob 100000"), "[1, 100000, 0]");
}
