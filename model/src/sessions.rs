//! Connections of owners with sessions: they end, are followed by others, and late commands arrive on them.

use rlock_core::{Error, Expiry, Reply};
use rlock_sim::Sim;

use crate::action::{Action, Age};
use crate::ghost::{Ghost, Party, Violation};
use crate::requests::grace;
use crate::scene::{self, Scene};
use crate::state::State;
use crate::steps::renew_on;

/// The id of a connection: larger for younger ones.
pub(crate) fn client_id(owner: u8, number: u8) -> u64 {
    u64::from(number) * 16 + u64::from(owner)
}

/// The id of the connection that an owner uses.
pub(crate) fn in_use(ghost: &Ghost, owner: u8) -> u64 {
    client_id(owner, ghost.connections(owner).newest())
}

/// An owner uses another connection from now on.
pub(crate) fn connect(ghost: &mut Ghost, owner: u8) {
    ghost.connections.entry(owner).or_default().open();
}

/// The server sees the end of a connection of an owner. If it was the one in use, the owner uses the one before it.
pub(crate) fn end(sim: &Sim, ghost: &mut Ghost, owner: u8, age: Age) {
    let connections = ghost.connections(owner);
    let ended = match age {
        Age::Oldest => connections.oldest(),
        Age::Newest => connections.newest(),
    };
    ghost.end(owner, ended, sim.with(|world| world.now.after(grace())));
    sim.end_connection(client_id(owner, ended));
}

/// RENEW on the oldest connection. It is refused if a younger connection has the tie, else never; an owner that is answered
/// believes it.
pub(crate) fn late(scene: &Scene, sim: &Sim, ghost: &mut Ghost, party: Party) -> Result<(), Violation> {
    let (owner, connections) = (party.owner, ghost.connections(party.owner));
    let (lock, name) = (scene::lock(party.lock), scene::owner(party.owner));
    let believes = ghost.belief(party).is_some();
    let answer = renew_on(scene, sim, ghost, party, connections.oldest());
    let tie = sim.locks(|locks| locks.session(lock.name(), &name, party.mode)).map(|tie| tie.client);
    let has_tie = |number| tie == Some(client_id(owner, number));
    let is_younger = |number| number > connections.oldest() && connections.has(number);
    let is_right = match answer {
        Err(Error::TiedToYounger) => {
            (0..connections.count).any(|number| is_younger(number) && has_tie(number))
        }
        Ok(Reply::Renewed) => has_tie(connections.oldest()),
        Ok(Reply::NotRenewed) => !believes,
        _ => false,
    };
    let wrong =
        || format!("o{owner}: RENEW {party} on an old connection: {answer:?}, and {tie:?} has the tie");
    is_right.then_some(()).ok_or_else(wrong)
}

/// Connections end and are followed by others, twice for each owner.
pub(crate) fn possible(scene: &Scene, state: &State, actions: &mut Vec<Action>) {
    for owner in 0..scene.owners {
        let connections = state.ghost.connections(owner);
        if connections.count < 3 {
            actions.push(Action::Connect { owner });
        }
        if connections.is_up() {
            actions.push(Action::End { owner, age: Age::Newest });
        }
        if connections.has_old() {
            actions.push(Action::End { owner, age: Age::Oldest });
        }
        actions.extend(
            scene.parties(owner).filter(|_| connections.has_old()).map(|party| Action::Late { party }),
        );
    }
}

/// The holds of an owner without a connection end with the grace period, once the timer has done all due work.
pub(crate) fn check(scene: &Scene, state: &State) -> Result<(), Violation> {
    let world = &state.world;
    if world.timer.is_some_and(|at| at <= world.clock) {
        return Ok(());
    }
    let latest = world.now.after(grace());
    for owner in (0..scene.owners).filter(|owner| !state.ghost.connections(*owner).is_up()) {
        let latest = Expiry::At(latest);
        let stays = |party: &Party| state.hold(*party).is_some_and(|(_, ends)| ends.later(latest) != latest);
        if let Some(party) = scene.parties(owner).find(stays) {
            return Err(format!("o{owner} has no connection, and holds {party} beyond the grace period"));
        }
    }
    Ok(())
}
