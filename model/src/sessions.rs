//! Connections of owners with sessions: they end, are followed by others, and late commands arrive on them.

use rlock_core::request::Renew;
use rlock_core::{Expiry, Reply};
use rlock_sim::Sim;

use crate::action::Action;
use crate::ghost::{Ghost, Party, Violation};
use crate::requests::{asked, grace, lease, owner_of, said};
use crate::scene::{self, Scene};
use crate::state::State;

/// The id of a connection: larger for younger ones.
fn client_id(owner: u8, number: u8) -> u64 {
    u64::from(number) * 16 + u64::from(owner)
}

/// The id of the connection that an owner uses.
pub(crate) fn in_use(ghost: &Ghost, owner: u8) -> u64 {
    client_id(owner, ghost.connections(owner).newest)
}

/// An owner uses another connection from now on.
pub(crate) fn connect(ghost: &mut Ghost, owner: u8) {
    let connections = ghost.connections.entry(owner).or_default();
    connections.newest += 1;
}

/// The server sees the end of the oldest connection of an owner.
pub(crate) fn end(sim: &Sim, ghost: &mut Ghost, owner: u8) {
    let ended = ghost.connections(owner).oldest;
    ghost.end_oldest(owner, sim.with(|world| world.now.after(grace())));
    sim.end_connection(client_id(owner, ended));
}

/// No client receives the answer to a late command.
pub(crate) fn late(scene: &Scene, sim: &Sim, ghost: &Ghost, party: Party) -> Result<(), Violation> {
    let Party { owner, lock, mode } = party;
    let name = scene::owner(owner);
    let request = Renew { owner: owner_of(&name)?, lease: lease(), mode: said(mode), session: asked(scene) };
    sim.call_on(client_id(owner, ghost.connections(owner).oldest), &scene::lock(lock));
    match sim.renew(&scene::lock(lock), &request) {
        Ok(Reply::Renewed | Reply::NotRenewed) => Ok(()),
        other => Err(format!("o{owner}: a late RENEW {party} answered {other:?}")),
    }
}

/// Connections end and are followed by others, twice for each owner.
pub(crate) fn possible(scene: &Scene, state: &State, actions: &mut Vec<Action>) {
    for owner in 0..scene.owners {
        let connections = state.ghost.connections(owner);
        if connections.newest < 2 {
            actions.push(Action::Connect { owner });
        }
        if connections.is_up() {
            actions.push(Action::End { owner });
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
