//! Permits on several servers and over restarts: replicas, promotion, AOF, snapshots, slots that move.

use std::time::Duration;

use redis::Connection;
use rlock_testkit::commands::{say, story};
use rlock_testkit::nodes::{Cluster, asking};
use rlock_testkit::waiting::Waiting;
use rlock_testkit::{ServerBuilder, TestServer, wait_for_replicas_in_sync};

/// Two of three permits are out; one has ended, and is still in the set.
#[track_caller]
fn two_of_three(client: &mut Connection) {
    story(
        client,
        &[
            ("RLOCK.ACQUIRE slots alice 1000000 PERMITS 3", "[1, 1000000, 0]"),
            ("RLOCK.ACQUIRE slots bob 900000 PERMITS 3", "[1, 900000, 0]"),
            ("RLOCK.ACQUIRE slots gone 1 PERMITS 3", "[1, 1, 0]"),
        ],
    );
    std::thread::sleep(Duration::from_millis(5));
}

/// Whoever serves the permits now knows who has them, and hands them on.
#[track_caller]
fn goes_on(server: &TestServer) {
    let client = &mut server.connect();
    story(
        client,
        &[
            ("RLOCK.ACQUIRE slots carol 1000 PERMITS 2", "null"),
            ("RLOCK.RENEW slots alice 1000000", "1"),
            ("RLOCK.RENEW slots gone 1000", "0"),
        ],
    );
    let carol = Waiting::line(server, "RLOCK.ACQUIRE slots carol 2000000 PERMITS 2 BLOCK 0");
    story(client, &[("RLOCK.RELEASE slots bob", "1")]);
    assert_eq!(carol.answer(), "[1, 2000000, 0]");
    story(client, &[("ZRANGE slots 0 -1", r#"["alice", "carol"]"#)]);
}

fn permits(server: &TestServer) -> [String; 2] {
    let client = &mut server.connect();
    ["ZRANGE slots 0 -1 WITHSCORES", "PEXPIRETIME slots"].map(|line| say(client, line))
}

fn with_aof() -> ServerBuilder {
    TestServer::builder().conf("appendonly", "yes").conf("appendfsync", "always")
}

#[test]
fn a_restart_goes_on_where_the_aof_ends() {
    let server = with_aof().start();
    two_of_three(&mut server.connect());
    let before = permits(&server);
    let plain = with_aof().without_module().dir(server.kill9()).start();
    assert_eq!(permits(&plain), before, "the AOF needs no module");
    goes_on(&with_aof().dir(plain.shutdown()).start());
}

#[test]
fn a_reload_keeps_permits() {
    let server = TestServer::start();
    two_of_three(&mut server.connect());
    let before = permits(&server);
    story(&mut server.connect(), &[("DEBUG RELOAD", "OK")]);
    assert_eq!(permits(&server), before);
    goes_on(&server);
}

#[test]
fn a_promoted_replica_goes_on() {
    let (primary, replica) = (TestServer::start(), TestServer::start());
    let without = TestServer::builder().without_module().start();
    replica.replicate_from(&primary);
    without.replicate_from(&primary);
    two_of_three(&mut primary.connect());
    wait_for_replicas_in_sync(&primary, &replica);
    wait_for_replicas_in_sync(&primary, &without);
    assert_eq!(permits(&without), permits(&primary), "a replica needs no module");
    let client = &mut replica.connect();
    let info = say(client, "RLOCK.INFO slots");
    assert!(info.contains(r#""holder-count", 2"#), "{info}");
    story(client, &[("REPLICAOF NO ONE", "OK")]);
    goes_on(&replica);
}

#[test]
fn who_waits_for_a_permit_is_sent_away_by_a_demotion() {
    let (primary, other) = (TestServer::start(), TestServer::start());
    story(&mut primary.connect(), &[("RLOCK.ACQUIRE slots alice 1000000 PERMITS 1", "[1, 1000000, 0]")]);
    let bob = Waiting::line(&primary, "RLOCK.ACQUIRE slots bob 1000 PERMITS 1 BLOCK 0");
    primary.replicate_from(&other);
    let answer = bob.answer();
    assert!(answer.starts_with("!UNBLOCKED "), "{answer}");
}

#[test]
fn permits_move_with_their_slot() {
    let cluster = Cluster::start();
    let [first, second] = &mut cluster.clients();
    story(
        first,
        &[
            ("RLOCK.ACQUIRE lock alice 1000000 PERMITS 2", "[1, 1000000, 0]"),
            ("RLOCK.ACQUIRE lock bob 900000 PERMITS 2", "[1, 900000, 0]"),
        ],
    );
    let carol = Waiting::line(&cluster.nodes[0], "RLOCK.ACQUIRE lock carol 1000 PERMITS 2 BLOCK 0");
    cluster.begin_to_move();
    cluster.move_lock();
    let answer = carol.answer();
    assert!(answer.starts_with("!UNBLOCKED ") && answer.contains("slot"), "{answer}");
    assert_eq!(asking(second, "RLOCK.ACQUIRE lock carol 1000 PERMITS 2"), "null");
    assert_eq!(asking(second, "RLOCK.RENEW lock bob 900000"), "1");
    cluster.end_move();
    let carol = Waiting::line(&cluster.nodes[1], "RLOCK.ACQUIRE lock carol 50000 PERMITS 2 BLOCK 0");
    story(second, &[("RLOCK.RELEASE lock alice", "1")]);
    assert_eq!(carol.answer(), "[1, 50000, 0]");
}
