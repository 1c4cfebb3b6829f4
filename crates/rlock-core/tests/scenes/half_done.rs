//! Other events while departures and hand-offs are half done: with the smallest budgets a server does one thing of each
//! kind in an event-loop cycle.

use crate::fair_scene::{Ask, FAIR, HOUR, Happens, How, NOW, PLAIN, Scene, lock, settings, waiting};
use rlock_core::commands::Answer;
use rlock_core::facts::WriteAccess;
use rlock_core::locks::{Locks, Ticket};
use rlock_core::settings::{AtOnce, Settings};
use rlock_core::{Reply, departures, observed};

const ONE: AtOnce = AtOnce { ended: 1, listed: 1, served: 1, looked: 1, buried: 1 };

/// The lock is held by `h`.
fn held(at_once: AtOnce) -> Scene {
    let scene = Scene::new(Settings { at_once, ..settings() });
    assert!(matches!(scene.ask(0, "h", Ask { fair: false, ..NOW }), Ok(Answer::Now(Reply::Acquired { .. }))));
    scene
}

/// How many messages of a free lock Redisson waiters got since the last call of this function.
fn unlock_messages(scene: &Scene) -> usize {
    scene.sim.with(|world| std::mem::take(&mut world.unlock_messages)).len()
}

/// Whether no call waits, and no answer of a grant is pending.
fn nobody_waits(locks: &Locks) -> bool {
    locks.calls.waiting() == 0 && (0..99).all(|ticket| !locks.calls.is_undelivered(Ticket(ticket)))
}

/// A release dropped the first waiters of a silent channel, and left the others to the timer. They left in another way
/// before it fired: the lock was free, and Redisson waiters were not notified, and slept until the lease end that they
/// knew.
#[test]
fn redisson_waiters_are_notified_of_a_release_that_no_native_waiter_takes() {
    let message = Ask { wait: How::Enqueue(1_000), ..PLAIN };
    let soon = Ask { wait: How::Block(1_000), ..PLAIN };
    for last in [message, soon] {
        for disconnects in [false, true] {
            let scene = held(ONE);
            for (owner, ask) in [("a", message), ("b", last)] {
                scene.ask(0, owner, ask).expect("it waits");
            }
            scene.sim.with(|world| world.subscribed.clear());
            scene.sim.pass(999);
            unlock_messages(&scene);
            assert_eq!(scene.release(0, "h"), Reply::Released);
            assert_eq!((&*scene.holder(0), &*scene.queue(0)), ("", "b"));
            if disconnects {
                scene.disconnect(0, "b");
            }
            scene.sim.pass(1);
            scene.settle();
            assert_eq!((&*scene.holder(0), &*scene.queue(0)), ("", ""));
            assert!(unlock_messages(&scene) > 0, "{last:?}, disconnects: {disconnects}");
        }
    }
}

/// A release called the head of the fair list, which had left: more entries of departed owners stood there than one
/// command removes. The next command, or the timer's walk through the list, removed the last of them, and did not call
/// the Redisson waiter behind them.
#[test]
fn the_next_redisson_waiter_is_called_whichever_step_removes_the_last_departed_owner() {
    let departed = ["a", "b", "c", "d"];
    for (at_once, commands) in [(ONE, 0), (ONE, 1), (ONE, 2), (ONE, 3), (ONE, 4), (ONE, 5)]
        .into_iter()
        .chain((0..4).map(|commands| (AtOnce { listed: 500, ..ONE }, commands)))
    {
        let scene = held(at_once);
        for owner in departed {
            assert_eq!(scene.ask(0, owner, FAIR), Ok(Answer::Later));
        }
        assert!(!scene.redisson(0, "f1", 0, HOUR).take());
        scene.settle();
        departed.iter().for_each(|owner| scene.disconnect(0, owner));
        assert_eq!(scene.release(0, "h"), Reply::Released);
        // Each command removes the first entry.
        (0..commands).for_each(|_| assert_eq!(scene.cancel(0, "x"), Reply::NotQueued));
        scene.settle();
        scene.is("", "f1");
        assert!(scene.called().contains("f1"), "{at_once:?}, after {commands} commands");
        assert!(scene.see(|world| world.timer.is_none()) && scene.sim.locks(|locks| !locks.is_watched()));
    }
}

/// A server that had become a replica was drained before it had dropped all waiters: a command could grant the lock to
/// the remaining waiters, on a replica that takes writes.
#[test]
fn a_replica_grants_nothing_though_it_is_drained() {
    let scene = held(ONE);
    for owner in ["a", "b", "c", "d"] {
        assert_eq!(scene.ask(0, owner, PLAIN), Ok(Answer::Later));
    }
    scene.sim.demote();
    departures::drain(scene.sim.node());
    assert_eq!(scene.release(0, "h"), Reply::Released);
    assert_eq!(scene.holder(0), "");
    scene.settle();
    assert_eq!((&*scene.holder(0), &*scene.queue(0)), ("", ""));
}

/// A client was granted a lock, and disconnected before the answer, or was answered that the server had been demoted:
/// when the server was the primary again, at once or later, the grant stood for its whole lease.
#[test]
fn a_grant_that_did_not_arrive_is_revoked_after_the_server_is_primary_again() {
    for goes_first in [true, false] {
        let scene = held(AtOnce::USUAL);
        assert_eq!(scene.ask(0, "a", PLAIN), Ok(Answer::Later));
        assert_eq!(scene.release(0, "h"), Reply::Released);
        assert_eq!(scene.holder(0), "a");
        if goes_first {
            scene.disconnect(0, "a");
            scene.sim.demote();
        } else {
            scene.sim.demote();
            scene.disconnect(0, "a");
        }
        let fired = scene.pass(100, || assert_eq!(scene.holder(0), "a"));
        assert!(fired <= 1, "the timer fired {fired} times on a replica");
        assert!(scene.see(|world| world.timer.is_none()) && scene.sim.locks(|locks| nobody_waits(locks)));
        scene.sim.with(|world| world.may_write = false);
        scene.sim.promote();
        scene.pass(100, || assert_eq!(scene.holder(0), "a"));
        scene.sim.with(|world| world.may_write = true);
        scene.wait(20);
        assert_eq!(scene.holder(0), "", "it went first: {goes_first}");
        assert!(scene.see(|world| world.timer.is_none()) && scene.sim.locks(|locks| !locks.is_watched()));
    }
}

/// Another primary has told the owner that it holds the lock, or the owner was heard from on a replica that takes writes.
#[test]
fn a_grant_that_the_owner_may_know_of_is_not_revoked_after_a_demotion() {
    let confirmations: [Happens; 3] = [
        |scene| scene.sim.synchronise(),
        |scene| assert!(matches!(scene.ask(0, "a", NOW), Ok(Answer::Now(Reply::Acquired { .. })))),
        // The answer arrives in spite of the demotion.
        |scene| {
            let ticket = scene.ticket(0, "a").expect("a client");
            assert!(matches!(scene.sim.deliver(ticket), Some(Ok(Reply::Acquired { .. }))));
        },
    ];
    for (way, confirm) in confirmations.into_iter().enumerate() {
        let scene = held(AtOnce::USUAL);
        assert_eq!(scene.ask(0, "a", PLAIN), Ok(Answer::Later));
        assert_eq!(scene.release(0, "h"), Reply::Released);
        scene.sim.demote();
        confirm(&scene);
        scene.disconnect(0, "a");
        scene.sim.promote();
        scene.wait(100);
        assert_eq!(scene.holder(0), "a", "way {way}");
    }
}

/// A demoted server may write nothing: dropped waiters leave the list when it is the primary again, and may write.
/// Blocked waiters stayed in the list until their deadlines.
#[test]
fn dropped_waiters_leave_the_list_when_the_server_is_primary_again() {
    for happens in [|_| {}, |scene: &Scene| scene.disconnect(0, "b")] as [Happens; 2] {
        let scene = waiting(&["a", "f1", "b"]);
        happens(&scene);
        scene.sim.demote();
        let fired = scene.pass(100, || scene.is("h", "a f1 b"));
        assert!(fired <= 1, "the timer fired {fired} times on a replica");
        assert!(scene.see(|world| world.timer.is_none()) && scene.sim.locks(|locks| nobody_waits(locks)));
        scene.sim.with(|world| world.may_write = false);
        scene.sim.promote();
        scene.pass(100, || scene.is("h", "a f1 b"));
        scene.sim.with(|world| world.may_write = true);
        scene.wait(20);
        scene.is("h", "f1");
        assert!(scene.see(|world| world.timer.is_none()) && scene.sim.locks(|locks| !locks.is_watched()));
    }
}

/// A replica has its primary's data before all its waiters are sent away: their entries in the list are the primary's, where
/// they may wait again. They stayed noted as departed, and a promotion weeks later removed their entries.
#[test]
fn waiters_that_are_sent_away_after_the_synchronisation_keep_their_entries() {
    let scene = held(ONE);
    for owner in ["a", "f1", "b"] {
        assert_eq!(scene.ask(0, owner, FAIR), Ok(Answer::Later));
    }
    scene.settle();
    scene.sim.demote();
    scene.sim.synchronise();
    scene.pass(100, || {});
    assert!(scene.sim.locks(|locks| !locks.is_watched()), "nothing is remembered of them");
    scene.sim.promote();
    scene.pass(100, || {});
    assert_eq!(scene.see(|world| world.fair.values().map(|list| list.len()).sum::<usize>()), 3);
}

/// The server refused writes, and a fair list needed repair: the check of its lock set the timer for now, and work that
/// was put off counted as due even later. The timer fired without rest until writes were accepted again.
#[test]
fn the_timer_rests_while_a_fair_list_may_not_be_written() {
    for at_once in [ONE, AtOnce::USUAL] {
        let scene = held(at_once);
        assert_eq!(scene.ask(0, "a", FAIR), Ok(Answer::Later));
        scene.settle();
        scene.sim.with(|world| world.write_access = WriteAccess::Refused);
        observed::fair_list_changed(scene.sim.node(), lock(0).name(), observed::ListChange::Anywhere);
        let fired = scene.pass(1_000, || {});
        assert!((1..=1_000 / 20 + 2).contains(&fired), "{fired} times in a second");
    }
}

/// CLUSTER DELSLOTS: no event reports it, the lock is still held, and more wait than leave at once.
#[test]
fn waiters_leave_a_held_lock_whose_slot_is_gone() {
    let owners: Vec<_> = (0..5).map(|number| format!("w{number}")).collect();
    let scene = waiting(&owners.iter().map(String::as_str).collect::<Vec<_>>());
    scene.sim.with(|world| world.settings.at_once.served = 2);
    let ask = || {
        observed::doubt_some_slots(scene.sim.node());
        scene.settle();
    };
    ask();
    assert_eq!(scene.queue(0), owners.join(" "));
    scene.sim.with(|world| world.write_access = WriteAccess::SlotMoved);
    observed::check_some(scene.sim.node());
    scene.settle();
    assert_eq!(scene.queue(0), owners.join(" "), "a check of a held lock asks nothing");
    ask();
    assert_eq!(scene.queue(0), "");
}
