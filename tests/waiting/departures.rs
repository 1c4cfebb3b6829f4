//! Waiters that go: clients that die in the queue, or with a grant on its way to them; what the server
//! does to clients and to the module; panics, after which nobody may be left asleep.

use std::time::Duration;

use redis::Connection;
use rlock_testkit::commands::{SOON, counter, say, story, transaction};
use rlock_testkit::waiting::{Waiting, waiters};
use rlock_testkit::{Subscriber, TestServer, eventually, fault_module_path};

const ALICE: (&str, &str) = ("RLOCK.ACQUIRE lock alice 50000", "[1, 50000, 0]");

fn block(server: &TestServer, owner: &str) -> Waiting {
    Waiting::start(server, &["RLOCK.ACQUIRE", "lock", owner, "60000", "BLOCK", "0"])
}

fn holder(client: &mut Connection, wanted: &str) {
    eventually(&format!("{wanted} to hold the lock"), SOON, || {
        (say(client, "HGETALL lock") == format!(r#"["{wanted}", "1"]"#)).then_some(())
    });
}

fn nobody_waits(server: &TestServer) {
    eventually("nobody to wait", SOON, || (counter(server, "waiters") == 0).then_some(()));
}

#[test]
fn a_client_that_goes_leaves_the_queue() {
    let server = TestServer::start();
    let client = &mut server.connect();
    story(client, &[ALICE]);
    let (killed, quiet, last) = (block(&server, "killed"), block(&server, "quiet"), block(&server, "last"));
    assert_eq!(waiters(client, "lock"), "killed quiet last");
    let kill = format!("CLIENT KILL ID {}", killed.client_id());
    // At once: the same connection asks next, and the queue is short already.
    assert_eq!(say(client, &kill), "1");
    assert_eq!(waiters(client, "lock"), "quiet last");
    assert!(killed.answer().starts_with("the connection ended"));
    // One that closes its connection without a word.
    let mut gone = server.connect();
    gone.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let words = ["lock", "gone", "60000", "BLOCK", "0"];
    redis::cmd("RLOCK.ACQUIRE").arg(&words[..]).query::<redis::Value>(&mut gone).unwrap_err();
    drop(gone);
    eventually("it to leave", SOON, || (waiters(client, "lock") == "quiet last").then_some(()));
    assert_eq!(counter(&server, "waiters_gone"), 2);
    story(client, &[("RLOCK.RELEASE lock alice", "1")]);
    assert_eq!(quiet.answer(), "[1, 60000, 0]");
    story(client, &[("RLOCK.RELEASE lock quiet", "1")]);
    assert_eq!(last.answer(), "[1, 60000, 0]");
}

#[test]
fn a_grant_whose_client_is_gone_goes_to_the_next() {
    // In one transaction the lock is handed to bob and bob's client is killed: the grant is written and
    // replicated, and its answer never arrives.
    let server = TestServer::start();
    let client = &mut server.connect();
    story(client, &[ALICE]);
    let (bob, carol) = (block(&server, "bob"), block(&server, "carol"));
    let kill = format!("CLIENT KILL ID {}", bob.client_id());
    assert_eq!(transaction(client, &["RLOCK.RELEASE lock alice", &kill]), "[1, 1]");
    assert_eq!(carol.answer(), "[1, 60000, 0]");
    assert_eq!(counter(&server, "revokes"), 1);
    assert!(bob.answer().starts_with("the connection ended"));
    // The same where nobody is left after it: the lock is free then.
    let dave = block(&server, "dave");
    let kill = format!("CLIENT KILL ID {}", dave.client_id());
    assert_eq!(transaction(client, &["RLOCK.RELEASE lock carol", &kill]), "[1, 1]");
    eventually("the lock to be free", SOON, || (say(client, "EXISTS lock") == "0").then_some(()));
    assert_eq!(counter(&server, "revokes"), 2);
    nobody_waits(&server);
}

#[test]
fn a_grant_whose_owner_was_heard_of_is_not_taken_back() {
    for (heard, answer) in [
        ("RLOCK.RENEW lock bob 70000", "1"),
        ("RLOCK.ACQUIRE lock bob 60000 HOLDS 1", "[1, 60000, 0]"),
        ("RLOCK.RENEW lock bob 60000", "1"),
    ] {
        let server = TestServer::start();
        let client = &mut server.connect();
        story(client, &[ALICE]);
        let (bob, carol) = (block(&server, "bob"), block(&server, "carol"));
        let kill = format!("CLIENT KILL ID {}", bob.client_id());
        let said = transaction(client, &["RLOCK.RELEASE lock alice", heard, &kill]);
        assert_eq!(said, format!("[1, {answer}, 1]"), "{heard}");
        carol.waits_on(Duration::from_millis(300));
        assert_eq!(
            (say(client, "HGETALL lock").as_str(), counter(&server, "revokes")),
            (r#"["bob", "1"]"#, 0)
        );
        story(client, &[("RLOCK.RELEASE lock bob", "1")]);
        assert_eq!(carol.answer(), "[1, 60000, 0]");
    }
}

#[test]
fn a_grant_that_another_call_has_replaced_is_not_taken_back() {
    // bob's grant is gone by the time that bob's client is found dead: the lock is mallory's, or somebody has made it
    // bob's anew, or has changed its lease.
    let replaced = |lines: &[&str], answers: &str, hash: &str| {
        let server = TestServer::start();
        let client = &mut server.connect();
        story(client, &[ALICE]);
        let bob = block(&server, "bob");
        let kill = format!("CLIENT KILL ID {}", bob.client_id());
        let lines = [&["RLOCK.RELEASE lock alice"], lines, &[&kill]].concat();
        assert_eq!(transaction(client, &lines), answers);
        nobody_waits(&server);
        // The timer has looked, if it was to.
        std::thread::sleep(Duration::from_millis(100));
        let found = say(client, "HGETALL lock");
        assert_eq!((found.as_str(), counter(&server, "revokes")), (hash, 0), "{lines:?}");
    };
    replaced(&["DEL lock", "HSET lock mallory 1"], "[1, 1, 1, 1]", r#"["mallory", "1"]"#);
    replaced(&["DEL lock", "HSET lock bob 1"], "[1, 1, 1, 1]", r#"["bob", "1"]"#);
    replaced(&["PEXPIRE lock 900000"], "[1, 1, 1]", r#"["bob", "1"]"#);
}

#[test]
fn client_unblock_and_no_evict_change_nothing() {
    let server = TestServer::start();
    let client = &mut server.connect();
    story(client, &[ALICE, ("CLIENT NO-EVICT on", "OK")]);
    let bob = block(&server, "bob");
    for how in ["", " TIMEOUT", " ERROR"] {
        assert_eq!(say(client, &format!("CLIENT UNBLOCK {}{how}", bob.client_id())), "0");
    }
    bob.waits_on(Duration::from_millis(100));
    // What ends a wait is CANCEL.
    let carol = block(&server, "carol");
    story(client, &[("RLOCK.CANCEL lock carol", "1")]);
    assert_eq!(carol.answer(), "null");
    story(client, &[("RLOCK.RELEASE lock alice", "1")]);
    assert_eq!(bob.answer(), "[1, 60000, 0]");
}

#[test]
fn the_module_is_not_unloaded_while_somebody_waits() {
    let server = TestServer::start();
    let client = &mut server.connect();
    let refused = |client: &mut Connection| {
        let said = say(client, "MODULE UNLOAD rlock");
        assert!(said.starts_with("!ERR "), "{said}");
    };
    story(client, &[ALICE]);
    let bob = block(&server, "bob");
    refused(client);
    story(client, &[("RLOCK.CANCEL lock bob", "1")]);
    assert_eq!(bob.answer(), "null");
    // Who is enqueued blocks no client and, without an end of any kind, needs no timer either.
    story(client, &[("PERSIST lock", "1"), ("RLOCK.ACQUIRE lock bob 60000 ENQUEUE 0 grants", "[0, 0, 0]")]);
    refused(client);
    assert!(server.log().contains("rlock: not unloaded: clients wait for locks"));
    story(client, &[("RLOCK.CANCEL lock bob", "1"), ("MODULE UNLOAD rlock", "OK"), ("EXISTS lock", "1")]);
}

#[test]
fn a_server_with_waiters_shuts_down() {
    let server = TestServer::start();
    let client = &mut server.connect();
    story(client, &[ALICE, ("RLOCK.ACQUIRE lock eve 60000 ENQUEUE 0 grants", "[0, 0, 0]")]);
    let bob = block(&server, "bob");
    let stopped = server.shutdown();
    assert!(stopped.status.success(), "{}", stopped.status);
    assert!(bob.answer().starts_with("the connection ended"));
}

#[test]
fn a_panic_sends_everybody_who_waits_away() {
    for kind in ["command", "timer", "key-event", "disconnect", "scan"] {
        let server = TestServer::builder().module(fault_module_path()).start();
        let client = &mut server.connect();
        let mut grants = Subscriber::channel(&server, "grants");
        story(client, &[ALICE, ("RLOCK.ACQUIRE lock eve 60000 ENQUEUE 0 grants", "[0, 0, 0]")]);
        let (bob, dies) = (block(&server, "bob"), block(&server, "dies"));
        assert_eq!(say(client, &format!("RLOCK.FAULT {kind}")), "1");
        match kind {
            "timer" => story(client, &[("PEXPIRE lock 30000", "1")]),
            "key-event" => story(client, &[("PEXPIRE lock 30000", "1")]),
            "disconnect" => story(client, &[(format!("CLIENT KILL ID {}", dies.client_id()).as_str(), "1")]),
            "command" => {
                let said = say(client, "RLOCK.RENEW lock mallory 5");
                assert!(said.starts_with("!ERR rlock: internal error"), "{said}");
            }
            // A lock that could not be read is not taken for a free one.
            _ => story(client, &[("RLOCK.ACQUIRE lock mallory 5", "null")]),
        }
        let told = bob.answer();
        assert!(told.starts_with("!UNBLOCKED the module had an internal error"), "{kind}: {told}");
        let (_, message) = grants.next(SOON).unwrap_or_else(|| panic!("{kind}: no message"));
        assert_eq!(message, b"dropped 0 eve lock in-doubt", "{kind}");
        nobody_waits(&server);
        // Then all is as ever.
        assert_eq!(counter(&server, "panics"), 1, "{kind}");
        let carol = block(&server, "carol");
        story(client, &[("RLOCK.RELEASE lock alice", "1")]);
        assert_eq!(carol.answer(), "[1, 60000, 0]", "{kind}");
        holder(client, "carol");
    }
}

/// A panic between taking a waiter out of its queue and answering it left its client blocked for ever: no
/// queue knew of it any more.
#[test]
fn a_panic_before_an_answer_leaves_nobody_blocked() {
    // What takes the waiter out and panics, and what the caller of that hears, where it has one.
    for (ends, refused) in
        [("RLOCK.RELEASE lock alice", true), ("RLOCK.CANCEL lock bob", true), ("DEL lock", false)]
    {
        let server = TestServer::builder().module(fault_module_path()).start();
        let client = &mut server.connect();
        story(client, &[ALICE]);
        let (bob, carol) = (block(&server, "bob"), block(&server, "carol"));
        assert_eq!(say(client, "RLOCK.FAULT answer"), "1");
        let said = say(client, ends);
        assert_eq!(said.starts_with("!ERR rlock: internal error"), refused, "{ends}: {said}");
        for waiting in [bob, carol] {
            let told = waiting.answer();
            assert!(told.starts_with("!UNBLOCKED the module had an internal error"), "{ends}: {told}");
        }
        assert_eq!((counter(&server, "panics"), counter(&server, "waiters")), (1, 0), "{ends}");
        assert_eq!(say(client, "PING"), "PONG");
    }
}

/// A panic after the client was blocked was answered at once, as that of any command, and then once more
/// when everybody who waited was sent away: every later answer on that connection was one behind.
#[test]
fn a_panic_after_a_client_was_blocked_is_answered_once() {
    let server = TestServer::builder().module(fault_module_path()).start();
    let client = &mut server.connect();
    story(client, &[ALICE]);
    assert_eq!(say(client, "RLOCK.FAULT blocked"), "1");
    let other = &mut server.connect();
    let told = say(other, "RLOCK.ACQUIRE lock bob 60000 BLOCK 0");
    assert!(told.starts_with("!UNBLOCKED the module had an internal error"), "{told}");
    assert_eq!(say(other, "PING"), "PONG");
    assert_eq!((counter(&server, "panics"), counter(&server, "waiters")), (1, 0));
    story(other, &[("RLOCK.ACQUIRE lock bob 60000", "null")]);
}
