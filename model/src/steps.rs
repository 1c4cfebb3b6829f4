//! What each step does: to the server, and to what the model knows.

use rlock_core::call::Answer;
use rlock_core::port::Ground;
use rlock_core::queue::Ticket;
use rlock_core::request::{Acquire, Cancel, DownTo, ForceRelease, Release, Renew, Wait};
use rlock_core::{Error, Expiry, Holds, LeaseMs, Mode, Owner, Reply, WaitMs};
use rlock_sim::Sim;

use crate::action::{Action, How, Reply as Fate};
use crate::ghost::{Belief, Ghost, InLine};
use crate::scene::{self, LEASE, Scene, WAIT};
use crate::state::{State, Violation};

/// What became of a caller.
pub(crate) enum Came {
    /// It took the lock, and did not hold it before.
    Took { owner: u8, lock: u8 },
    /// It waits.
    Joined { lock: u8, waiting: InLine },
    /// Neither.
    Neither,
}

/// Performs a step.
pub(crate) fn perform(
    scene: &Scene,
    sim: &Sim,
    ghost: &mut Ghost,
    before: &State,
    action: Action,
) -> Result<Came, Violation> {
    let ticket = |client: u8| before.world.clients.keys().nth(client.into()).copied();
    match action {
        Action::Acquire { owner, lock, how, reply } => {
            return acquire(scene, sim, ghost, before, (owner, lock, how, reply));
        }
        Action::Again { owner, lock } => again(scene, sim, ghost, owner, lock)?,
        Action::Release { owner, lock, down_to } => release(sim, ghost, owner, lock, down_to)?,
        Action::Renew { owner, lock } => renew(sim, ghost, owner, lock)?,
        Action::Cancel { owner, lock } => cancel(sim, ghost, owner, lock)?,
        Action::Deliver { client } => {
            let Some(ticket) = ticket(client) else { return Ok(Came::Neither) };
            deliver(sim, ghost, before, ticket);
        }
        Action::Disconnect { client } => {
            let Some(ticket) = ticket(client) else { return Ok(Came::Neither) };
            sim.disconnect(ticket);
            ghost.grants.remove(&ticket);
            for lock in 0..2 {
                ghost.leave(lock, |waiting| waiting.ticket == Some(ticket));
            }
        }
        Action::ForeignDelete { lock } => {
            sim.foreign_write(&scene::lock(lock), None);
            ghost.excuse(lock);
        }
        Action::ForeignAcquire { lock } => {
            let ends = sim.with(|world| world.now.after(lease()));
            sim.foreign_acquire(&scene::lock(lock), b"f9", Expiry::At(ends));
        }
        Action::SpoilToken { lock } => sim.with(|world| {
            let last = ghost.tokens.get(&lock).copied().unwrap_or(0);
            let spoiled = world.tokens.get(&scene::lock(lock)) == Some(&None);
            world.tokens.insert(scene::lock(lock), spoiled.then_some(last));
        }),
        Action::ForceRelease { lock } => {
            ghost.excuse(lock);
            let forced = sim.force_release(&scene::lock(lock), &ForceRelease { owner: None });
            if forced != Ok(Reply::Forced) {
                return Err(format!("FORCERELEASE of k{lock}, which is held, answered {forced:?}"));
            }
        }
        _ => surroundings(sim, ghost, before, action),
    }
    Ok(Came::Neither)
}

fn surroundings(sim: &Sim, ghost: &mut Ghost, before: &State, action: Action) {
    match action {
        Action::Listen { channel } => sim.with(|world| {
            let name = [b'c', b'0' + channel];
            if !world.heard.remove(name.as_slice()) {
                world.heard.insert(name.into());
            }
        }),
        Action::Pass => sim.pass(before.next_moment().unwrap_or(0)),
        Action::Fire => sim.fire(),
        Action::Role if before.world.primary => sim.demote(),
        Action::Role => sim.with(|world| world.primary = true),
        Action::Pause => sim.with(|world| world.may_write = !world.may_write),
        Action::Slot => sim.with(|world| {
            let firm = world.ground == Ground::Firm;
            world.ground = if firm { Ground::Moved } else { Ground::Firm };
        }),
        Action::Step { ms } => {
            ghost.steps += 1;
            sim.step_clock(ms.into());
        }
        _ => {}
    }
}

fn lease() -> LeaseMs {
    LeaseMs::new(LEASE).unwrap_or(LeaseMs::SHORTEST)
}

/// Every name of the model is an owner's, by its form.
fn owner_of(name: &[u8; 2]) -> Result<Owner<'_>, Violation> {
    Owner::new(name).map_err(|error| error.to_string())
}

fn acquire(
    scene: &Scene,
    sim: &Sim,
    ghost: &mut Ghost,
    before: &State,
    (owner, lock, how, fate): (u8, u8, How, Fate),
) -> Result<Came, Violation> {
    let (name, channel) = (scene::owner(owner), scene.channel(owner));
    let wait_for = |forever| WaitMs::new(if forever { 0 } else { WAIT }).unwrap_or_else(|| unreachable!());
    let wait = match how {
        How::Not => None,
        How::Block { forever } => Some(Wait::Block(wait_for(forever))),
        How::Enqueue { forever } => Some(Wait::Enqueue(wait_for(forever), &channel)),
    };
    let (arrive_at, fenced) = (Some(Holds::ONE), scene.fenced);
    let request = Acquire {
        owner: owner_of(&name)?,
        lease: lease(),
        mode: Mode::Mutex,
        fair: false,
        arrive_at,
        fenced,
        wait,
    };
    let held_before = before.holds(owner, lock);
    match sim.acquire(owner.into(), &scene::lock(lock), &request) {
        Ok(Answer::Later) => {
            ghost.replaced(owner, lock);
            let newest = sim.with(|world| world.clients.keys().next_back().copied());
            Ok(Came::Joined { lock, waiting: InLine { owner, ticket: newest, channel: None } })
        }
        Ok(Answer::Now(Reply::Enqueued)) => {
            ghost.replaced(owner, lock);
            let channel = Some(scene::number(&channel));
            Ok(Came::Joined { lock, waiting: InLine { owner, ticket: None, channel } })
        }
        Ok(Answer::Now(Reply::Acquired { holds, token, .. })) => {
            ghost.told.push((lock, token));
            if holds.get() != before.hold_count(owner, lock).max(1) {
                return Err(format!("o{owner} asked k{lock} for HOLDS 1 and got {}", holds.get()));
            }
            if fate == Fate::Arrives {
                believe(sim, ghost, owner, lock, holds.get());
            }
            Ok(if held_before { Came::Neither } else { Came::Took { owner, lock } })
        }
        Ok(Answer::Now(Reply::Denied)) => Ok(Came::Neither),
        Err(Error::NotAToken) if token_is_spoiled(before, lock) => Ok(Came::Neither),
        other => Err(format!("o{owner}: ACQUIRE k{lock} answered {other:?}")),
    }
}

fn believe(sim: &Sim, ghost: &mut Ghost, owner: u8, lock: u8, holds: i64) {
    let expiry = sim.with(|world| world.hold(&scene::lock(lock)).map(|hold| hold.expiry));
    if let Some(Expiry::At(ends)) = expiry {
        ghost.believe(owner, lock, Belief { holds, ends });
    }
}

/// Whether the key of a lock's last fencing token holds something that is none.
fn token_is_spoiled(state: &State, lock: u8) -> bool {
    state.world.tokens.get(&scene::lock(lock)) == Some(&None)
}

fn again(scene: &Scene, sim: &Sim, ghost: &mut Ghost, owner: u8, lock: u8) -> Result<(), Violation> {
    let (name, two) = (scene::owner(owner), Holds::new(2));
    let fenced = scene.fenced;
    let request = Acquire {
        owner: owner_of(&name)?,
        lease: lease(),
        mode: Mode::Mutex,
        fair: false,
        arrive_at: two,
        fenced,
        wait: None,
    };
    match sim.acquire(owner.into(), &scene::lock(lock), &request) {
        Ok(Answer::Now(Reply::Acquired { holds, token, .. })) if Some(holds) == two => {
            ghost.told.push((lock, token));
            believe(sim, ghost, owner, lock, 2);
            Ok(())
        }
        Err(Error::NotAToken) if sim.with(|world| world.tokens.get(&scene::lock(lock)) == Some(&None)) => {
            Ok(())
        }
        other => Err(format!("o{owner} holds k{lock} once, and HOLDS 2 answered {other:?}")),
    }
}

fn release(sim: &Sim, ghost: &mut Ghost, owner: u8, lock: u8, down_to: u8) -> Result<(), Violation> {
    let name = scene::owner(owner);
    let request =
        Release { owner: owner_of(&name)?, mode: None, down_to: DownTo::AtMost(down_to.into()), lease: None };
    let believed = ghost.give_back(owner, lock);
    let expected = if down_to == 0 { Reply::Released } else { Reply::StillHeld };
    match (sim.release(&scene::lock(lock), &request), believed) {
        (Ok(reply), Some(belief)) if reply == expected => {
            if down_to > 0 {
                ghost.believe(owner, lock, Belief { holds: down_to.into(), ..belief });
            }
            Ok(())
        }
        // Its reply was lost, or its lease has ended unseen: it may hold or not.
        (Ok(_), None) => Ok(()),
        (other, _) => Err(format!("o{owner} holds k{lock}, and RELEASE answered {other:?}")),
    }
}

fn renew(sim: &Sim, ghost: &mut Ghost, owner: u8, lock: u8) -> Result<(), Violation> {
    let name = scene::owner(owner);
    let request = Renew { owner: owner_of(&name)?, lease: lease(), mode: None };
    let believed = ghost.belief(owner, lock);
    match (sim.renew(&scene::lock(lock), &request), believed) {
        (Ok(Reply::Renewed), Some(belief)) => {
            believe(sim, ghost, owner, lock, belief.holds);
            Ok(())
        }
        (Ok(Reply::Renewed), None) => {
            let hold = sim.with(|world| world.hold(&scene::lock(lock)).map(|hold| hold.holds.get()));
            believe(sim, ghost, owner, lock, hold.unwrap_or(0));
            Ok(())
        }
        (Ok(Reply::NotRenewed), None) => Ok(()),
        (other, _) => Err(format!("o{owner} holds k{lock}, and RENEW answered {other:?}")),
    }
}

fn cancel(sim: &Sim, ghost: &mut Ghost, owner: u8, lock: u8) -> Result<(), Violation> {
    let name = scene::owner(owner);
    match sim.cancel(&scene::lock(lock), &Cancel { owner: owner_of(&name)? }) {
        Ok(Reply::Cancelled) => {
            ghost.leave(lock, |waiting| waiting.owner == owner);
            Ok(())
        }
        // Served just before.
        Ok(Reply::NotQueued) => Ok(()),
        other => Err(format!("o{owner}: CANCEL k{lock} answered {other:?}")),
    }
}

fn deliver(sim: &Sim, ghost: &mut Ghost, before: &State, ticket: Ticket) {
    let Some(client) = before.world.clients.get(&ticket) else { return };
    let (owner, lock) = (u8::try_from(client.id).unwrap_or(u8::MAX), scene::number(&client.lock.key));
    let granted = ghost.grants.remove(&ticket);
    if let (Some(Ok(Reply::Acquired { .. })), Some(grant)) = (sim.deliver(ticket), granted) {
        // What the owner heard since by another call is newer.
        ghost.beliefs.entry((owner, lock)).or_insert(Belief { holds: 1, ends: grant.ends });
    }
}
