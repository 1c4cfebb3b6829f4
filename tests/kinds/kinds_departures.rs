//! Clients that go, and panics, for every kind of lock.
//!
//! There is a lock of each kind at a time, so that one wait serves for all.

use std::thread::sleep;

use rlock_testkit::kinds::{All, KINDS, Kind, at_once};
use rlock_testkit::prelude::*;

/// As many locks as there are kinds.
pub(crate) const ALL: u64 = KINDS.len() as u64;

fn nobody_waits(server: &TestServer) {
    wait_for("no client to wait", || counter(server, "waiters") == 0);
}

/// Behind bob waits next, which shares the lock with no other owner.
#[track_caller]
pub(crate) fn nexts(server: &TestServer) -> Vec<(Kind, Waiting)> {
    KINDS.map(|kind| (kind.alone(), kind.alone().wait(server, kind.name, "next"))).into()
}

/// Each next has its lock alone, after bob's grant has been revoked.
#[track_caller]
pub(crate) fn nexts_have_them(client: &mut Connection, nexts: &[(Kind, Waiting)], after: &str) {
    for (kind, next) in nexts {
        kind.granted(next, after);
        kind.is_held_by(client, kind.name, "next", after);
        client.story(&[(&format!("RLOCK.RELEASE {} next", kind.name), "1")]);
        kind.is_gone(client, kind.name);
    }
}

/// In one transaction each lock is handed to its bob, something happens, and all bobs are killed before their answers
/// are sent.
#[track_caller]
fn granted_and_killed(client: &mut Connection, all: &All, between: impl Fn(Kind) -> Vec<String>) {
    let between = all.0.iter().flat_map(|(kind, _)| between(*kind)).collect();
    at_once(client, &[all.releases(), between, all.kills()].concat());
}

#[test]
fn a_confirmed_grant_is_not_revoked() {
    let (server, client) = &mut TestServer::start_and_connect();
    let heard: [&dyn Fn(Kind) -> String; 3] = [
        &|kind| format!("RLOCK.RENEW {} bob 70000 {}", kind.name, kind.renewed_as()),
        &|kind| format!("RLOCK.RENEW {} bob 50000", kind.name),
        &|kind| format!("{} HOLDS 1", kind.ask(kind.name, "bob")),
    ];
    for heard in heard {
        let all = All::held_and_awaited(server, client);
        let nexts = nexts(server);
        granted_and_killed(client, &all, |kind| vec![heard(kind)]);
        sleep(Duration::from_millis(300));
        for (kind, next) in &nexts {
            assert!(next.still_waits(), "{kind:?}: {}", heard(*kind));
        }
        for (kind, _) in &all.0 {
            kind.is_held_by(client, kind.name, "bob", &heard(*kind));
            client.story(&[(&format!("RLOCK.RELEASE {} bob", kind.name), "1")]);
        }
        assert_eq!(counter(server, "revokes"), 0);
        nexts_have_them(client, &nexts, "bob");
    }
}

#[test]
fn a_grant_that_another_call_has_replaced_is_not_revoked() {
    let (server, client) = &mut TestServer::start_and_connect();
    let replaced: [&dyn Fn(Kind) -> Vec<String>; 3] = [
        // The lock is mallory's by the time that bob's client is found dead.
        &|kind| [vec![format!("DEL {}", kind.name)], kind.alone().taken(kind.name, "mallory")].concat(),
        // Or another client has made it bob's anew.
        &|kind| [vec![format!("DEL {}", kind.name)], kind.taken(kind.name, "bob")].concat(),
        // Or it is bob's, for another time than it was granted for.
        &|kind| kind.prolonged(kind.name, "bob"),
    ];
    for (owner, replaced) in ["mallory", "bob", "bob"].iter().zip(replaced) {
        let all = All::held_and_awaited(server, client);
        granted_and_killed(client, &all, replaced);
        nobody_waits(server);
        sleep(Duration::from_millis(100));
        for kind in KINDS {
            let kind = if *owner == "mallory" { kind.alone() } else { kind };
            assert!(kind.has_holder(client, kind.name, owner), "{owner}, {kind:?}");
        }
        assert_eq!(counter(server, "revokes"), 0, "{owner}");
        client.story(&[("FLUSHALL", "OK")]);
    }
}

#[test]
fn a_client_that_disconnects_leaves_the_queue() {
    let (server, client) = &mut TestServer::start_and_connect();
    let all = All::held_and_awaited(server, client);
    let nexts = nexts(server);
    for (kill, kind) in all.kills().iter().zip(KINDS) {
        // At once: the same connection asks next.
        client.story(&[(kill, "1")]);
        assert_eq!(waiters(client, kind.name), "next", "{kind:?}");
    }
    all.0.iter().for_each(|(_, bob)| assert!(bob.answer().starts_with("the connection ended")));
    // One that closes its connection without a word.
    let mut gone = server.connect();
    gone.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let words = ["plain", "gone", "60000", "BLOCK", "0"];
    redis::cmd("RLOCK.ACQUIRE").arg(&words[..]).query::<Value>(&mut gone).unwrap_err();
    drop(gone);
    wait_for("it to leave", || waiters(client, "plain") == "next");
    assert_eq!(counter(server, "waiters_gone"), ALL + 1);
    at_once(client, &all.releases());
    nexts_have_them(client, &nexts, "bob went");
}

/// What meets a fault, of a lock and the client of its bob.
type Met<'a> = &'a dyn Fn(&str, i64) -> String;

/// All waiters are sent away, whatever kind of lock meets the fault.
#[test]
#[expect(clippy::too_many_lines, reason = "one history")]
fn a_panic_sends_all_waiters_away() {
    let met: [(&str, Met); 5] = [
        ("timer", &|key, _| format!("PEXPIRE {key} 30000")),
        ("key-event", &|key, _| format!("PEXPIRE {key} 30000")),
        ("disconnect", &|_, bob| format!("CLIENT KILL ID {bob}")),
        ("command", &|key, _| format!("RLOCK.RENEW {key} mallory 5")),
        ("scan", &|key, _| format!("RLOCK.RENEW {key} mallory 5")),
    ];
    for (fault, met) in met {
        let (server, client) = &mut TestServer::builder().module(fault_module_path()).start_and_connect();
        let mut grants = Subscriber::channel(server, "grants");
        for (round, by) in (1..).zip([KINDS[0], KINDS[2], KINDS[4], KINDS[6]]) {
            let all = All::held_and_awaited(server, client);
            for kind in KINDS {
                let line = format!("{} ENQUEUE 0 grants", kind.ask(kind.name, "eve"));
                client.story(&[(&line, "[0, 0, 0]")]);
            }
            let bob = all.0.iter().find(|(kind, _)| kind.name == by.name).expect("bob").1.client_id();
            assert_eq!(say(client, &format!("RLOCK.FAULT {fault}")), "1");
            let said = say(client, &met(by.name, bob));
            // The look of a command is its own: it says that it failed.
            let fails = matches!(fault, "command" | "scan");
            assert_eq!(said.starts_with("!ERR rlock: internal error"), fails, "{fault}: {said}");
            for (kind, bob) in &all.0 {
                let told = bob.answer();
                let gone = fault == "disconnect" && kind.name == by.name;
                let wanted =
                    if gone { "the connection ended" } else { "!UNBLOCKED the module had an internal error" };
                assert!(told.starts_with(wanted), "{fault}, {kind:?}: {told}");
            }
            let mut dropped = KINDS.map(|_| grants.next_text());
            dropped.sort();
            let mut wanted = KINDS.map(|kind| {
                format!("dropped 0 eve {} in-doubt {}", kind.name, kind.mode()).trim_end().to_owned()
            });
            wanted.sort();
            assert_eq!(dropped, wanted, "{fault}, {by:?}");
            nobody_waits(server);
            assert_eq!(counter(server, "panics"), round, "{fault}, {by:?}");
            // Afterwards all is as ever: no waiter is left in the lists of fair locks, where it would count as a
            // Redisson waiter.
            let lists = ["queue", "timeout"].map(|list| format!("redisson_lock_{list}"));
            let lists = lists.map(|list| format!("{list}:{{fair}} {list}:{{both}}")).join(" ");
            wait_for(&format!("the lists to be cleared after {fault}, {by:?}"), || {
                number(client, &format!("EXISTS {lists}")) == 0
            });
            let again = KINDS.map(|kind| (kind, kind.wait(server, kind.name, "bob")));
            at_once(client, &all.releases());
            All(again.into()).bobs_have_them(client, fault);
        }
    }
}

/// A panic between taking a waiter out of its queue and answering it.
#[test]
fn a_panic_before_an_answer_leaves_no_client_blocked() {
    for (ends, refused) in [("RLOCK.RELEASE", true), ("RLOCK.CANCEL", true), ("DEL", false)] {
        let (server, client) = &mut TestServer::builder().module(fault_module_path()).start_and_connect();
        for (round, kind) in (1..).zip(KINDS) {
            let bob = kind.held_and_awaited(server, client, kind.name);
            let next = kind.alone().wait(server, kind.name, "next");
            let mut lines = match ends {
                "RLOCK.RELEASE" => kind.releases(kind.name),
                "RLOCK.CANCEL" => vec![format!("RLOCK.CANCEL {} bob", kind.name)],
                _ => vec![format!("DEL {}", kind.name)],
            };
            let last = lines.pop().expect("a line");
            lines.iter().for_each(|line| client.story(&[(line, "1")]));
            assert_eq!(say(client, "RLOCK.FAULT answer"), "1");
            let said = say(client, &last);
            assert_eq!(said.starts_with("!ERR rlock: internal error"), refused, "{last}: {said}");
            for waiting in [bob, next] {
                let told = waiting.answer();
                let wanted = "!UNBLOCKED the module had an internal error";
                assert!(told.starts_with(wanted), "{last}, {kind:?}: {told}");
            }
            assert_eq!((counter(server, "panics"), counter(server, "waiters")), (round, 0), "{last}");
            client.story(&[("FLUSHALL", "OK")]);
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
        other.story(&[(&kind.ask(kind.name, "bob"), "null")]);
    }
}
