//! What the server does to waiting clients and to the module. Clients that disconnect are in `kinds_departures`.

use std::time::Duration;

use redis::Connection;
use rlock_testkit::TestServer;
use rlock_testkit::commands::{say, story};
use rlock_testkit::waiting::Waiting;

const ALICE: (&str, &str) = ("RLOCK.ACQUIRE lock alice 50000", "[1, 50000, 0]");

fn block(server: &TestServer, owner: &str) -> Waiting {
    Waiting::start(server, &["RLOCK.ACQUIRE", "lock", owner, "60000", "BLOCK", "0"])
}

#[test]
fn client_unblock_and_no_evict_change_nothing() {
    let (server, client) = &mut TestServer::start_and_connect();
    story(client, &[ALICE, ("CLIENT NO-EVICT on", "OK")]);
    let bob = block(server, "bob");
    for how in ["", " TIMEOUT", " ERROR"] {
        assert_eq!(say(client, &format!("CLIENT UNBLOCK {}{how}", bob.client_id())), "0");
    }
    bob.waits_on(Duration::from_millis(100));
    // What ends a wait is CANCEL.
    let carol = block(server, "carol");
    story(client, &[("RLOCK.CANCEL lock carol", "1")]);
    assert_eq!(carol.answer(), "null");
    story(client, &[("RLOCK.RELEASE lock alice", "1")]);
    assert_eq!(bob.answer(), "[1, 60000, 0]");
}

#[test]
fn the_module_is_not_unloaded_while_somebody_waits() {
    let (server, client) = &mut TestServer::start_and_connect();
    let refused = |client: &mut Connection| {
        let said = say(client, "MODULE UNLOAD rlock");
        assert!(said.starts_with("!ERR "), "{said}");
    };
    story(client, &[ALICE]);
    let bob = block(server, "bob");
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
