//! Connections of owners with sessions: they end, are followed by others, and late commands arrive on them.

use rlock_core::locks::Session;
use rlock_core::{Error, Expiry, Reply};
use rlock_sim::Sim;

use crate::action::{Action, Age};
use crate::belief::{renew_on, untie_on};
use crate::ghost::{Belief, Ghost, Party, Violation};
use crate::requests::{client_id, grace};
use crate::scene::{self, May, Scene};
use crate::state::State;

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

/// Whether a call with SESSION on this connection must be refused: it is not that of the last call, and older than one before.
pub(crate) fn is_old(ghost: &Ghost, party: Party, by: u8) -> bool {
    ghost.belief(party).is_some_and(|belief| by != belief.by && by < belief.youngest)
}

/// Whether the owner uses an older connection than the last that it opened, which has ended. The server may refuse its SESSION there.
pub(crate) fn falls_back(ghost: &Ghost, owner: u8) -> bool {
    let connections = ghost.connections(owner);
    connections.newest() + 1 < connections.count
}

/// RENEW on an old connection. An owner that is answered believes it.
pub(crate) fn late(
    scene: &Scene,
    sim: &Sim,
    ghost: &mut Ghost,
    (party, by): (Party, u8),
) -> Result<(), Violation> {
    let (owner, connections) = (party.owner, ghost.connections(party.owner));
    let (lock, name) = (scene::lock(party.lock), scene::owner(party.owner));
    let (believed, must_be_refused) = (ghost.belief(party), is_old(ghost, party, by));
    let answer = renew_on(scene, sim, ghost, party, by);
    let tie = sim.locks(|locks| locks.session(lock.name(), &name, party.mode)).map(|tie| tie.client);
    let has_tie = |number| tie == Some(client_id(owner, number));
    // An answer that its owner did not receive may have gone to a younger one.
    let may_be_refused = believed.is_none_or(|belief| belief.by != by);
    let is_right = match answer {
        Err(Error::TiedToAnother) => {
            may_be_refused && (0..connections.count).any(|of| of != by && connections.has(of) && has_tie(of))
        }
        Err(Error::Untied) => {
            may_be_refused && !(0..connections.count).any(|of| connections.has(of) && has_tie(of))
        }
        Ok(Reply::Renewed) => !must_be_refused && has_tie(by),
        Ok(Reply::NotRenewed) => believed.is_none(),
        _ => false,
    };
    let wrong =
        || format!("o{owner}: RENEW {party} on an old connection: {answer:?}, and {tie:?} has the tie");
    is_right.then_some(()).ok_or_else(wrong)
}

/// RENEW without SESSION on this connection. The next RENEW there ties the hold again.
pub(crate) fn untie(sim: &Sim, ghost: &mut Ghost, (party, by): (Party, u8)) -> Result<(), Violation> {
    match untie_on(sim, ghost, party, by) {
        Ok(Reply::Renewed) => Ok(()),
        other => Err(format!("o{} holds {party}, and RENEW without SESSION answered {other:?}", party.owner)),
    }
}

/// RENEW without SESSION arrives on a closed connection. No caller receives the answer, for which the owner waits with the next
/// command there.
pub(crate) fn late_untie(sim: &Sim, ghost: &mut Ghost, (party, by): (Party, u8)) -> Result<(), Violation> {
    let believed = ghost.belief(party);
    untie(sim, ghost, (party, by))?;
    if let (Some(before), Some(now)) = (believed, ghost.belief(party)) {
        ghost.believe(party, Belief { ends: before.ends, ..now });
    }
    ghost.connections.entry(party.owner).or_default().silent |= 1 << by;
    Ok(())
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
        for party in scene.parties(owner).filter(|_| connections.is_up()) {
            tying(scene, state, party, actions);
        }
    }
}

/// The calls of an owner that may change the tie of its hold, beside those on the connection in use.
fn tying(scene: &Scene, state: &State, party: Party, actions: &mut Vec<Action>) {
    let (connections, believed) = (state.ghost.connections(party.owner), state.ghost.belief(party));
    let (oldest, newest) = (connections.oldest(), connections.newest());
    let detaches = scene.may(May::Detaches);
    let old = (oldest..newest).filter(|by| connections.speaks(*by)).take(if detaches { 2 } else { 1 });
    actions.extend(old.clone().map(|by| Action::Late { party, by }));
    if detaches && believed.is_some() {
        let ages = [Age::Newest, Age::Oldest].into_iter().take(if oldest < newest { 2 } else { 1 });
        actions.extend(ages.map(|age| Action::Untie { party, age }));
        actions.extend(old.map(|by| Action::LateUntie { party, by }));
    }
}

fn session(state: &State, party: Party) -> Option<Session> {
    let (lock, name) = (scene::lock(party.lock), scene::owner(party.owner));
    state.locks.session(lock.name(), &name, party.mode)
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
        // Any call without SESSION, a late one too, has untied the hold.
        let is_tied = |party: &Party| !scene.may(May::Detaches) || session(state, *party).is_some();
        let stays = |party: &Party| state.hold(*party).is_some_and(|(_, ends)| ends.later(latest) != latest);
        if let Some(party) = scene.parties(owner).filter(is_tied).find(stays) {
            return Err(format!("o{owner} has no connection, and holds {party} beyond the grace period"));
        }
    }
    Ok(())
}
