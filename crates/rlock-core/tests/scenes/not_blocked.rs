//! A server that cannot block a client: its call is refused, and nothing has changed.

use rlock_core::commands::Answer;
use rlock_core::locks::{Limits, LockRef, Turns};
use rlock_core::request::{Acquire, DownTo, Release};
use rlock_core::settings::Settings;
use rlock_core::{Error, Owner, Reply, Wanted};
use rlock_sim::Sim;

use crate::fair_scene::{asks, block, lease, settings};

fn sim() -> Sim {
    Sim::new(Settings {
        limits: Limits { server: 2, lock: 2, user: usize::MAX },
        turns: Turns { after_grants: 100, after_ms: 1_000 },
        fair_turn: lease(1_000),
        ..settings()
    })
}

fn waits(owner: &str, fair: bool) -> Acquire<'_> {
    Acquire { fair, wait: block(), ..asks(owner, 10_000, Wanted::Mutex) }
}

/// Valkey from 8.1 on refuses to block a client that is subscribed to anything.
#[test]
fn a_refused_block_leaves_the_queue_as_it_was() {
    let (sim, lock) = (sim(), LockRef { db: 0, key: (*b"lock").into() });
    for fair in [false, true] {
        assert!(sim.acquire(1, &lock, &waits("holder", false)).is_ok());
        assert_eq!(sim.acquire(2, &lock, &waits("waiter", fair)), Ok(Answer::Later));
        let queued = || sim.locks(|locks| locks.records.in_order(lock.name()).cloned().collect::<Vec<_>>());
        let (before, listed) = (queued(), sim.with(|world| world.fair.clone()));
        sim.with(|world| world.refuses_to_block = true);
        for owner in ["waiter", "other"] {
            assert_eq!(sim.acquire(3, &lock, &waits(owner, fair)), Err(Error::NotBlockable), "{owner}");
        }
        assert_eq!(queued(), before);
        assert_eq!(sim.with(|world| world.fair.clone()), listed);
        assert!(sim.with(|world| world.clients.values().all(|client| client.answer.is_none())));
        sim.with(|world| world.refuses_to_block = false);
        let release = |owner: &'static [u8]| {
            let owner = Owner::new(owner).expect("an owner");
            sim.release(&lock, &Release { owner, mode: None, down_to: DownTo::OneLess, lease: None })
        };
        assert_eq!(release(b"holder"), Ok(Reply::Released));
        assert_eq!(release(b"waiter"), Ok(Reply::Released), "the one that waited was granted the lock");
        sim.with(|world| world.clients.clear());
    }
}

/// A blocked client can get no error reply any more: the full queue must be found before it is blocked.
#[test]
fn a_client_is_not_blocked_if_the_queue_has_no_place() {
    let (sim, lock) = (sim(), LockRef { db: 0, key: (*b"lock").into() });
    for (client, owner) in [(1, "holder"), (2, "a"), (3, "b")] {
        assert!(sim.acquire(client, &lock, &waits(owner, false)).is_ok());
    }
    assert_eq!(sim.acquire(4, &lock, &waits("c", false)), Err(Error::QueueFull));
    assert_eq!(sim.with(|world| world.clients.len()), 2);
    assert_eq!(sim.acquire(5, &lock, &waits("b", false)), Ok(Answer::Later), "a repeat needs no new place");
}
