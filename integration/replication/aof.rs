//! What a restart finds: the locks, from an append only file or a snapshot, with the module or without.

use std::time::Duration;

use redis::Connection;
use rlock_testkit::commands::{say, say_words, story};
use rlock_testkit::{DataDir, ServerBuilder, TestServer, eventually};

/// A lock of any bytes.
const BINARY: &[u8] = b"\0\r\n{\xff";

/// Does everything to locks that can be done.
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
            ("SELECT 2", "OK"),
            ("RLOCK.ACQUIRE elsewhere alice 1000000", "[1, 1000000, 0]"),
            ("SELECT 0", "OK"),
        ],
    );
    assert_eq!(say_words(client, &[b"RLOCK.ACQUIRE", BINARY, b"\xfe\0", b"999999"]), "[1, 999999, 0]");
}

/// Every lock of [`use_locks`]: its hash and the time at which it expires.
#[track_caller]
pub(crate) fn locks(server: &TestServer) -> Vec<[String; 2]> {
    let client = &mut server.connect();
    let keys: [&[u8]; 9] =
        [b"taken", b"again", b"renewed", b"rest", b"freed", b"forced", b"both", b"script", BINARY];
    let mut read = |key: &[u8]| [&b"HGETALL"[..], b"PEXPIRETIME"].map(|word| say_words(client, &[word, key]));
    let mut locks = keys.map(&mut read).to_vec();
    say(client, "SELECT 2");
    let read = ["HGETALL elsewhere", "PEXPIRETIME elsewhere"].map(|line| say(client, line));
    locks.push(read);
    locks
}

/// Shows on data of [`use_locks`] that a server with the module serves the locks on.
#[track_caller]
fn goes_on(builder: ServerBuilder, data: impl Into<DataDir>) {
    let server = builder.dir(data).start();
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
            ("RLOCK.ACQUIRE forced bob 100000", "[1, 100000, 0]"),
            ("RLOCK.FORCERELEASE both alice", "1"),
        ],
    );
    assert_eq!(say_words(client, &[b"RLOCK.RELEASE", BINARY, b"\xfe\0"]), "1");
}

fn with_aof() -> ServerBuilder {
    // A command that was answered is on the disk.
    TestServer::builder().conf("appendonly", "yes").conf("appendfsync", "always")
}

#[test]
fn an_aof_is_replayed_without_the_module() {
    let server = with_aof().start();
    use_locks(&mut server.connect());
    let before = locks(&server);
    assert_eq!(before[1][0], r#"["alice", "2"]"#);
    assert_eq!(before[4], ["[]", "-2"]);
    let plain = with_aof().without_module().dir(server.shutdown()).start();
    assert_eq!(locks(&plain), before, "after SHUTDOWN");
    assert!(say(&mut plain.connect(), "RLOCK.INFO taken").starts_with("!ERR unknown command"));
    let server = with_aof().dir(plain.shutdown()).start();
    assert_eq!(locks(&server), before, "with the module");
    story(
        &mut server.connect(),
        &[("RLOCK.ACQUIRE taken alice 1000", "[2, ~1000000, 0]"), ("RLOCK.RELEASE again alice ALL", "1")],
    );
    let before = locks(&server);
    let plain = with_aof().without_module().dir(server.kill9()).start();
    assert_eq!(locks(&plain), before, "after SIGKILL");
}

#[test]
fn a_restart_goes_on_where_the_aof_ends() {
    let server = with_aof().start();
    use_locks(&mut server.connect());
    goes_on(with_aof(), server.shutdown());
    let server = with_aof().start();
    use_locks(&mut server.connect());
    goes_on(with_aof(), server.kill9());
}

#[test]
fn a_rewritten_aof_is_replayed_without_the_module() {
    for preamble in ["yes", "no"] {
        let build = || with_aof().conf("aof-use-rdb-preamble", preamble);
        let server = build().start();
        use_locks(&mut server.connect());
        let before = locks(&server);
        assert!(!say(&mut server.connect(), "BGREWRITEAOF").starts_with('!'));
        eventually("the rewrite", Duration::from_secs(20), || {
            let info = server.info("persistence");
            let done = info["aof_rewrite_in_progress"] == "0" && info["aof_rewrite_scheduled"] == "0";
            done.then_some(())
        });
        assert_eq!(server.info("persistence")["aof_last_bgrewrite_status"], "ok");
        let plain = build().without_module().dir(server.kill9()).start();
        assert_eq!(locks(&plain), before, "aof-use-rdb-preamble {preamble}");
        goes_on(build(), plain.shutdown());
    }
}

#[test]
fn a_snapshot_is_loaded_without_the_module() {
    let server = TestServer::start();
    use_locks(&mut server.connect());
    assert_eq!(say(&mut server.connect(), "SAVE"), "OK");
    let before = locks(&server);
    let plain = TestServer::builder().without_module().dir(server.kill9()).start();
    assert_eq!(locks(&plain), before);
    goes_on(TestServer::builder(), plain.shutdown());
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
