//! Wake-ups: whatever frees a lock, and whichever client does it, the first waiter gets it.
//!
//! While a waiter waits to be woken here, no RLOCK command touches the lock: it would serve the queue.

use rlock_testkit::prelude::*;
use rlock_testkit::redisson::{GIVES_BACK, run};

const ALICE: &str = "RLOCK.ACQUIRE lock alice 100000";

const UNLOCKED: &str = "redisson_lock__channel:{lock}";

/// Alice holds `lock`, bob waits for it.
#[track_caller]
fn alice_and_bob(server: &TestServer, client: &mut Connection) -> Waiting {
    assert_eq!(say(client, ALICE), "[1, 100000, 0]");
    block(server, "bob")
}

/// Bob has the lock without a further call, and releases it.
#[track_caller]
fn bob_has_it(client: &mut Connection, bob: &Waiting, after: &str) {
    wait_for(&format!("bob to have the lock after {after}"), || !bob.still_waits());
    assert_eq!(bob.answer(), "[1, 50000, 0]", "{after}");
    assert_eq!(say(client, "HGETALL lock"), r#"["bob", "1"]"#, "{after}");
    assert_eq!(say(client, "RLOCK.RELEASE lock bob"), "1", "{after}");
}

#[test]
fn a_lease_that_ends_wakes_the_next() {
    let server = TestServer::builder().conf("notify-keyspace-events", "Ed").start();
    let client = &mut server.connect();
    let mut delays: Vec<i64> = (0..20).map(|_| delay_of_a_grant(&server, client)).collect();
    delays.sort_unstable();
    // The server's time of the grant after the end of the old lease. Only the quickest show what the
    // server does by itself: the machine is not idle.
    assert!(delays[0] >= 0, "{delays:?}");
    assert!(delays[4] <= 2 && delays[10] <= 10 && delays[19] < 2_000, "{delays:?}");
    assert_eq!([counter(&server, "found_expired"), counter(&server, "found_deleted")], [20, 0]);
    let mut listener = Subscriber::pattern(&server, "*");
    delay_of_a_grant(&server, client);
    let events = ["rlock.acquire", "rlock.expire", "rlock.handoff", "rlock.release"];
    let events = events.map(|event| format!("{event} lock"));
    assert_eq!(listener.events(), [&events[..], &[format!("{UNLOCKED} 0")]].concat());
}

/// How many milliseconds after the end of alice's lease bob was granted the lock.
#[track_caller]
fn delay_of_a_grant(server: &TestServer, client: &mut Connection) -> i64 {
    assert_eq!(say(client, "RLOCK.ACQUIRE lock alice 150"), "[1, 150, 0]");
    let ends = number(client, "PEXPIRETIME lock");
    let bob = block(server, "bob");
    assert_eq!(bob.answer(), "[1, 50000, 0]");
    let granted = number(client, "PEXPIRETIME lock") - 50_000;
    client.story(&[("RLOCK.RELEASE lock bob", "1")]);
    granted - ends
}

/// Lines after each of which bob has the lock, beside those in `kinds`: commands of the server only.
const WAYS: [&[&str]; 25] = [
    &["RENAMENX lock nowhere", "DEL nowhere"],
    &["SET string x", "RENAME string lock", "DEL lock"],
    &["SET lock x", "GETDEL lock"],
    &["PSETEX lock 300 x"],
    &["SET lock x KEEPTTL", "PEXPIRE lock 300"],
    &["GETSET x y", "SET lock x", "GETEX lock PX 300"],
    &["HSET short carol 1", "PEXPIRE short 300", "COPY short lock REPLACE", "DEL short"],
    &["EXPIRE lock -1"],
    &["PEXPIRE lock 1"],
    &["PEXPIREAT lock 1"],
    &["EXPIREAT lock 1"],
    &["SORT none STORE lock"],
    &["ZUNIONSTORE lock 1 none"],
    &["BITOP AND lock none"],
    &["HSET lock carol 1", "HDEL lock alice carol"],
    &["HSET lock carol 1", "HDEL lock alice", "HDEL lock carol"],
    &["HSET lock alice 9", "HINCRBY lock alice 5", "PEXPIRE lock 300"],
    // The remains of a read/write lock that Redisson has released.
    &["HSET lock mode write", "HDEL lock alice"],
    &["HSET lock alice no-number", "DEL lock"],
    &["FLUSHDB"],
    &["FLUSHDB ASYNC"],
    &["FLUSHALL ASYNC"],
    &["FLUSHALL SYNC"],
    &["SWAPDB 0 1"],
    &["SWAPDB 1 0"],
];

#[test]
fn every_way_to_free_a_lock_wakes_the_next() {
    let (server, client) = &mut TestServer::start_and_connect();
    for way in WAYS {
        // Word by word, and at once: the timer looks in between or only after it all.
        for at_once in [false, true] {
            let bob = alice_and_bob(server, client);
            if at_once {
                let answers = transaction(client, way);
                assert!(!answers.contains('!'), "{way:?}: {answers}");
            } else {
                let failed = way.iter().find(|line| say(client, line).starts_with('!'));
                assert_eq!(failed, None, "{way:?}");
            }
            bob_has_it(client, &bob, &format!("{way:?} at once: {at_once}"));
            // What was swapped away would come back.
            client.story(&[("FLUSHALL", "OK")]);
        }
    }
}

/// Whatever data is swapped into it.
#[test]
fn a_waiter_belongs_to_its_database() {
    let (server, client) = &mut TestServer::start_and_connect();
    client.story(&[("SELECT 1", "OK"), (ALICE, "[1, 100000, 0]"), ("SELECT 0", "OK")]);
    let bob = alice_and_bob(server, client);
    client.story(&[("SWAPDB 0 1", "OK"), ("DEL lock", "1")]);
    bob_has_it(client, &bob, "a swapped lock that is deleted");
    client.story(&[("SELECT 1", "OK"), ("HGETALL lock", r#"["alice", "1"]"#)]);
}

#[test]
fn the_unlock_of_a_redisson_script_wakes() {
    let (server, client) = &mut TestServer::start_and_connect();
    let bob = alice_and_bob(server, client);
    client.story(&[("RLOCK.ACQUIRE lock alice 100000", "[2, 100000, 0]")]);
    let mut give_back = || run(client, GIVES_BACK, "lock", "alice", 30_000);
    assert_eq!(give_back(), "0");
    assert!(bob.still_waits());
    assert_eq!(give_back(), "1");
    bob_has_it(client, &bob, "Redisson's unlock");
}

#[test]
fn no_newcomer_gets_past_a_waiter_outside_transactions() {
    let (server, client) = &mut TestServer::start_and_connect();
    let bob = alice_and_bob(server, client);
    let script =
        "EVAL redis.call('DEL',KEYS[1])return{redis.call('RLOCK.ACQUIRE',KEYS[1],'carol','1000')} 1 lock";
    client.story(&[(script, "[null]")]);
    bob_has_it(client, &bob, script);
    for _ in 0..20 {
        let bob = alice_and_bob(server, client);
        let lines = ["DEL lock", "RLOCK.ACQUIRE lock carol 1000"].map(str::to_owned);
        let answers = crate::enqueue::pipelined(client, lines.into_iter());
        assert_eq!(text(&Value::Array(answers)), "[1, null]");
        bob_has_it(client, &bob, "a pipeline");
    }
}

#[test]
fn a_wait_ends_also_while_the_key_holds_something_else() {
    let (server, client) = &mut TestServer::start_and_connect();
    client.story(&[(ALICE, "[1, 100000, 0]")]);
    let bob = Waiting::line(server, "RLOCK.ACQUIRE lock bob 50000 BLOCK 500");
    client.story(&[("SET lock x", "OK")]);
    assert_eq!(bob.answer(), "null");
}

#[test]
fn a_lock_that_no_native_takes_is_published() {
    let (server, client) = &mut TestServer::start_and_connect();
    // The messages reach no subscriber, so the waiter cannot take the lock.
    let deaf = ["bob", "carol"]
        .map(|owner| format!("RLOCK.ACQUIRE lock {owner} 50000 ENQUEUE 60000 unheard:{owner}"));
    for freed in [
        "RLOCK.RELEASE lock alice",
        "RLOCK.FORCERELEASE lock",
        "DEL lock",
        "PEXPIRE lock 100",
        "PEXPIREAT lock 1",
    ] {
        client.story(&[(ALICE, "[1, 100000, 0]"), (&deaf[0], "[0, 0, 0]"), (&deaf[1], "[0, 0, 0]")]);
        let mut listener = Subscriber::channel(server, UNLOCKED);
        client.story(&[(freed, "1")]);
        let heard = listener.next(SOON).unwrap_or_else(|| panic!("no message after {freed}"));
        assert_eq!(heard, (UNLOCKED.into(), b"0".to_vec()), "{freed}");
        assert_eq!(listener.drain().len(), 0, "{freed}: told once");
        assert_eq!(waiters(client, "lock"), "", "{freed}");
        client.story(&[("EXISTS lock", "0")]);
    }
}

/// Redisson waiters try again when the lease that they know ends: nothing else would tell them without rlock either.
#[test]
fn an_end_by_other_commands_is_not_published_without_native_waiters() {
    let (server, client) = &mut TestServer::start_and_connect();
    for (freed, answer) in
        [("DEL lock", "1"), ("FLUSHALL", "OK"), ("PEXPIREAT lock 1", "1"), ("PEXPIRE lock 50", "1")]
    {
        client.story(&[(ALICE, "[1, 100000, 0]")]);
        let mut listener = Subscriber::channel(server, UNLOCKED);
        client.story(&[(freed, answer)]);
        wait_for(&format!("the end of the lock after {freed}"), || say(client, "EXISTS lock") == "0");
        // The message of this release comes after any that the end would have sent.
        client.story(&[(ALICE, "[1, 100000, 0]"), ("RLOCK.RELEASE lock alice", "1")]);
        assert!(listener.next(SOON).is_some(), "{freed}: the message of the release");
        assert_eq!(listener.drain().len(), 0, "{freed}: another message");
    }
}
