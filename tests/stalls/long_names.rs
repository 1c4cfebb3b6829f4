//! Long names stall no other client.

use std::time::{Duration, Instant};

use redis::Value;
use rlock_testkit::TestServer;
use rlock_testkit::commands::{ask, counter, number, say, say_words};

use crate::stalls::check;

/// The messages of one event-loop cycle name an owner and a lock of many bytes that must be percent-encoded: to format each of these
/// bytes took a second.
#[test]
fn waits_with_long_names_that_end_together() {
    let (server, client) = &mut TestServer::start_and_connect();
    let (key, ends) = (vec![0xff_u8; 1_024], Instant::now() + Duration::from_secs(3));
    let mut pipe = redis::pipe();
    pipe.cmd("RLOCK.ACQUIRE").arg(&key).arg("alice").arg(3_600_000).ignore();
    pipe.query::<()>(client).expect("alice holds it");
    for waiter in 0..500 {
        let left = ends.saturating_duration_since(Instant::now()).as_millis().max(1);
        let mut pipe = redis::pipe();
        let command = pipe.cmd("RLOCK.ACQUIRE").arg(&key).arg(format!("{waiter:0512}")).arg(60_000);
        command.arg("ENQUEUE").arg(left.to_string()).arg("news").ignore();
        pipe.query::<()>(client).expect("it is enqueued");
    }
    check(server, || {}, || counter(server, "waiters") == 0);
    assert_eq!(counter(server, "timeouts"), 500);
}

/// A key that looks like a reader's lease comes from another server: the search for the locks that it may belong to took time by the
/// square of its colons, which was 10 s.
#[test]
fn a_lease_key_with_many_colons_that_is_restored() {
    let (server, client) = &mut TestServer::start_and_connect();
    let mut act = server.connect();
    // Keys that come matter from the first reader on.
    assert_eq!(say(client, "RLOCK.ACQUIRE lock alice 900000 READ"), "[1, 900000, 0]");
    say(client, "SET lease 1");
    let dump = ask(client, &["DUMP", "lease"]);
    let Value::BulkString(dump) = dump else { panic!("{dump:?}") };
    let key = format!("{}:rwlock_timeout:1", ":".repeat(300_000));
    let restore = || {
        let words: [&[u8]; 4] = [b"RESTORE", key.as_bytes(), b"0", &dump];
        assert_eq!(say_words(&mut act, &words), "OK");
    };
    check(server, restore, || number(client, "DBSIZE") == 4);
}
