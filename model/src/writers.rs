//! A Redisson writer that waits while native readers overlap without a gap: the writer has its turn, and the readers
//! have theirs again.

use std::collections::BTreeMap;

use rlock_core::commands::Answer;
use rlock_core::request::Cancel;
use rlock_core::{Expiry, Holds, Mode, Owner, Reply};
use rlock_sim::{ReadWrite, Sim, Value, World};

use crate::action::{Action, Deed};
use crate::ghost::{Party, Passed, Violation};
use crate::requests::request;
use crate::scene::{self, FOREIGN, LEASE, May, READERS, Scene, WINDOW};
use crate::state::State;

/// How late the module may notice that the Redisson writer has stopped waiting, in ms.
pub(crate) const LOOK: u64 = 501;

/// The steps that it may take.
pub(crate) fn possible(world: &World, lock: u8) -> Vec<Deed> {
    let id = scene::lock(lock);
    let value = world.read_write(&id);
    if value.is_some_and(|value| value.writes.contains_key(&FOREIGN[..])) {
        return vec![Deed::GivesBack];
    }
    let waits = if world.redisson_writers > 0 { Deed::Goes } else { Deed::Waits };
    [waits].into_iter().chain(value.is_none().then_some(Deed::Takes)).collect()
}

/// Performs a step.
pub(crate) fn perform(sim: &Sim, lock: u8, deed: Deed) {
    let id = scene::lock(lock);
    match deed {
        Deed::Waits | Deed::Goes => sim.with(|world| {
            world.redisson_writers = u64::from(deed == Deed::Waits);
            world.redisson_waiters = world.redisson_writers;
        }),
        Deed::Takes => {
            let until = sim.with(|world| world.now.0.saturating_add(LEASE));
            let writes = BTreeMap::from([(Box::from(&FOREIGN[..]), Holds::ONE)]);
            let expiry = Expiry::At(rlock_core::UnixMs(until));
            let value = ReadWrite { writing: true, reads: BTreeMap::new(), writes, expiry };
            sim.write_as_other(&id, Some(Value::ReadWrite(value)));
        }
        Deed::GivesBack => sim.write_as_other(&id, None),
    }
}

/// Notes the readers that arrived in a step, and those that were held back.
pub(crate) fn note(scene: &Scene, before: &State, next: &mut State, action: Action) -> Result<(), Violation> {
    for lock in (0..scene.locks).filter(|_| scene.may(May::Writers)) {
        let id = scene::lock(lock);
        // Time has passed on both by now.
        let read_before: Vec<_> = before.world.living_readers(&id);
        let reads = next.world.living_readers(&id);
        let stayed = reads.iter().any(|reader| read_before.contains(reader))
            || !read_before.is_empty() && joined_first(before, &reads, action, lock);
        let new = reads.iter().filter(|reader| !read_before.contains(reader)).count();
        let new = u8::try_from(new).unwrap_or(u8::MAX);
        let mut known = before.ghost.passed.get(&lock).copied().unwrap_or_default();
        kept_out_in_time(before, next, known, action, lock)?;
        let listens = next.world.redisson_writers > 0;
        known.turn |= is_kept_out(before, next, action, lock);
        // Without a native waiter, the reason why the lock was left free is no longer known.
        let waits = |state: &State| state.ghost.somebody_waits(lock);
        known.turn &= listens && (new > 0 || !waits(before) || waits(next));
        known = left_free(next, known, (stayed, new, waits(before)), lock)?;
        known.came = known.came.saturating_add(new).min(READERS);
        known.listened |= listens;
        known.passed = if listens && stayed { known.passed.saturating_add(new) } else { 0 };
        if known.passed > READERS {
            return Err(format!("{} readers of k{lock} passed a waiting Redisson writer", known.passed));
        }
        next.ghost.passed.insert(lock, known);
    }
    Ok(())
}

/// Whether one of these readers joined the earlier readers, the last of which has released the lock in this step. Each
/// command serves the queue first: if more readers waited than are served at once, the next ones join before the
/// command itself does anything. The lock was not free in between, and the count of readers continues.
fn joined_first(before: &State, reads: &[&[u8]], action: Action, lock: u8) -> bool {
    let (Action::Release { .. }, Ok(nobody)) = (action, Owner::new(&FOREIGN)) else { return false };
    let (id, sim) = (scene::lock(lock), Sim::resume(before.world.clone(), before.locks.clone()));
    // A command that serves the queue, and does nothing else.
    let _ = sim.cancel(&id, &Cancel { owner: nobody });
    sim.into_parts().0.living_readers(&id).iter().any(|reader| reads.contains(reader))
}

/// A lock without readers is left free for the yield window, if a reader was held back for the waiting Redisson
/// writer.
fn left_free(
    next: &State,
    known: Passed,
    (stayed, new, awaited): (bool, u8, bool),
    lock: u8,
) -> Result<Passed, Violation> {
    let Passed { turn, free_at, .. } = known;
    if stayed {
        return Ok(Passed { free_at: None, ..known });
    }
    let clock = next.world.clock.0;
    let free = clock.saturating_sub(free_at.unwrap_or(clock));
    if turn && new > 0 && free < WINDOW {
        return Err(format!(
            "k{lock} is read {free} ms after it was free, in the window of a Redisson writer"
        ));
    }
    let is_free = !next.is_held(lock);
    let free_at = is_free.then_some(free_at.unwrap_or(clock));
    // A lock that natives wait for goes from one to the next, in the same row.
    let in_a_row = if awaited { known } else { Passed::default() };
    Ok(Passed { turn: turn && is_free, free_at, passed: 0, ..in_a_row })
}

/// Whether a reader that arrives beside others is held back.
fn is_kept_out(before: &State, next: &State, action: Action, lock: u8) -> bool {
    let Action::Acquire { party, .. } = action else { return false };
    let comes = party.lock == lock && !before.holds_any(party) && !before.ghost.somebody_waits(lock);
    let others = !before.world.living_readers(&scene::lock(lock)).is_empty();
    comes && others && !next.holds_any(party)
}

/// Whether enough readers have arrived for a turn of the waiting Redisson writer.
pub(crate) fn may_have_turn(state: &State, lock: u8) -> bool {
    state.ghost.passed.get(&lock).is_some_and(|known| known.listened && known.came >= READERS)
}

/// A reader that arrives beside others is held back only for a Redisson writer that enough readers have passed.
fn kept_out_in_time(
    before: &State,
    next: &State,
    known: Passed,
    action: Action,
    lock: u8,
) -> Result<(), Violation> {
    let is_due = known.came >= READERS && known.listened;
    if !is_due && is_kept_out(before, next, action, lock) {
        return Err(format!("a reader of k{lock} beside others is held back without a writer's turn"));
    }
    Ok(())
}

/// In every state, natives can read again after a while, also natives that do not wait.
pub(crate) fn check(scene: &Scene, state: &State, lock: u8) -> Result<(), Violation> {
    if !scene.may(May::Writers) || state.ghost.somebody_waits(lock) {
        return Ok(());
    }
    let sim = Sim::resume(state.world.clone(), state.locks.clone());
    let all_leases = u64::try_from(LEASE).unwrap_or(0) + 1;
    // The first call may show the server that the lock is free, and the server yields it to the writer for a window.
    let reads = [all_leases, WINDOW].into_iter().any(|ms| {
        sim.pass_and_fire(ms);
        comes_to_read(scene, &sim, lock)
    });
    if reads { Ok(()) } else { Err(format!("k{lock} is free for long, and no native can read it")) }
}

fn comes_to_read(scene: &Scene, sim: &Sim, lock: u8) -> bool {
    let (name, party) = (scene::owner(0), Party { owner: 0, lock, mode: Mode::Read });
    let Ok(request) = request(scene, &name, party, None, None) else { return false };
    matches!(sim.acquire(0, &scene::lock(lock), &request), Ok(Answer::Now(Reply::Acquired { .. })))
}
