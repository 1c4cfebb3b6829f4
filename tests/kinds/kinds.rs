//! Wake-ups and hand-offs for every kind of lock.
//!
//! While a waiter waits to be woken here, no RLOCK command touches the lock: it would serve the queue.

use rlock_testkit::kinds::{All, KINDS, Kind, at_once, renew_all};
use rlock_testkit::prelude::*;

const LOCK: &str = "lock";

/// All holders release the lock.
#[track_caller]
fn gives_back(kind: Kind, client: &mut Connection) {
    kind.releases(LOCK).iter().for_each(|line| client.story(&[(line, "1")]));
}

#[test]
fn a_lease_that_ends_wakes_the_next() {
    let (server, client) = &mut TestServer::start_and_connect();
    for kind in KINDS {
        kind.held(client, LOCK, 150);
        let ends = number(client, "PEXPIRETIME lock");
        let bob = kind.wait(server, LOCK, "bob");
        assert!(bob.answer().starts_with("[1, 50000, "), "{kind:?}");
        let granted = number(client, "PEXPIRETIME lock") - 50_000;
        assert!((0..2_000).contains(&(granted - ends)), "{kind:?}: {} ms late", granted - ends);
        client.story(&[("RLOCK.RELEASE lock bob", "1")]);
    }
    assert_eq!(counter(server, "found_expired"), KINDS.len() as u64);
}

/// The command of another client that removes all holders: of each kind another one.
const HOLDERS_REMOVED: &str = "REMOVED lock";

/// Lines after each of which bob has the lock: commands of the server only, without an RLOCK command.
const WAYS: [&[&str]; 15] = [
    &["DEL lock"],
    &["UNLINK lock"],
    &["RENAME lock elsewhere", "DEL elsewhere"],
    &["HSET short mode read", "PEXPIRE short 300", "RENAME short lock"],
    &["HSET short mode write carol:write 1", "PEXPIRE short 300", "RENAME short lock"],
    &["HSET short carol 1", "PEXPIRE short 300", "RENAME short lock"],
    &["MOVE lock 1", "SELECT 1", "DEL lock", "SELECT 0"],
    &["SET lock x", "DEL lock"],
    &["SET lock x PX 300"],
    &["EXPIRE lock 0"],
    &["SINTERSTORE lock none1 none2"],
    &[HOLDERS_REMOVED],
    &["FLUSHALL"],
    &["SWAPDB 0 1"],
    &["EVAL redis.call('DEL',KEYS[1])return{} 1 lock"],
];

/// The lines of a way for each kind's lock, of which the names tell; or once, where it frees all.
fn lines_for_all(way: &[&str]) -> Vec<Vec<String>> {
    let of = |kind: Kind| {
        let named = |line: &&str| {
            if *line == HOLDERS_REMOVED {
                return kind.removes(kind.name);
            }
            let line = line.replace(" lock", &format!(" {}", kind.name));
            line.replace("short", &format!("short:{}", kind.name))
        };
        way.iter().map(named).collect()
    };
    let frees_all = !way.iter().any(|line| line.contains(" lock"));
    if frees_all { vec![way.iter().map(|line| (*line).to_owned()).collect()] } else { KINDS.map(of).into() }
}

#[test]
fn every_way_to_free_a_lock_wakes_the_next() {
    let (server, client) = &mut TestServer::start_and_connect();
    for way in WAYS {
        // Word by word, and at once: the timer looks in between or only after it all.
        for in_one in [false, true] {
            let all = All::held_and_awaited(server, client);
            for lines in lines_for_all(way) {
                if in_one {
                    at_once(client, &lines);
                } else {
                    let failed = lines.iter().find(|line| say(client, line).starts_with('!'));
                    assert_eq!(failed, None, "{way:?}");
                }
            }
            all.bobs_have_them(client, &format!("{way:?} at once: {in_one}"));
            client.story(&[("FLUSHALL", "OK")]);
        }
    }
}

#[test]
fn a_forced_release_hands_on() {
    let (server, client) = &mut TestServer::start_and_connect();
    for kind in KINDS {
        for way in ["RLOCK.FORCERELEASE lock", "RLOCK.FORCERELEASE lock ", "RLOCK.RELEASE lock ALL "] {
            let bob = kind.held_and_awaited(server, client, LOCK);
            // All at once, or each by itself.
            let lines = match way.split_once("ALL") {
                Some((release, _)) => kind.each_says(|holder| format!("{release}{holder} ALL")),
                None if way.ends_with(' ') => kind.each_says(|holder| format!("{way}{holder}")),
                None => vec![way.to_owned()],
            };
            for line in lines {
                assert!(bob.still_waits(), "{line}");
                client.story(&[(&line, "1")]);
            }
            kind.bob_has_it(client, LOCK, &bob, way);
        }
    }
}

/// In one transaction the lock is handed to bob and bob's client is killed: the grant is written, and its answer
/// never arrives.
#[test]
fn a_grant_whose_client_is_gone_goes_to_the_next() {
    let (server, client) = &mut TestServer::start_and_connect();
    let revoked = |number| {
        wait_for("the grant to be revoked", || counter(server, "revokes") == number);
    };
    for (number, kind) in (1..).step_by(2).zip(KINDS) {
        let gone = kind.held_and_awaited(server, client, LOCK);
        let next = kind.wait(server, LOCK, "next");
        let kill = |waiting: &Waiting| format!("CLIENT KILL ID {}", waiting.client_id());
        at_once(client, &[kind.releases(LOCK), vec![kill(&gone)]].concat());
        kind.granted(&next, "a grant that was revoked");
        revoked(number);
        assert!(gone.answer().starts_with("the connection ended"), "{kind:?}");
        // Readers would share it with bob.
        assert!(!kind.has_holder(client, LOCK, "bob"), "{kind:?}");
        // The same without another waiter: the lock is free.
        let last = kind.alone().wait(server, LOCK, "last");
        at_once(client, &["RLOCK.RELEASE lock next".to_owned(), kill(&last)]);
        revoked(number + 1);
        kind.is_gone(client, LOCK);
    }
}

/// Of readers that were granted the lock together one is gone: only its grant is revoked.
#[test]
fn one_grant_of_many_is_revoked() {
    let (server, client) = &mut TestServer::start_and_connect();
    client.story(&[("RLOCK.ACQUIRE lock w 100000 WRITE", "[1, 100000, 0]")]);
    let kind = KINDS[0];
    let (a, b, c) =
        (kind.wait(server, LOCK, "a"), kind.wait(server, LOCK, "b"), kind.wait(server, LOCK, "c"));
    let kill = format!("CLIENT KILL ID {}", b.client_id());
    assert_eq!(transaction(client, &["RLOCK.RELEASE lock w", &kill]), "[1, 1]");
    assert_eq!((a.answer(), c.answer()), ("[1, 50000, 0]".into(), "[1, 50000, 0]".into()));
    wait_for("b's grant to be revoked", || say(client, "HEXISTS lock b") == "0");
    client.story(&[
        ("HMGET lock mode a b c", r#"["read", "1", null, "1"]"#),
        ("EXISTS {lock}:b:rwlock_timeout:1", "0"),
    ]);
}

/// The leases end after `begins`, and no waiter gets any of the locks before `ends`.
#[track_caller]
fn nothing_is_granted_between(begins: &str, ends: &str) {
    let (server, client) = &mut TestServer::start_and_connect();
    let all = All::held_and_awaited(server, client);
    renew_all(client, 500);
    client.story(&[(begins, "OK")]);
    for kind in KINDS {
        let lease = match kind.holds {
            // The key is left to end as it was to.
            "READ" => format!("PTTL {{{}}}:alice:rwlock_timeout:1", kind.name),
            _ => format!("PTTL {}", kind.name),
        };
        wait_for("the lease to end", || say(client, &lease) == "-2");
    }
    all.wait_on(Duration::from_millis(200));
    client.story(&[(ends, "OK")]);
    all.bobs_have_them(client, begins);
}

#[test]
fn nothing_is_granted_during_client_pause() {
    nothing_is_granted_between("CLIENT PAUSE 60000 WRITE", "CLIENT UNPAUSE");
}

#[test]
fn nothing_is_granted_while_too_few_replicas_are_there() {
    nothing_is_granted_between("CONFIG SET min-replicas-to-write 1", "CONFIG SET min-replicas-to-write 0");
}

#[test]
fn a_demoted_server_sends_its_waiters_away() {
    let (server, client, grants) = &mut TestServer::start_and_listen("grants");
    for kind in KINDS {
        let bob = kind.held_and_awaited(server, client, LOCK);
        let line = format!("RLOCK.ACQUIRE lock carol 50000 {} ENQUEUE 0 grants", kind.waits);
        client.story(&[(&line, "[0, 0, 0]"), ("REPLICAOF 127.0.0.1 1", "OK")]);
        assert!(bob.answer().starts_with("!UNBLOCKED "), "{kind:?}");
        let message = grants.next_text();
        assert!(message.starts_with("dropped 0 carol lock demoted"), "{message}");
        client.story(&[("REPLICAOF NO ONE", "OK")]);
        assert_eq!(waiters(client, "lock").replace("bob carol", ""), "", "{kind:?}");
        // None of its entries in Redisson's list counts as a living waiter's any more.
        let again = kind.wait(server, LOCK, "bob");
        gives_back(kind, client);
        assert!(again.answer().starts_with("[1, 50000, "), "{kind:?}");
        client.story(&[("RLOCK.RELEASE lock bob", "1"), ("FLUSHALL", "OK")]);
    }
}

#[test]
fn an_unconfirmed_enqueued_grant_passes_on() {
    let server = TestServer::builder().conf("rlock.grant-confirm-ms", "200").start();
    let (client, mut grants) = (&mut server.connect(), Subscriber::channel(&server, "grants"));
    for kind in KINDS {
        kind.held(client, LOCK, 100_000);
        let line = format!("RLOCK.ACQUIRE lock carol 50000 {} ENQUEUE 0 grants", kind.waits);
        client.story(&[(&line, "[0, 0, 0]")]);
        // A writer behind: readers would share the lock.
        let behind = kind.alone();
        let bob = behind.wait(&server, LOCK, "bob");
        gives_back(kind, client);
        assert!(grants.next(SOON).is_some_and(|(_, text)| text.starts_with(b"granted 0 carol lock 1 200 ")));
        behind.bob_has_it(client, LOCK, &bob, "an unconfirmed grant");
    }
}

#[test]
fn an_enqueued_channel_without_a_subscriber_is_dropped() {
    let (server, client) = &mut TestServer::start_and_connect();
    for kind in KINDS {
        kind.held(client, LOCK, 100_000);
        let line = format!("RLOCK.ACQUIRE lock carol 50000 {} ENQUEUE 0 unheard", kind.waits);
        client.story(&[(&line, "[0, 0, 0]")]);
        let bob = kind.wait(server, LOCK, "bob");
        gives_back(kind, client);
        kind.bob_has_it(client, LOCK, &bob, "a channel without a subscriber");
    }
}

/// Of several readers each goes in its own way, and the writer has the lock when the last has gone.
#[test]
fn the_last_of_several_readers_hands_on() {
    let (server, client) = &mut TestServer::start_and_connect();
    let kind = KINDS[2];
    for (last, answer) in [
        ("RLOCK.RELEASE lock anna", "1"),
        ("RLOCK.FORCERELEASE lock anna", "1"),
        ("RLOCK.RENEW lock anna 200 READ", "1"),
        ("HDEL lock anna", "1"),
        ("UNLINK lock", "1"),
    ] {
        let bob = kind.held_and_awaited(server, client, LOCK);
        // New readers wait behind bob; readers that hold the lock may read again.
        client.story(&[("RLOCK.ACQUIRE lock late 1000 READ", "null"), ("RLOCK.RELEASE lock alice", "1")]);
        client.story(&[("RLOCK.RENEW lock amy 100 READ", "1")]);
        wait_for("amy's lease to end", || say(client, "EXISTS {lock}:amy:rwlock_timeout:1") == "0");
        bob.waits_on(Duration::from_millis(50));
        client.story(&[("HEXISTS lock anna", "1"), (last, answer)]);
        kind.bob_has_it(client, LOCK, &bob, last);
        client.story(&[("FLUSHALL", "OK")]);
    }
}
