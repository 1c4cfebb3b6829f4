//! Faults that were found in waiting, each with its story.

use std::thread;

use rlock_testkit::prelude::*;

fn block(server: &TestServer, owner: &str, lease_ms: &str) -> Waiting {
    Waiting::line(server, &format!("RLOCK.ACQUIRE lock {owner} {lease_ms} BLOCK 0"))
}

/// From Redis 7.2 on, time stands still for a whole script or transaction. A waiter's lease was counted from
/// that time: handed on at the end of a transaction that took longer than the lease, the lock expired in
/// the same moment, and the next waiter had it too. Two holders, each told that it had a second.
#[test]
fn a_lease_that_is_handed_on_late_in_a_transaction_counts_from_the_hand_off() {
    for script in [false, true] {
        let (server, client) = &mut held();
        let (bob, carol) = (block(server, "bob", "1500"), block(server, "carol", "1500"));
        if script {
            // Where TIME stands still in a script, `os.clock` is there, and the other way round. It counts what the
            // processor does for the server: that takes longer where the machine is busy.
            client.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            let slow = "local there,clock=pcall(function() return os.clock end) \
                if not there then \
                    clock=function() local t=redis.call('TIME') return t[1]+t[2]/1e6 end \
                end \
                local ends=clock()+2 repeat until clock()>ends \
                return redis.call('RLOCK.RELEASE','lock','alice')";
            let words = ["EVAL", slow, "0"];
            assert_eq!(text(&ask(client, &words)), "1");
        } else {
            let lines = ["DEBUG SLEEP 2", "RLOCK.RELEASE lock alice"];
            assert_eq!(transaction(client, &lines), "[OK, 1]");
        }
        assert_eq!(bob.answer(), "[1, 1500, 0]");
        let granted = Instant::now();
        let holder = say(client, "HGETALL lock");
        assert_eq!(holder, r#"["bob", "1"]"#, "script: {script}");
        assert_eq!(carol.answer(), "[1, 1500, 0]");
        assert!(granted.elapsed() > Duration::from_millis(700), "carol had it {:?} later", granted.elapsed());
    }
}

/// The same for a lock that a late command takes or renews.
#[test]
fn a_lease_that_is_taken_late_in_a_transaction_counts_from_the_command() {
    let (_server, client) = &mut TestServer::start_and_connect();
    client.story(&[("RLOCK.ACQUIRE mine alice 50000", "[1, 50000, 0]")]);
    let lines = ["DEBUG SLEEP 1.2", "RLOCK.ACQUIRE new alice 1000", "RLOCK.RENEW mine alice 1000"];
    assert_eq!(transaction(client, &lines), "[OK, [1, 1000, 0], 1]");
    for lock in ["new", "mine"] {
        assert!(number(client, &format!("PTTL {lock}")) > 0, "{lock} ended before its owner got the answer");
    }
}

/// The server's timers count in 64 bits of microseconds, those of Redis 7.0 partly in 32. The end of a lease
/// in 600,000 years wrapped around into the past, on 7.0 that in an hour, and the timer fired without end.
#[test]
fn a_lease_that_ends_in_an_hour_or_in_ages_keeps_the_server_idle() {
    let (server, client) = &mut held();
    let bob = block(server, "bob", "1000");
    for far in
        ["PEXPIRE lock 3600000", "PEXPIREAT lock 20000000000000000", "PEXPIREAT lock 9000000000000000000"]
    {
        client.story(&[(far, "1")]);
        let cpu = || server.info("cpu")["used_cpu_user"].parse::<f64>().unwrap();
        let before = cpu();
        thread::sleep(Duration::from_secs(1));
        let used = cpu() - before;
        assert!(used < 0.5, "{used} s of CPU in one second, {far}");
    }
    bob.granted_by(client, "RLOCK.RELEASE lock alice");
}

/// Redisson waiters sleep until the lease end that they received. Only the last lease end was remembered: after a
/// renewal to less, a hand-off that ended later than that, but sooner than the end that they had received, was not
/// published, and they missed the wake-up.
#[test]
fn redisson_waiters_are_notified_if_the_new_lease_ends_before_any_that_they_received() {
    let (server, client, foreign) = &mut TestServer::start_and_listen("redisson_lock__channel:{lock}");
    client.story(&[("RLOCK.ACQUIRE lock alice 60000", "[1, 60000, 0]")]);
    let bob = block(server, "bob", "20000");
    client.story(&[("RLOCK.RENEW lock alice 5000", "1"), ("RLOCK.RELEASE lock alice", "1")]);
    assert_eq!(bob.answer(), "[1, 20000, 0]");
    assert_eq!(foreign.next(SOON).map(|(_, message)| message), Some(b"0".to_vec()));
}

/// A lock that was released, and left to Redisson waiters for a while, was counted as deleted by another client.
#[test]
fn yielding_to_redisson_waiters_is_not_a_deletion() {
    let server = TestServer::builder().conf("rlock.foreign-turn-grants", 1).start();
    let client = &mut server.connect();
    let _foreign = Subscriber::channel(&server, "redisson_lock__channel:{lock}");
    client.story(&[("RLOCK.ACQUIRE lock alice 50000", "[1, 50000, 0]")]);
    let (bob, carol) = (block(&server, "bob", "50000"), block(&server, "carol", "50000"));
    bob.granted_by(client, "RLOCK.RELEASE lock alice");
    carol.granted_by(client, "RLOCK.RELEASE lock bob");
    let counters = ["foreign_turns", "found_deleted", "found_expired"];
    assert_eq!(counters.map(|name| counter(&server, name)), [1, 0, 0]);
}

/// Loads the other module, which deletes `victim` on the event for `lock`.
fn reacting(event: &str, victim: &str) -> TestServer {
    reacting_by(&format!("delete-on:{event}:lock"), victim)
}

/// The same, by this rule of its own.
fn reacting_by(rule: &str, what: &str) -> TestServer {
    let server = TestServer::start();
    load_reacting(&mut server.connect(), rule, what);
    server
}

fn load_reacting(client: &mut Connection, rule: &str, what: &str) {
    let load = ["MODULE", "LOAD", reacting_module_path().to_str().unwrap()];
    assert_eq!(text(&ask(client, &load)), "OK");
    assert_eq!(text(&ask(client, &["SET", rule, what])), "OK");
}

/// Events come last: the key already has the next holder.
#[test]
fn another_module_that_receives_a_release_finds_the_next_holder() {
    let server = reacting_by("call-on:rlock.release:lock", "RENAME lock seen");
    let client = &mut server.connect();
    client.story(&[ALICE]);
    let bob = block(&server, "bob", "50000");
    bob.granted_by(client, "RLOCK.RELEASE lock alice");
    assert_eq!(say(client, "HKEYS seen"), r#"["bob"]"#);
}

/// The call of the other module hands the lock on within the command of the first: each sets the next check of the queue, and the
/// later one stands.
#[test]
fn another_module_may_hand_the_lock_on_within_an_event_of_rlock() {
    let server = reacting_by("call-on:rlock.release:lock", "RLOCK.RELEASE lock bob");
    let client = &mut server.connect();
    // The end of carol's lease raises no event.
    client.story(&[("DEBUG SET-ACTIVE-EXPIRE 0", "OK"), ALICE]);
    let (bob, carol) = (block(&server, "bob", "50000"), block(&server, "carol", "300"));
    let dave = block(&server, "dave", "50000");
    bob.granted_by(client, "RLOCK.RELEASE lock alice");
    assert_eq!(carol.answer(), "[1, 300, 0]");
    // No command frees the lock: it is the timer that finds carol's lease ended.
    assert_eq!(dave.answer(), "[1, 50000, 0]");
    assert_eq!(counter(&server, "found_expired"), 1);
}

/// Another module deletes the lock while a look reads a lease key that has expired. A turn that took the view for newer than that would
/// set the next check to the end of the deleted hold.
#[test]
fn a_lock_that_another_module_deletes_within_a_look_is_handed_on() {
    let server = reacting_by("call-on:expired:{lock}:alice:rwlock_timeout:1", "DEL lock");
    let client = &mut server.connect();
    client.story(&[
        ("DEBUG SET-ACTIVE-EXPIRE 0", "OK"),
        ("RLOCK.ACQUIRE lock alice 50000 WRITE", "[1, 50000, 0]"),
        ("RLOCK.ACQUIRE lock alice 100 READ", "[1, 100, 0]"),
    ]);
    let bob = Waiting::line(&server, "RLOCK.ACQUIRE lock bob 50000 WRITE BLOCK 0");
    thread::sleep(Duration::from_millis(200));
    say(client, "RLOCK.RELEASE lock alice WRITE HOLDS 1");
    assert_eq!(bob.answer(), "[1, 50000, 0]");
}

/// A change deletes a lease key that has expired, and another module that reacts to that acquires the lock. Its effects went before those
/// of the change: the AOF and replicas had the lock deleted again.
#[test]
fn effects_of_another_module_within_a_change_follow_those_of_the_change() {
    let rule = "call-on:expired:{lock}:alice:rwlock_timeout:1";
    let server = TestServer::builder().conf("appendonly", "yes").start();
    let client = &mut server.connect();
    load_reacting(client, rule, "RLOCK.ACQUIRE lock eve 300000");
    client.story(&[
        ("DEBUG SET-ACTIVE-EXPIRE 0", "OK"),
        ("RLOCK.ACQUIRE lock alice 20000 READ", "[1, 20000, 0]"),
        ("RLOCK.ACQUIRE lock alice 30000 READ", "[2, 30000, 0]"),
        ("PEXPIRE {lock}:alice:rwlock_timeout:1 100", "1"),
    ]);
    thread::sleep(Duration::from_millis(200));
    let held = ("HGETALL lock", r#"["eve", "1"]"#);
    client.story(&[("RLOCK.RELEASE lock alice READ ALL", "1"), held, ("DEBUG LOADAOF", "OK"), held]);
}

/// The message of a grant is sent once the grant is made: a panic later in the command does not leave a hold that no client knows.
#[test]
fn a_grant_by_message_is_announced_although_the_next_grant_panics() {
    let (server, client) = &mut TestServer::builder().module(fault_module_path()).start_and_connect();
    let mut grants = Subscriber::channel(server, "grants");
    client.story(&[
        ("RLOCK.ACQUIRE lock alice 20000 WRITE", "[1, 20000, 0]"),
        ("RLOCK.ACQUIRE lock eve 20000 READ ENQUEUE 0 grants", "[0, 0, 0]"),
    ]);
    let bob = Waiting::line(server, "RLOCK.ACQUIRE lock bob 50000 READ BLOCK 0");
    client.story(&[("RLOCK.FAULT answer", "1")]);
    assert!(say(client, "RLOCK.RELEASE lock alice").starts_with("!ERR rlock: internal error"));
    assert!(bob.answer().starts_with("!UNBLOCKED"));
    assert_eq!(grants.next_text(), "granted 0 eve lock 1 5000 0 read");
}

/// While rlock raised an event, every event was taken for rlock's own: a lock that another module deleted in the
/// event was not checked, and its waiter slept on.
#[test]
fn a_lock_that_another_module_deletes_on_an_event_of_rlock_wakes_its_waiter() {
    let server = reacting("rlock.release", "other");
    let client = &mut server.connect();
    client.story(&[("RLOCK.ACQUIRE other alice 50000", "[1, 50000, 0]"), ("PERSIST other", "1")]);
    let bob = Waiting::line(&server, "RLOCK.ACQUIRE other bob 1000 BLOCK 0");
    client.story(&[("RLOCK.ACQUIRE lock alice 50000", "[1, 50000, 0]"), ("RLOCK.RELEASE lock alice", "1")]);
    assert_eq!(bob.answer(), "[1, 1000, 0]");
}

/// The key was still open while events were raised: another module that deleted it in the event left rlock to close
/// a key whose value was freed.
#[test]
fn another_module_may_delete_the_lock_itself_on_an_event_of_rlock() {
    for event in ["rlock.acquire", "rlock.handoff"] {
        let server = reacting(event, "lock");
        let client = &mut server.connect();
        for round in 0..50 {
            // Handed on and deleted at once, it is free for the next waiter, which gets it in the same way.
            client.story(&[("HSET lock elsewhere 1", "1")]);
            let (bob, carol) = (block(&server, "bob", "50000"), block(&server, "carol", "50000"));
            bob.granted_by(client, "DEL lock");
            if event == "rlock.acquire" {
                client.story(&[("RLOCK.RELEASE lock bob", "1")]);
            }
            assert_eq!(carol.answer(), "[1, 50000, 0]", "{event}, {round}");
            say(client, "RLOCK.FORCERELEASE lock");
            client.story(&[("RLOCK.ACQUIRE lock dave 50000", "[1, 50000, 0]")]);
            say(client, "RLOCK.FORCERELEASE lock");
        }
    }
}

/// The queues belonged to one thread: another module that used a thread of its own met other, empty queues. A lock
/// that was deleted or released there was handed to no waiter, and an owner that enqueued there never received a
/// message.
#[test]
fn another_module_may_work_from_a_thread_of_its_own() {
    let (server, client) = &mut TestServer::start_and_connect();
    let load = ["MODULE", "LOAD", reacting_module_path().to_str().unwrap()];
    assert_eq!(text(&ask(client, &load)), "OK");
    for frees in ["DEL lock", "RLOCK.RELEASE lock alice", "RLOCK.FORCERELEASE lock"] {
        client.story(&[("RLOCK.ACQUIRE lock alice 50000", "[1, 50000, 0]"), ("PERSIST lock", "1")]);
        let bob = block(server, "bob", "50000");
        client.story(&[(&format!("REACTS.THREAD {frees}"), "OK")]);
        assert_eq!(bob.answer(), "[1, 50000, 0]", "{frees}");
        client.story(&[("RLOCK.RELEASE lock bob", "1")]);
    }
    client.story(&[("RLOCK.ACQUIRE lock alice 50000", "[1, 50000, 0]")]);
    let mut grants = Subscriber::channel(server, "grants");
    client.story(&[("REACTS.THREAD RLOCK.ACQUIRE lock carol 40000 ENQUEUE 0 grants", "OK")]);
    wait_for("carol in the queue", || counter(server, "waiters") == 1);
    client.story(&[("RLOCK.RELEASE lock alice", "1")]);
    let (_, message) = grants.next(SOON).expect("a grant");
    // Until it is confirmed.
    assert_eq!(message, b"granted 0 carol lock 1 5000 0");
}
