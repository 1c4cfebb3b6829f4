//! Waiting on a connection that has subscriptions: RESP3 allows any command there, and not every server can block it.

use rlock_testkit::Inline;
use rlock_testkit::prelude::*;

/// The answer of a server that cannot block the connection.
const REFUSED: &str = "-ERR this server cannot block a connection that has subscriptions; \
    use another connection, or ENQUEUE\r\n";

/// A connection in RESP3 that has the subscription of this line.
#[track_caller]
fn subscribed(server: &TestServer, line: &str) -> Inline {
    let mut connection = Inline::connect(server, SOON);
    connection.answer("HELLO 3");
    connection.send(&format!("{line}\r\n"));
    connection.read_to(":1\r\n");
    connection
}

/// Whether the server refuses to block a connection that has subscriptions.
fn refuses(server: &TestServer) -> bool {
    server.version().is_at_least(ServerName::Valkey, 8, 1)
}

/// Valkey 8.1 and 9.1 answered the module's request with null, which the module passed on: four commands of any user
/// with the permission to lock ended the server.
#[test]
fn a_connection_with_subscriptions_waits_or_gets_an_error() {
    for subscribe in ["SUBSCRIBE x", "PSUBSCRIBE x*", "SSUBSCRIBE x"] {
        for mode in ["", " READ", " WRITE", " FAIR", " FENCED"] {
            let (server, mut client) = held();
            let mut subscribed = subscribed(&server, subscribe);
            let line = format!("RLOCK.ACQUIRE lock bob 100000{mode} BLOCK 0");
            if mode.contains("READ") || mode.contains("WRITE") {
                client.story(&[("RLOCK.RELEASE lock alice", "1")]);
                client.story(&[("RLOCK.ACQUIRE lock alice 100000 WRITE", "[1, 100000, 0]")]);
            }
            if refuses(&server) {
                assert_eq!(subscribed.answer(&line), REFUSED, "{subscribe}, {line}");
                assert!(queue(&mut client, "lock").is_empty(), "{subscribe}, {line}");
                client.story(&[("LLEN redisson_lock_queue:{lock}", "0")]);
                client.story(&[("RLOCK.RELEASE lock alice", "1"), ("EXISTS lock", "0")]);
            } else {
                subscribed.send(&format!("{line}\r\n"));
                waits(&mut client);
                client.story(&[("RLOCK.RELEASE lock alice", "1")]);
                subscribed.read_to("*3\r\n:1\r\n:100000\r\n");
            }
        }
    }
}

/// Returns once a client waits for the lock.
#[track_caller]
fn waits(client: &mut Connection) {
    wait_for("a waiter", || !queue(client, "lock").is_empty());
}

/// A command with an error for an answer has changed nothing: the owner's own wait on another connection continues.
#[test]
fn a_wait_of_the_same_owner_outlasts_one_that_is_refused() {
    let (server, mut client) = held();
    let bob = Waiting::line(&server, "RLOCK.ACQUIRE lock bob 100000 BLOCK 0");
    let carol = Waiting::line(&server, "RLOCK.ACQUIRE lock carol 100000 BLOCK 0");
    let mut subscribed = subscribed(&server, "SUBSCRIBE x");
    if !refuses(&server) {
        return;
    }
    assert_eq!(subscribed.answer("RLOCK.ACQUIRE lock bob 5000 BLOCK 10"), REFUSED);
    assert!(bob.still_waits());
    let first = &queue(&mut client, "lock")[0];
    assert_eq!((first.owner.as_str(), first.client_id, first.wait_left_ms), ("bob", bob.client_id(), -1));
    bob.granted_by(&mut client, "RLOCK.RELEASE lock alice");
    carol.granted_by(&mut client, "RLOCK.RELEASE lock bob");
}

/// The error of a full queue comes before all others.
#[test]
fn a_full_queue_refuses_any_connection() {
    let (server, mut client) = held();
    client.story(&[("CONFIG SET rlock.max-waiters 0", "OK")]);
    let said = subscribed(&server, "SUBSCRIBE x").answer("RLOCK.ACQUIRE lock bob 5000 BLOCK 0");
    assert!(said.starts_with("-QUEUEFULL "), "{said}");
}

/// What the error advises.
#[test]
fn a_connection_with_subscriptions_may_enqueue() {
    let (server, mut client) = held();
    let mut subscribed = subscribed(&server, "SUBSCRIBE grants");
    let said = subscribed.answer("RLOCK.ACQUIRE lock bob 100000 ENQUEUE 0 grants");
    assert_eq!(said, "*3\r\n:0\r\n:0\r\n:0\r\n");
    client.story(&[("RLOCK.RELEASE lock alice", "1")]);
    let told = subscribed.read_to("granted");
    assert!(told.contains("grants") && told.starts_with('>'), "{told}");
}
