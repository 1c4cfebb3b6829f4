//! What the server does to waiting clients. Clients that disconnect are in `kinds_departures`.

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
fn a_server_with_waiters_shuts_down() {
    let server = TestServer::start();
    let client = &mut server.connect();
    client.story(&[ALICE, ("RLOCK.ACQUIRE lock eve 60000 ENQUEUE 0 grants", "[0, 0, 0]")]);
    let bob = block(&server, "bob");
    let stopped = server.shutdown();
    assert!(stopped.status.success(), "{}", stopped.status);
    assert!(bob.answer().starts_with("the connection ended"));
}
