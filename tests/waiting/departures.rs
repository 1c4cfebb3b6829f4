//! What the server does to waiting clients and to the module. Clients that disconnect are in `kinds_departures`.

use rlock_testkit::prelude::*;

#[test]
fn client_unblock_and_no_evict_change_nothing() {
    let (server, client) = &mut TestServer::start_and_connect();
    client.story(&[ALICE, ("CLIENT NO-EVICT on", "OK")]);
    let bob = block(server, "bob");
    for how in ["", " TIMEOUT", " ERROR"] {
        assert_eq!(say(client, &format!("CLIENT UNBLOCK {}{how}", bob.client_id())), "0");
    }
    bob.waits_on(Duration::from_millis(100));
    // CANCEL ends a wait.
    let carol = block(server, "carol");
    client.story(&[("RLOCK.CANCEL lock carol", "1")]);
    assert_eq!(carol.answer(), "null");
    bob.granted_by(client, "RLOCK.RELEASE lock alice");
}

#[test]
fn the_module_is_not_unloaded_while_a_client_waits() {
    let (server, client) = &mut TestServer::start_and_connect();
    let refused = |client: &mut Connection| {
        client.story(&[("MODULE UNLOAD rlock", "!ERR …")]);
    };
    client.story(&[ALICE]);
    let bob = block(server, "bob");
    refused(client);
    client.story(&[("RLOCK.CANCEL lock bob", "1")]);
    assert_eq!(bob.answer(), "null");
    // An enqueued waiter blocks no client and, without an end of any kind, needs no timer either.
    client.story(&[("PERSIST lock", "1"), ("RLOCK.ACQUIRE lock bob 60000 ENQUEUE 0 grants", "[0, 0, 0]")]);
    refused(client);
    assert!(server.log().contains("rlock: not unloaded: clients wait for locks"));
    client.story(&[("RLOCK.CANCEL lock bob", "1"), ("MODULE UNLOAD rlock", "OK"), ("EXISTS lock", "1")]);
}

#[test]
fn a_server_with_waiters_shuts_down() {
    let server = TestServer::start();
    let client = &mut server.connect();
    client.story(&[ALICE, ("RLOCK.ACQUIRE lock eve 60000 ENQUEUE 0 grants", "[0, 0, 0]")]);
    let bob = block(&server, "bob");
    let stopped = server.shutdown();
    assert!(stopped.status.success(), "{}", stopped.status);
    assert!(bob.answer().starts_with("the connection ended"));
}
