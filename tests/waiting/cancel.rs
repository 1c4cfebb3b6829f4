//! CANCEL: ending a wait from outside.

use rlock_testkit::prelude::*;

#[test]
fn answers_one_or_zero() {
    let (server, client) = &mut held();
    client.story(&[("RLOCK.CANCEL lock bob", "0"), ("RLOCK.CANCEL free bob", "0")]);
    let [bob, carol, dave] = ["bob", "carol", "dave"].map(|owner| block(server, owner));
    client.story(&[("RLOCK.CANCEL lock carol", "1"), ("RLOCK.CANCEL lock carol", "0")]);
    assert_eq!(carol.answer(), "null");
    assert_eq!(waiters(client, "lock"), "bob dave");
    for (line, answer) in [
        ("RLOCK.CANCEL lock eve", "0"),
        ("RLOCK.CANCEL other bob", "0"),
        ("RLOCK.CANCEL lock alice", "0"),
        ("RLOCK.CANCEL lock BOB", "0"),
        ("HGETALL lock", r#"["alice", "1"]"#),
    ] {
        client.story(&[(line, answer)]);
    }
    client.story(&[("SELECT 1", "OK"), ("RLOCK.CANCEL lock bob", "0"), ("SELECT 0", "OK")]);
    assert!(bob.still_waits() && dave.still_waits());
    // The first in the queue.
    client.story(&[("RLOCK.CANCEL lock bob", "1"), ("RLOCK.RELEASE lock alice", "1")]);
    assert_eq!((bob.answer().as_str(), dave.answer().as_str()), ("null", "[1, 50000, 0]"));
    assert_eq!(counter(server, "cancelled"), 2);
}

#[test]
fn cancels_in_transactions_and_scripts() {
    let (server, client) = &mut held();
    let (bob, carol) = (block(server, "bob"), block(server, "carol"));
    let lines = ["RLOCK.CANCEL lock bob", "RLOCK.RELEASE lock alice", "HKEYS lock"];
    assert_eq!(transaction(client, &lines), r#"[1, 1, ["carol"]]"#);
    assert_eq!((bob.answer().as_str(), carol.answer().as_str()), ("null", "[1, 50000, 0]"));
    let dave = block(server, "dave");
    client.story(&[("EVAL return{redis.call('RLOCK.CANCEL',KEYS[1],'dave')} 1 lock", "[1]")]);
    assert_eq!(dave.answer(), "null");
}

#[test]
fn a_client_whose_wait_was_cancelled_may_wait_again() {
    let (server, client) = &mut held();
    for _ in 0..3 {
        let bob = block(server, "bob");
        client.story(&[("RLOCK.CANCEL lock bob", "1")]);
        assert_eq!(bob.answer(), "null");
    }
    let (carol, bob) = (block(server, "carol"), block(server, "bob"));
    assert_eq!(waiters(client, "lock"), "carol bob");
    client.story(&[("RLOCK.RELEASE lock alice", "1"), ("RLOCK.RELEASE lock carol", "1")]);
    assert_eq!((carol.answer().as_str(), bob.answer().as_str()), ("[1, 50000, 0]", "[1, 50000, 0]"));
}

#[test]
fn an_enqueued_waiter_gets_no_message() {
    let (_server, client, outcomes) = &mut held_and_listen("outcomes");
    let enqueue = ("RLOCK.ACQUIRE lock bob 50000 ENQUEUE 1000 outcomes", "[0, 0, 0]");
    client.story(&[enqueue, ("RLOCK.CANCEL lock bob", "1"), ("RLOCK.CANCEL lock bob", "0")]);
    assert_eq!(waiters(client, "lock"), "");
    // Not at the end of its wait either, nor when the lock is free.
    outcomes.none_within(Duration::from_millis(1_500));
    client.story(&[("RLOCK.RELEASE lock alice", "1"), ("EXISTS lock", "0")]);
    assert_eq!(outcomes.drain(), []);
}

#[test]
fn a_waiter_keeps_the_lock_that_it_was_granted() {
    let (server, client) = &mut held();
    let bob = block(server, "bob");
    // The grant has not reached bob's client yet.
    let lines = ["RLOCK.RELEASE lock alice", "RLOCK.CANCEL lock bob"];
    assert_eq!(transaction(client, &lines), "[1, 0]");
    assert_eq!(bob.answer(), "[1, 50000, 0]");
    client.story(&[("RLOCK.CANCEL lock bob", "0"), ("HGETALL lock", r#"["bob", "1"]"#)]);
    // A lock that is free by now goes to the waiter first; nothing is left to cancel.
    let carol = block(server, "carol");
    assert_eq!(transaction(client, &["DEL lock", "RLOCK.CANCEL lock carol"]), "[1, 0]");
    assert_eq!(carol.answer(), "[1, 50000, 0]");
    client.story(&[("RLOCK.RELEASE lock carol", "1"), ("EXISTS lock", "0")]);
}

#[test]
fn wrong_calls_are_refused() {
    let (_server, client) = &mut held();
    let arity = "!ERR wrong number of arguments for 'rlock.cancel' command";
    for (line, answer) in [
        ("RLOCK.CANCEL", arity),
        ("RLOCK.CANCEL lock", arity),
        ("RLOCK.CANCEL lock bob now", arity),
        ("RLOCK.CANCEL lock mode", "!ERR invalid owner"),
        ("RLOCK.CANCEL lock bob:write", "!ERR invalid owner"),
    ] {
        let said = say(client, line).to_lowercase();
        assert!(said.starts_with(&answer.to_lowercase()), "{line}: {said}");
    }
}
