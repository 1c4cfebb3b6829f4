//! Clients that go, panics, pauses and full memory, as in `departures`, `pauses`, `handoff` and `enqueue`, with those who
//! wait to read, to write, and with FAIR.
//!
//! There is a lock of each kind at a time, so that what has to be waited for is waited for once.

mod kinds;
mod waiting;

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use kinds::{All, KINDS, Kind, at_once};
use redis::Connection;
use rlock_testkit::{Subscriber, TestServer, eventually, fault_module_path};
use waiting::{SOON, Waiting, ask, counter, number, say, server_time, story, text, waiters};

/// Long enough for a timer that does not care to have fired many times.
const A_WHILE: Duration = Duration::from_millis(400);

/// As many locks as there are kinds.
const ALL: u64 = KINDS.len() as u64;

fn nobody_waits(server: &TestServer) {
    eventually("nobody to wait", SOON, || (counter(server, "waiters") == 0).then_some(()));
}

/// Behind bob waits next, whom nobody shares the lock with.
#[track_caller]
fn nexts(server: &TestServer) -> Vec<(Kind, Waiting)> {
    KINDS.map(|kind| (kind.alone(), kind.alone().wait(server, kind.name, "next"))).into()
}

/// Each next has its lock alone, after bob's grant has been taken back.
#[track_caller]
fn nexts_have_them(client: &mut Connection, nexts: &[(Kind, Waiting)], after: &str) {
    for (kind, next) in nexts {
        kind.granted(next, after);
        kind.is_held_by(client, kind.name, "next", after);
        story(client, &[(&format!("RLOCK.RELEASE {} next", kind.name), "1")]);
        kind.is_gone(client, kind.name);
    }
}

/// In one transaction each lock is handed to its bob, something happens, and all bobs are killed before they are told.
#[track_caller]
fn granted_and_killed(client: &mut Connection, all: &All, between: impl Fn(Kind) -> Vec<String>) {
    let between = all.0.iter().flat_map(|(kind, _)| between(*kind)).collect();
    at_once(client, &[all.releases(), between, all.kills()].concat());
}

#[test]
fn a_grant_whose_owner_was_heard_of_is_not_taken_back() {
    let server = TestServer::start();
    let client = &mut server.connect();
    let mode = |kind: Kind| if ["READ", "WRITE"].contains(&kind.waits) { kind.waits } else { "" };
    let heard: [&dyn Fn(Kind) -> String; 3] = [
        &|kind| format!("RLOCK.RENEW {} bob 70000 {}", kind.name, mode(kind)),
        &|kind| format!("RLOCK.RENEW {} bob 50000", kind.name),
        &|kind| format!("{} HOLDS 1", kind.ask(kind.name, "bob")),
    ];
    for heard in heard {
        let all = All::held_and_awaited(&server, client);
        let nexts = nexts(&server);
        granted_and_killed(client, &all, |kind| vec![heard(kind)]);
        sleep(Duration::from_millis(300));
        for (kind, next) in &nexts {
            assert!(next.still_waits(), "{kind:?}: {}", heard(*kind));
        }
        for (kind, _) in &all.0 {
            kind.is_held_by(client, kind.name, "bob", &heard(*kind));
            story(client, &[(&format!("RLOCK.RELEASE {} bob", kind.name), "1")]);
        }
        assert_eq!(counter(&server, "take_backs"), 0);
        nexts_have_them(client, &nexts, "bob");
    }
}

#[test]
fn a_grant_that_another_call_has_replaced_is_not_taken_back() {
    let server = TestServer::start();
    let client = &mut server.connect();
    let replaced: [&dyn Fn(Kind) -> Vec<String>; 2] = [
        // The lock is mallory's by the time that bob's client is found dead.
        &|kind| {
            let fields =
                if ["READ", "WRITE"].contains(&kind.waits) { "mode write mallory:write" } else { "mallory" };
            vec![format!("DEL {}", kind.name), format!("HSET {} {fields} 1", kind.name)]
        },
        // Or it is bob's, for another time than it was granted for.
        &|kind| {
            let lease_key = format!("{{{}}}:bob:rwlock_timeout:1", kind.name);
            let keys = if kind.waits == "READ" { vec![kind.name, &lease_key] } else { vec![kind.name] };
            keys.iter().map(|key| format!("PEXPIRE {key} 900000")).collect()
        },
    ];
    for (owner, replaced) in ["mallory", "bob"].iter().zip(replaced) {
        let all = All::held_and_awaited(&server, client);
        granted_and_killed(client, &all, replaced);
        nobody_waits(&server);
        sleep(Duration::from_millis(100));
        for kind in KINDS {
            let suffix = if *owner == "mallory" && kind.waits == "READ" { ":write" } else { "" };
            let field = kind.fields_of(owner).pop().unwrap_or_default() + suffix;
            assert_eq!(number(client, &format!("HEXISTS {} {field}", kind.name)), 1, "{owner}, {kind:?}");
        }
        assert_eq!(counter(&server, "take_backs"), 0, "{owner}");
        story(client, &[("FLUSHALL", "OK")]);
    }
}

#[test]
fn a_client_that_goes_leaves_the_queue() {
    let server = TestServer::start();
    let client = &mut server.connect();
    let all = All::held_and_awaited(&server, client);
    let nexts = nexts(&server);
    for (kill, kind) in all.kills().iter().zip(KINDS) {
        story(client, &[(kill, "1")]);
        assert_eq!(waiters(client, kind.name), "next", "{kind:?}");
    }
    assert_eq!(counter(&server, "waiters_gone"), ALL);
    at_once(client, &all.releases());
    nexts_have_them(client, &nexts, "bob went");
}

/// What meets a fault, of a lock and the client of its bob.
type Met<'a> = &'a dyn Fn(&str, i64) -> String;

/// The last word of a message.
fn told_as(kind: Kind) -> &'static str {
    match kind.waits {
        "READ" => " read",
        "WRITE" => " write",
        _ => "",
    }
}

/// Everybody who waits is sent away, by whatever kind of lock the fault is met.
#[test]
fn a_panic_sends_everybody_who_waits_away() {
    let met: [(&str, Met); 5] = [
        ("timer", &|key, _| format!("PEXPIRE {key} 30000")),
        ("key-event", &|key, _| format!("PEXPIRE {key} 30000")),
        ("disconnect", &|_, bob| format!("CLIENT KILL ID {bob}")),
        ("command", &|key, _| format!("RLOCK.RENEW {key} mallory 5")),
        ("scan", &|key, _| format!("RLOCK.RENEW {key} mallory 5")),
    ];
    for (fault, met) in met {
        let server = TestServer::builder().module(fault_module_path()).start();
        let client = &mut server.connect();
        let mut grants = Subscriber::channel(&server, "grants");
        for (round, by) in (1..).zip([KINDS[0], KINDS[2], KINDS[4]]) {
            let all = All::held_and_awaited(&server, client);
            for kind in KINDS {
                let line = format!("{} ENQUEUE 0 grants", kind.ask(kind.name, "eve"));
                story(client, &[(&line, "[0, 0, 0]")]);
            }
            let bob = all.0.iter().find(|(kind, _)| kind.name == by.name).expect("bob").1.client_id();
            assert_eq!(say(client, &format!("RLOCK.FAULT {fault}")), "1");
            let said = say(client, &met(by.name, bob));
            assert_eq!(said.starts_with("!ERR rlock: internal error"), fault == "command", "{fault}: {said}");
            for (kind, bob) in &all.0 {
                let told = bob.answer();
                let gone = fault == "disconnect" && kind.name == by.name;
                let wanted =
                    if gone { "the connection ended" } else { "!UNBLOCKED the module had an internal error" };
                assert!(told.starts_with(wanted), "{fault}, {kind:?}: {told}");
            }
            let heard = |_| String::from_utf8(grants.next(SOON).expect("a message").1).expect("ASCII");
            let mut dropped = KINDS.map(heard);
            dropped.sort();
            let mut wanted =
                KINDS.map(|kind| format!("dropped 0 eve {} in-doubt{}", kind.name, told_as(kind)));
            wanted.sort();
            assert_eq!(dropped, wanted, "{fault}, {by:?}");
            nobody_waits(&server);
            assert_eq!(counter(&server, "panics"), round, "{fault}, {by:?}");
            // Then all is as ever, but that those who stood in fair lists count as Redisson's.
            say(client, "DEL redisson_lock_queue:{fair} redisson_lock_queue:{both}");
            say(client, "DEL redisson_lock_timeout:{fair} redisson_lock_timeout:{both}");
            let again = KINDS.map(|kind| (kind, kind.wait(&server, kind.name, "bob")));
            at_once(client, &all.releases());
            All(again.into()).bobs_have_them(client, fault);
        }
    }
}

/// A panic between taking a waiter out of its queue and answering it.
#[test]
fn a_panic_before_an_answer_leaves_nobody_blocked() {
    for (ends, refused) in [("RLOCK.RELEASE", true), ("RLOCK.CANCEL", true), ("DEL", false)] {
        let server = TestServer::builder().module(fault_module_path()).start();
        let client = &mut server.connect();
        for (round, kind) in (1..).zip(KINDS) {
            let bob = kind.held_and_awaited(&server, client, kind.name);
            let next = kind.alone().wait(&server, kind.name, "next");
            let mut lines = match ends {
                "RLOCK.RELEASE" => kind.releases(kind.name),
                "RLOCK.CANCEL" => vec![format!("RLOCK.CANCEL {} bob", kind.name)],
                _ => vec![format!("DEL {}", kind.name)],
            };
            let last = lines.pop().expect("a line");
            lines.iter().for_each(|line| story(client, &[(line, "1")]));
            assert_eq!(say(client, "RLOCK.FAULT answer"), "1");
            let said = say(client, &last);
            assert_eq!(said.starts_with("!ERR rlock: internal error"), refused, "{last}: {said}");
            for waiting in [bob, next] {
                let told = waiting.answer();
                let wanted = "!UNBLOCKED the module had an internal error";
                assert!(told.starts_with(wanted), "{last}, {kind:?}: {told}");
            }
            assert_eq!((counter(&server, "panics"), counter(&server, "waiters")), (round, 0), "{last}");
            story(client, &[("FLUSHALL", "OK")]);
        }
    }
}

/// A panic after the client was blocked: it is answered once, and what it asks next is answered in its turn.
#[test]
fn a_panic_after_a_client_was_blocked_is_answered_once() {
    let server = TestServer::builder().module(fault_module_path()).start();
    let (client, other) = (&mut server.connect(), &mut server.connect());
    for (round, kind) in (1..).zip(KINDS) {
        kind.held(client, kind.name, 100_000);
        assert_eq!(say(client, "RLOCK.FAULT blocked"), "1");
        let told = say(other, &format!("{} BLOCK 0", kind.ask(kind.name, "bob")));
        assert!(told.starts_with("!UNBLOCKED the module had an internal error"), "{kind:?}: {told}");
        assert_eq!(say(other, "PING"), "PONG");
        assert_eq!((counter(&server, "panics"), counter(&server, "waiters")), (round, 0));
        story(other, &[(&kind.ask(kind.name, "bob"), "null")]);
    }
}

#[test]
fn a_grant_is_not_taken_back_before_the_pause_has_ended() {
    for mode in ["WRITE", "ALL"] {
        let server = TestServer::start();
        let client = &mut server.connect();
        let all = All::held_and_awaited(&server, client);
        let nexts = nexts(&server);
        let paused = server_time(client);
        let pause = vec![format!("CLIENT PAUSE 1500 {mode}")];
        // The bobs are granted the locks and gone before they are told, and from then on nothing may be written.
        at_once(client, &[all.releases(), pause, all.kills()].concat());
        for (kind, next) in &nexts {
            kind.granted(next, mode);
            let granted = number(client, &format!("PEXPIRETIME {}", kind.name)) - 50_000;
            assert!(granted >= paused + 1_500, "{mode}, {kind:?}: {paused} {granted}");
            kind.is_held_by(client, kind.name, "next", mode);
        }
        assert_eq!(counter(&server, "take_backs"), ALL, "{mode}");
    }
}

#[test]
fn nothing_is_taken_back_while_too_few_replicas_are_there() {
    let server = TestServer::start();
    let client = &mut server.connect();
    let all = All::held_and_awaited(&server, client);
    let nexts = nexts(&server);
    let fewer = vec!["CONFIG SET min-replicas-to-write 1".to_owned()];
    at_once(client, &[all.releases(), fewer, all.kills()].concat());
    sleep(A_WHILE);
    for ((kind, _), (_, next)) in all.0.iter().zip(&nexts) {
        assert!(next.still_waits(), "{kind:?}");
        kind.is_held_by(client, kind.name, "bob", "too few replicas");
    }
    story(client, &[("CONFIG SET min-replicas-to-write 0", "OK")]);
    nexts_have_them(client, &nexts, "replicas");
    assert_eq!(counter(&server, "take_backs"), ALL);
}

#[test]
fn a_client_that_goes_during_a_pause_leaves_the_queue() {
    let server = TestServer::start();
    let client = &mut server.connect();
    let all = All::held_for(1_500, &server, client);
    let nexts = nexts(&server);
    story(client, &[("CLIENT PAUSE 60000 WRITE", "OK")]);
    all.kills().iter().for_each(|kill| story(client, &[(kill, "1")]));
    for kind in KINDS {
        let lease = format!("PTTL {}", kind.name);
        eventually("the lease to end", SOON, || (say(client, &lease) == "-2").then_some(()));
    }
    sleep(Duration::from_millis(100));
    assert!(nexts.iter().all(|(_, next)| next.still_waits()));
    story(client, &[("CLIENT UNPAUSE", "OK")]);
    nexts_have_them(client, &nexts, "the pause");
    assert_eq!(counter(&server, "waiters_gone"), ALL);
}

#[test]
fn nothing_is_granted_while_the_disk_fails() {
    let server = TestServer::builder().conf("save", "3600 1").start();
    let client = &mut server.connect();
    let all = All::held_and_awaited(&server, client);
    for kind in KINDS {
        at_once(client, &kind.each_says(|holder| format!("RLOCK.RENEW {} {holder} 2000", kind.name)));
    }
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
    let server = TestServer::start();
    let client = &mut server.connect();
    let all = All::held_and_awaited(&server, client);
    let nexts = nexts(&server);
    story(client, &[("CONFIG SET maxmemory-policy noeviction", "OK"), ("CONFIG SET maxmemory 1", "OK")]);
    for kind in KINDS {
        assert!(say(client, &kind.ask(kind.name, "carol")).starts_with("!OOM "), "{kind:?}");
        kind.releases(kind.name).iter().for_each(|line| story(client, &[(line, "1")]));
    }
    for (kind, bob) in &all.0 {
        kind.granted(bob, "a release");
        // Nor that of a lease that ends.
        story(client, &[(&format!("RLOCK.RENEW {} bob 20", kind.name), "1")]);
    }
    nexts_have_them(client, &nexts, "a lease that ended");
}

#[test]
fn a_release_in_a_script_hands_on() {
    let server = TestServer::start();
    let client = &mut server.connect();
    for kind in KINDS {
        let bob = kind.held_and_awaited(&server, client, kind.name);
        let release = "for _,owner in ipairs(ARGV)do redis.call('RLOCK.RELEASE',KEYS[1],owner)end";
        let script = format!("{release} return redis.call('HKEYS',KEYS[1])");
        let words = [&["EVAL", &script, "1", kind.name], kind.holders].concat();
        let fields: Vec<_> = kind.fields_of("bob").iter().map(|field| format!("{field:?}")).collect();
        assert_eq!(text(&ask(client, &words)), format!("[{}]", fields.join(", ")), "{kind:?}");
        kind.bob_has_it(client, kind.name, &bob, "a script");
    }
}

#[test]
fn enqueue_works_in_multi_and_scripts() {
    let server = TestServer::start();
    let (client, mut grants) = (&mut server.connect(), Subscriber::channel(&server, "grants"));
    for kind in KINDS {
        let key = kind.name;
        kind.held(client, key, 100_000);
        let enqueues = |owner: &str| format!("{} ENQUEUE 0 grants", kind.alone().ask(key, owner));
        let bob = enqueues("bob");
        let lines = [bob.as_str(), &format!("RLOCK.CANCEL {key} bob"), &bob];
        assert_eq!(waiting::transaction(client, &lines), "[[0, 0, 0], 1, [0, 0, 0]]", "{kind:?}");
        let carol = enqueues("carol");
        let words: Vec<_> = carol.split(' ').collect();
        let script = ["EVAL", "return redis.call('RLOCK.ACQUIRE', KEYS[1], unpack(ARGV))", "1"];
        assert_eq!(text(&ask(client, &[&script, &words[1..]].concat())), "[0, 0, 0]", "{kind:?}");
        assert_eq!(waiters(client, key), "bob carol", "{kind:?}");
        // All give back and one waits again, as one; then bob gives back, in a script.
        at_once(client, &[kind.releases(key), vec![enqueues("alice")]].concat());
        let bob = ["EVAL", "return redis.call('RLOCK.RELEASE', KEYS[1], 'bob')", "1", key];
        assert_eq!(text(&ask(client, &bob)), "1", "{kind:?}");
        story(client, &[(&format!("RLOCK.RELEASE {key} carol"), "1")]);
        for owner in ["bob", "carol", "alice"] {
            let (_, message) = grants.next(SOON).expect("a grant");
            let message = message.escape_ascii().to_string();
            assert!(message.starts_with(&format!("granted 0 {owner} {key} 1 5000 ")), "{kind:?}: {message}");
        }
        story(client, &[(&format!("RLOCK.RELEASE {key} alice"), "1")]);
        kind.is_gone(client, key);
    }
}
