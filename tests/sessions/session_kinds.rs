//! SESSION with each kind of lock, and what becomes of a tie when its hold moves, is revoked, or is on another server.

use rlock_testkit::prelude::*;

use crate::session::{BOB, HELD, TIED_TO_ANOTHER, UNTIED, freed, stays};

/// All kinds of holds: what is said of them.
const KINDS: [&str; 7] = ["", "FAIR", "FENCED", "READ", "WRITE", "WRITE FENCED", "PERMITS 2"];

#[test]
fn every_kind_of_hold_ends_with_its_connection() {
    let (server, client) = &mut TestServer::start_and_connect();
    for kind in KINDS {
        for tie in ["acquired", "renewed"] {
            let mut bob = server.connect();
            let said = format!("RLOCK.ACQUIRE lock bob 60000 {kind}");
            let session = if tie == "acquired" { " SESSION 300" } else { "" };
            let answer = say(&mut bob, format!("{}{session}", said.trim_end()).as_str());
            assert!(answer.starts_with("[1, 60000, "), "{kind}: {answer}");
            if tie == "renewed" {
                bob.story(&[("RLOCK.RENEW lock bob 60000 SESSION 300", "1")]);
            }
            drop(bob);
            freed(client, &format!("the end of a hold, {kind}, {tie}"));
        }
    }
    wait_for("no tie to be left", || counter(server, "ties") == 0);
}

/// The hold that a blocked waiter is granted is tied, whatever its kind.
#[test]
fn every_kind_of_grant_ends_with_its_connection() {
    let (server, client) = &mut TestServer::start_and_connect();
    for kind in KINDS {
        let (holder, release) = match kind {
            "READ" | "WRITE" | "WRITE FENCED" => ("WRITE", "RLOCK.RELEASE lock alice WRITE"),
            "PERMITS 2" => ("PERMITS 1", "RLOCK.RELEASE lock alice"),
            _ => ("", "RLOCK.RELEASE lock alice"),
        };
        let hold = format!("RLOCK.ACQUIRE lock alice 60000 {holder}");
        client.story(&[(hold.trim_end(), HELD)]);
        let waits = format!("RLOCK.ACQUIRE lock bob 60000 {} SESSION 300 BLOCK 0", kind.replace('2', "1"));
        let bob = Waiting::line(server, &waits);
        client.story(&[(release, "1")]);
        assert!(bob.answer().starts_with("[1, 60000, "), "{kind}");
        // The connection of a call that was answered is closed.
        freed(client, &format!("the end of a grant, {kind}"));
    }
}

/// The older connection is refused by the tie of the same owner in the same mode, and by no other.
#[test]
fn every_kind_of_hold_stays_with_the_younger_connection() {
    let server = TestServer::start();
    let (mut older, mut younger) = (server.connect(), server.connect());
    let client = &mut server.connect();
    for kind in KINDS {
        let acquire = format!("RLOCK.ACQUIRE lock bob 60000 HOLDS 1 SESSION 300 {kind}");
        let held = say(&mut younger, acquire.trim_end());
        assert!(held.starts_with("[1, 60000, "), "{kind}: {held}");
        let info = info_without_times(client);
        let mode = kind.split(' ').next().filter(|mode| ["READ", "WRITE"].contains(mode)).unwrap_or("");
        let renew = format!("RLOCK.RENEW lock bob 90000 SESSION 300 {mode}");
        for line in [acquire.trim_end(), renew.trim_end()] {
            older.story(&[(line, TIED_TO_ANOTHER)]);
            assert_eq!(info_without_times(client), info, "{line}");
        }
        younger.story(&[(format!("RLOCK.RENEW lock bob 60000 {mode}").trim_end(), "1")]);
        for line in [acquire.trim_end(), renew.trim_end()] {
            older.story(&[(line, UNTIED)]);
        }
        match kind {
            "READ" | "PERMITS 2" => {
                let beside = format!("RLOCK.ACQUIRE lock carol 60000 {kind} SESSION 300");
                older.story(&[(&beside, HELD), ("RLOCK.RELEASE lock carol", "1")]);
            }
            "WRITE" => older.story(&[
                ("RLOCK.ACQUIRE lock bob 60000 READ SESSION 300", HELD),
                ("RLOCK.RELEASE lock bob READ", "1"),
            ]),
            _ => {}
        }
        older.story(&[(format!("RLOCK.RELEASE lock bob {mode}").trim_end(), "1")]);
    }
}

/// What RLOCK.INFO says of the lock, without what passes by itself.
fn info_without_times(client: &mut Connection) -> String {
    let info = say(client, "RLOCK.INFO lock");
    let is_time = |field: &&str| !field.contains("-ms\", ");
    info.split(", \"").filter(is_time).collect::<Vec<_>>().join(", ")
}

/// A permit that has ended may still be in the key, and its tie in memory: the next one of its owner is another hold.
#[test]
fn a_permit_that_has_ended_keeps_no_older_connection_out() {
    let server = TestServer::start();
    let (mut older, mut younger) = (server.connect(), server.connect());
    let client = &mut server.connect();
    client.story(&[("RLOCK.ACQUIRE lock alice 60000 PERMITS 2", HELD)]);
    younger.story(&[("RLOCK.ACQUIRE lock bob 20 PERMITS 2 SESSION 300", "[1, 20, 0]")]);
    std::thread::sleep(Duration::from_millis(40));
    older.story(&[("RLOCK.ACQUIRE lock bob 60000 PERMITS 2 SESSION 300", HELD)]);
    drop(younger);
    stays(client, "lock");
    older.story(&[("RLOCK.RENEW lock bob 60000 SESSION 300", "1")]);
}

/// The key goes elsewhere: there its lease stands alone, and what comes in its place is not touched.
#[test]
fn a_hold_that_moves_is_untied() {
    let ways: [(&[&str], &[&str], &str); 3] = [
        (&["RENAME lock other"], &[], "other"),
        (&["MOVE lock 1"], &["SELECT 1"], "lock"),
        (&["SWAPDB 0 1"], &["SELECT 1"], "lock"),
    ];
    for (moves, looks, key) in ways {
        let server = TestServer::start();
        let (client, mut bob) = (&mut server.connect(), server.connect());
        bob.story(&[(BOB, HELD)]);
        for line in moves {
            let said = say(client, line);
            assert!(["OK", "1"].contains(&said.as_str()), "{line}: {said}");
        }
        // Valkey 8.1.1 leaves any key behind that it moves, while a module listens to key events.
        say(client, "DEL lock");
        // The same owner again where it was before, without a tie.
        client.story(&[("RLOCK.ACQUIRE lock bob 50000", "[1, 50000, 0]")]);
        drop(bob);
        stays(client, "lock");
        for line in looks {
            client.story(&[(line, "OK")]);
        }
        stays(client, key);
        wait_for("no tie to be left", || counter(&server, "ties") == 0);
    }
}

/// The lease of a tied hold ends, or the lock is taken over by a script: the same owner holds anew, without a tie.
#[test]
fn a_hold_that_was_lost_leaves_no_tie() {
    let (server, client) = &mut TestServer::start_and_connect();
    for loss in ["PEXPIRE lock 1", "SET lock x", "HDEL lock bob"] {
        let mut bob = server.connect();
        bob.story(&[(BOB, HELD)]);
        let said = say(client, loss);
        assert!(["OK", "1"].contains(&said.as_str()), "{loss}: {said}");
        std::thread::sleep(Duration::from_millis(20));
        say(client, "DEL lock");
        client.story(&[("RLOCK.ACQUIRE lock bob 60000", HELD)]);
        drop(bob);
        stays(client, "lock");
        client.story(&[("RLOCK.RELEASE lock bob", "1")]);
    }
    wait_for("no tie to be left", || counter(server, "ties") == 0);
}

/// The client is gone before the answer: the grant is revoked at once, not after the grace period of its tie.
#[test]
fn a_grant_that_is_revoked_is_not_kept_for_the_grace_period() {
    let (server, client) = &mut held();
    let bob = Waiting::line(server, "RLOCK.ACQUIRE lock bob 60000 SESSION 50000 BLOCK 0");
    let carol = Waiting::line(server, "RLOCK.ACQUIRE lock carol 60000 BLOCK 0");
    let kill = format!("CLIENT KILL ID {}", bob.client_id());
    transaction(client, &["RLOCK.RELEASE lock alice", &kill]);
    assert_eq!(carol.answer(), HELD);
    wait_for("no tie to be left", || counter(server, "ties") == 0);
    stays(client, "lock");
}

/// A call of another module, from a thread, has no connection. To ask the server for the client of this call crashed Valkey 9.1.2.
#[test]
fn another_module_has_no_connection() {
    let (server, client) = &mut TestServer::start_and_connect();
    let load = ["MODULE", "LOAD", reacting_module_path().to_str().unwrap()];
    assert_eq!(text(&ask(client, &load)), "OK");
    client.story(&[("RLOCK.ACQUIRE lock alice 60000", HELD)]);
    for line in [
        "RLOCK.ACQUIRE free bob 60000 SESSION 300",
        "RLOCK.ACQUIRE lock alice 90000 SESSION 300",
        "RLOCK.RENEW lock alice 90000 SESSION 300",
        "RLOCK.ACQUIRE lock bob 60000 SESSION 300 ENQUEUE 0 news",
    ] {
        client.story(&[(&format!("REACTS.THREAD {line}"), "OK")]);
    }
    // The next call from there comes after these.
    client.story(&[("REACTS.THREAD SET done 1", "OK")]);
    wait_for("the calls to be done", || say(client, "GET done") == "\"1\"");
    std::thread::sleep(Duration::from_millis(100));
    client.story(&[("EXISTS free", "0"), ("HGETALL lock", r#"["alice", "1"]"#)]);
    assert_eq!((counter(server, "ties"), counter(server, "waiters")), (0, 0));
    assert!((30_000..=60_000).contains(&number(client, "PTTL lock")));
}

/// Ties are in memory of the server that was asked: a promoted replica, and a server that was restarted, know the lease alone.
#[test]
fn a_promoted_replica_and_a_restarted_server_know_no_tie() {
    let primary = TestServer::builder().with_aof().start();
    let replica = TestServer::start();
    replica.replicate_from(&primary);
    let mut bob = primary.connect();
    bob.story(&[(BOB, HELD)]);
    wait_for_replicas_in_sync(&primary, &replica);
    let client = &mut replica.connect();
    client.story(&[("REPLICAOF NO ONE", "OK")]);
    let restarted = TestServer::builder().dir(primary.kill9()).with_aof().start();
    drop(bob);
    stays(client, "lock");
    stays(&mut restarted.connect(), "lock");
    assert_eq!((counter(&replica, "ties"), counter(&restarted, "ties")), (0, 0));
}
