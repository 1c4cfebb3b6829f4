//! CANCEL: ending a wait from outside.

use std::time::Duration;

use redis::Connection;
use rlock_testkit::commands::{counter, say, story, transaction};
use rlock_testkit::waiting::{Waiting, waiters};
use rlock_testkit::{Subscriber, TestServer};

const ALICE: (&str, &str) = ("RLOCK.ACQUIRE lock alice 100000", "[1, 100000, 0]");

fn start() -> (TestServer, Connection) {
    let server = TestServer::start();
    let mut client = server.connect();
    story(&mut client, &[ALICE]);
    (server, client)
}

#[track_caller]
fn wait(server: &TestServer, owner: &str) -> Waiting {
    Waiting::start(server, &["RLOCK.ACQUIRE", "lock", owner, "50000", "BLOCK", "60000"])
}

#[test]
fn answers_one_or_zero() {
    let (server, mut client) = start();
    story(&mut client, &[("RLOCK.CANCEL lock bob", "0"), ("RLOCK.CANCEL free bob", "0")]);
    let [bob, carol, dave] = ["bob", "carol", "dave"].map(|owner| wait(&server, owner));
    story(&mut client, &[("RLOCK.CANCEL lock carol", "1"), ("RLOCK.CANCEL lock carol", "0")]);
    assert_eq!(carol.answer(), "null");
    assert_eq!(waiters(&mut client, "lock"), "bob dave");
    for (line, answer) in [
        ("RLOCK.CANCEL lock eve", "0"),
        ("RLOCK.CANCEL other bob", "0"),
        ("RLOCK.CANCEL lock alice", "0"),
        ("RLOCK.CANCEL lock BOB", "0"),
        ("HGETALL lock", r#"["alice", "1"]"#),
    ] {
        story(&mut client, &[(line, answer)]);
    }
    story(&mut client, &[("SELECT 1", "OK"), ("RLOCK.CANCEL lock bob", "0"), ("SELECT 0", "OK")]);
    assert!(bob.still_waits() && dave.still_waits());
    // The first in the queue.
    story(&mut client, &[("RLOCK.CANCEL lock bob", "1"), ("RLOCK.RELEASE lock alice", "1")]);
    assert_eq!((bob.answer().as_str(), dave.answer().as_str()), ("null", "[1, 50000, 0]"));
    assert_eq!(counter(&server, "cancelled"), 2);
}

#[test]
fn cancels_in_transactions_and_scripts() {
    let (server, mut client) = start();
    let (bob, carol) = (wait(&server, "bob"), wait(&server, "carol"));
    let lines = ["RLOCK.CANCEL lock bob", "RLOCK.RELEASE lock alice", "HKEYS lock"];
    assert_eq!(transaction(&mut client, &lines), r#"[1, 1, ["carol"]]"#);
    assert_eq!((bob.answer().as_str(), carol.answer().as_str()), ("null", "[1, 50000, 0]"));
    let dave = wait(&server, "dave");
    story(&mut client, &[("EVAL return{redis.call('RLOCK.CANCEL',KEYS[1],'dave')} 1 lock", "[1]")]);
    assert_eq!(dave.answer(), "null");
}

#[test]
fn a_client_whose_wait_was_cancelled_may_wait_again() {
    let (server, mut client) = start();
    for _ in 0..3 {
        let bob = wait(&server, "bob");
        story(&mut client, &[("RLOCK.CANCEL lock bob", "1")]);
        assert_eq!(bob.answer(), "null");
    }
    let (carol, bob) = (wait(&server, "carol"), wait(&server, "bob"));
    assert_eq!(waiters(&mut client, "lock"), "carol bob");
    story(&mut client, &[("RLOCK.RELEASE lock alice", "1"), ("RLOCK.RELEASE lock carol", "1")]);
    assert_eq!((carol.answer().as_str(), bob.answer().as_str()), ("[1, 50000, 0]", "[1, 50000, 0]"));
}

#[test]
fn an_enqueued_waiter_gets_no_message() {
    let (server, mut client) = start();
    let mut outcomes = Subscriber::channel(&server, "outcomes");
    let enqueue = ("RLOCK.ACQUIRE lock bob 50000 ENQUEUE 1000 outcomes", "[0, 0, 0]");
    story(&mut client, &[enqueue, ("RLOCK.CANCEL lock bob", "1"), ("RLOCK.CANCEL lock bob", "0")]);
    assert_eq!(waiters(&mut client, "lock"), "");
    // Not at the end of its wait either, nor when the lock is free.
    outcomes.none_within(Duration::from_millis(1_500));
    story(&mut client, &[("RLOCK.RELEASE lock alice", "1"), ("EXISTS lock", "0")]);
    assert_eq!(outcomes.drain(), []);
}

#[test]
fn who_was_granted_the_lock_keeps_it() {
    let (server, mut client) = start();
    let bob = wait(&server, "bob");
    // The grant has not reached bob's client yet.
    let lines = ["RLOCK.RELEASE lock alice", "RLOCK.CANCEL lock bob"];
    assert_eq!(transaction(&mut client, &lines), "[1, 0]");
    assert_eq!(bob.answer(), "[1, 50000, 0]");
    story(&mut client, &[("RLOCK.CANCEL lock bob", "0"), ("HGETALL lock", r#"["bob", "1"]"#)]);
    // A lock that is free by now goes to the waiter first, whom nothing is left to cancel for.
    let carol = wait(&server, "carol");
    assert_eq!(transaction(&mut client, &["DEL lock", "RLOCK.CANCEL lock carol"]), "[1, 0]");
    assert_eq!(carol.answer(), "[1, 50000, 0]");
    story(&mut client, &[("RLOCK.RELEASE lock carol", "1"), ("EXISTS lock", "0")]);
}

#[test]
fn wrong_calls_are_refused() {
    let (_server, mut client) = start();
    let arity = "!ERR wrong number of arguments for 'rlock.cancel' command";
    for (line, answer) in [
        ("RLOCK.CANCEL", arity),
        ("RLOCK.CANCEL lock", arity),
        ("RLOCK.CANCEL lock bob now", arity),
        ("RLOCK.CANCEL lock mode", "!ERR invalid owner"),
        ("RLOCK.CANCEL lock bob:write", "!ERR invalid owner"),
    ] {
        let said = say(&mut client, line).to_lowercase();
        assert!(said.starts_with(&answer.to_lowercase()), "{line}: {said}");
    }
}
