//! Pauses, failing disks, full memory and scripts, for every kind of lock.

use std::fs;
use std::thread::sleep;

use crate::kinds_departures::{ALL, nexts, nexts_have_them};
use rlock_testkit::kinds::{All, KINDS, at_once, renew_all};
use rlock_testkit::prelude::*;

/// Long enough for a timer that does not care to have fired many times.
const A_WHILE: Duration = Duration::from_millis(400);

#[test]
fn a_grant_is_not_revoked_before_the_pause_has_ended() {
    for mode in ["WRITE", "ALL"] {
        let (server, client) = &mut TestServer::start_and_connect();
        let all = All::held_and_awaited(server, client);
        let nexts = nexts(server);
        let mut stream = ReplicaStream::open(server);
        let paused = server_time(client);
        let pause = vec![format!("CLIENT PAUSE 800 {mode}")];
        // The bobs are granted the locks and gone before their answers are sent; after that, writes are paused.
        at_once(client, &[all.releases(), pause, all.kills()].concat());
        for (kind, next) in &nexts {
            kind.granted(next, mode);
            let granted = number(client, &format!("PEXPIRETIME {}", kind.name)) - 50_000;
            assert!(granted >= paused + 800, "{mode}, {kind:?}: {paused} {granted}");
            kind.is_held_by(client, kind.name, "next", mode);
        }
        assert_eq!(counter(server, "revokes"), ALL, "{mode}");
        // A revoke and the next grant are one transaction.
        assert_eq!(stream.so_far(server).pop().unwrap(), [b"EXEC"], "{mode}");
    }
}

#[test]
fn nothing_is_revoked_while_too_few_replicas_are_there() {
    let (server, client) = &mut TestServer::start_and_connect();
    let all = All::held_and_awaited(server, client);
    let nexts = nexts(server);
    let fewer = vec!["CONFIG SET min-replicas-to-write 1".to_owned()];
    at_once(client, &[all.releases(), fewer, all.kills()].concat());
    sleep(A_WHILE);
    for ((kind, _), (_, next)) in all.0.iter().zip(&nexts) {
        assert!(next.still_waits(), "{kind:?}");
        kind.is_held_by(client, kind.name, "bob", "too few replicas");
    }
    client.story(&[("CONFIG SET min-replicas-to-write 0", "OK")]);
    nexts_have_them(client, &nexts, "replicas");
    assert_eq!(counter(server, "revokes"), ALL);
}

#[test]
fn a_client_that_disconnects_during_a_pause_leaves_the_queue() {
    let (server, client) = &mut TestServer::start_and_connect();
    let all = All::held_for(1_500, server, client);
    let nexts = nexts(server);
    client.story(&[("CLIENT PAUSE 60000 WRITE", "OK")]);
    all.kills().iter().for_each(|kill| client.story(&[(kill, "1")]));
    for kind in KINDS {
        let lease = format!("PTTL {}", kind.name);
        wait_for("the lease to end", || say(client, &lease) == "-2");
    }
    sleep(Duration::from_millis(100));
    assert!(nexts.iter().all(|(_, next)| next.still_waits()));
    client.story(&[("CLIENT UNPAUSE", "OK")]);
    nexts_have_them(client, &nexts, "the pause");
    assert_eq!(counter(server, "waiters_gone"), ALL);
}

#[test]
fn nothing_is_granted_while_the_disk_fails() {
    let (server, client) = &mut TestServer::builder().conf("save", "3600 1").start_and_connect();
    let all = All::held_and_awaited(server, client);
    renew_all(client, 2000);
    // The snapshot cannot take the place of a directory.
    let snapshot = server.dir().join("dump.rdb");
    fs::create_dir(&snapshot).unwrap();
    let mut save = |wanted: &str| {
        eventually("a snapshot", Duration::from_secs(30), || {
            ask(client, &["BGSAVE"]);
            sleep(Duration::from_millis(20));
            (server.info("persistence")["rdb_last_bgsave_status"] == wanted).then_some(())
        });
    };
    save("err");
    assert!(all.0.iter().all(|(_, bob)| bob.still_waits()), "the snapshot failed too late for this test");
    all.wait_on(Duration::from_millis(2_500));
    fs::remove_dir(&snapshot).unwrap();
    save("ok");
    all.bobs_have_them(client, "the disk");
}

#[test]
fn memory_that_is_full_does_not_stop_a_hand_off() {
    let (server, client) = &mut TestServer::start_and_connect();
    let all = All::held_and_awaited(server, client);
    let nexts = nexts(server);
    client.story(&[("CONFIG SET maxmemory-policy noeviction", "OK"), ("CONFIG SET maxmemory 1", "OK")]);
    for kind in KINDS {
        assert!(say(client, &kind.ask(kind.name, "carol")).starts_with("!OOM "), "{kind:?}");
        kind.releases(kind.name).iter().for_each(|line| client.story(&[(line, "1")]));
    }
    for (kind, bob) in &all.0 {
        kind.granted(bob, "a release");
        // Nor that of a lease that ends.
        client.story(&[(&format!("RLOCK.RENEW {} bob 20", kind.name), "1")]);
    }
    nexts_have_them(client, &nexts, "a lease that ended");
}

#[test]
fn a_release_in_a_script_hands_on() {
    let (server, client) = &mut TestServer::start_and_connect();
    for kind in KINDS {
        let bob = kind.held_and_awaited(server, client, kind.name);
        let release = "for _,owner in ipairs(ARGV)do redis.call('RLOCK.RELEASE',KEYS[1],owner)end";
        let list = kind.lists(kind.name).split(' ').map(|word| format!("'{word}'")).collect::<Vec<_>>();
        let script = format!("{release} return redis.call({})", list.join(","));
        let words = [&["EVAL", &script, "1", kind.name], kind.holders].concat();
        let fields: Vec<_> = kind.fields_of("bob").iter().map(|field| format!("{field:?}")).collect();
        assert_eq!(text(&ask(client, &words)), format!("[{}]", fields.join(", ")), "{kind:?}");
        kind.bob_has_it(client, kind.name, &bob, "a script");
    }
}

#[test]
fn enqueue_works_in_multi_and_scripts() {
    let (_server, client, grants) = &mut TestServer::start_and_listen("grants");
    for kind in KINDS {
        let key = kind.name;
        kind.held(client, key, 100_000);
        let enqueues = |owner: &str| format!("{} ENQUEUE 0 grants", kind.alone().ask(key, owner));
        let bob = enqueues("bob");
        let lines = [bob.as_str(), &format!("RLOCK.CANCEL {key} bob"), &bob];
        assert_eq!(transaction(client, &lines), "[[0, 0, 0], 1, [0, 0, 0]]", "{kind:?}");
        let carol = enqueues("carol");
        let words: Vec<_> = carol.split_ascii_whitespace().collect();
        let script = ["EVAL", "return redis.call('RLOCK.ACQUIRE', KEYS[1], unpack(ARGV))", "1"];
        assert_eq!(text(&ask(client, &[&script, &words[1..]].concat())), "[0, 0, 0]", "{kind:?}");
        assert_eq!(waiters(client, key), "bob carol", "{kind:?}");
        // All holders release and one waits again, in one transaction; after that bob releases, in a script.
        at_once(client, &[kind.releases(key), vec![enqueues("alice")]].concat());
        let bob = ["EVAL", "return redis.call('RLOCK.RELEASE', KEYS[1], 'bob')", "1", key];
        assert_eq!(text(&ask(client, &bob)), "1", "{kind:?}");
        client.story(&[(&format!("RLOCK.RELEASE {key} carol"), "1")]);
        for owner in ["bob", "carol", "alice"] {
            let (_, message) = grants.next(SOON).expect("a grant");
            let message = message.escape_ascii().to_string();
            assert!(message.starts_with(&format!("granted 0 {owner} {key} 1 5000 ")), "{kind:?}: {message}");
        }
        client.story(&[(&format!("RLOCK.RELEASE {key} alice"), "1")]);
        kind.is_gone(client, key);
    }
}
