//! Waiters that go: clients that die in the queue, or with a grant on its way to them; what the server
//! does to clients and to the module. Panics are in `kinds_departures`.

use std::time::Duration;

use redis::Connection;
use rlock_testkit::commands::{SOON, counter, say, story, transaction};
use rlock_testkit::waiting::{Waiting, waiters};
use rlock_testkit::{TestServer, eventually};

const ALICE: (&str, &str) = ("RLOCK.ACQUIRE lock alice 50000", "[1, 50000, 0]");

fn block(server: &TestServer, owner: &str) -> Waiting {
    Waiting::start(server, &["RLOCK.ACQUIRE", "lock", owner, "60000", "BLOCK", "0"])
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
