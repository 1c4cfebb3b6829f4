//! PERMITS beside what the server has for all commands: WATCH, access control, lists of what is awaited, and draining.

use rlock_testkit::prelude::*;

const TWO: [(&str, &str); 2] = [
    ("RLOCK.ACQUIRE slots alice 60000 PERMITS 2", "[1, 60000, 0]"),
    ("RLOCK.ACQUIRE slots bob 60000 PERMITS 2", "[1, 60000, 0]"),
];

/// Whether a transaction still runs that watched the key while another client said this.
#[track_caller]
fn transaction_runs(watcher: &mut Connection, other: &mut Connection, line: &str, answer: &str) -> bool {
    watcher.story(&[("WATCH slots", "OK")]);
    other.story(&[(line, answer)]);
    watcher.story(&[("MULTI", "OK"), ("PING", "QUEUED")]);
    say(watcher, "EXEC") != "null"
}

#[test]
fn only_a_change_of_permits_breaks_watch() {
    let server = TestServer::start();
    let (watcher, other) = (&mut server.connect(), &mut server.connect());
    other.story(&TWO);
    for (line, answer) in [
        ("RLOCK.ACQUIRE slots carol 60000 PERMITS 2", "null"),
        ("RLOCK.ACQUIRE slots alice 1000 PERMITS 2", "[1, …"),
        ("RLOCK.RELEASE slots carol", "null"),
        ("RLOCK.RELEASE slots alice HOLDS 1", "0"),
        ("RLOCK.RENEW slots carol 60000", "0"),
        ("RLOCK.FORCERELEASE slots carol", "0"),
        ("RLOCK.CANCEL slots carol", "0"),
    ] {
        assert!(transaction_runs(watcher, other, line, answer), "{line}");
    }
    for (line, answer) in [
        ("RLOCK.ACQUIRE slots carol 60000 PERMITS 3", "[1, 60000, 0]"),
        ("RLOCK.ACQUIRE slots alice 90000 PERMITS 2", "[1, 90000, 0]"),
        ("RLOCK.RENEW slots bob 80000", "1"),
        ("RLOCK.RELEASE slots bob HOLDS 1 LEASE 70000", "0"),
        ("RLOCK.RELEASE slots carol", "1"),
        ("RLOCK.FORCERELEASE slots bob", "1"),
        ("RLOCK.FORCERELEASE slots", "1"),
        ("RLOCK.ACQUIRE slots alice 60000 PERMITS 1", "[1, 60000, 0]"),
        ("RLOCK.RELEASE slots alice", "1"),
    ] {
        assert!(!transaction_runs(watcher, other, line, answer), "{line}");
    }
}

/// A permit has no keys but the lock's own, and needs no right but those of every lock.
#[test]
fn permits_need_the_rights_of_their_key_alone() {
    let (server, client) = &mut TestServer::start_and_connect();
    client.story(&[("ACL SETUSER app on nopass ~locks:* +rlock.acquire +rlock.release +rlock.renew", "OK")]);
    let app = &mut server.connect_as("app", "x");
    app.story(&[
        ("RLOCK.ACQUIRE locks:1 a 60000 PERMITS 2", "[1, 60000, 0]"),
        ("RLOCK.RENEW locks:1 a 60000", "1"),
        ("RLOCK.RELEASE locks:1 a", "1"),
    ]);
    client.story(&[("RLOCK.ACQUIRE other a 60000 PERMITS 2", "[1, 60000, 0]")]);
    for line in
        ["RLOCK.ACQUIRE other b 60000 PERMITS 2", "RLOCK.RENEW other a 60000", "RLOCK.RELEASE other a"]
    {
        app.story(&[(line, "!NOPERM …")]);
    }
    app.story(&[("RLOCK.ACQUIRE locks:1 a 60000 PERMITS 2 ENQUEUE 0 news", "!NOPERM …")]);
    client.story(&[("ZRANGE other 0 -1", r#"["a"]"#), ("EXISTS locks:1", "0")]);
}

#[test]
fn waiters_for_permits_are_listed_and_sent_away_by_a_drain() {
    let (server, client, heard) = &mut TestServer::start_and_listen("news");
    client.story(&TWO);
    let carol = Waiting::line(server, "RLOCK.ACQUIRE slots carol 9000 PERMITS 2 BLOCK 0");
    client.story(&[("RLOCK.ACQUIRE slots dave 9000 PERMITS 2 ENQUEUE 0 news", "[0, 0, 0]")]);
    let list = say(client, "RLOCK.LIST 0");
    assert!(list.contains(r#""key", "slots", "waiter-count", 2"#), "{list}");
    client.story(&[("CONFIG SET rlock.accept no", "OK")]);
    let told = carol.answer();
    assert!(told.starts_with("!UNBLOCKED this server is drained"), "{told}");
    assert_eq!(heard.next_text(), "dropped 0 dave slots drained permit");
    // Holders stay.
    client.story(&[("RLOCK.RENEW slots alice 60000", "1"), ("RLOCK.RELEASE slots bob", "1")]);
    client.story(&[("ZRANGE slots 0 -1", r#"["alice"]"#), ("RLOCK.LIST 0", r#"["0", []]"#)]);
}

/// Several permits become free at once, in a transaction and by a script: as many waiters get one, and no more.
#[test]
fn as_many_waiters_are_served_as_permits_become_free_at_once() {
    let (server, client) = &mut TestServer::start_and_connect();
    for way in [
        ["RLOCK.RELEASE slots alice", "RLOCK.RELEASE slots bob"],
        ["ZREM slots alice bob", "PING"],
        ["DEL slots", "PING"],
        ["EVAL return{redis.call('ZREM','slots','alice'),redis.call('ZREM','slots','bob')} 0", "PING"],
    ] {
        client.story(&TWO);
        let waiting = ["c", "d", "e"].map(|owner| {
            Waiting::line(server, &format!("RLOCK.ACQUIRE slots {owner} 50000 PERMITS 2 BLOCK 0"))
        });
        transaction(client, &way);
        for waiting in &waiting[..2] {
            assert_eq!(waiting.answer(), "[1, 50000, 0]", "{way:?}");
        }
        assert!(waiting[2].still_waits(), "{way:?}");
        client.story(&[("ZRANGE slots 0 -1", r#"["c", "d"]"#), ("RLOCK.RELEASE slots c", "1")]);
        assert_eq!(waiting[2].answer(), "[1, 50000, 0]", "{way:?}");
        client.story(&[("RLOCK.FORCERELEASE slots", "1")]);
        wait_for("the queue to be empty", || counter(server, "waiters") == 0);
    }
}
