//! What once went wrong with FAIR.

use crate::fair_scene::{
    Ask, FAIR, HOUR, Happens, How, LEASE, MESSAGE, NOW, PLAIN, Scene, TURN, lock, settings, waiting,
};
use rlock_core::commands::Answer;
use rlock_core::facts::WriteAccess;
use rlock_core::locks::Turns;
use rlock_core::settings::Settings;
use rlock_core::{Expiry, Holds, LeaseMs, Reply, UnixMs, observed};

/// A waiter at the head could have no token, or no subscriber got its message, and it was dropped: its entry in the
/// list was taken for that of a Redisson waiter, which had its turn, while the next waiter slept.
#[test]
fn a_waiter_that_a_hand_off_drops_has_no_turn() {
    let fenced = Ask { fenced: true, ..FAIR };
    let ways: [(Ask, Happens); 3] = [
        (fenced, |scene| {
            scene.sim.with(|world| {
                world.tokens.insert(lock(0), None);
            })
        }),
        (MESSAGE, |scene| scene.sim.with(|world| world.subscribed.clear())),
        (Ask { wait: How::Block(100), ..FAIR }, |_| {}),
    ];
    for (ask, spoil) in ways {
        for next in ["b", "f1"] {
            let scene = waiting(&[]);
            scene.ask(0, "a", ask).expect("a place");
            match next {
                "b" => assert_eq!(scene.ask(0, "b", FAIR), Ok(Answer::Later)),
                _ => assert!(!scene.redisson(0, "f1", 0, HOUR).take()),
            }
            spoil(&scene);
            if ask.wait == How::Block(100) {
                scene.sim.pass(100);
                // The wait of the head has ended: the timer fires before the release.
                assert!(scene.sim.timer_is_due());
                scene.sim.fire();
            }
            scene.release(0, "h");
            scene.is(if next == "b" { "b" } else { "" }, if next == "b" { "" } else { "f1" });
            assert!(!scene.called().contains('a'));
        }
    }
}

/// The same if the wait of the head ended in the same cycle in which a grant was revoked.
#[test]
fn a_waiter_whose_wait_ends_as_a_grant_is_revoked_has_no_turn() {
    let scene = waiting(&["g", "a", "b"]);
    assert_eq!(scene.ask(0, "a", Ask { wait: How::Block(100), ..FAIR }), Ok(Answer::Later));
    scene.release(0, "h");
    scene.is("g", "a b");
    scene.sim.pass(100);
    scene.disconnect(0, "g");
    scene.settle();
    scene.is("b", "");
    assert_eq!(scene.called(), "");
}

/// A newcomer that asked at the same moment waited for the dropped waiter.
#[test]
fn a_newcomer_does_not_wait_for_a_dropped_waiter() {
    let scene = waiting(&[]);
    assert_eq!(scene.ask(0, "a", MESSAGE), Ok(Answer::Now(Reply::Enqueued)));
    scene.sim.with(|world| world.subscribed.clear());
    scene.sim.pass(LEASE.unsigned_abs() + 1);
    assert!(matches!(scene.ask(0, "b", NOW), Ok(Answer::Now(Reply::Acquired { .. }))));
    assert_eq!((scene.called(), scene.list(0)), (String::new(), String::new()));
}

/// A waiter with FAIR waited for the turn of a Redisson waiter, and left: the next waiter, without FAIR, was not
/// checked before the turn had ended.
#[test]
fn a_waiter_without_fair_does_not_wait_for_a_turn() {
    let ways: [Happens; 3] = [
        |scene| scene.disconnect(0, "a"),
        |scene| assert_eq!(scene.cancel(0, "a"), Reply::Cancelled),
        |scene| scene.wait(100),
    ];
    for go in ways {
        let scene = waiting(&["f1"]);
        assert_eq!(scene.ask(0, "a", Ask { wait: How::Block(100), ..FAIR }), Ok(Answer::Later));
        assert_eq!(scene.ask(0, "p", PLAIN), Ok(Answer::Later));
        scene.release(0, "h");
        scene.is("", "f1 a");
        go(&scene);
        scene.settle();
        scene.is("p", "f1");
    }
}

/// The lock was left to all Redisson clients for a yield window: the Redisson waiter at the head of the list was not
/// called after it, and the lock was not checked again until the deadline that this waiter had set.
#[test]
fn after_a_window_the_head_has_its_turn() {
    let turns = Turns { after_grants: 1, after_ms: u64::MAX };
    let scene = Scene::new(Settings { turns, yield_window: LeaseMs::new(15), ..settings() });
    scene.sim.with(|world| world.redisson_waiters = 1);
    assert!(matches!(scene.ask(0, "h", NOW), Ok(Answer::Now(Reply::Acquired { .. }))));
    assert_eq!(scene.ask(0, "a", FAIR), Ok(Answer::Later));
    assert!(!scene.redisson(0, "f1", 0, HOUR).take());
    assert_eq!(scene.ask(0, "b", FAIR), Ok(Answer::Later));
    scene.release(0, "h");
    scene.is("a", "f1 b");
    scene.release(0, "a");
    scene.wait(20);
    assert_eq!(scene.called(), "f1");
    scene.wait(TURN + 5);
    scene.is("b", "");
}

/// A Redisson waiter whose deadline was sooner than the end of a turn was not called: it slept, while the lock was left
/// to it.
#[test]
fn a_redisson_waiter_with_little_time_left_is_called_as_well() {
    for freed in ["release", "lease", "delete"] {
        let scene = waiting(&["f1", "f2", "a"]);
        scene.sim.with(|world| {
            let ends = UnixMs(world.now.0 + LEASE + 300);
            world.fair.entry(lock(0)).or_default().iter_mut().for_each(|entry| entry.deadline = Some(ends));
        });
        scene.wait(LEASE.unsigned_abs());
        match freed {
            "release" => assert_eq!(scene.release(0, "h"), Reply::Released),
            "delete" => scene.sim.write_as_other(&lock(0), None),
            _ => scene.wait(1),
        }
        scene.settle();
        observed::sweep_periodically(scene.sim.node());
        scene.settle();
        assert_eq!(scene.called(), "f1", "{freed}");
        assert!(scene.redisson(0, "f1", 0, 100).take());
        scene.settle();
        assert!(scene.redisson(0, "f1", 0, 100).give_back());
        scene.settle();
        assert_eq!(scene.called(), "f2", "{freed}");
        scene.wait(301);
        scene.is("a", "");
        assert_eq!(scene.called(), "", "{freed}");
    }
}

/// A script had dropped a native, and a command on the same lock came before the timer: the timer was set for the lease
/// end, and the native was not put back before it.
#[test]
fn a_command_does_not_put_off_the_check_of_the_list() {
    let scene = waiting(&["a", "b"]);
    assert!(!scene.redisson(0, "f1", HOUR, 100).take());
    scene.is("h", "f1");
    assert!(matches!(scene.ask(0, "h", NOW), Ok(Answer::Now(Reply::Acquired { .. }))));
    scene.settle();
    scene.is("h", "a b f1");
    // The list is checked once, and the timer rests afterwards.
    assert!(scene.pass(LEASE.unsigned_abs() - 1, || {}) <= 2);
}

/// A script had dropped a native, another native joined, and the first asked again before the timer: it was put behind.
#[test]
fn a_dropped_waiter_that_asks_again_keeps_its_place() {
    let scene = waiting(&["a", "b"]);
    assert!(!scene.redisson(0, "f1", HOUR, 100).take());
    scene.is("h", "f1");
    assert_eq!(scene.ask(0, "c", FAIR), Ok(Answer::Later));
    assert_eq!(scene.ask(0, "a", FAIR), Ok(Answer::Later));
    scene.settle();
    scene.is("h", "a b f1 c");
}

/// A Redisson waiter at the head counts as gone, and the server refuses to remove it from the list: the search for the
/// next never ended, in a server's only thread.
#[test]
fn a_head_that_cannot_be_removed_does_not_cause_an_endless_loop() {
    let scene = waiting(&["f0", "n1"]);
    scene.sim.with(|world| {
        world.fair_is_stuck = true;
        for entry in world.fair.values_mut().flatten() {
            entry.deadline = Some(rlock_core::UnixMs(1));
        }
    });
    // A caller without a wait is kept out not by the dead waiters, but by a native waiter.
    assert_eq!(scene.ask(0, "n2", NOW), Ok(Answer::Now(Reply::Denied)));
    scene.release(0, "h");
    scene.wait(5_000);
    assert_eq!(scene.holder(0), "n1");
}

/// A script had changed the list, and before the timer fired the last native with FAIR left, or asked again without
/// FAIR: a check of the list was due again and again while others waited.
#[test]
fn the_timer_rests_when_the_last_with_fair_has_gone() {
    let ways: [Happens; 3] = [
        |scene| scene.disconnect(0, "a"),
        |scene| assert_eq!(scene.cancel(0, "a"), Reply::Cancelled),
        |scene| assert_eq!(scene.ask(0, "a", PLAIN), Ok(Answer::Later)),
    ];
    for go in ways {
        let scene = waiting(&["a"]);
        assert_eq!(scene.ask(0, "p", PLAIN), Ok(Answer::Later));
        assert!(!scene.redisson(0, "f1", 0, 100).take());
        go(&scene);
        assert!(scene.pass(LEASE.unsigned_abs() - 1, || {}) <= 3);
    }
}

/// Another client gave the lock to a waiter by writing its key, and the waiter asked again by another call: it left the
/// list, and its first call kept waiting outside of it, overtaken by all later owners.
#[test]
fn a_holder_that_asks_again_stays_in_the_list_while_it_waits() {
    let scene = waiting(&["a"]);
    let hold = rlock_sim::Hold { owner: (*b"a").into(), holds: Holds::ONE, expiry: Expiry::Never };
    scene.sim.write_as_other(&lock(0), Some(rlock_sim::Value::Lock(hold)));
    assert!(matches!(scene.ask(0, "a", NOW), Ok(Answer::Now(Reply::Acquired { .. }))));
    scene.settle();
    scene.is("a", "a");
    assert_eq!(scene.queue(0), "a");
}

/// A lease had ended without native waiters, and a Redisson waiter with little time left was at the head: the next
/// native waited for the turn of that waiter, which was not called.
#[test]
fn a_redisson_waiter_with_the_turn_is_called_even_if_the_lock_was_free_before() {
    let scene = waiting(&["f1"]);
    scene.sim.with(|world| {
        let ends = UnixMs(world.now.0 + LEASE + 300);
        world.fair.entry(lock(0)).or_default()[0].deadline = Some(ends);
    });
    scene.wait(LEASE.unsigned_abs() + 1);
    assert_eq!(scene.ask(0, "a", FAIR), Ok(Answer::Later));
    scene.wait(2);
    assert_eq!(scene.called(), "f1");
    scene.wait(300);
    scene.is("a", "");
}

/// A lease was made longer while writes were refused, and a native waited with FAIR: the module did not note that, and
/// Redisson waiters that knew the new lease end slept until it, however short the lease of the next holder was.
#[test]
fn a_lease_that_changes_while_writes_are_refused_is_noted() {
    let scene = waiting(&["a"]);
    scene.sim.with(|world| world.write_access = WriteAccess::Refused);
    let ends = scene.see(|world| UnixMs(world.now.0 + 6 * LEASE));
    let hold = rlock_sim::Hold { owner: (*b"h").into(), holds: Holds::ONE, expiry: Expiry::At(ends) };
    scene.sim.write_as_other(&lock(0), Some(rlock_sim::Value::Lock(hold)));
    scene.pass(50, || {});
    scene.sim.with(|world| world.write_access = WriteAccess::Allowed);
    scene.sim.write_as_other(&lock(0), None);
    scene.wait(21);
    scene.is("a", "");
    assert_eq!(scene.see(|world| world.unlock_messages.len()), 1);
}
