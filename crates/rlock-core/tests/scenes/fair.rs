//! FAIR: natives and those of Redisson's fair lock in one order, step by step.

use crate::fair_scene::{
    Ask, FAIR, HOUR, Happens, How, LEASE, MESSAGE, MINUTE, NOW, PLAIN, TURN, lock, waiting,
};
use rlock_core::commands::Answer;
use rlock_core::request::Renew;
use rlock_core::{Error, LeaseMs, Owner, Reply, UnixMs, observed};

const DENIED: Result<Answer, Error> = Ok(Answer::Now(Reply::Denied));

#[test]
fn natives_and_redissons_are_served_in_one_order() {
    let scene = waiting(&["a", "f1", "b", "f2", "c"]);
    scene.release(0, "h");
    scene.is("a", "f1 b f2 c");
    assert_eq!(scene.called(), "");
    scene.release(0, "a");
    scene.is("", "f1 b f2 c");
    assert_eq!(scene.called(), "f1");
    scene.wait(TURN / 2);
    assert!(scene.redisson(0, "f1", 0, 100).take());
    scene.settle();
    scene.is("f1", "b f2 c");
    assert!(scene.redisson(0, "f1", 0, 100).give_back());
    scene.settle();
    scene.is("b", "f2 c");
    assert_eq!(scene.called(), "");
    scene.release(0, "b");
    assert!(scene.redisson(0, "f2", 0, 100).take());
    scene.redisson(0, "f2", 0, 100).give_back();
    scene.settle();
    scene.is("c", "");
    assert_eq!(scene.called(), "f2");
}

/// However long its wait time is, it has its turn, is called once, and is passed over afterwards.
#[test]
fn each_redisson_waiter_has_one_turn() {
    let scene = waiting(&["f1", "f2", "a"]);
    assert_eq!(scene.called(), "");
    scene.release(0, "h");
    for head in ["f1", "f2"] {
        assert_eq!(scene.called(), head);
        assert_eq!(scene.ahead(0, head), Some(TURN.cast_signed()));
        for _ in 0..9 {
            scene.wait(TURN / 10);
            observed::sweep_periodically(scene.sim.node());
            scene.settle();
        }
        assert_eq!((scene.called(), scene.holder(0)), (String::new(), String::new()));
        scene.wait(TURN / 10 + 1);
    }
    assert_eq!(scene.called(), "");
    scene.is("a", "");
}

/// A waiter whose deadline has passed, or that has no deadline, has had its turn.
#[test]
fn a_waiter_that_counts_as_gone_has_no_turn() {
    for gone in [Some(-1), Some(0), None] {
        let scene = waiting(&["f1", "a"]);
        scene.sim.with(|world| {
            let deadline = gone.map(|ahead| UnixMs(world.now.0 + ahead));
            world.fair.entry(lock(0)).or_default()[0].deadline = deadline;
        });
        scene.release(0, "h");
        scene.is("a", "");
        assert_eq!(scene.called(), "");
    }
}

/// A client whose clock is ahead drops them, or one that takes the lock lowers all deadlines by its own wait.
#[test]
fn natives_that_scripts_drop_are_put_back_in_their_places() {
    let scene = waiting(&["a", "b"]);
    assert!(!scene.redisson(0, "f1", HOUR, 100).take());
    scene.is("h", "f1");
    scene.settle();
    scene.is("h", "a b f1");
    assert!(scene.ahead(0, "a").is_some_and(|ahead| ahead >= 5 * MINUTE));
    // Only one of them, and both keys as a whole.
    scene.sim.with(|world| world.fair.entry(lock(0)).or_default().pop_front());
    observed::fair_list_changed(scene.sim.node(), lock(0).name(), observed::ListChange::Anywhere);
    scene.settle();
    scene.is("h", "a b f1");
    scene.sim.with(|world| world.fair.clear());
    observed::fair_list_changed(scene.sim.node(), lock(0).name(), observed::ListChange::Anywhere);
    scene.release(0, "h");
    scene.is("a", "b");
    let scene = waiting(&["f1", "a", "b"]);
    scene.release(0, "h");
    assert!(scene.redisson(0, "f1", 0, 10 * HOUR).take());
    scene.settle();
    assert!(scene.ahead(0, "a").is_some_and(|ahead| ahead >= 5 * MINUTE));
    assert!(scene.redisson(0, "f1", 0, HOUR).give_back());
    scene.settle();
    scene.is("a", "b");
}

/// The head's deadline is kept ahead while it waits, for hours.
#[test]
fn the_deadline_of_a_native_head_stays_ahead() {
    let scene = waiting(&["a", "f1"]);
    for _ in 0..100 {
        assert_eq!(scene.sim.renew(&lock(0), &renewal("h")), Ok(Reply::Renewed));
        scene.wait(5_000);
        observed::sweep_periodically(scene.sim.node());
        scene.settle();
        assert!(scene.ahead(0, "a").is_some_and(|ahead| ahead >= 5 * MINUTE));
    }
    scene.is("h", "a f1");
}

fn renewal(owner: &str) -> Renew<'_> {
    let owner = Owner::new(owner.as_bytes()).expect("an owner");
    Renew { owner, lease: LeaseMs::new(LEASE).expect("a lease"), mode: None, session: None }
}

#[test]
fn a_native_that_stops_waiting_leaves_the_list() {
    let gone: [(&str, Happens); 4] = [
        ("cancel", |scene| assert_eq!(scene.cancel(0, "a"), Reply::Cancelled)),
        ("disconnect", |scene| scene.disconnect(0, "a")),
        ("without FAIR", |scene| assert_eq!(scene.ask(0, "a", PLAIN), Ok(Answer::Later))),
        ("granted", |scene| assert_eq!(scene.release(0, "h"), Reply::Released)),
    ];
    for (way, go) in gone {
        let scene = waiting(&["a", "b", "f1"]);
        go(&scene);
        scene.settle();
        assert_eq!(scene.list(0), "b f1", "{way}");
    }
    let scene = waiting(&["b", "f1"]);
    let soon = Ask { wait: How::Block(100), ..FAIR };
    assert_eq!(scene.ask(0, "a", soon), Ok(Answer::Later));
    scene.is("h", "b f1 a");
    scene.wait(99);
    scene.is("h", "b f1 a");
    scene.wait(1);
    scene.is("h", "b f1");
}

/// A server with another primary's data keeps the entries, and no waiter here owns them when it is a primary again.
#[test]
fn a_demoted_server_keeps_the_list() {
    let scene = waiting(&["a", "f1"]);
    scene.sim.demote();
    scene.pass(10, || {});
    scene.is("h", "a f1");
    scene.sim.synchronise();
    scene.sim.promote();
    scene.release(0, "h");
    assert_eq!((scene.queue(0), scene.called()), (String::new(), String::new()));
    // The next caller waits for these entries, as for all others.
    assert_eq!(scene.ask(0, "b", FAIR), Ok(Answer::Later));
    assert_eq!(scene.called(), "a");
    scene.wait(2 * TURN + 4);
    // Once more, since the lock has a waiter now.
    assert_eq!(scene.called(), "a f1");
    scene.is("b", "");
}

/// An owner with an entry in the list from before, unknown to this server, keeps its place, and acquires a free lock.
#[test]
fn an_owner_that_asks_again_keeps_its_place_in_the_list() {
    let scene = waiting(&["a", "b"]);
    scene.sim.demote();
    scene.sim.synchronise();
    scene.sim.promote();
    assert_eq!(scene.ask(0, "b", FAIR), Ok(Answer::Later));
    assert_eq!(scene.ask(0, "a", FAIR), Ok(Answer::Later));
    scene.is("h", "a b");
    scene.release(0, "h");
    scene.is("a", "b");
    let scene = waiting(&["a", "b"]);
    scene.sim.demote();
    scene.sim.synchronise();
    scene.sim.promote();
    scene.release(0, "h");
    assert_eq!(scene.ask(0, "b", NOW), DENIED);
    assert!(matches!(scene.ask(0, "a", NOW), Ok(Answer::Now(Reply::Acquired { .. }))));
    scene.is("a", "b");
}

#[test]
fn a_repeat_keeps_its_place() {
    let scene = waiting(&["a", "f1", "b"]);
    assert_eq!(scene.ask(0, "a", FAIR), Ok(Answer::Later));
    scene.is("h", "a f1 b");
    assert_eq!(scene.ask(0, "a", MESSAGE), Ok(Answer::Now(Reply::Enqueued)));
    scene.is("h", "a f1 b");
    // Without FAIR it keeps its place here; with it again, it comes to the list's end.
    assert_eq!(scene.ask(0, "a", PLAIN), Ok(Answer::Later));
    scene.is("h", "f1 b");
    assert_eq!(scene.queue(0), "a b");
    scene.release(0, "h");
    scene.is("a", "f1 b");
    let scene = waiting(&["a", "f1", "b"]);
    assert_eq!(scene.ask(0, "a", PLAIN), Ok(Answer::Later));
    assert_eq!(scene.ask(0, "a", FAIR), Ok(Answer::Later));
    scene.is("h", "f1 b a");
}

/// No caller overtakes a Redisson waiter that has its turn, or native waiters.
#[test]
fn newcomers_do_not_overtake() {
    let scene = waiting(&["f1"]);
    scene.release(0, "h");
    assert_eq!(scene.ask(0, "a", NOW), DENIED);
    assert_eq!((&*scene.called(), scene.ahead(0, "f1")), ("f1", Some(TURN.cast_signed())));
    assert_eq!(scene.ask(0, "a", NOW), DENIED);
    assert_eq!(scene.ask(0, "b", FAIR), Ok(Answer::Later));
    assert_eq!(scene.ask(0, "a", Ask { fair: false, ..NOW }), DENIED);
    scene.is("", "f1 b");
    // Once more at most, since the lock has a waiter now.
    assert_eq!(scene.called(), "f1");
    scene.wait(TURN / 2);
    assert_eq!(scene.ask(0, "a", NOW), DENIED);
    assert_eq!(scene.called(), "");
    scene.wait(TURN / 2 + 1);
    scene.is("b", "");
    // Without FAIR and without native waiters, a caller does not see Redisson waiters.
    let scene = waiting(&["f1"]);
    scene.release(0, "h");
    assert!(matches!(scene.ask(0, "a", Ask { fair: false, ..NOW }), Ok(Answer::Now(Reply::Acquired { .. }))));
}

/// Natives without FAIR are served in the order of the natives, also while Redisson waiters are in the list.
#[test]
fn natives_with_and_without_fair_wait_in_one_queue() {
    let scene = waiting(&["f1", "a"]);
    assert_eq!(scene.ask(0, "p", PLAIN), Ok(Answer::Later));
    assert_eq!(scene.ask(0, "b", FAIR), Ok(Answer::Later));
    scene.is("h", "f1 a b");
    scene.release(0, "h");
    scene.is("", "f1 a b");
    scene.wait(TURN + 1);
    scene.is("a", "b");
    scene.release(0, "a");
    scene.is("p", "b");
    assert!(!scene.redisson(0, "f2", HOUR, 100).take());
    scene.settle();
    scene.is("p", "b f2");
    scene.release(0, "p");
    scene.is("b", "f2");
}

/// A clock that is set back must not make a turn longer, and one that is set forward only ends it.
#[test]
fn a_turn_is_no_longer_whatever_the_clock_does() {
    for step in [-HOUR, -100, 100, HOUR] {
        let scene = waiting(&["f1", "a"]);
        scene.release(0, "h");
        scene.wait(TURN / 2);
        scene.sim.step_clock(step);
        scene.settle();
        scene.wait(TURN + 2);
        scene.is("a", "");
    }
    let scene = waiting(&["f1", "a"]);
    scene.release(0, "h");
    for _ in 0..5 {
        scene.sim.step_clock(-HOUR);
        scene.settle();
        scene.sim.step_clock(HOUR - 10);
        scene.settle();
    }
    assert!(scene.ahead(0, "f1").is_none_or(|ahead| ahead <= TURN.cast_signed()));
    scene.wait(TURN + 2);
    scene.is("a", "");
}

#[test]
fn the_timer_rests_while_the_lock_is_held_or_redissons_have_their_turn() {
    let scene = waiting(&["a", "f1", "b"]);
    assert!(scene.pass(LEASE.unsigned_abs() - 1, || {}) <= 2);
    scene.release(0, "h");
    assert!(scene.pass(LEASE.unsigned_abs() - 1, || {}) <= 2);
    scene.release(0, "a");
    assert!(scene.pass(TURN, || {}) <= 2);
    scene.is("", "f1 b");
    scene.wait(1);
    scene.is("b", "");
}

/// Nothing may be written for a while: the list is put in order, and the lock given, as soon as it may.
#[test]
fn writes_that_are_refused_are_made_up_for() {
    let scene = waiting(&["a", "b"]);
    scene.sim.with(|world| world.may_write = false);
    scene.disconnect(0, "a");
    scene.sim.pass_and_fire(50);
    scene.is("h", "a b");
    scene.sim.with(|world| world.may_write = true);
    scene.wait(21);
    scene.is("h", "b");
}
