//! Redisson's fair queues after a restart and after a fail-over: natives that stood in them are gone with the server
//! that they waited at, and those behind them must not wait for as long as each of them had asked for.

use rlock_testkit::fair_list::{HOUR, MINUTE, ahead, awaited, counted_as_gone_in_time, list};
use rlock_testkit::prelude::*;

/// The list is on both.
fn primary_and_replica() -> (TestServer, TestServer) {
    let (primary, replica) = (TestServer::start(), TestServer::start());
    replica.replicate_from(&primary);
    awaited(&mut primary.connect());
    wait_for_replicas_in_sync(&primary, &replica);
    (primary, replica)
}

#[test]
fn a_waiter_from_before_a_restart_counts_as_gone_in_time() {
    let server = TestServer::builder().with_aof().start();
    let client = &mut server.connect();
    // In a database that is not the first, among many other keys.
    client.story(&[("SELECT 3", "OK")]);
    ask(client, &["EVAL", "for i = 1, 3000 do redis.call('SET', 'k' .. i, i) end", "0"]);
    awaited(client);
    let stopped = server.kill9();
    let server = TestServer::builder().conf("appendonly", "yes").dir(stopped).start();
    let client = &mut server.connect();
    client.story(&[("SELECT 3", "OK")]);
    is_met(client);
    counted_as_gone_in_time(client);
    // A native that asks again keeps its place.
    client.story(&[("RLOCK.ACQUIRE lock n0 60000 FAIR ENQUEUE 0 news:{lock}", "[0, 0, 0]")]);
    assert_eq!(list(client), r#"["n0", "n1", "n2", "n3", "java:1"]"#);
}

#[test]
fn a_waiter_of_the_former_primary_counts_as_gone_in_time() {
    let (primary, replica) = primary_and_replica();
    let client = &mut replica.connect();
    // Nothing is written by a replica.
    std::thread::sleep(Duration::from_millis(500));
    assert!(ahead(client, "java:1") > HOUR);
    drop(primary);
    client.story(&[("REPLICAOF NO ONE", "OK")]);
    is_met(client);
    counted_as_gone_in_time(client);
}

/// A release calls the head of the list, and so meets the list.
#[test]
fn a_release_meets_the_list() {
    let (primary, replica) = primary_and_replica();
    drop(primary);
    let client = &mut replica.connect();
    client.story(&[("REPLICAOF NO ONE", "OK"), ("RLOCK.RELEASE lock alice", "1")]);
    wait_for("the deadlines to be bounded", || ahead(client, "java:1") < HOUR / 2);
    // That was the first time. From now on this server knows the waiters.
    let far = server_time(client) + 3 * HOUR;
    client.story(&[(&format!("ZADD redisson_lock_timeout:{{lock}} {far} java:1"), "0")]);
    client.story(&[("RLOCK.ACQUIRE lock n0 60000", "[1, 60000, 0]"), ("RLOCK.RELEASE lock n0", "1")]);
    std::thread::sleep(Duration::from_millis(300));
    assert!(ahead(client, "java:1") > 2 * HOUR);
}

/// A list that no native touches is left as it is: each dead owner costs Redisson's clients its own deadline.
#[test]
fn a_list_that_no_native_touches_is_left_alone() {
    let server = TestServer::builder().with_aof().start();
    awaited(&mut server.connect());
    let server = TestServer::builder().conf("appendonly", "yes").dir(server.kill9()).start();
    let client = &mut server.connect();
    client.story(&[("RLOCK.ACQUIRE other n0 60000", "[1, 60000, 0]"), ("RLOCK.RELEASE other n0", "1")]);
    std::thread::sleep(Duration::from_millis(300));
    assert!(ahead(client, "java:1") > HOUR);
}

/// A stranger asks with FAIR, and so meets the list.
#[track_caller]
fn is_met(client: &mut Connection) {
    assert!(ahead(client, "java:1") > HOUR);
    client.story(&[("RLOCK.ACQUIRE lock stranger 1000 FAIR", "null")]);
}

/// An owner that asks at the new primary again stands in its old place, and its deadline is kept by the module.
#[test]
fn natives_that_wait_again_are_left_alone() {
    let (primary, replica) = primary_and_replica();
    drop(primary);
    let client = &mut replica.connect();
    // In one turn of the loop with the promotion: it waits here before the list is checked.
    let mut both = redis::pipe();
    both.cmd("REPLICAOF").arg(&["NO", "ONE"]);
    both.cmd("RLOCK.ACQUIRE").arg(&["lock", "n3", "60000", "FAIR", "ENQUEUE", "0", "news:{lock}"]);
    assert_eq!(text(&both.query(client).unwrap()), "[OK, [0, 0, 0]]");
    wait_for("the deadlines to be bounded", || ahead(client, "java:1") < HOUR / 2);
    assert!(ahead(client, "n2") < 7 * MINUTE && ahead(client, "n3") > 15 * MINUTE);
}

/// `lock` and `{lock}` share one list. The lease was read from `lock`, which does not exist, so the waiters counted as
/// gone long before the lease of `{lock}` had ended.
#[test]
fn a_waiter_for_a_lock_in_braces_does_not_count_as_gone_before_the_lease_ends() {
    let server = TestServer::builder().with_aof().start();
    let client = &mut server.connect();
    let far = server_time(client) + 3 * HOUR;
    client.story(&[
        (&format!("RLOCK.ACQUIRE {{lock}} alice {HOUR}"), &format!("[1, {HOUR}, 0]")),
        ("RPUSH redisson_lock_queue:{lock} java:1", "1"),
        (&format!("ZADD redisson_lock_timeout:{{lock}} {far} java:1"), "1"),
    ]);
    let server = TestServer::builder().conf("appendonly", "yes").dir(server.kill9()).start();
    let client = &mut server.connect();
    client.story(&[("RLOCK.ACQUIRE {lock} stranger 1000 FAIR", "null")]);
    wait_for("the deadline to be bounded", || ahead(client, "java:1") < 2 * HOUR);
    assert!(ahead(client, "java:1") > HOUR, "{}", ahead(client, "java:1"));
}
