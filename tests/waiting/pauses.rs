//! While writes are paused or refused no waiter is granted a lock; after it the queue is served.

use rlock_testkit::prelude::*;

/// Long enough for a timer that does not care to have fired many times.
const A_WHILE: Duration = Duration::from_millis(500);

/// Alice holds `lock` for `lease` ms, and bob and carol wait for it.
fn queue_behind_alice(lease: &str) -> (TestServer, Connection, Waiting, Waiting) {
    let (server, mut client) = TestServer::start_and_connect();
    client.story(&[(&format!("RLOCK.ACQUIRE lock alice {lease}"), &format!("[1, {lease}, 0]"))]);
    let (bob, carol) = (block(&server, "bob"), block(&server, "carol"));
    (server, client, bob, carol)
}

#[test]
fn a_pause_that_ends_by_itself_is_noticed() {
    for kind in ["WRITE", "ALL"] {
        let (_server, mut client, bob, carol) = queue_behind_alice("1000");
        let ends = number(&mut client, "PEXPIRETIME lock");
        let paused = server_time(&mut client);
        client.story(&[(&format!("CLIENT PAUSE 2500 {kind}"), "OK")]);
        assert_eq!(bob.answer(), "[1, 50000, 0]", "{kind}");
        let granted = number(&mut client, "PEXPIRETIME lock") - 50_000;
        assert!(granted >= ends && granted >= paused + 2_500, "{kind}: {paused} {ends} {granted}");
        assert!(carol.still_waits());
    }
}

#[test]
fn what_was_deleted_before_a_pause_is_granted_after_it() {
    let (_server, mut client, bob, _carol) = queue_behind_alice("100000");
    assert_eq!(transaction(&mut client, &["DEL lock", "CLIENT PAUSE 60000 WRITE"]), "[1, OK]");
    bob.waits_on(A_WHILE);
    // Asking writes nothing.
    let info = say(&mut client, "RLOCK.INFO lock");
    assert!(info.starts_with(r#"["kind", "none""#) && info.contains(r#""waiter-count", 2"#), "{info}");
    bob.waits_on(Duration::from_millis(100));
    client.story(&[("EXISTS lock", "0"), ("CLIENT UNPAUSE", "OK")]);
    assert_eq!(bob.answer(), "[1, 50000, 0]");
}

#[test]
fn waits_end_during_a_pause() {
    let (server, mut client, _bob, _carol) = queue_behind_alice("100000");
    let dave = Waiting::line(&server, "RLOCK.ACQUIRE lock dave 50000 BLOCK 500");
    client.story(&[("CLIENT PAUSE 60000 WRITE", "OK")]);
    assert_eq!(dave.answer(), "null");
    client.story(&[("CLIENT UNPAUSE", "OK")]);
}

#[test]
fn a_transaction_may_pause_and_release() {
    let (_server, mut client, bob, _carol) = queue_behind_alice("100000");
    let lines = ["CLIENT PAUSE 60000 WRITE", "RLOCK.RELEASE lock alice", "HKEYS lock"];
    assert_eq!(transaction(&mut client, &lines), r#"[OK, 1, ["bob"]]"#);
    assert_eq!(bob.answer(), "[1, 50000, 0]");
    client.story(&[("CLIENT UNPAUSE", "OK"), ("RLOCK.RENEW lock bob 1000", "1")]);
}

#[test]
fn a_command_from_during_a_pause_queues_behind_the_waiters() {
    let (server, mut client, bob, carol) = queue_behind_alice("300");
    client.story(&[("CLIENT PAUSE 60000 WRITE", "OK")]);
    let mut newcomer = server.connect();
    std::thread::scope(|scope| {
        let newcomer = scope.spawn(|| say(&mut newcomer, "RLOCK.ACQUIRE lock dave 1000"));
        wait_for("alice's lease to end", || say(&mut client, "PTTL lock") == "-2");
        client.story(&[("CLIENT UNPAUSE", "OK")]);
        assert_eq!(newcomer.join().unwrap(), "null");
    });
    assert_eq!(bob.answer(), "[1, 50000, 0]");
    assert!(carol.still_waits());
}

#[test]
fn a_replica_that_connects_lets_waiters_have_the_lock() {
    let (server, mut client, bob, _carol) = queue_behind_alice("500");
    client.story(&[("CONFIG SET min-replicas-to-write 1", "OK")]);
    bob.waits_on(A_WHILE * 2);
    assert!(say(&mut client, "RLOCK.ACQUIRE lock dave 1000").starts_with("!NOREPLICAS "));
    client.story(&[("EXISTS lock", "0")]);
    let _replica = ReplicaStream::open(&server);
    assert_eq!(bob.answer(), "[1, 50000, 0]");
}
