//! The counters of waiting in INFO, each after a history of known steps.

use std::collections::BTreeMap;

use rlock_testkit::prelude::*;

/// The counters of waiting, but for the histogram.
const COUNTERS: [&str; 17] = [
    "waiters",
    "waiters_peak",
    "hand_offs",
    "found_expired",
    "found_deleted",
    "found_renamed",
    "found_flushed",
    "found_swapped",
    "found_evicted",
    "found_otherwise",
    "timeouts",
    "cancelled",
    "revokes",
    "waiters_gone",
    "waiters_sent_away",
    "unconfirmed_grants",
    "foreign_turns",
];

fn counters(server: &TestServer) -> BTreeMap<&'static str, u64> {
    COUNTERS.iter().map(|name| (*name, counter(server, name))).collect()
}

/// The counters that are to differ from before, and by how much.
fn changed(before: &BTreeMap<&'static str, u64>, by: &[(&'static str, u64)]) -> BTreeMap<&'static str, u64> {
    let mut after = before.clone();
    for (name, more) in by {
        *after.get_mut(name).unwrap() += more;
    }
    after
}

fn block(server: &TestServer, owner: &str, wait_ms: &str) -> Waiting {
    Waiting::line(server, &format!("RLOCK.ACQUIRE lock {owner} 60000 BLOCK {wait_ms}"))
}

#[test]
fn the_section_counts_what_waiting_did() {
    let (server, client) = &mut TestServer::start_and_connect();
    let mut expected = counters(server);
    assert!(expected.values().all(|count| *count == 0));
    client.story(&[("RLOCK.ACQUIRE lock alice 50000", "[1, 50000, 0]")]);
    let (bob, carol) = (block(server, "bob", "0"), block(server, "carol", "0"));
    expected = changed(&expected, &[("waiters", 2), ("waiters_peak", 2)]);
    assert_eq!(counters(server), expected);

    bob.granted_by(client, "RLOCK.RELEASE lock alice");
    expected = changed(&expected, &[("hand_offs", 1)]);
    expected.insert("waiters", 1);
    assert_eq!(counters(server), expected, "a hand-off");

    client.story(&[("RLOCK.CANCEL lock carol", "1")]);
    assert_eq!(carol.answer(), "null");
    expected = changed(&expected, &[("cancelled", 1)]);
    expected.insert("waiters", 0);
    assert_eq!(counters(server), expected, "a cancelled wait");

    assert_eq!(block(server, "carol", "50").answer(), "null");
    expected = changed(&expected, &[("timeouts", 1)]);
    assert_eq!(counters(server), expected, "a wait that ended");

    let carol = block(server, "carol", "0");
    assert_eq!(say(client, &format!("CLIENT KILL ID {}", carol.client_id())), "1");
    expected = changed(&expected, &[("waiters_gone", 1)]);
    assert_eq!(counters(server), expected, "a client that disconnected");

    assert_eq!((counter(server, "waited"), counter(server, "waited_up_to_60000_ms")), (1, 1));
}

/// A lock with a waiter, and a command that frees it: INFO shows why it was found free.
#[test]
fn info_counts_each_way_to_free_a_lock() {
    let (server, client) = &mut TestServer::start_and_connect();
    let mut expected = counters(server);
    for (frees, counter) in [
        (&[("DEL lock", "1")][..], "found_deleted"),
        (&[("UNLINK lock", "1")], "found_deleted"),
        (&[("HDEL lock alice", "1")], "found_deleted"),
        (&[("EVAL return(redis.call('del',KEYS[1])) 1 lock", "1")], "found_deleted"),
        (&[("RENAME lock elsewhere", "OK")], "found_renamed"),
        // Valkey 8.1 leaves the client in the other database, where a module listens.
        (&[("MOVE lock 5", "1"), ("SELECT 0", "OK")], "found_renamed"),
        (&[("FLUSHALL", "OK")], "found_flushed"),
        (&[("FLUSHDB ASYNC", "OK")], "found_flushed"),
        (&[("SWAPDB 0 3", "OK")], "found_swapped"),
        (&[("PEXPIRE lock 1", "1")], "found_expired"),
        // What is written over it goes by itself.
        (&[("SET lock x", "OK"), ("GETDEL lock", "\"x\"")], "found_deleted"),
    ] {
        client.story(&[("RLOCK.ACQUIRE lock alice 50000", "[1, 50000, 0]")]);
        let bob = block(server, "bob", "0");
        client.story(frees);
        assert_eq!(bob.answer(), "[1, 60000, 0]", "{frees:?}");
        expected = changed(&expected, &[("hand_offs", 1), (counter, 1)]);
        expected.insert("waiters_peak", 1);
        assert_eq!(counters(server), expected, "{frees:?}");
        client.story(&[("FLUSHALL", "OK")]);
    }
}

#[test]
fn grants_by_message_and_turns_are_counted() {
    // Long enough for carol to confirm in time on a busy machine, and no turn because of that time.
    let server = TestServer::builder()
        .conf("rlock.grant-confirm-ms", 1_500)
        .conf("rlock.foreign-turn-ms", 60_000)
        .start();
    let client = &mut server.connect();
    let channels = ["grants", "redisson_lock__channel:{lock}"];
    let _heard = Subscriber::connect(&server).subscribe(&channels);
    client.story(&[
        ("RLOCK.ACQUIRE lock alice 50000", "[1, 50000, 0]"),
        ("RLOCK.ACQUIRE lock bob 50000 ENQUEUE 0 grants", "[0, 0, 0]"),
        ("RLOCK.ACQUIRE lock deaf 50000 ENQUEUE 0 unheard", "[0, 0, 0]"),
        ("RLOCK.ACQUIRE lock carol 50000 ENQUEUE 0 grants", "[0, 0, 0]"),
        ("RLOCK.RELEASE lock alice", "1"),
    ]);
    wait_for("carol to have the lock", || counter(&server, "hand_offs") == 2);
    let counts = counters(&server);
    let of = |name| counts[name];
    assert_eq!((of("unconfirmed_grants"), of("waiters_gone"), of("found_expired")), (1, 1, 1));
    client.story(&[("RLOCK.RENEW lock carol 50000", "1"), ("CONFIG SET rlock.foreign-turn-grants 1", "OK")]);
    client.story(&[("RLOCK.ACQUIRE lock bob 50000 ENQUEUE 0 grants", "[0, 0, 0]")]);
    client.story(&[("RLOCK.RELEASE lock carol", "1")]);
    assert_eq!(counter(&server, "foreign_turns"), 1);
}

/// Bob's grant by message was ended by force, or by the DEL of another client, before bob had a chance to
/// confirm it. Carol acquired the lock in the ordinary way, and when her lease ended it was counted as an
/// unconfirmed grant.
#[test]
fn the_holder_after_an_unconfirmed_grant_is_not_taken_for_it() {
    for ended in ["RLOCK.FORCERELEASE lock", "DEL lock"] {
        let server = TestServer::builder().conf("rlock.grant-confirm-ms", 200).start();
        let (client, mut grants) = (&mut server.connect(), Subscriber::channel(&server, "grants"));
        client.story(&[
            ("RLOCK.ACQUIRE lock alice 50000", "[1, 50000, 0]"),
            ("RLOCK.ACQUIRE lock bob 50000 ENQUEUE 0 grants", "[0, 0, 0]"),
        ]);
        let carol = Waiting::line(&server, "RLOCK.ACQUIRE lock carol 400 BLOCK 0");
        let dave = block(&server, "dave", "0");
        assert_eq!(transaction(client, &["RLOCK.RELEASE lock alice", ended]), "[1, 1]");
        assert_eq!(carol.answer(), "[1, 400, 0]");
        assert_eq!(grants.drain().len(), 1, "bob had it");
        assert_eq!(dave.answer(), "[1, 60000, 0]");
        let counts = ["hand_offs", "found_expired", "unconfirmed_grants"].map(|name| counter(&server, name));
        assert_eq!(counts, [3, 1, 0], "{ended}");
    }
}

#[test]
fn waits_are_counted_by_how_long_they_were() {
    let (server, client) = &mut held();
    let bob = block(server, "bob", "0");
    bob.waits_on(Duration::from_millis(150));
    bob.granted_by(client, "RLOCK.RELEASE lock alice");
    let bounds = [1, 5, 10, 50, 100, 500, 1_000, 5_000, 10_000, 30_000, 60_000, 300_000];
    let up_to = bounds.map(|bound| counter(server, &format!("waited_up_to_{bound}_ms")));
    assert_eq!(up_to[..5], [0; 5], "it waited for 150 ms at least");
    assert!(up_to.is_sorted() && up_to[11] == 1, "{up_to:?}");
    let waited_ms = counter(server, "waited_ms");
    let fitting = bounds.map(|bound| u64::from(waited_ms <= bound));
    assert_eq!((up_to, waited_ms >= 150), (fitting, true), "{waited_ms} ms");
    assert_eq!(counter(server, "waited"), 1);
    // A wait that ends without the lock does not count.
    assert_eq!(block(server, "carol", "20").answer(), "null");
    assert_eq!((counter(server, "waited"), counter(server, "waited_ms")), (1, waited_ms));
}

/// A reader of INFO sees how near the limits are, without a permission for CONFIG.
#[test]
fn the_section_shows_the_limits_beside_what_they_bound() {
    let (server, client) = &mut TestServer::start_and_connect();
    let limits = || ["max_waiters", "max_ties"].map(|name| counter(server, name));
    assert_eq!(limits(), [100_000, 1_000_000]);
    client.story(&[("CONFIG SET rlock.max-waiters 7", "OK"), ("CONFIG SET rlock.max-ties 8", "OK")]);
    assert_eq!(limits(), [7, 8]);
}
