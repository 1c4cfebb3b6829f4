//! Servers that are demoted, and are the primary again before they have another primary's data.
//!
//! A release granted the lock to a blocked client, but the server was demoted before it sent the answer: the client
//! received `UNBLOCKED`, and the grant stayed for its whole lease. Redis answers blocked clients in this way, Valkey
//! 9 sends the grant; a killed client stands for one that does not learn of its grant.

use std::thread::sleep;
use std::time::Duration;

use redis::{Connection, ConnectionLike};
use rlock_testkit::commands;
use rlock_testkit::commands::{SOON, counter, is_at_rest, number, say, story};
use rlock_testkit::waiting::Waiting;
use rlock_testkit::{TestServer, eventually, wait_for_replicas_in_sync};

const ALICE: (&str, &str) = ("RLOCK.ACQUIRE lock alice 600000", "[1, 600000, 0]");
const RELEASE: &str = "RLOCK.RELEASE lock alice";
/// No server listens here: a replica of this address keeps its data.
const DEMOTE: &str = "REPLICAOF 127.0.0.1 1";
const PROMOTE: &str = "REPLICAOF NO ONE";
/// Longer than the timer takes for anything.
const A_WHILE: Duration = Duration::from_millis(300);

/// Sends all lines in one event-loop cycle; the answers do not matter.
fn at_once(client: &mut Connection, lines: &[&str]) {
    let mut pipe = redis::pipe();
    for line in lines {
        let words: Vec<&str> = line.split(' ').collect();
        pipe.cmd(words[0]).arg(&words[1..]);
    }
    let answers = client.req_packed_commands(&pipe.get_packed_pipeline(), 0, lines.len());
    assert_eq!(answers.expect("answers").len(), lines.len());
}

fn block(server: &TestServer, owner: &str) -> Waiting {
    Waiting::start(server, &["RLOCK.ACQUIRE", "lock", owner, "600000", "BLOCK", "0"])
}

fn is_free(client: &mut Connection) {
    eventually("the grant to be revoked", SOON, || (number(client, "EXISTS lock") == 0).then_some(()));
}

/// Bob is granted the lock and does not learn it: by that time the server is the replica of an unreachable primary.
fn granted_and_demoted(replica: Option<&TestServer>) -> (TestServer, Connection) {
    let server = TestServer::start();
    let mut client = server.connect();
    story(&mut client, &[ALICE]);
    replica.into_iter().for_each(|replica| replica.replicate_from(&server));
    let bob = block(&server, "bob");
    at_once(&mut client, &[RELEASE, DEMOTE, &format!("CLIENT KILL ID {}", bob.client_id())]);
    assert!(!bob.outcome(SOON).is_ok_and(|answer| commands::text(&answer).starts_with('[')));
    (server, client)
}

#[test]
fn a_client_that_was_unblocked_holds_nothing_when_the_server_is_primary_again() {
    for kill in [false, true] {
        let server = TestServer::start();
        let mut client = server.connect();
        story(&mut client, &[ALICE]);
        let bob = block(&server, "bob");
        let kill = kill.then(|| format!("CLIENT KILL ID {}", bob.client_id()));
        let lines = [Some(RELEASE), Some(DEMOTE), kill.as_deref(), Some(PROMOTE)];
        at_once(&mut client, &lines.into_iter().flatten().collect::<Vec<_>>());
        match bob.outcome(SOON) {
            // It knows that it holds the lock, and does.
            Ok(granted) if kill.is_none() && commands::text(&granted) == "[1, 600000, 0]" => {
                sleep(A_WHILE);
                story(&mut client, &[("RLOCK.RELEASE lock bob", "1")]);
            }
            Ok(other) => panic!("bob was answered {}", commands::text(&other)),
            Err(_) => {
                is_free(&mut client);
                assert_eq!(counter(&server, "revokes"), 1);
            }
        }
    }
}

#[test]
fn a_replica_revokes_nothing_until_it_is_primary_again() {
    let (server, mut client) = granted_and_demoted(None);
    sleep(A_WHILE);
    story(&mut client, &[("HGETALL lock", r#"["bob", "1"]"#), (PROMOTE, "OK")]);
    is_free(&mut client);
    assert!(is_at_rest(&mut client));
    drop(server);
}

/// The grant ends with its lease.
#[test]
fn a_replica_has_no_timer_though_there_is_a_grant_to_revoke() {
    let (server, mut client) = granted_and_demoted(None);
    assert!(is_at_rest(&mut client));
    story(&mut client, &[("HGETALL lock", r#"["bob", "1"]"#)]);
    drop(server);
}

#[test]
fn an_owner_that_was_heard_from_on_a_writable_replica_keeps_its_grant() {
    let (server, mut client) = granted_and_demoted(None);
    story(&mut client, &[("CONFIG SET replica-read-only no", "OK")]);
    assert!(say(&mut client, "RLOCK.ACQUIRE lock bob 1 HOLDS 1").starts_with("[1, "));
    story(&mut client, &[(PROMOTE, "OK")]);
    sleep(A_WHILE);
    story(&mut client, &[("RLOCK.RELEASE lock bob", "1")]);
    drop(server);
}

/// Another server was the primary meanwhile, and the owner asks again there: it gets the answer that it holds the
/// lock, and nothing changes, since the lease is long enough.
#[test]
fn what_another_primary_has_said_is_not_revoked() {
    for partial in [true, false] {
        let other = TestServer::start();
        let (server, mut client) = granted_and_demoted(Some(&other));
        let mut there = other.connect();
        eventually("the grant to be replicated", SOON, || {
            (say(&mut there, "HGETALL lock") == r#"["bob", "1"]"#).then_some(())
        });
        story(&mut there, &[(PROMOTE, "OK")]);
        if !partial {
            // Its history is a different one from here on.
            story(&mut there, &[(DEMOTE, "OK"), (PROMOTE, "OK")]);
        }
        assert!(say(&mut there, "RLOCK.ACQUIRE lock bob 1 HOLDS 1").starts_with("[1, "));
        server.replicate_from(&other);
        wait_for_replicas_in_sync(&other, &server);
        let stats = other.info("stats");
        let accepted = stats.get("sync_partial_ok").map(String::as_str);
        assert_eq!(accepted == Some("1"), partial, "{accepted:?}");
        story(&mut client, &[(PROMOTE, "OK")]);
        sleep(A_WHILE);
        story(&mut client, &[("RLOCK.RELEASE lock bob", "1")]);
    }
}

const LIST: &str = "redisson_lock_queue:{lock}";
const DEADLINES: &str = "redisson_lock_timeout:{lock}";

/// Starts this number of blocked and enqueued FAIR waiters, behind a Redisson waiter.
fn wait_in_the_list(
    server: &TestServer,
    client: &mut Connection,
    blocked: usize,
    enqueued: usize,
) -> Vec<Waiting> {
    let far = "9000000000000";
    story(client, &[ALICE]);
    story(
        client,
        &[(&format!("RPUSH {LIST} uuid:1"), "1"), (&format!("ZADD {DEADLINES} {far} uuid:1"), "1")],
    );
    let wait = |n| {
        let owner = format!("b{n}");
        Waiting::start(server, &["RLOCK.ACQUIRE", "lock", &owner, "600000", "FAIR", "BLOCK", "0"])
    };
    let blocked = (0..blocked).map(wait).collect();
    let mut pipe = redis::pipe();
    for n in 0..enqueued {
        let command = pipe.cmd("RLOCK.ACQUIRE").arg("lock").arg(format!("e{n}")).arg(600_000).arg("FAIR");
        command.arg("ENQUEUE").arg(0).arg("unheard").ignore();
    }
    pipe.query::<()>(client).expect("they are enqueued");
    blocked
}

#[test]
fn waiters_sent_away_leave_the_fair_list_when_the_server_is_primary_again() {
    let server = TestServer::start();
    let mut client = server.connect();
    let blocked = wait_in_the_list(&server, &mut client, 20, 1_500);
    at_once(&mut client, &[DEMOTE, PROMOTE]);
    blocked.iter().for_each(|waiting| assert!(waiting.outcome(SOON).is_err()));
    for key in [LIST, DEADLINES] {
        let all = format!("{} {key} 0 -1", if key == LIST { "LRANGE" } else { "ZRANGE" });
        eventually("they leave the list", SOON, || (say(&mut client, &all) == r#"["uuid:1"]"#).then_some(()));
    }
    story(&mut client, &[(RELEASE, "1")]);
    assert!(is_at_rest(&mut client));
}

/// The list belongs to the new primary while the server is a replica, and for good once the server has its data.
#[test]
fn a_replica_removes_no_waiter_from_the_fair_list() {
    let (server, other) = (TestServer::start(), TestServer::start());
    let mut client = server.connect();
    other.replicate_from(&server);
    let blocked = wait_in_the_list(&server, &mut client, 3, 600);
    wait_for_replicas_in_sync(&server, &other);
    story(&mut client, &[(DEMOTE, "OK")]);
    blocked.iter().for_each(|waiting| assert!(waiting.outcome(SOON).is_err()));
    eventually("all to be sent away", SOON, || (counter(&server, "waiters") == 0).then_some(()));
    sleep(A_WHILE);
    assert_eq!(number(&mut client, &format!("LLEN {LIST}")), 604);
    story(&mut other.connect(), &[(PROMOTE, "OK")]);
    server.replicate_from(&other);
    story(&mut client, &[(PROMOTE, "OK")]);
    sleep(A_WHILE);
    assert_eq!(number(&mut client, &format!("LLEN {LIST}")), 604);
}
