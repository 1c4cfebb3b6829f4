//! Waiting for permits: in order, by limits, and for whatever ends one.

use rlock_testkit::prelude::*;

use crate::permits::score;

const TWO: [(&str, &str); 2] = [
    ("RLOCK.ACQUIRE slots a 60000 PERMITS 2", "[1, 60000, 0]"),
    ("RLOCK.ACQUIRE slots b 60000 PERMITS 2", "[1, 60000, 0]"),
];

#[test]
fn waiters_get_permits_in_their_order() {
    let (server, client) = &mut TestServer::start_and_connect();
    client.story(&TWO);
    let wait = |owner: &str, permits: &str| {
        Waiting::line(server, &format!("RLOCK.ACQUIRE slots {owner} 50000 PERMITS {permits} BLOCK 0"))
    };
    let (c, d, e) = (wait("c", "1"), wait("d", "2"), wait("e", "3"));
    // c waits to be alone; no client overtakes it, though there is room for e.
    client.story(&[("RLOCK.ACQUIRE slots f 1000 PERMITS 9", "null"), ("RLOCK.RELEASE slots a", "1")]);
    assert!(c.still_waits() && d.still_waits() && e.still_waits());
    c.granted_by(client, "RLOCK.RELEASE slots b");
    assert_eq!(d.answer(), "[1, 50000, 0]");
    assert_eq!(e.answer(), "[1, 50000, 0]");
    client.story(&[("ZRANGE slots 0 -1", r#"["c", "d", "e"]"#)]);
}

#[test]
fn a_waiter_behind_one_that_leaves_is_served() {
    let (server, client) = &mut TestServer::start_and_connect();
    client.story(&[("RLOCK.ACQUIRE slots a 60000 PERMITS 1", "[1, 60000, 0]")]);
    let b = Waiting::line(server, "RLOCK.ACQUIRE slots b 9000 PERMITS 1 BLOCK 0");
    let c = Waiting::line(server, "RLOCK.ACQUIRE slots c 9000 PERMITS 2 BLOCK 0");
    client.story(&[("RLOCK.CANCEL slots b", "1")]);
    assert_eq!(b.answer(), "null");
    assert_eq!(c.answer(), "[1, 9000, 0]");
    let d = Waiting::line(server, "RLOCK.ACQUIRE slots d 9000 PERMITS 1 BLOCK 100");
    let e = Waiting::line(server, "RLOCK.ACQUIRE slots e 9000 PERMITS 3 BLOCK 0");
    assert_eq!(d.answer(), "null");
    assert_eq!(e.answer(), "[1, 9000, 0]");
}

/// How many ms after the end of a permit the waiter has it.
fn delay_of_a_grant(server: &TestServer) -> i64 {
    let client = &mut server.connect();
    client.story(&[
        ("RLOCK.ACQUIRE slots a 60000 PERMITS 2", "[1, 60000, 0]"),
        ("RLOCK.ACQUIRE slots b 150 PERMITS 2", "[1, 150, 0]"),
    ]);
    let ends = score(client, "b");
    let c = Waiting::line(server, "RLOCK.ACQUIRE slots c 50000 PERMITS 2 BLOCK 0");
    assert_eq!(c.answer(), "[1, 50000, 0]");
    let granted = score(client, "c") - 50_000;
    client.story(&[("RLOCK.FORCERELEASE slots", "1")]);
    granted - ends
}

#[test]
fn the_end_of_one_permit_wakes_the_next_waiter() {
    let server = TestServer::start();
    let mut delays: Vec<i64> = (0..5).map(|_| delay_of_a_grant(&server)).collect();
    delays.sort_unstable();
    assert!(delays[0] >= 0, "{delays:?}");
    // On an idle server: 2 ms. The machine may be busy, but not each time.
    assert!(delays[0] <= 2, "{delays:?}");
}

#[test]
fn every_way_to_end_a_permit_wakes_the_next() {
    let (server, client) = &mut TestServer::start_and_connect();
    let ways: [&[&str]; 11] = [
        &["ZREM slots a"],
        &["DEL slots"],
        &["UNLINK slots"],
        &["ZPOPMIN slots"],
        &["ZREMRANGEBYRANK slots 0 0"],
        &["RENAME slots elsewhere"],
        &["MOVE slots 1", "SELECT 1", "DEL slots", "SELECT 0"],
        &["PEXPIRE slots 1"],
        &["SET slots x", "DEL slots"],
        &["SWAPDB 0 2"],
        &["FLUSHALL"],
    ];
    for way in ways {
        client.story(&TWO);
        let c = Waiting::line(server, "RLOCK.ACQUIRE slots c 9000 PERMITS 2 BLOCK 0");
        for line in way {
            let answer = say(client, line);
            assert!(!answer.starts_with('!'), "{line}: {answer}");
        }
        let answer = c.outcome(SOON);
        assert!(answer.is_ok(), "{way:?}: {answer:?}");
        client.story(&[("FLUSHALL", "OK")]);
    }
}

/// Another client removes the permit that ends last, or prolongs the key. The waiter that wants to be alone waits for the other
/// one; after its end the key was `WRONGLOCK`, and the waiter waited until it expired.
#[test]
fn a_key_that_outlasts_its_permits_keeps_no_waiter() {
    let (server, client) = &mut TestServer::start_and_connect();
    let changes = ["ZREM slots a", "PEXPIRE slots 60000", "PEXPIRE slots 90000 GT"];
    // A waiter that comes after the change gets no event of it.
    for (change, comes_after) in changes.into_iter().flat_map(|change| [(change, false), (change, true)]) {
        let first = if change == "ZREM slots a" { "60000" } else { "300" };
        client.story(&[
            (&format!("RLOCK.ACQUIRE slots a {first} PERMITS 2"), &format!("[1, {first}, 0]")),
            ("RLOCK.ACQUIRE slots b 500 PERMITS 2", "[1, 500, 0]"),
        ]);
        if comes_after {
            client.story(&[(change, "1")]);
        }
        let wait = |owner, permits| {
            Waiting::line(server, &format!("RLOCK.ACQUIRE slots {owner} 9000 PERMITS {permits} BLOCK 0"))
        };
        let (c, d) = (wait("c", "1"), wait("d", "2"));
        if !comes_after {
            client.story(&[(change, "1")]);
        }
        for waiting in [c, d] {
            assert_eq!(waiting.answer(), "[1, 9000, 0]", "{change}, waits after it: {comes_after}");
        }
        client.story(&[("RLOCK.FORCERELEASE slots", "1")]);
    }
}

/// Another client removes the permit that ends last, after the other one has ended. The set of the ended one alone was `WRONGLOCK`, and
/// both waiters waited until the key expired, for a minute.
#[test]
fn an_ended_permit_alone_keeps_no_waiter() {
    let (server, client) = &mut TestServer::start_and_connect();
    for comes_after in [false, true] {
        client.story(&[
            ("RLOCK.ACQUIRE slots a 60000 PERMITS 2", "[1, 60000, 0]"),
            ("RLOCK.ACQUIRE slots b 300 PERMITS 2", "[1, 300, 0]"),
        ]);
        if comes_after {
            wait_for("the end of b", || say(client, "RLOCK.INFO slots").contains(r#""holder-count", 1"#));
        }
        let wait = |owner, permits| {
            Waiting::line(server, &format!("RLOCK.ACQUIRE slots {owner} 9000 PERMITS {permits} BLOCK 0"))
        };
        let (c, d) = (wait("c", "1"), wait("d", "2"));
        wait_for("b is removed", || number(client, "ZCARD slots") == 1);
        c.granted_by(client, "ZREM slots a");
        assert_eq!(d.answer(), "[1, 9000, 0]", "waits after the end of b: {comes_after}");
        client.story(&[("RLOCK.FORCERELEASE slots", "1")]);
    }
}

/// A command that is denied between the end of a permit and the timer put the timer off to the end of the next living one.
#[test]
fn a_denied_command_keeps_no_ended_permit() {
    let (server, client) = &mut TestServer::start_and_connect();
    client.story(&[
        ("RLOCK.ACQUIRE slots a 60000 PERMITS 2", "[1, 60000, 0]"),
        ("RLOCK.ACQUIRE slots b 300 PERMITS 2", "[1, 300, 0]"),
    ]);
    let c = Waiting::line(server, "RLOCK.ACQUIRE slots c 9000 PERMITS 1 BLOCK 0");
    let answers = transaction(client, &["DEBUG SLEEP 0.5", "RLOCK.ACQUIRE slots x 1000 PERMITS 2"]);
    assert!(answers.contains("null"), "{answers}");
    wait_for("b is removed", || number(client, "ZCARD slots") == 1);
    c.granted_by(client, "ZREM slots a");
}

/// More ended permits than one event-loop cycle removes, whether the first waiter gets a permit or not.
#[test]
fn many_ended_permits_keep_no_waiter() {
    let (server, client) = &mut TestServer::start_and_connect();
    for (limit, left) in [(1, 1), (2, 2)] {
        let all: Vec<_> =
            (0..200).map(|owner| format!("RLOCK.ACQUIRE slots b{owner} 300 PERMITS 300")).collect();
        let mut lines = vec!["RLOCK.ACQUIRE slots a 60000 PERMITS 300"];
        lines.extend(all.iter().map(String::as_str));
        transaction(client, &lines);
        client.story(&[("ZCARD slots", "201")]);
        let wait = |owner| {
            Waiting::line(server, &format!("RLOCK.ACQUIRE slots {owner} 9000 PERMITS {limit} BLOCK 0"))
        };
        let (c, d) = (wait("c"), wait("d"));
        wait_for("they are removed", || number(client, "ZCARD slots") == left);
        client.story(&[("ZREM slots a", "1")]);
        assert_eq!(c.answer(), "[1, 9000, 0]", "{limit}");
        if limit == 1 {
            assert!(d.still_waits());
            client.story(&[("RLOCK.RELEASE slots c", "1")]);
        }
        assert_eq!(d.answer(), "[1, 9000, 0]", "{limit}");
        client.story(&[("RLOCK.FORCERELEASE slots", "1")]);
    }
}

#[test]
fn an_enqueued_waiter_receives_its_permit_by_a_message() {
    let (_server, client, heard) = &mut TestServer::start_and_listen("grants");
    client.story(&[
        ("RLOCK.ACQUIRE slots a 60000 PERMITS 1", "[1, 60000, 0]"),
        ("RLOCK.ACQUIRE slots b 60000 PERMITS 1 ENQUEUE 0 grants", "[0, 0, 0]"),
        ("RLOCK.ACQUIRE slots c 60000 PERMITS 2 ENQUEUE 0 grants", "[0, 0, 0]"),
        ("RLOCK.RELEASE slots a", "1"),
    ]);
    assert_eq!(heard.next_text(), "granted 0 b slots 1 5000 0 permit");
    assert_eq!(heard.next_text(), "granted 0 c slots 1 5000 0 permit");
    client.story(&[("RLOCK.RENEW slots b 60000", "1"), ("RLOCK.RELEASE slots c", "1")]);
    client.story(&[("RLOCK.ACQUIRE slots d 60000 PERMITS 1 ENQUEUE 50 grants", "[0, 0, 0]")]);
    assert_eq!(heard.next_text(), "timeout 0 d slots permit");
}

#[test]
fn a_client_that_disconnects_passes_its_permit_to_the_next() {
    let (server, client) = &mut TestServer::start_and_connect();
    client.story(&[("RLOCK.ACQUIRE slots a 60000 PERMITS 1", "[1, 60000, 0]")]);
    let b = Waiting::line(server, "RLOCK.ACQUIRE slots b 60000 PERMITS 2 BLOCK 0");
    assert_eq!(b.answer(), "[1, 60000, 0]");
    let c = Waiting::line(server, "RLOCK.ACQUIRE slots c 60000 PERMITS 2 BLOCK 0");
    let d = Waiting::line(server, "RLOCK.ACQUIRE slots d 60000 PERMITS 2 BLOCK 0");
    // In one transaction: the grant is on its way to a client that is gone.
    let kill = format!("CLIENT KILL ID {}", c.client_id());
    transaction(client, &["RLOCK.RELEASE slots b", &kill]);
    assert_eq!(d.answer(), "[1, 60000, 0]");
    client.story(&[("ZRANGE slots 0 -1", r#"["a", "d"]"#)]);
}

#[test]
fn a_permit_ends_with_its_connection() {
    let server = TestServer::start();
    let (client, mut other) = (&mut server.connect(), server.connect());
    other.story(&[("RLOCK.ACQUIRE slots a 60000 PERMITS 1 SESSION 100", "[1, 60000, 0]")]);
    client.story(&[("RLOCK.ACQUIRE slots keeper 30000 PERMITS 9", "[1, 30000, 0]")]);
    let b = Waiting::line(&server, "RLOCK.ACQUIRE slots b 60000 PERMITS 2 BLOCK 0");
    drop(other);
    assert_eq!(b.answer(), "[1, 60000, 0]");
    client.story(&[("RLOCK.RENEW slots a 1000", "0"), ("RLOCK.RENEW slots keeper 30000", "1")]);
}
