//! BLOCK: waiting for a lock as a blocked client.

use rlock_testkit::prelude::*;

const REPLACED: &str = "!UNBLOCKED the same owner waits by a later call";

const FULL: &str = "!QUEUEFULL the queue is full (rlock.max-waiters or \
    rlock.max-waiters-per-key); try again later";

#[test]
fn a_blocked_client_gets_the_lock() {
    let (server, client) = &mut held();
    let bob = block(server, "bob");
    assert!(bob.still_waits());
    bob.granted_by(client, "RLOCK.RELEASE lock alice");
    client.story(&[("HGETALL lock", r#"["bob", "1"]"#)]);
    let words = ["rlock.acquire", "lock", "carol", "30000", "block", "60000", "holds", "1"];
    let carol = Waiting::start_on(server, server.connect_resp3(), &words);
    carol.granted_by(client, "RLOCK.RELEASE lock bob");
    // A caller that can have the lock at once does not wait.
    client.story(&[
        ("RLOCK.ACQUIRE lock carol 30000 BLOCK 60000 HOLDS 2", "[2, 30000, 0]"),
        ("RLOCK.ACQUIRE free dave 30000 BLOCK 60000", "[1, 30000, 0]"),
    ]);
}

#[test]
fn a_connection_continues_after_its_wait() {
    let (server, client) = &mut held();
    let bob = "RLOCK.ACQUIRE lock bob 50000 BLOCK 60000";
    let lines = [bob, "RLOCK.RELEASE lock bob", bob].map(str::to_owned).into_iter();
    let mut other = server.connect();
    let answers = std::thread::scope(|scope| {
        let answers = scope.spawn(|| crate::enqueue::pipelined(&mut other, lines));
        wait_for("bob to wait", || waiters(client, "lock") == "bob");
        client.story(&[("RLOCK.RELEASE lock alice", "1")]);
        answers.join().unwrap()
    });
    assert_eq!(text(&Value::Array(answers)), "[[1, 50000, 0], 1, [1, 50000, 0]]");
    other.story(&[("PING", "PONG")]);
}

#[test]
fn a_wait_ends_with_null() {
    let (server, client) = &mut held();
    for (mut waiter, wait) in [(server.connect(), 300), (server.connect_resp3(), 300), (server.connect(), 1)]
    {
        let start = Instant::now();
        waiter.story(&[(&format!("RLOCK.ACQUIRE lock bob 50000 BLOCK {wait}"), "null")]);
        let waited = start.elapsed();
        // The wait is counted in whole milliseconds of a clock.
        let least = Duration::from_millis(wait - 1);
        assert!(waited >= least && waited < least + Duration::from_secs(5), "{waited:?}");
        assert_eq!(waiters(client, "lock"), "");
        waiter.story(&[("PING", "PONG")]);
    }
    client.story(&[("RLOCK.RELEASE lock alice", "1"), ("EXISTS lock", "0")]);
}

#[test]
fn waits_end_each_at_its_own_time() {
    let (server, client) = &mut held();
    let wait = |owner, wait| Waiting::line(server, &format!("RLOCK.ACQUIRE lock {owner} 50000 BLOCK {wait}"));
    let (long, short, longest) = (wait("long", "2000"), wait("short", "500"), wait("longest", "60000"));
    assert_eq!(waiters(client, "lock"), "long short longest");
    assert_eq!(short.answer(), "null");
    assert!(long.still_waits());
    assert_eq!(long.answer(), "null");
    assert_eq!(waiters(client, "lock"), "longest");
    longest.granted_by(client, "RLOCK.RELEASE lock alice");
}

#[test]
fn a_wait_of_zero_is_for_ever() {
    let (server, client) = &mut held();
    let wait = |owner, wait| Waiting::line(server, &format!("RLOCK.ACQUIRE lock {owner} 50000 BLOCK {wait}"));
    let (ever, longest) = (wait("ever", "0"), wait("longest", "8796093022208"));
    let left: Vec<i64> = queue(client, "lock").iter().map(|entry| entry.wait_left_ms).collect();
    assert!(left[0] == -1 && left[1] > 8_796_093_000_000, "{left:?}");
    ever.waits_on(Duration::from_secs(1));
    longest.waits_on(Duration::ZERO);
    ever.granted_by(client, "RLOCK.RELEASE lock alice");
    for bad in ["8796093022209", "-1", "00", "1.5", "x", ""] {
        let answer = text(&ask(client, &["RLOCK.ACQUIRE", "lock", "dave", "50000", "BLOCK", bad]));
        assert!(answer.starts_with("!ERR invalid BLOCK"), "{bad}: {answer}");
    }
    assert!(say(client, "RLOCK.ACQUIRE lock dave 50000 BLOCK").starts_with("!ERR BLOCK needs a value"));
    assert_eq!(waiters(client, "lock"), "longest");
}

#[test]
fn no_call_blocks_in_multi_or_a_script() {
    let (_server, client) = &mut held();
    let held = "RLOCK.ACQUIRE lock bob 50000 BLOCK 0";
    assert_eq!(transaction(client, &[held, "RLOCK.ACQUIRE free bob 9 BLOCK 0"]), "[null, [1, 9, 0]]");
    let script = "EVAL return{redis.call(unpack(ARGV))} 0 RLOCK.ACQUIRE";
    client.story(&[(&format!("{script} lock bob 50000 BLOCK 0"), "[null]")]);
    client.story(&[(&format!("{script} empty bob 50000 BLOCK 0"), "[[1, 50000, 0]]")]);
    assert_eq!(waiters(client, "lock"), "");
    client.story(&[("RLOCK.RELEASE lock alice", "1"), ("EXISTS lock", "0")]);
}

#[test]
fn only_the_first_hold_is_waited_for() {
    let (server, client) = &mut TestServer::start_and_connect();
    client.story(&[
        ALICE,
        ("RLOCK.ACQUIRE lock bob 50000 HOLDS 2 BLOCK 0", "null"),
        ("RLOCK.ACQUIRE lock bob 50000 BLOCK 0 HOLDS 9007199254740992", "null"),
        ("RLOCK.ACQUIRE lock alice 50000 HOLDS 3 BLOCK 0", "null"),
        ("RLOCK.ACQUIRE free bob 50000 HOLDS 2 BLOCK 0", "null"),
    ]);
    assert_eq!((waiters(client, "lock"), waiters(client, "free")), (String::new(), String::new()));
    let bob = Waiting::line(server, "RLOCK.ACQUIRE lock bob 50000 HOLDS 1 BLOCK 60000");
    bob.granted_by(client, "RLOCK.RELEASE lock alice");
}

#[test]
fn waiters_are_served_in_the_order_they_came() {
    let (server, client) = &mut held();
    // Neither by name, nor by lease, nor by wait.
    let owners: Vec<String> = (0..20).map(|number| format!("owner:{}", number * 7 % 20)).collect();
    let mut waiting = Vec::new();
    for (owner, number) in owners.iter().zip(0..) {
        let (lease, wait) = (90_000 - number * 1_000, 60_000 - number * 1_000);
        let words = format!("RLOCK.ACQUIRE lock {owner} {lease} BLOCK {wait}");
        waiting.push(Waiting::line(server, &words));
    }
    assert_eq!(waiters(client, "lock"), owners.join(" "));
    let mut holder = "alice";
    for (owner, place) in owners.iter().zip(&waiting) {
        place.granted_by(client, &format!("RLOCK.RELEASE lock {holder}"));
        holder = owner;
    }
    client.story(&[(&format!("RLOCK.RELEASE lock {holder}"), "1"), ("EXISTS lock", "0")]);
}

#[test]
fn one_owner_has_one_place() {
    let (server, client) = &mut TestServer::start_and_connect();
    client.story(&[ALICE, ("RLOCK.ACQUIRE other alice 100000", "[1, 100000, 0]")]);
    client.story(&[("SELECT 1", "OK"), ALICE, ("SELECT 0", "OK")]);
    let (first, second) = (block(server, "bob"), block(server, "bob"));
    assert_eq!(first.answer(), REPLACED);
    let words = |key| ["RLOCK.ACQUIRE", key, "bob", "50000", "BLOCK", "60000"];
    let other_key = Waiting::start(server, &words("other"));
    let other_db = Waiting::start_in(server, 1, &words("lock"));
    assert_eq!(waiters(client, "lock"), "bob");
    assert_eq!(waiters(client, "other"), "bob");
    second.granted_by(client, "RLOCK.RELEASE lock alice");
    assert!(other_key.still_waits() && other_db.still_waits());
    client.story(&[("RLOCK.RELEASE other alice", "1"), ("SELECT 1", "OK")]);
    assert_eq!(other_key.answer(), "[1, 50000, 0]");
    assert_eq!(waiters(client, "lock"), "bob");
    other_db.granted_by(client, "RLOCK.RELEASE lock alice");
}

#[test]
fn a_repeat_takes_the_place_over() {
    let (server, client) = &mut TestServer::start_and_connect();
    client.story(&[ALICE, ("CONFIG SET rlock.max-waiters 2", "OK")]);
    let (first, carol) = (block(server, "bob"), block(server, "carol"));
    // The queue is full, but this needs no more room.
    let again = Waiting::line(server, "RLOCK.ACQUIRE lock bob 20000 BLOCK 0");
    assert_eq!(first.answer(), REPLACED);
    assert_eq!(waiters(client, "lock"), "bob carol");
    let bob = &queue(client, "lock")[0];
    assert_eq!((bob.wait_left_ms, bob.client_id), (-1, again.client_id()));
    again.granted_by(client, "RLOCK.RELEASE lock alice");
    assert!(carol.still_waits());
    carol.granted_by(client, "RLOCK.RELEASE lock bob");
    a_call_that_was_replaced_does_not_end_the_wait(server);
}

/// Neither by its own time nor by its client's end.
fn a_call_that_was_replaced_does_not_end_the_wait(server: &TestServer) {
    let client = &mut server.connect();
    let short = Waiting::line(server, "RLOCK.ACQUIRE lock bob 50000 BLOCK 1500");
    let long = block(server, "bob");
    assert_eq!(short.answer(), REPLACED);
    // Its thread closes the connection as well, now or a little later.
    say(client, &format!("CLIENT KILL ID {}", short.client_id()));
    long.waits_on(Duration::from_secs(2));
    long.granted_by(client, "RLOCK.RELEASE lock carol");
}

#[test]
fn a_repeat_after_the_grant_is_a_re_entry() {
    let (server, client) = &mut held();
    let bob = block(server, "bob");
    // In one transaction: bob's client has not been answered yet.
    let repeats = [
        "RLOCK.RELEASE lock alice",
        "RLOCK.ACQUIRE lock bob 70000 HOLDS 1 BLOCK 60000",
        "RLOCK.ACQUIRE lock bob 60000 BLOCK 60000",
    ];
    let answers = transaction(client, &repeats);
    assert!(answers.starts_with("[1, [1, 70000, 0], [2, "), "{answers}");
    assert_eq!(bob.answer(), "[1, 50000, 0]");
    let carol = block(server, "carol");
    client.story(&[("RLOCK.ACQUIRE lock bob 90000 HOLDS 1 BLOCK 0", "[2, 90000, 0]")]);
    client.story(&[("RLOCK.ACQUIRE lock bob 90000 BLOCK 0", "[3, 90000, 0]")]);
    carol.granted_by(client, "RLOCK.RELEASE lock bob ALL");
}

#[test]
fn no_more_wait_than_may() {
    let server = TestServer::start();
    let client = &mut server.connect();
    let other = ("RLOCK.ACQUIRE other alice 100000", "[1, 100000, 0]");
    client.story(&[ALICE, other, ("CONFIG SET rlock.max-waiters 2", "OK")]);
    let wait_for =
        |key, owner| Waiting::line(&server, &format!("RLOCK.ACQUIRE {key} {owner} 50000 BLOCK 60000"));
    let (bob, _carol) = (wait_for("lock", "bob"), wait_for("other", "carol"));
    let dave = ("RLOCK.ACQUIRE lock dave 50000 BLOCK 60000", FULL);
    // No room to wait, but none is needed for a denial, a free lock, or a lock that one holds.
    let others = [
        ("RLOCK.ACQUIRE lock dave 50000", "null"),
        ("RLOCK.ACQUIRE free dave 50000 BLOCK 60000", "[1, 50000, 0]"),
        ("RLOCK.ACQUIRE free dave 50000 BLOCK 60000", "[2, 50000, 0]"),
    ];
    client.story(&[&[dave][..], &others].concat());
    assert_eq!(waiters(client, "lock"), "bob");
    bob.granted_by(client, "RLOCK.RELEASE lock alice");
    // There is room again, on the server, but for one waiter only at each lock.
    client.story(&[("CONFIG SET rlock.max-waiters 100000 rlock.max-waiters-per-key 1", "OK")]);
    let eve = wait_for("lock", "eve");
    client.story(&[dave, ("RLOCK.ACQUIRE other dave 50000 BLOCK 60000", FULL)]);
    client.story(&[("CONFIG SET rlock.max-waiters-per-key 0", "OK"), ("RLOCK.CANCEL lock eve", "1"), dave]);
    assert_eq!(eve.answer(), "null");
    a_blocked_client_takes_some_memory();
}

fn a_blocked_client_takes_some_memory() {
    let (server, client) = &mut held();
    let used = || server.info("memory")["used_memory"].parse::<i64>().unwrap();
    // Besides what any connection takes.
    let mut connections: Vec<_> = (0..50).map(|_| server.connect()).collect();
    connections.iter_mut().for_each(|connection| assert_eq!(say(connection, "PING"), "PONG"));
    let before = used();
    let wait = |connection| {
        let owner = format!("owner:{}", say(client, "INCR owners"));
        Waiting::start_on(server, connection, &["RLOCK.ACQUIRE", "lock", &owner, "50000", "BLOCK", "60000"])
    };
    let waiting: Vec<_> = connections.into_iter().map(wait).collect();
    let each = (used() - before) / 50;
    assert!(waiting.iter().all(Waiting::still_waits));
    assert!((20_000..50_000).contains(&each), "a blocked client takes {each} bytes");
}

#[test]
fn info_shows_the_queue_in_order() {
    let (server, client) = &mut held();
    let bob = block(server, "bob");
    let carol = Waiting::line(server, "RLOCK.ACQUIRE lock carol 50000 BLOCK 0");
    bob.waits_on(Duration::from_millis(20));
    for mut asking in [server.connect(), server.connect_resp3()] {
        let entries = queue(&mut asking, "lock");
        let names: Vec<_> = entries.iter().map(|entry| (entry.owner.as_str(), entry.via.as_str())).collect();
        assert_eq!(names, [("bob", "block"), ("carol", "block")]);
        assert_eq!([entries[0].client_id, entries[1].client_id], [bob.client_id(), carol.client_id()]);
        let (age, left) = (entries[0].age_ms, entries[0].wait_left_ms);
        assert!((20..30_000).contains(&age) && age >= entries[1].age_ms, "{entries:?}");
        assert!((59_998..=60_000).contains(&(age + left)), "{entries:?}");
        assert_eq!(entries[1].wait_left_ms, -1);
        let none = r#"["owner", "carol", "mode", null, "#;
        let all = say(&mut server.connect(), "RLOCK.INFO lock");
        assert!(all.contains(none), "{all}");
        for (limit, shown) in [(0, 0), (1, 1), (2, 2)] {
            let info = fields(ask(&mut asking, &["RLOCK.INFO", "lock", "LIMIT", &limit.to_string()]));
            let value = |name| &info.iter().find(|(field, _)| field == name).unwrap().1;
            assert_eq!(text(value("waiter-count")), "2");
            let Value::Array(entries) = value("queue") else { panic!("no list") };
            assert_eq!(entries.len(), shown);
        }
    }
    let free = say(client, "RLOCK.INFO free");
    assert!(free.contains(r#""waiter-count", 0"#) && free.contains(r#""queue", []"#), "{free}");
}
