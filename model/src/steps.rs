//! The effect of each step on the server, and on the model's own knowledge.

use std::collections::BTreeMap;

use rlock_core::commands::Answer;
use rlock_core::facts::WriteAccess;
use rlock_core::locks::Ticket;
use rlock_core::request::{Cancel, DownTo, ForceRelease, Release, Wait};
use rlock_core::{Error, Expiry, Holds, Mode, Reply, UnixMs, WaitMs};
use rlock_sim::{ReadWrite, Sim, Value, World};

use crate::action::{Action, Age, How, Reply as Fate};
use crate::belief::{believe, renew_on};
use crate::ghost::{Belief, Ghost, InLine, Party, Violation};
use crate::heard::is_served;
use crate::requests::{lease, owner_of, request, said};
use crate::scene::{self, FOREIGN, Scene, WAIT};
use crate::state::State;
use crate::{fair, sessions, writers};

/// The outcome of a call.
pub(crate) enum Came {
    /// It took the lock, and did not hold it before.
    Took(Party),
    /// It waits.
    Joined(InLine),
    /// Neither.
    Neither,
}

/// Performs a step.
#[expect(clippy::too_many_lines, reason = "a case for each action")]
pub(crate) fn perform(
    scene: &Scene,
    sim: &Sim,
    ghost: &mut Ghost,
    before: &State,
    action: Action,
) -> Result<Came, Violation> {
    let ticket = |client: u8| before.world.clients.keys().nth(client.into()).copied();
    match action {
        Action::Acquire { party, how, reply } => {
            return acquire(scene, sim, ghost, before, (party, how, reply));
        }
        Action::Again { party } => again(scene, sim, ghost, party)?,
        Action::Release { party, down_to } => release(sim, ghost, party, down_to)?,
        Action::Renew { party } => renew(scene, sim, ghost, party)?,
        Action::Connect { owner } => sessions::connect(ghost, owner),
        Action::End { owner, age } => sessions::end(sim, ghost, owner, age),
        Action::Late { party, by } => sessions::late(scene, sim, ghost, (party, by))?,
        Action::Untie { party, age } => {
            let connections = ghost.connections(party.owner);
            let by = if age == Age::Oldest { connections.oldest() } else { connections.newest() };
            sessions::untie(sim, ghost, (party, by))?;
        }
        Action::LateUntie { party, by } => sessions::late_untie(sim, ghost, (party, by))?,
        Action::Cancel { owner, lock } => cancel(sim, ghost, owner, lock)?,
        Action::Deliver { client } => {
            let Some(ticket) = ticket(client) else { return Ok(Came::Neither) };
            deliver(sim, ghost, ticket);
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
            sim.write_as_other(&scene::lock(lock), None);
            ghost.excuse(lock);
        }
        Action::ForeignAcquire { lock } => {
            let ends = sim.with(|world| world.now.after(lease()));
            if scene.reads_and_writes() {
                foreign_read(sim, lock, ends);
            } else {
                sim.acquire_as_other(&scene::lock(lock), &FOREIGN, Expiry::At(ends));
            }
        }
        Action::Fair { lock, script } => fair::perform(sim, lock, script),
        Action::Writer { lock, deed } => writers::perform(sim, lock, deed),
        Action::SpoilToken { lock } => sim.with(|world| {
            let last = ghost.tokens.get(&lock).copied().unwrap_or(0);
            let spoiled = token_is_spoiled(world, lock);
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

/// Redisson's script: a reader takes the lock, or joins its readers, ahead of native waiters.
fn foreign_read(sim: &Sim, lock: u8, ends: UnixMs) {
    let lock = scene::lock(lock);
    let value = sim.with(|world| world.read_write(&lock).cloned());
    let expiry = Expiry::At(ends);
    let (writing, reads, writes) = (false, BTreeMap::new(), BTreeMap::new());
    let mut value = value.unwrap_or(ReadWrite { writing, reads, writes, expiry });
    value.reads.insert(Box::new(FOREIGN), Holds::ONE);
    value.expiry = value.expiry.later(expiry);
    sim.write_as_other(&lock, Some(Value::ReadWrite(value)));
    sim.with(|world| world.read_leases.insert((lock, Box::new(FOREIGN), 1), expiry));
}

fn surroundings(sim: &Sim, ghost: &mut Ghost, before: &State, action: Action) {
    match action {
        Action::Listen { channel } => sim.with(|world| {
            let name = [b'c', b'0' + channel];
            if !world.subscribed.remove(name.as_slice()) {
                world.subscribed.insert(name.into());
            }
        }),
        Action::Pass => sim.pass(before.next_moment().unwrap_or(0)),
        Action::Fire => sim.fire(),
        Action::Role if before.world.primary => sim.demote(),
        Action::Role => sim.promote(),
        Action::Pause => sim.with(|world| world.may_write = !world.may_write),
        Action::Slot => sim.with(|world| {
            let firm = world.write_access == WriteAccess::Allowed;
            world.write_access = if firm { WriteAccess::SlotMoved } else { WriteAccess::Allowed };
        }),
        Action::Step { ms } => {
            ghost.steps += 1;
            sim.step_clock(ms.into());
        }
        _ => {}
    }
}

fn acquire(
    scene: &Scene,
    sim: &Sim,
    ghost: &mut Ghost,
    before: &State,
    (party, how, fate): (Party, How, Fate),
) -> Result<Came, Violation> {
    let Party { owner, lock, mode } = party;
    let (name, channel) = (scene::owner(owner), scene.channel(owner));
    let wait_for = |forever| WaitMs::new(if forever { 0 } else { WAIT }).unwrap_or_else(|| unreachable!());
    let wait = match how {
        How::Not => None,
        How::Block { forever } => Some(Wait::Block(wait_for(forever))),
        How::Enqueue { forever } => Some(Wait::Enqueue(wait_for(forever), &channel)),
    };
    let request = request(scene, &name, party, Some(Holds::ONE), wait)?;
    let (held_before, by) = (before.holds_any(party), ghost.connections(owner).newest());
    match sim.acquire(sessions::in_use(ghost, owner), &scene::lock(lock), &request) {
        Ok(Answer::Later) => {
            ghost.replaced(party);
            let newest = sim.with(|world| world.clients.keys().next_back().copied());
            Ok(Came::Joined(InLine { party, ticket: newest, channel: None, by }))
        }
        Ok(Answer::Now(Reply::Enqueued)) => {
            ghost.replaced(party);
            let channel = Some(scene::number(&channel));
            Ok(Came::Joined(InLine { party, ticket: None, channel, by }))
        }
        Ok(Answer::Now(Reply::Acquired { holds, token, .. })) => {
            ghost.told.push((lock, token));
            if holds.get() != before.hold_count(party).max(1) {
                return Err(format!("o{owner} asked k{lock} for HOLDS 1 and got {}", holds.get()));
            }
            if fate == Fate::Arrives {
                believe(sim, ghost, (party, by), holds.get());
            }
            Ok(if held_before { Came::Neither } else { Came::Took(party) })
        }
        Ok(Answer::Now(Reply::Denied)) => Ok(Came::Neither),
        Err(Error::Untied | Error::TiedToAnother) if sessions::falls_back(ghost, owner) => Ok(Came::Neither),
        Err(Error::NotAToken) if token_is_spoiled(&before.world, lock) => Ok(Came::Neither),
        // It would wait for itself; served just before, it may not have known.
        Err(Error::Upgrade) if mode == Mode::Write => Ok(Came::Neither),
        // A client without the module holds the key as a plain lock.
        Err(Error::NoPermitsLock) if mode == Mode::Permit => Ok(Came::Neither),
        other => Err(format!("o{owner}: ACQUIRE {party} answered {other:?}")),
    }
}

/// Whether the key of a lock's last fencing token holds an invalid value.
fn token_is_spoiled(world: &World, lock: u8) -> bool {
    world.tokens.get(&scene::lock(lock)) == Some(&None)
}

fn again(scene: &Scene, sim: &Sim, ghost: &mut Ghost, party: Party) -> Result<(), Violation> {
    let Party { owner, lock, .. } = party;
    let (name, two) = (scene::owner(owner), Holds::new(2));
    let request = request(scene, &name, party, two, None)?;
    let newest = ghost.connections(owner).newest();
    match sim.acquire(sessions::in_use(ghost, owner), &scene::lock(lock), &request) {
        Ok(Answer::Now(Reply::Acquired { holds, token, .. })) if Some(holds) == two => {
            ghost.told.push((lock, token));
            believe(sim, ghost, (party, newest), 2);
            Ok(())
        }
        Err(Error::Untied | Error::TiedToAnother) if sessions::falls_back(ghost, owner) => Ok(()),
        Err(Error::NotAToken) if sim.with(|world| token_is_spoiled(world, lock)) => Ok(()),
        other => Err(format!("o{owner} holds k{lock} once, and HOLDS 2 answered {other:?}")),
    }
}

fn release(sim: &Sim, ghost: &mut Ghost, party: Party, down_to: u8) -> Result<(), Violation> {
    let Party { owner, lock, mode } = party;
    let name = scene::owner(owner);
    let request = Release {
        owner: owner_of(&name)?,
        mode: said(mode),
        down_to: DownTo::AtMost(down_to.into()),
        lease: None,
    };
    let believed = ghost.give_back(party);
    let expected = if down_to == 0 { Reply::Released } else { Reply::StillHeld };
    match (sim.release(&scene::lock(lock), &request), believed) {
        (Ok(reply), Some(belief)) if reply == expected => {
            if down_to > 0 {
                ghost.believe(party, Belief { holds: down_to.into(), ..belief });
            }
            Ok(())
        }
        // Its reply was lost, or its lease has ended unseen: it may hold or not.
        (Ok(_), None) => Ok(()),
        (other, _) => Err(format!("o{owner} holds k{lock}, and RELEASE answered {other:?}")),
    }
}

fn renew(scene: &Scene, sim: &Sim, ghost: &mut Ghost, party: Party) -> Result<(), Violation> {
    let (Party { owner, lock, .. }, believed) = (party, ghost.belief(party));
    let newest = ghost.connections(owner).newest();
    let falls_back = sessions::falls_back(ghost, owner);
    match (renew_on(scene, sim, ghost, party, newest), believed) {
        (Ok(Reply::Renewed), _) | (Ok(Reply::NotRenewed), None) => Ok(()),
        (Err(Error::Untied), _) if falls_back => {
            sessions::untie(sim, ghost, (party, newest))?;
            let again = renew_on(scene, sim, ghost, party, newest);
            let is_tied = again == Ok(Reply::Renewed);
            is_tied.then_some(()).ok_or_else(|| format!("o{owner}: RENEW again answered {again:?}"))
        }
        (Err(Error::TiedToAnother), _) if falls_back => Ok(()),
        (other, _) => Err(format!("o{owner} holds k{lock}, and RENEW answered {other:?}")),
    }
}

fn cancel(sim: &Sim, ghost: &mut Ghost, owner: u8, lock: u8) -> Result<(), Violation> {
    let name = scene::owner(owner);
    match sim.cancel(&scene::lock(lock), &Cancel { owner: owner_of(&name)? }) {
        Ok(Reply::Cancelled) => {
            // It may have been served just before, in one of the ways in which it waited.
            let served = |waiting: &InLine| sim.with(|world| is_served(world, waiting));
            ghost.leave(lock, |waiting| waiting.party.owner == owner && !served(waiting));
            Ok(())
        }
        // Served just before.
        Ok(Reply::NotQueued) => Ok(()),
        other => Err(format!("o{owner}: CANCEL k{lock} answered {other:?}")),
    }
}

fn deliver(sim: &Sim, ghost: &mut Ghost, ticket: Ticket) {
    let granted = ghost.grants.remove(&ticket);
    if let (Some(Ok(Reply::Acquired { .. })), Some(grant)) = (sim.deliver(ticket), granted) {
        // The answer to a later call of the owner is newer.
        ghost.beliefs.entry(grant.party).or_insert(Belief {
            holds: 1,
            ends: grant.ends,
            by: 0,
            tied: false,
            youngest: 0,
        });
    }
}
