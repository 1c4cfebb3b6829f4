//! The properties that every state must have.

use rlock_core::{Expiry, Mode, MonoMs, UnixMs};
use rlock_sim::{Sim, Value};

use crate::fair;
use crate::ghost::{InLine, Party, Violation};
use crate::scene::{self, May, Scene};
use crate::sessions;
use crate::state::State;
use crate::writers;

/// Names of the properties, as the report lists them.
pub(crate) const PROPERTIES: [&str; 14] = [
    "never two holders: an owner whose reply says that it holds has the holds and the lease of that reply",
    "a writer is alone: no other owner holds a lock that is written",
    "permits are limited: no more are out than the largest limit that was asked for",
    "first come, first served: the queue has the order of arrival, and no owner acquires a lock past it",
    "no live holder is revoked: an owner that received its grant keeps its hold",
    "sessions end: the holds of an owner without a connection end with the grace period",
    "no missed wake-up: if a lock with waiters is free or will be, the timer is set for it",
    "no wait is endless: with nothing but time, every wait ends and every blocked client is answered",
    "repeats do no harm: HOLDS n never holds more than n",
    "one order: FAIR waiters stand in the fair list, and the turn of a Redisson waiter ends soon",
    "turns both ways: readers pass a Redisson writer for a while only, and are not held back too early or for long",
    "tokens grow: an owner that asks for one receives one larger than all before, and no other owner receives any",
    "callers hold: a caller that has a guard holds the lock at the server, however late a message or an answer comes",
    "nothing is left: acquisitions that ended by an answer have neither a hold nor a place in the queue",
];

/// How late the timer may be for a free lock, in ms: until the next check, or the end of a yield window.
const SOON: u64 = 3;
/// The same while a Redisson waiter has its turn.
const FAIR_TURN: u64 = 6;
/// The same if the server may refuse writes, or has refused them just before.
const WHEN_REFUSED: u64 = 20;

/// Checks a state.
pub(crate) fn check(scene: &Scene, state: &State) -> Result<(), Violation> {
    holders_hold(state)?;
    sessions::check(scene, state)?;
    for lock in 0..scene.locks {
        writers_are_alone(state, lock)?;
        permits_are_limited(state, lock)?;
        lines_are_queues(state, lock)?;
        timer_is_set(scene, state, lock)?;
        fair::check(scene, state, lock)?;
        writers::check(scene, state, lock)?;
    }
    everybody_is_answered(scene, state)
}

fn holders_hold(state: &State) -> Result<(), Violation> {
    for (party, belief) in &state.ghost.beliefs {
        let owner = party.owner;
        let Some((holds, ends)) = state.hold(*party) else {
            return Err(format!("o{owner} does not hold {party}, but its reply says so"));
        };
        if holds != belief.holds {
            return Err(format!("o{owner} holds {party} {holds} times, and its reply says {}", belief.holds));
        }
        if matches!(ends, Expiry::At(at) if at < belief.ends) {
            return Err(format!("o{owner} holds {party} for less long than its reply says"));
        }
    }
    Ok(())
}

fn writers_are_alone(state: &State, lock: u8) -> Result<(), Violation> {
    let id = scene::lock(lock);
    let Some(value) = state.world.read_write(&id) else { return Ok(()) };
    let writers: Vec<_> = value.writes.keys().collect();
    let besides = |reader: &&[u8]| writers.iter().any(|writer| ***writer != **reader);
    if writers.len() > 1 || value.writing == writers.is_empty() {
        return Err(format!("k{lock} has {} writers, and mode says otherwise", writers.len()));
    }
    match state.world.living_readers(&id).into_iter().find(besides) {
        Some(reader) => Err(format!("{} reads k{lock}, which another owner writes", reader.escape_ascii())),
        None => Ok(()),
    }
}

fn lines_are_queues(state: &State, lock: u8) -> Result<(), Violation> {
    let id = scene::lock(lock);
    let queue = state.locks.records.in_order(id.name());
    let queue: Vec<_> = queue.map(|waiter| (scene::number(&waiter.owner), waiter.mode())).collect();
    let line: Vec<_> = state.ghost.line(lock).iter().map(|w| (w.party.owner, w.party.mode)).collect();
    if queue != line {
        return Err(format!("k{lock}: {line:?} wait in this order, and the server serves {queue:?}"));
    }
    let waits = |InLine { ticket, .. }: &InLine| {
        ticket.is_none_or(|ticket| {
            state.world.clients.get(&ticket).is_some_and(|client| client.answer.is_none())
        })
    };
    match state.ghost.line(lock).iter().find(|waiting| !waits(waiting)) {
        Some(waiting) => {
            Err(format!("o{} is in the queue of k{lock}, and its client is gone", waiting.party.owner))
        }
        None => Ok(()),
    }
}

/// The timer of a lock with waiters fires when the lock is free, or as soon as it may be.
fn timer_is_set(scene: &Scene, state: &State, lock: u8) -> Result<(), Violation> {
    let world = &state.world;
    let Some(head) = state.ghost.line(lock).first().map(|first| first.party) else { return Ok(()) };
    if !world.primary {
        return Ok(());
    }
    let within = match world.keys.get(&scene::lock(lock)) {
        Some(Value::Other) => return Ok(()),
        Some(Value::ReadWrite(_)) => may_be_had(state, head),
        Some(Value::Permits(_)) => permit_may_be_had(scene, state, head),
        Some(Value::Lock(hold)) => match hold.expiry {
            Expiry::Never => return Ok(()),
            Expiry::At(UnixMs(at)) => u64::try_from(at + 1 - world.now.0).unwrap_or(0).max(SOON),
        },
        // A Redisson waiter has its turn first.
        None if scene.may(May::Fair) && fair::has_turn(world, lock) => FAIR_TURN,
        None => SOON,
    };
    let within = if scene.may(May::Server) { within.max(WHEN_REFUSED) } else { within };
    let latest = MonoMs(world.clock.0 + within);
    if world.timer.is_some_and(|at| at <= latest) {
        return Ok(());
    }
    let set = world.timer.map_or("not set".to_owned(), |at| format!("set for {} ms", at.0 - world.clock.0));
    Err(format!(
        "k{lock} is free in {within} ms at the latest, o{} waits for it, and the timer is {set}",
        head.owner
    ))
}

/// In how many ms the first waiter can have a permit: as soon as its limit admits one more.
fn permit_may_be_had(scene: &Scene, state: &State, head: Party) -> u64 {
    let (world, name) = (&state.world, scene::owner(head.owner));
    let living = world.living_permits(&scene::lock(head.lock));
    let others: Vec<_> = living.iter().filter(|(owner, _)| **owner != name[..]).collect();
    let limit = scene.permits(head.owner).map_or(0, |limit| limit.get() as usize);
    match others.iter().map(|(_, end)| *end).min() {
        Some(first) if others.len() >= limit && others.len() == living.len() => {
            u64::try_from(first.0 + 1 - world.now.0).unwrap_or(0).max(SOON)
        }
        _ => SOON,
    }
}

fn permits_are_limited(state: &State, lock: u8) -> Result<(), Violation> {
    let living = state.world.living_permits(&scene::lock(lock)).len();
    if living <= scene::PERMITS.into() { Ok(()) } else { Err(format!("k{lock} has {living} permits out")) }
}

/// In how many ms the first waiter for a read/write lock can have it.
fn may_be_had(state: &State, head: Party) -> u64 {
    let (world, id) = (&state.world, scene::lock(head.lock));
    let Some(value) = world.read_write(&id) else { return SOON };
    let until = |expiry: Expiry| match expiry {
        Expiry::Never => u64::MAX / 2,
        Expiry::At(UnixMs(at)) => u64::try_from(at + 1 - world.now.0).unwrap_or(0),
    };
    match head.mode {
        // Readers join at once.
        Mode::Read if writers::may_have_turn(state, head.lock) => {
            until(value.expiry).clamp(SOON, writers::LOOK)
        }
        Mode::Read if !value.writing || value.writes.contains_key(&scene::owner(head.owner)[..]) => 0,
        Mode::Write if !value.writing => {
            let leases = world.read_leases.iter().filter(|((lock, reader, _), _)| {
                *lock == id && world.living_readers(lock).contains(&&**reader)
            });
            let latest = leases.map(|(_, ends)| until(*ends)).max().unwrap_or(0);
            latest.min(until(value.expiry)).max(SOON)
        }
        _ => until(value.expiry).max(SOON),
    }
}

/// Lets only time pass: waits end or are served, and no client stays blocked.
fn everybody_is_answered(scene: &Scene, state: &State) -> Result<(), Violation> {
    if !state.locks.is_watched() && state.world.clients.is_empty() {
        return Ok(());
    }
    let sim = Sim::resume(state.world.clone(), state.locks.clone());
    sim.with(|world| world.may_write = true);
    let most = 20 * usize::from(scene.owners) * usize::from(scene.locks);
    for _ in 0..most {
        let Some(in_ms) = sim.with(|world| world.timer.map(|at| at.0.saturating_sub(world.clock.0))) else {
            break;
        };
        sim.pass(in_ms);
        sim.fire();
    }
    let (world, locks) = sim.into_parts();
    if locks.calls.waiting() > 0 {
        return Err(format!(
            "with nothing but time, {} still wait after the timer fired {most} times",
            locks.calls.waiting()
        ));
    }
    match world.clients.values().find(|client| client.answer.is_none()) {
        Some(client) => Err(format!("a client of o{} is blocked, and in no queue", client.id)),
        None => Ok(()),
    }
}
