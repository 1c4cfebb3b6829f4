//! Ways to free a lock, for every kind of lock.
//!
//! There is a lock of each kind at a time, so that one wait serves for all.

use rlock_testkit::kinds::{All, KINDS, Kind, at_once, renew_all};
use rlock_testkit::prelude::*;

#[test]
fn a_lock_that_is_restored_over_wakes_the_next() {
    let (server, client) = &mut TestServer::start_and_connect();
    client.story(&[("HSET other carol 1", "1")]);
    let Value::BulkString(foreign) = ask(client, &["DUMP", "other"]) else { panic!("no dump") };
    let ways: [&[&[u8]]; 2] = [&[b"300", &foreign, b"REPLACE"], &[b"1", &foreign, b"REPLACE", b"ABSTTL"]];
    for way in ways {
        let all = All::held_and_awaited(server, client);
        for kind in KINDS {
            let words = [&[b"RESTORE", kind.name.as_bytes()], way].concat();
            assert_eq!(text(&ask(client, &words)), "OK", "{kind:?}");
        }
        all.bobs_have_them(client, &way.concat().escape_ascii().to_string());
    }
}

#[test]
fn a_hold_that_expires_by_itself_wakes_the_next() {
    let (server, client) = &mut TestServer::start_and_connect();
    if say(client, "HPEXPIRE none 1000 FIELDS 1 x").starts_with("!ERR unknown command") {
        eprintln!("not shown: this server's fields do not expire");
        return;
    }
    for (way, after) in [("HPEXPIRE", "300"), ("HPEXPIREAT", "1")] {
        let all = All::held_and_awaited(server, client);
        for kind in KINDS {
            at_once(client, &kind.expiring(kind.name, way, after));
        }
        all.bobs_have_them(client, way);
    }
}

#[test]
fn a_lock_that_migrates_away_wakes_the_next() {
    let (server, target) = (TestServer::start(), TestServer::builder().without_module().start());
    let client = &mut server.connect();
    let all = All::held_and_awaited(&server, client);
    for kind in KINDS {
        let line = format!("MIGRATE 127.0.0.1 {} {} 0 5000", target.port(), kind.name);
        client.story(&[(&line, "OK")]);
    }
    all.bobs_have_them(client, "MIGRATE");
}

/// The lease is shortened, by hand where it is the key's, and that is followed. (Of readers the key is set back.)
#[test]
fn shorter_and_longer_leases_are_followed() {
    let (server, client) = &mut TestServer::start_and_connect();
    let set_leases = |client: &mut Connection, ms: u32, by_hand: bool| {
        for kind in KINDS {
            let lines = match by_hand && kind.holds != "READ" {
                true => vec![format!("PEXPIRE {} {ms}", kind.name)],
                false => kind.each_says(|holder| format!("RLOCK.RENEW {} {holder} {ms}", kind.name)),
            };
            at_once(client, &lines);
        }
    };
    for by_hand in [true, false] {
        let all = All::held_and_awaited(server, client);
        set_leases(client, 300, by_hand);
        all.bobs_have_them(client, "a shorter lease");
        let all = All::held_and_awaited(server, client);
        // Before it ends it is long again.
        set_leases(client, 1_000, by_hand);
        set_leases(client, 100_000, by_hand);
        all.wait_on(Duration::from_millis(1_200));
        KINDS.iter().for_each(|kind| client.story(&[(&format!("DEL {}", kind.name), "1")]));
        all.bobs_have_them(client, "DEL");
        client.story(&[("FLUSHALL", "OK")]);
    }
}

/// The end of the key is another than that of the lease: PERSIST keeps a plain lock and a writer's, and no reader. Permits without an
/// expiry are not a lock.
#[test]
fn persist_and_expire_by_hand_keep_no_dead_reader() {
    let (server, client) = &mut TestServer::start_and_connect();
    for way in ["PERSIST", "PEXPIRE"] {
        let all = All::held_for(800, server, client);
        for kind in KINDS {
            let line = format!("{way} {} 900000", kind.name);
            let line = if way == "PERSIST" { line.replace(" 900000", "") } else { line };
            // A lease that has ended before this has shown nothing, and the test failed.
            client.story(&[(&line, "1")]);
        }
        std::thread::sleep(Duration::from_millis(1_000));
        for (kind, bob) in &all.0 {
            if kind.lasts_as_its_key(way) {
                assert!(bob.still_waits(), "{way}, {kind:?}");
                client.story(&[(&format!("DEL {}", kind.name), "1")]);
            }
            kind.bob_has_it(client, kind.name, bob, way);
        }
        client.story(&[("FLUSHALL", "OK")]);
    }
}

#[test]
fn a_reload_keeps_the_waiters() {
    let (server, client) = &mut TestServer::builder().with_aof().start_and_connect();
    for way in ["DEBUG RELOAD", "DEBUG LOADAOF"] {
        let all = All::held_and_awaited(server, client);
        client.story(&[(way, "OK")]);
        all.wait_on(Duration::from_millis(100));
        renew_all(client, 300);
        client.story(&[(way, "OK")]);
        all.bobs_have_them(client, way);
        client.story(&[("FLUSHALL", "OK")]);
    }
}

#[test]
fn an_evicted_lock_wakes_the_next() {
    let (server, client) = &mut TestServer::start_and_connect();
    let all = All::held_and_awaited(server, client);
    client.story(&[("CONFIG SET maxmemory-policy allkeys-lru", "OK"), ("CONFIG SET maxmemory 1", "OK")]);
    // A server whose eviction was interrupted continues with the next command.
    eventually("all to be evicted", SOON, || {
        client.story(&[("PING", "PONG")]);
        all.0.iter().all(|(_, bob)| !bob.still_waits()).then_some(())
    });
    // The holds of the new holders may be evicted in turn.
    all.0.iter().for_each(|(kind, bob)| kind.granted(bob, "eviction"));
    assert!(counter(server, "found_evicted") >= 1);
    assert_ne!(server.info("stats")["evicted_keys"], "0");
}

#[test]
fn a_lease_that_ends_wakes_also_where_the_server_does_not_look_for_expired_keys() {
    let (server, client) = &mut TestServer::start_and_connect();
    client.story(&[("DEBUG SET-ACTIVE-EXPIRE 0", "OK")]);
    let all = All::held_for(500, server, client);
    all.bobs_have_them(client, "a lease");
}

/// Commands that come after the lock was deleted by hand, with the answers if none gets past bob.
fn newcomers(kind: Kind) -> Vec<(String, &'static str)> {
    let modes: &[&str] = match kind.waits {
        // Another reader may share it with bob.
        "READ" => &["WRITE"],
        "WRITE" => &["READ", "WRITE"],
        // More permits would have room for another owner.
        "PERMITS 1" => &["PERMITS 1"],
        _ => &["", "FAIR", "FENCED"],
    };
    let key = kind.name;
    let mut lines = vec![(format!("RLOCK.FORCERELEASE {key} alice"), "0")];
    lines.extend(["bob", "carol"].map(|owner| (format!("RLOCK.CANCEL {key} {owner}"), "0")));
    lines.push((format!("RLOCK.RENEW {key} alice 1000"), "0"));
    lines.push((format!("RLOCK.RELEASE {key} alice"), "null"));
    if kind.waits.is_empty() {
        lines.push((format!("RLOCK.ACQUIRE {key} bob 1000"), "[2, 50000, 0]"));
    }
    for mode in modes {
        let ask = |owner, rest| (format!("RLOCK.ACQUIRE {key} {owner} 1000 {mode}{rest}"), "null");
        lines.extend([
            ask("carol", ""),
            ask("carol", " BLOCK 0"),
            ask("carol", " HOLDS 1"),
            ask("alice", ""),
        ]);
    }
    lines
}

#[test]
fn no_newcomer_gets_past_a_waiter_after_a_plain_delete() {
    let (server, client) = &mut TestServer::start_and_connect();
    for kind in KINDS {
        let key = kind.name;
        let bobs: Vec<_> = kind.fields_of("bob").iter().map(|field| format!("{field:?}")).collect();
        for (newcomer, answer) in newcomers(kind) {
            let ways = [(format!("DEL {key}"), 1), (format!("PEXPIREAT {key} 1"), 1)];
            for (freed, count) in ways.into_iter().chain([(kind.removes(key), kind.holders.len())]) {
                let bob = kind.held_and_awaited(server, client, key);
                let lines = [freed.as_str(), &newcomer, &kind.lists(key)];
                let answers = transaction(client, &lines);
                assert_eq!(answers, format!("[{count}, {answer}, [{}]]", bobs.join(", ")), "{lines:?}");
                kind.granted(&bob, &newcomer);
                client.story(&[(&format!("RLOCK.RELEASE {key} bob ALL"), "1"), ("FLUSHALL", "OK")]);
            }
        }
    }
}

#[test]
fn databases_are_apart() {
    let (server, client) = &mut TestServer::start_and_connect();
    let databases = [0, 3, 15];
    let select = |client: &mut Connection, db: u32| client.story(&[(&format!("SELECT {db}"), "OK")]);
    let waiting = databases.map(|db| {
        select(client, db);
        KINDS.map(|kind| {
            kind.held(client, kind.name, 100_000);
            (kind, kind.wait_in(server, db, kind.name, "bob"))
        })
    });
    for (number, way) in ["RLOCK.RELEASE", "DEL", "UNLINK"].into_iter().enumerate() {
        select(client, databases[number]);
        for (kind, bob) in &waiting[number] {
            match way {
                "RLOCK.RELEASE" => at_once(client, &kind.releases(kind.name)),
                _ => client.story(&[(&format!("{way} {}", kind.name), "1")]),
            }
            kind.bob_has_it(client, kind.name, bob, way);
        }
        for later in number + 1..databases.len() {
            select(client, databases[later]);
            for (kind, bob) in &waiting[later] {
                assert!(bob.still_waits(), "{kind:?}");
                let holds = format!("HEXISTS {} {}", kind.name, kind.fields_of_holders());
                if kind.holders.len() == 1 {
                    client.story(&[(&holds, "1")]);
                }
            }
        }
    }
}

/// While the lock's key holds something else, all wait; a fair queue is not touched meanwhile.
#[test]
fn waiters_wait_while_the_key_holds_something_else() {
    let (server, client) = &mut TestServer::start_and_connect();
    let become_other = |client: &mut Connection, command: &str, value: &str| {
        for kind in KINDS {
            at_once(client, &[format!("DEL {}", kind.name), format!("{command} {} {value}", kind.name)]);
        }
    };
    for (other, value) in [("SET", "x"), ("RPUSH", "x"), ("XADD", "* a b"), ("HSET", "name value")] {
        let all = All::held_and_awaited(server, client);
        become_other(client, other, value);
        all.wait_on(Duration::from_millis(200));
        for kind in KINDS {
            let held = state(client, kind.name);
            let acquire = format!("{} BLOCK 60000", kind.ask(kind.name, "carol"));
            for line in [acquire, format!("RLOCK.RELEASE {} bob", kind.name)] {
                let refused = say(client, &line);
                let wanted = if other == "HSET" { "!WRONGLOCK " } else { "!WRONGTYPE " };
                assert!(refused.starts_with(wanted), "{kind:?}: {refused}");
            }
            assert_eq!(state(client, kind.name), held, "{kind:?}");
        }
        // Another client's lock again, and then free.
        become_other(client, "HSET", "carol 1");
        all.wait_on(Duration::from_millis(100));
        KINDS.iter().for_each(|kind| client.story(&[(&format!("DEL {}", kind.name), "1")]));
        all.bobs_have_them(client, other);
        wait_for("no client to wait", || counter(server, "waiters") == 0);
        // Lease keys of earlier readers.
        client.story(&[("FLUSHALL", "OK")]);
        assert_eq!(number(client, "DBSIZE"), 0);
    }
}
