//! What an owner believes once it was answered.

use rlock_core::request::Renew;
use rlock_core::{Error, Expiry, Owner, Reply};
use rlock_sim::Sim;

use crate::ghost::{Ghost, Party};
use crate::requests::{asked, client_id, lease, said};
use crate::scene::{self, Scene};
use crate::state::hold;

/// An owner believes what it was answered on this connection.
pub(crate) fn believe(sim: &Sim, ghost: &mut Ghost, (party, by): (Party, u8), holds: i64) {
    if let Some((_, Expiry::At(ends))) = sim.with(|world| hold(world, party)) {
        ghost.answered(party, (holds, ends), (by, true));
    }
}

/// RENEW without SESSION on a connection of the owner, which believes the answer.
pub(crate) fn untie_on(sim: &Sim, ghost: &mut Ghost, party: Party, by: u8) -> Result<Reply, Error> {
    let Party { owner, lock, mode } = party;
    let (name, lock) = (scene::owner(owner), scene::lock(lock));
    let request = Renew { owner: Owner::new(&name)?, lease: lease(), mode: said(mode), session: None };
    sim.call_on(client_id(owner, by), &lock);
    let reply = sim.renew(&lock, &request)?;
    if let (Reply::Renewed, Some((held, Expiry::At(ends)))) = (reply, sim.with(|world| hold(world, party))) {
        let holds = ghost.belief(party).map_or(held, |belief| belief.holds);
        ghost.answered(party, (holds, ends), (by, false));
    }
    Ok(reply)
}

/// RENEW on a connection of the owner, which believes the answer.
pub(crate) fn renew_on(
    scene: &Scene,
    sim: &Sim,
    ghost: &mut Ghost,
    party: Party,
    by: u8,
) -> Result<Reply, Error> {
    let Party { owner, lock, mode } = party;
    let (name, lock) = (scene::owner(owner), scene::lock(lock));
    let request =
        Renew { owner: Owner::new(&name)?, lease: lease(), mode: said(mode), session: asked(scene) };
    sim.call_on(client_id(owner, by), &lock);
    let reply = sim.renew(&lock, &request)?;
    if reply == Reply::Renewed {
        let held = || sim.with(|world| hold(world, party).map_or(0, |(holds, _)| holds));
        let holds = ghost.belief(party).map_or_else(held, |belief| belief.holds);
        believe(sim, ghost, (party, by), holds);
    }
    Ok(reply)
}
