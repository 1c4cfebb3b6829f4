//! Natives read while a Redisson writer waits: how often the module checks that, and until when it holds readers back.

use rlock_core::commands::Answer;
use rlock_core::locks::{Limits, LockRef, Turns};
use rlock_core::request::{Acquire, DownTo, Release, Wait};
use rlock_core::settings::Settings;
use rlock_core::{Mode, Owner, Reply, UnixMs, WaitMs, Wanted};
use rlock_sim::{Sim, Value};

use crate::fair_scene::{asks, block, lease, settings};

const OWNERS: [&str; 5] = ["a", "b", "c", "d", "e"];
const LEASE: i64 = 10_000;
const TURN_MS: u64 = 300;
const WINDOW: i64 = 20;
/// The interval of checks whether a Redisson writer still waits.
const LOOK_MS: u64 = 500;

fn lock() -> LockRef {
    LockRef { db: 0, key: (*b"k").into() }
}

struct Scene(Sim);

impl Scene {
    fn new() -> Self {
        let sim = Sim::new(Settings {
            limits: Limits { server: 100, lock: 100, user: usize::MAX },
            turns: Turns { after_grants: 4, after_ms: TURN_MS },
            yield_window: Some(lease(WINDOW)),
            fair_turn: lease(1_000),
            ..settings()
        });
        sim.with(|world| world.now = UnixMs(10_000_000));
        Self(sim)
    }

    fn waits(&self, owner: &str) -> bool {
        self.0.locks(|locks| {
            locks.records.in_order(lock().name()).any(|waiter| *waiter.owner == *owner.as_bytes())
        })
    }

    fn reads(&self, owner: &str) -> bool {
        self.0.with(|world| match world.keys.get(&lock()) {
            Some(Value::ReadWrite(value)) => value.reads.contains_key(owner.as_bytes()),
            _ => false,
        })
    }

    fn ask(&self, owner: usize, wanted: Wanted, waits: bool) -> Option<Answer> {
        let request = Acquire { wait: block().filter(|_| waits), ..asks(OWNERS[owner], LEASE, wanted) };
        let client = u64::try_from(owner).expect("a number") + 1;
        // A reader may not wait to write.
        self.0.acquire(client, &lock(), &request).ok()
    }

    fn release(&self, owner: usize) {
        let owner = Owner::new(OWNERS[owner].as_bytes()).expect("an owner");
        for mode in [Mode::Read, Mode::Write] {
            let request = Release { owner, mode: Some(mode), down_to: DownTo::AtMost(0), lease: None };
            let _ = self.0.release(&lock(), &request);
        }
    }

    fn listen(&self, listens: bool) {
        self.0.with(|world| {
            world.redisson_writers = listens.into();
            world.redisson_waiters = listens.into();
        });
    }
}

/// The module yields to the writer: four readers hold the lock, and one more is held back.
fn kept_waiting(turn_ms: u64) -> Scene {
    let scene = Scene::new();
    scene.0.with(|world| world.settings.turns.after_ms = turn_ms);
    scene.listen(true);
    for owner in [0, 1, 2, 3] {
        assert!(matches!(scene.ask(owner, Wanted::Read, false), Some(Answer::Now(Reply::Acquired { .. }))));
    }
    assert!(matches!(scene.ask(4, Wanted::Read, true), Some(Answer::Later)));
    scene
}

/// The time before a writer's turn does not change the interval of checks whether the writer still waits.
#[test]
fn a_writer_that_stops_waiting_lets_readers_in_however_long_its_turn_takes_to_come() {
    let scene = kept_waiting(1_000_000);
    scene.0.pass_and_fire(2_000);
    assert!(scene.waits("e"));
    scene.listen(false);
    scene.0.pass_and_fire(LOOK_MS + 50);
    assert!(scene.reads("e"), "it waits for no writer");
}

#[test]
fn the_timer_rests_between_checks_for_a_waiting_writer() {
    let scene = kept_waiting(1);
    let mut fired = 0;
    for _ in 0..5_000 {
        fired += u32::from(scene.0.timer_is_due());
        scene.0.fire();
        scene.0.pass(1);
    }
    assert!(scene.waits("e"));
    assert!(fired < 100, "the timer fired {fired} times in five seconds");
}

/// A long lease has left the key's end far ahead, and the readers after it have died: none of them releases the lock
/// any more, and no Redisson writer can acquire it before the key ends.
#[test]
fn dead_readers_hold_no_reader_back() {
    let scene = Scene::new();
    scene.0.with(|world| world.settings.turns = Turns { after_grants: 1_000, after_ms: 1_000_000 });
    let ask = |owner: &str, ms: i64, wait| {
        let request = Acquire { wait, ..asks(owner, ms, Wanted::Read) };
        scene.0.acquire(1, &lock(), &request).expect("an answer")
    };
    ask("a", 3_600_000, None);
    for reader in 0..12 {
        ask(&format!("r{reader}"), 5_000, None);
    }
    scene.release(0);
    scene.listen(true);
    scene.0.with(|world| world.settings.turns = Turns { after_grants: 1, after_ms: 1_000_000 });
    let late = ask("e", LEASE, Some(Wait::Block(WaitMs::new(0).expect("a wait"))));
    assert_eq!(late, Answer::Later);
    scene.0.pass_and_fire(5_000 + LOOK_MS + 50);
    assert!(scene.reads("e"), "it waits for the dead");
}

/// The sweep of what is remembered of readers let natives in at once; and a moment that had begun lasted as it was meant
/// to, also when the option had been lowered since.
#[test]
fn a_moment_outlasts_a_sweep_but_not_its_option() {
    let scene = Scene::new();
    scene.listen(true);
    for owner in 0..4 {
        scene.ask(owner, Wanted::Read, false);
    }
    let comes_in = || {
        scene.ask(4, Wanted::Read, false);
        scene.reads("e")
    };
    assert!(!comes_in(), "it is not the other's turn");
    (0..4).for_each(|owner| scene.release(owner));
    assert!(!comes_in(), "the lock is not left free");
    let (now, clock) = scene.0.with(|world| (world.now, world.clock));
    scene.0.locks(|locks| locks.forget_old(now, clock, usize::MAX));
    assert!(!comes_in(), "a sweep ends the moment");
    scene.0.with(|world| world.settings.yield_window = Some(lease(WINDOW / 2)));
    assert!(comes_in(), "the moment lasts for longer than any does");
}
