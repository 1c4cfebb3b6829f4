//! What the server itself refuses, before or instead of the module.

use std::fs;
use std::thread;

use rlock_testkit::prelude::*;

const OOM: &str = "!OOM command not allowed when used memory > 'maxmemory'.";

/// Every command that writes, for a lock `held` by `alice` and for a `free` one.
const WRITES: [&str; 10] = [
    "RLOCK.ACQUIRE held alice 300000",
    "RLOCK.ACQUIRE held bob 300000",
    "RLOCK.ACQUIRE free alice 300000",
    "RLOCK.RELEASE held alice",
    "RLOCK.RELEASE held bob",
    "RLOCK.RELEASE free alice ALL",
    "RLOCK.RENEW held alice 300000",
    "RLOCK.RENEW free alice 300000",
    "RLOCK.FORCERELEASE held",
    "RLOCK.FORCERELEASE held bob",
];

const HELD: (&str, &str) = ("RLOCK.ACQUIRE held alice 100000", "[1, 100000, 0]");

/// Every command that writes is refused with `prefix` and changes nothing; asking works.
#[track_caller]
fn refuses_every_write(client: &mut Connection, prefix: &str) {
    let before = state(client, "held");
    assert_eq!(before[0], "hash");
    for line in WRITES {
        let answer = say(client, line);
        assert!(answer.starts_with(prefix), "{line}: {answer}");
    }
    assert_eq!(state(client, "held"), before);
    client.story(&[("EXISTS free", "0")]);
    let info = say(client, "RLOCK.INFO held");
    assert!(info.contains(r#""owner", "alice""#), "{info}");
}

#[test]
fn out_of_memory_refuses_acquire_only() {
    let server = TestServer::builder().conf("maxmemory-policy", "noeviction").start();
    let mut client = server.connect();
    let full = ("CONFIG SET maxmemory 1", "OK");
    let more_holds = ("HSET held alice 3", "0");
    client.story(&[HELD, more_holds, ("RLOCK.ACQUIRE other bob 100000", "[1, 100000, 0]"), full]);
    let before = state(&mut client, "held");
    client.story(&[
        ("RLOCK.ACQUIRE free bob 100000", OOM),
        ("RLOCK.ACQUIRE held bob 100000", OOM),
        ("RLOCK.ACQUIRE held alice 300000", OOM),
        ("RLOCK.ACQUIRE held alice 300000 HOLDS 3", OOM),
    ]);
    assert_eq!(state(&mut client, "held"), before);
    client.story(&[
        ("RLOCK.RELEASE held alice", "0"),
        ("RLOCK.RELEASE held alice HOLDS 1 LEASE 300000", "0"),
        ("RLOCK.RENEW held alice 600000", "1"),
        ("PTTL held", "~600000"),
        ("HGETALL held", r#"["alice", "1"]"#),
        ("RLOCK.RELEASE held alice", "1"),
        ("RLOCK.RELEASE held alice", "null"),
        ("RLOCK.FORCERELEASE other", "1"),
        ("RLOCK.FORCERELEASE other", "0"),
        ("DBSIZE", "0"),
        ("CONFIG SET maxmemory 0", "OK"),
        ("RLOCK.ACQUIRE free bob 100000", "[1, 100000, 0]"),
    ]);
}

#[test]
fn out_of_memory_refuses_acquire_in_a_script_as_well() {
    let (_server, client) = &mut TestServer::start_and_connect();
    client.story(&[HELD, ("CONFIG SET maxmemory 1", "OK")]);
    let mut run = |line: &str| {
        // Without a shebang line a script runs although memory is full, until it calls a refused command.
        let script = ["EVAL", "return redis.call(unpack(ARGV))", "0"];
        say_words(client, &script.into_iter().chain(line.split(' ')).collect::<Vec<_>>())
    };
    assert!(run("RLOCK.ACQUIRE free bob 5").starts_with("!OOM "));
    assert_eq!(run("RLOCK.RENEW held alice 300000"), "1");
    assert_eq!(run("RLOCK.RELEASE held alice"), "1");
}

#[test]
fn a_read_only_replica_refuses_writes() {
    let (primary, replica) = (TestServer::start(), TestServer::start());
    primary.connect().story(&[HELD]);
    replica.replicate_from(&primary);
    refuses_every_write(&mut replica.connect(), "!READONLY ");
}

#[test]
fn too_few_replicas_refuse_writes() {
    let (_server, client) = &mut TestServer::start_and_connect();
    client.story(&[HELD, ("CONFIG SET min-replicas-to-write 1", "OK")]);
    refuses_every_write(client, "!NOREPLICAS ");
    client.story(&[("CONFIG SET min-replicas-to-write 0", "OK"), ("RLOCK.RELEASE held alice", "1")]);
}

#[test]
fn a_failed_snapshot_refuses_writes() {
    let (server, client) = &mut TestServer::builder().conf("save", "3600 1").start_and_connect();
    client.story(&[HELD]);
    // The snapshot cannot take the place of a directory.
    fs::create_dir(server.dir().join("dump.rdb")).unwrap();
    say(client, "BGSAVE");
    eventually("the snapshot to fail", Duration::from_secs(30), || {
        (server.info("persistence")["rdb_last_bgsave_status"] == "err").then_some(())
    });
    refuses_every_write(client, "!MISCONF ");
}

#[test]
fn a_replica_that_has_lost_its_primary_may_refuse_to_tell() {
    let server = TestServer::builder().conf("replica-serve-stale-data", "no").start();
    let mut client = server.connect();
    // No server listens there.
    client.story(&[HELD, ("REPLICAOF 127.0.0.1 1", "OK"), ("RLOCK.INFO held", "!MASTERDOWN …")]);
    client.story(&[("REPLICAOF NO ONE", "OK"), ("RLOCK.RENEW held alice 300000", "1")]);
}

#[test]
fn a_server_that_is_loading_refuses_everything() {
    let (server, client) = &mut TestServer::builder().conf("save", "3600 1").start_and_connect();
    client.story(&[HELD]);
    // Keys that take a second to be loaded, and between which the server answers.
    for key in 0..100 {
        say_words(client, &["SET", &format!("slow:{key}"), &"x".repeat(2048)]);
    }
    client.story(&[
        ("CONFIG SET rdbcompression no", "OK"),
        ("CONFIG SET loading-process-events-interval-bytes 1024", "OK"),
        ("CONFIG SET key-load-delay 20000", "OK"),
    ]);
    let mut other = server.connect();
    thread::scope(|scope| {
        let reload = scope.spawn(|| say(client, "DEBUG RELOAD"));
        eventually("the server to load", Duration::from_secs(10), || {
            say(&mut other, "RLOCK.RENEW held alice 300000").starts_with("!LOADING ").then_some(())
        });
        assert_eq!(reload.join().unwrap(), "OK");
    });
    other.story(&[("RLOCK.RENEW held alice 600000", "1"), ("PTTL held", "~600000")]);
}
