//! Redisson's fair queues after a restart and after a fail-over: natives that stood in them are gone with the server
//! that they waited at, and those behind them must not wait for as long as each of them had asked for.

mod redisson;
mod waiting;

use std::time::Duration;

use redis::Connection;
use redisson::{FAIR_TAKES, run_fair};
use rlock_testkit::{TestServer, eventually, wait_for_replicas_in_sync};
use waiting::{SOON, say, server_time, story};

const HOUR: i64 = 3_600_000;
const MINUTE: i64 = 60_000;

/// Alice holds the lock; four natives wait for it, and one of Redisson's behind them for an hour.
#[track_caller]
fn awaited(client: &mut Connection) {
    story(client, &[("RLOCK.ACQUIRE lock alice 100000", "[1, 100000, 0]")]);
    for n in 0..4 {
        let line = format!("RLOCK.ACQUIRE lock n{n} 60000 FAIR ENQUEUE 0 news");
        assert_eq!(say(client, &line), "[0, 0, 0]");
    }
    let now = server_time(client);
    assert_ne!(run_fair(client, FAIR_TAKES, "lock", "java:1", HOUR, now), "null");
    assert_eq!(list(client), r#"["n0", "n1", "n2", "n3", "java:1"]"#);
    assert!(ahead(client, "n3") > 20 * MINUTE && ahead(client, "java:1") > HOUR);
}

#[track_caller]
fn list(client: &mut Connection) -> String {
    say(client, "LRANGE redisson_lock_queue:{lock} 0 -1")
}

/// How many ms are left before an owner counts as gone.
#[track_caller]
fn ahead(client: &mut Connection, owner: &str) -> i64 {
    let score = say(client, &format!("ZSCORE redisson_lock_timeout:{{lock}} {owner}"));
    let score: f64 = score.trim_matches('"').parse().unwrap_or_else(|_| panic!("{owner}: {score}"));
    score as i64 - server_time(client)
}

/// All are in their places still, and none counts as alive for longer than five minutes after the lease, and a turn more
/// than the one before it.
#[track_caller]
fn counted_as_gone_in_time(client: &mut Connection) {
    eventually("the deadlines to be bounded", SOON, || (ahead(client, "java:1") < HOUR / 2).then_some(()));
    assert_eq!(list(client), r#"["n0", "n1", "n2", "n3", "java:1"]"#);
    for (owner, turns) in [("n0", 0), ("n1", 1), ("n2", 2), ("n3", 3), ("java:1", 4)] {
        let ahead = ahead(client, owner);
        let least = 5 * MINUTE;
        assert!((least..=least + 100_000 + turns * 5_000).contains(&ahead), "{owner}: {ahead} ms");
    }
}

#[test]
fn who_waited_before_a_restart_counts_as_gone_in_time() {
    let server = TestServer::builder().conf("appendonly", "yes").conf("appendfsync", "always").start();
    let client = &mut server.connect();
    // In a database that is not the first, among many other keys.
    story(client, &[("SELECT 3", "OK")]);
    waiting::ask(client, &["EVAL", "for i = 1, 3000 do redis.call('SET', 'k' .. i, i) end", "0"]);
    awaited(client);
    let stopped = server.kill9();
    let server = TestServer::builder().conf("appendonly", "yes").dir(stopped).start();
    let client = &mut server.connect();
    story(client, &[("SELECT 3", "OK")]);
    counted_as_gone_in_time(client);
    // A native that asks again keeps its place.
    story(client, &[("RLOCK.ACQUIRE lock n0 60000 FAIR ENQUEUE 0 news", "[0, 0, 0]")]);
    assert_eq!(list(client), r#"["n0", "n1", "n2", "n3", "java:1"]"#);
}

#[test]
fn who_waited_at_the_primary_before_counts_as_gone_in_time() {
    let (primary, replica) = (TestServer::start(), TestServer::start());
    replica.replicate_from(&primary);
    awaited(&mut primary.connect());
    wait_for_replicas_in_sync(&primary, &replica);
    let client = &mut replica.connect();
    // Nothing is written by a replica.
    std::thread::sleep(Duration::from_millis(500));
    assert!(ahead(client, "java:1") > HOUR);
    drop(primary);
    story(client, &[("REPLICAOF NO ONE", "OK")]);
    counted_as_gone_in_time(client);
}

/// Who asks at the new primary with the same owner stands in its old place, and its deadline is kept by the module.
#[test]
fn natives_that_wait_again_are_left_alone() {
    let (primary, replica) = (TestServer::start(), TestServer::start());
    replica.replicate_from(&primary);
    awaited(&mut primary.connect());
    wait_for_replicas_in_sync(&primary, &replica);
    drop(primary);
    let client = &mut replica.connect();
    // In one turn of the loop with the promotion: it waits here before the list is looked at.
    let mut both = redis::pipe();
    both.cmd("REPLICAOF").arg(&["NO", "ONE"]);
    both.cmd("RLOCK.ACQUIRE").arg(&["lock", "n3", "60000", "FAIR", "ENQUEUE", "0", "news"]);
    assert_eq!(waiting::text(&both.query(client).unwrap()), "[OK, [0, 0, 0]]");
    eventually("the deadlines to be bounded", SOON, || (ahead(client, "java:1") < HOUR / 2).then_some(()));
    assert!(ahead(client, "n2") < 7 * MINUTE && ahead(client, "n3") > 15 * MINUTE);
}
