//! Connections of owners with sessions: they end, are followed by others, and late commands arrive on them.

use rlock_core::{Error, Expiry, Reply};
use rlock_sim::Sim;

use crate::action::{Action, Age};
use crate::belief::{detach_on, renew_on};
use crate::ghost::{Ghost, Party, Violation};
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

/// Whether a call with SESSION on this connection must be refused: it is not that of the last call, and older than one before, and the
/// connection of the tie has not ended.
pub(crate) fn is_old(ghost: &Ghost, party: Party, by: u8) -> bool {
    ghost.belief(party).is_some_and(|belief| {
        let is_over = belief.tied && !ghost.connections(party.owner).has(belief.by);
        by != belief.by && by < belief.youngest && !is_over
    })
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
    let may_be_refused = believed.is_none() || must_be_refused;
    let is_right = match answer {
        Err(Error::TiedToAnother) => {
            may_be_refused && (0..connections.count).any(|of| of != by && connections.has(of) && has_tie(of))
        }
        Err(Error::Untied) => may_be_refused && tie.is_none(),
        Ok(Reply::Renewed) => !must_be_refused && has_tie(by),
        Ok(Reply::NotRenewed) => believed.is_none(),
        _ => false,
    };
    let wrong =
        || format!("o{owner}: RENEW {party} on an old connection: {answer:?}, and {tie:?} has the tie");
    is_right.then_some(()).ok_or_else(wrong)
}

/// RENEW without SESSION on the connection in use.
pub(crate) fn detach(sim: &Sim, ghost: &mut Ghost, party: Party) -> Result<(), Violation> {
    let newest = ghost.connections(party.owner).newest();
    match detach_on(sim, ghost, party, newest) {
        Ok(Reply::Renewed) => Ok(()),
        other => Err(format!("o{} holds {party}, and RENEW without SESSION answered {other:?}", party.owner)),
    }
}

/// RENEW without SESSION, and then with it, on this connection: nothing refuses the second one.
pub(crate) fn adopt(
    scene: &Scene,
    sim: &Sim,
    ghost: &mut Ghost,
    (party, by): (Party, u8),
) -> Result<(), Violation> {
    let answers = (detach_on(sim, ghost, party, by), renew_on(scene, sim, ghost, party, by));
    let is_right = answers == (Ok(Reply::Renewed), Ok(Reply::Renewed));
    is_right.then_some(()).ok_or_else(|| format!("o{} adopts {party}: {answers:?}", party.owner))
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
    let old = (oldest..newest).filter(|by| connections.has(*by)).take(if detaches { 2 } else { 1 });
    actions.extend(old.map(|by| Action::Late { party, by }));
    if detaches && believed.is_some() {
        actions.push(Action::Detach { party });
        actions.extend((oldest < newest).then_some(Action::Adopt { party }));
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
        let is_tied = |party: &Party| state.ghost.belief(*party).is_none_or(|belief| belief.tied);
        let stays = |party: &Party| state.hold(*party).is_some_and(|(_, ends)| ends.later(latest) != latest);
        if let Some(party) = scene.parties(owner).filter(is_tied).find(stays) {
            return Err(format!("o{owner} has no connection, and holds {party} beyond the grace period"));
        }
    }
    Ok(())
}
