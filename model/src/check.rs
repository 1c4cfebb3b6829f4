//! The properties that every state must have.

use rlock_core::{Expiry, MonoMs, UnixMs};
use rlock_sim::{Sim, Value};

use crate::ghost::InLine;
use crate::scene::{self, Scene};
use crate::state::{State, Violation};

/// Names of the properties, as the report lists them.
pub(crate) const PROPERTIES: [&str; 7] = [
    "never two holders: who was told that it holds does hold, as often and as long as it was told",
    "first come, first served: the queue is the line of those who came, and nobody gets a lock past it",
    "nothing is taken back from a live holder: an owner that was told keeps its hold",
    "no lost wake-up: where a lock with waiters is free or will be, the timer is set for it",
    "nobody is left: with nothing but time, every wait ends and every blocked client is answered",
    "repeats do no harm: HOLDS n never holds more than n",
    "tokens grow: who asks for one is told a larger one than anybody before, nobody else is told any",
];

/// How late the timer may be for a free lock, in ms: until it looks again, or a window of foreign waiters ends.
const SOON: u64 = 3;
/// The same where the server may refuse writes, or has refused them just before.
const WHEN_REFUSED: u64 = 20;

/// Checks a state.
pub(crate) fn check(scene: &Scene, state: &State) -> Result<(), Violation> {
    holders_hold(state)?;
    for lock in 0..scene.locks {
        lines_are_queues(state, lock)?;
        timer_is_set(scene, state, lock)?;
    }
    everybody_is_answered(scene, state)
}

fn holders_hold(state: &State) -> Result<(), Violation> {
    for ((owner, lock), belief) in &state.ghost.beliefs {
        let hold = state.world.hold(&scene::lock(*lock));
        let Some(hold) = hold.filter(|hold| *hold.owner == scene::owner(*owner)) else {
            return Err(format!("o{owner} was told that it holds k{lock}, and does not"));
        };
        if hold.holds.get() != belief.holds {
            return Err(format!("o{owner} holds k{lock} {} times, told {}", hold.holds.get(), belief.holds));
        }
        if matches!(hold.expiry, Expiry::At(at) if at < belief.ends) {
            return Err(format!("o{owner} holds k{lock} for less long than it was told"));
        }
    }
    Ok(())
}

fn lines_are_queues(state: &State, lock: u8) -> Result<(), Violation> {
    let id = scene::lock(lock);
    let queue = state.world.queues.in_order(&id);
    let queue: Vec<u8> = queue.map(|waiter| scene::number(&waiter.owner)).collect();
    let line: Vec<u8> = state.ghost.line(lock).iter().map(|waiting| waiting.owner).collect();
    if queue != line {
        return Err(format!("k{lock}: o{line:?} wait in this order, and the server serves o{queue:?}"));
    }
    let waits = |InLine { ticket, .. }: &InLine| {
        ticket.is_none_or(|ticket| {
            state.world.clients.get(&ticket).is_some_and(|client| client.answer.is_none())
        })
    };
    match state.ghost.line(lock).iter().find(|waiting| !waits(waiting)) {
        Some(waiting) => {
            Err(format!("o{} is in the queue of k{lock}, and its client is gone", waiting.owner))
        }
        None => Ok(()),
    }
}

/// Where somebody waits for a lock, the timer fires when the lock is free, or as soon as it may be.
fn timer_is_set(scene: &Scene, state: &State, lock: u8) -> Result<(), Violation> {
    let world = &state.world;
    if !world.primary || !state.ghost.somebody_waits(lock) {
        return Ok(());
    }
    let within = match world.keys.get(&scene::lock(lock)) {
        Some(Value::Other | Value::ReadWrite(_)) => return Ok(()),
        Some(Value::Lock(hold)) => match hold.expiry {
            Expiry::Never => return Ok(()),
            Expiry::At(UnixMs(at)) => u64::try_from(at + 1 - world.now.0).unwrap_or(0).max(SOON),
        },
        None => SOON,
    };
    let within = if scene.server { within.max(WHEN_REFUSED) } else { within };
    let latest = MonoMs(world.clock.0 + within);
    if world.timer.is_some_and(|at| at <= latest) {
        return Ok(());
    }
    let set = world.timer.map_or("not set".to_owned(), |at| format!("set for {} ms", at.0 - world.clock.0));
    Err(format!(
        "k{lock} is free in {within} ms at the latest, o{} waits for it, and the timer is {set}",
        state.ghost.line(lock)[0].owner
    ))
}

/// Lets nothing happen but time: waits end or are served, and no client stays blocked.
fn everybody_is_answered(scene: &Scene, state: &State) -> Result<(), Violation> {
    if state.world.queues.is_idle() && state.world.clients.is_empty() {
        return Ok(());
    }
    let sim = Sim::resume(state.world.clone());
    sim.with(|world| world.may_write = true);
    let most = 20 * usize::from(scene.owners) * usize::from(scene.locks);
    for _ in 0..most {
        let Some(in_ms) = sim.with(|world| world.timer.map(|at| at.0.saturating_sub(world.clock.0))) else {
            break;
        };
        sim.pass(in_ms);
        sim.fire();
    }
    let world = sim.into_world();
    if !world.queues.is_empty() {
        return Err(format!(
            "with nothing but time, {} still wait after {most} turns of the timer",
            world.queues.len()
        ));
    }
    match world.clients.values().find(|client| client.answer.is_none()) {
        Some(client) => Err(format!("a client of o{} is blocked, and in no queue", client.id)),
        None => Ok(()),
    }
}
