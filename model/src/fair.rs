//! Redisson's fair lock beside natives that wait with FAIR: a Redisson client that uses it, and the properties.

use std::collections::VecDeque;

use rlock_core::facts::FairEntry;
use rlock_core::{Expiry, UnixMs, observed};
use rlock_sim::{Sim, World};

use crate::action::Script;
use crate::ghost::{Party, Violation};
use crate::scene::{self, FOREIGN, LEASE, May, Scene, WAIT};
use crate::state::State;

/// The steps that the Redisson client may take.
pub(crate) fn possible(world: &World, lock: u8) -> Vec<Script> {
    let id = scene::lock(lock);
    let list = world.fair.get(&id);
    let queued = list.is_some_and(|list| list.iter().any(|entry| *entry.owner == FOREIGN));
    if holds(world, lock) {
        return vec![Script::GiveBack];
    }
    let give_up = queued.then_some(Script::GiveUp);
    let drop = list.is_some_and(|list| !list.is_empty()).then_some(Script::Drop);
    [Script::Take].into_iter().chain(give_up).chain(drop).collect()
}

fn holds(world: &World, lock: u8) -> bool {
    world.hold(&scene::lock(lock)).is_some_and(|hold| *hold.owner == FOREIGN)
}

/// Runs a script.
pub(crate) fn perform(sim: &Sim, lock: u8, script: Script) {
    let id = scene::lock(lock);
    let (takes, changed) = sim.with(|world| {
        let (free, now) = (world.is_free(&id), world.now);
        let left = world.hold(&id).map_or(0, |hold| hold.expiry.left(now));
        let list = world.fair.entry(id.clone()).or_default();
        let before = list.clone();
        let takes = write(list, script, free, UnixMs(now.0 + left), now);
        (takes, before != *list)
    });
    if changed {
        observed::fair_list_changed(sim.node(), id.name(), observed::ListChange::Anywhere);
    }
    if takes {
        let ends = sim.with(|world| UnixMs(world.now.0 + LEASE));
        sim.acquire_as_other(&id, &FOREIGN, Expiry::At(ends));
    }
    if script == Script::GiveBack {
        sim.write_as_other(&id, None);
    }
}

/// Changes the list. Returns whether the script takes the lock.
fn write(
    list: &mut VecDeque<FairEntry>,
    script: Script,
    free: bool,
    lease_ends: UnixMs,
    now: UnixMs,
) -> bool {
    if script == Script::Drop {
        list.pop_front();
        return false;
    }
    if script == Script::GiveUp {
        list.retain(|entry| *entry.owner != FOREIGN);
        return false;
    }
    while list.front().is_some_and(|head| head.deadline.is_none_or(|deadline| deadline <= now)) {
        list.pop_front();
    }
    if script == Script::GiveBack {
        return false;
    }
    if free && list.front().is_none_or(|head| *head.owner == FOREIGN) {
        list.pop_front();
        for deadline in list.iter_mut().filter_map(|entry| entry.deadline.as_mut()) {
            deadline.0 -= WAIT;
        }
        return true;
    }
    if list.iter().all(|entry| *entry.owner != FOREIGN) {
        let before = list.back().and_then(|last| last.deadline).unwrap_or(lease_ends);
        list.push_back(FairEntry { owner: Box::new(FOREIGN), deadline: Some(UnixMs(before.0 + WAIT)) });
    }
    false
}

/// The owners behind this one in the list, if it stood there before this step already: a waiter that returns before the
/// timer has removed it from the list keeps its place.
pub(crate) fn stand_behind(before: &World, after: &World, party: Party) -> Vec<u8> {
    let (lock, name) = (scene::lock(party.lock), scene::owner(party.owner));
    let is_it = |entry: &&FairEntry| *entry.owner == name;
    let list = |world: &World| world.fair.get(&lock).into_iter().flatten().cloned().collect::<Vec<_>>();
    if !list(before).iter().any(|entry| is_it(&entry)) {
        return Vec::new();
    }
    let now = list(after);
    let behind = now.iter().skip_while(|entry| !is_it(entry)).skip(1);
    behind.map(|entry| scene::number(&entry.owner)).collect()
}

/// Whether the Redisson client stands in the list, and does not count as gone.
pub(crate) fn foreign_waits(world: &World, lock: u8) -> bool {
    let list = world.fair.get(&scene::lock(lock));
    let lives = |entry: &FairEntry| entry.deadline.is_some_and(|deadline| deadline > world.now);
    list.is_some_and(|list| list.iter().any(|entry| *entry.owner == FOREIGN && lives(entry)))
}

/// Whether the Redisson client stood in the list before an owner, and does not count as gone.
pub(crate) fn stands_before(before: &World, party: Party, now: UnixMs) -> bool {
    let Some(list) = before.fair.get(&scene::lock(party.lock)) else { return false };
    let place = |owner: &[u8]| list.iter().position(|entry| *entry.owner == *owner);
    let lives = |entry: &FairEntry| entry.deadline.is_some_and(|deadline| deadline > now);
    match (place(&FOREIGN), place(&scene::owner(party.owner))) {
        (Some(foreign), Some(native)) => foreign < native && lives(&list[foreign]),
        _ => false,
    }
}

/// Whether the Redisson client has its turn.
pub(crate) fn has_turn(world: &World, lock: u8) -> bool {
    let list = world.fair.get(&scene::lock(lock));
    list.and_then(|list| list.front()).is_some_and(|head| *head.owner == FOREIGN)
}

/// If nothing is due, the list has the waiting natives, in their order, the Redisson client, and no other entry. The
/// budget is one entry, so a dropped native may be missing until it is the first; the first is in the list of a free
/// lock. A turn of the Redisson client ends soon.
pub(crate) fn check(scene: &Scene, state: &State, lock: u8) -> Result<(), Violation> {
    let (world, id) = (&state.world, scene::lock(lock));
    // A lock with a new waiter behind entries of departed owners is checked a millisecond later.
    if !scene.may(May::Fair) || world.timer.is_some_and(|at| at.0 <= world.clock.0 + 1) {
        return Ok(());
    }
    let list: Vec<_> = world.fair.get(&id).into_iter().flatten().collect();
    let natives: Vec<_> = list
        .iter()
        .filter(|entry| *entry.owner != FOREIGN)
        .map(|entry| scene::number(&entry.owner))
        .collect();
    let line: Vec<_> = state.ghost.line(lock).iter().map(|waiting| waiting.party.owner).collect();
    let mut rest = line.iter();
    let in_order = natives.iter().all(|native| rest.any(|waiting| waiting == native));
    let first_is_missing = world.is_free(&id) && line.first().is_some_and(|first| !natives.contains(first));
    if !in_order || first_is_missing {
        return Err(format!("k{lock}: {line:?} wait in this order, and {natives:?} stand in the list"));
    }
    if line.is_empty() || !world.is_free(&id) {
        return Ok(());
    }
    let latest = world.now.after(scene.settings().fair_turn);
    let ends_soon = |head: &&&FairEntry| head.deadline.is_some_and(|deadline| deadline <= latest);
    match list.first().filter(|head| *head.owner == FOREIGN).filter(ends_soon) {
        Some(_) => Ok(()),
        None => Err(format!("k{lock} is free, o{} waits for it, and no other owner has a turn", line[0])),
    }
}
