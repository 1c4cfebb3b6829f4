//! The steps that may come next in a state.

use rlock_core::Mode;
use rlock_core::facts::WriteAccess;

use crate::action::{Action, How, Reply};
use crate::ghost::{MOST_CALLS, Party};
use crate::scene::{self, May, Scene};
use crate::state::State;
use crate::{fair, sessions, writers};

/// Everything that may happen next.
#[expect(clippy::too_many_lines, reason = "all kinds of actions, in one order")]
pub(crate) fn possible(scene: &Scene, state: &State) -> Vec<Action> {
    let mut actions = Vec::with_capacity(64);
    let world = &state.world;
    let open = world.primary && world.may_write && world.write_access == WriteAccess::Allowed;
    for lock in (0..scene.locks).filter(|_| open) {
        for owner in (0..scene.owners).filter(|owner| state.ghost.connections(*owner).is_up()) {
            let parties = scene.parties(owner).filter(|party| party.lock == lock);
            parties.for_each(|party| commands(scene, state, party, &mut actions));
            cancel(scene, state, owner, lock, &mut actions);
        }
        if scene.may(May::Foreign) {
            others(scene, state, lock, &mut actions);
        }
        if scene.may(May::Fair) {
            let scripts = fair::possible(world, lock).into_iter();
            actions.extend(scripts.map(|script| Action::Fair { lock, script }));
        }
        if scene.may(May::Writers) {
            actions
                .extend(writers::possible(world, lock).into_iter().map(|deed| Action::Writer { lock, deed }));
        }
        if scene.may(May::Fenced) {
            actions.push(Action::SpoilToken { lock });
        }
    }
    for (client, waiting) in (0..).zip(world.clients.values()) {
        actions.push(Action::Disconnect { client });
        if waiting.answer.is_some() {
            actions.push(Action::Deliver { client });
        }
    }
    if world.timer.is_some_and(|at| at <= world.clock) {
        actions.push(Action::Fire);
    }
    if state.next_moment().is_some() {
        actions.push(Action::Pass);
    }
    if scene.may(May::Enqueue) {
        let channels = (0..scene.owners).filter(|owner| scene::number(&scene.channel(*owner)) == *owner);
        actions.extend(channels.map(|channel| Action::Listen { channel }));
    }
    if scene.may(May::Sessions) {
        sessions::possible(scene, state, &mut actions);
    }
    if scene.may(May::Server) {
        actions.extend([Action::Role, Action::Pause, Action::Slot]);
    }
    if scene.may(May::Clock) && state.ghost.steps < 2 {
        actions.extend([2, -2].map(|ms| Action::Step { ms }));
    }
    actions
}

fn commands(scene: &Scene, state: &State, party: Party, actions: &mut Vec<Action>) {
    let Party { owner, lock, .. } = party;
    let (waits, believes) = (state.ghost.waits(party), state.ghost.belief(party));
    for how in ways(scene).filter(|_| believes.is_none()) {
        let lost_too = how == How::Not && !waits;
        let replies = [Reply::Arrives, Reply::Lost].into_iter().take(if lost_too { 2 } else { 1 });
        if !matches!(how, How::Block { .. }) || state.calls(owner, lock) < MOST_CALLS {
            actions.extend(replies.map(|reply| Action::Acquire { party, how, reply }));
        }
    }
    let holds = state.holds(party);
    if let Some(belief) = believes {
        if belief.holds == 1 {
            // A permit is held once.
            actions.extend((party.mode != Mode::Permit).then_some(Action::Again { party }));
        } else if !belief.tied || state.ghost.connections(owner).has(belief.by) {
            // Otherwise the call may supersede the end of its session, and the hold is not tied any more.
            actions.push(Action::Release { party, down_to: 1 });
        }
    }
    // Also a repeat of a call that worked, but whose reply was lost: the current holder loses nothing.
    let repeats = !waits && (state.is_held(lock) || state.ghost.somebody_waits(lock));
    if believes.is_some() || holds || repeats {
        actions.push(Action::Release { party, down_to: 0 });
    }
    if believes.is_some() || holds || state.ghost.somebody_waits(lock) {
        actions.push(Action::Renew { party });
    }
}

/// CANCEL removes an owner in all modes in which it waits; also an owner with an undelivered grant.
fn cancel(scene: &Scene, state: &State, owner: u8, lock: u8, actions: &mut Vec<Action>) {
    let waits = |party| state.ghost.waits(party) || state.ghost.is_being_told(party);
    if scene.parties(owner).filter(|party| party.lock == lock).any(waits) {
        actions.push(Action::Cancel { owner, lock });
    }
}

fn ways(scene: &Scene) -> impl Iterator<Item = How> {
    let block = [true, false].map(|forever| How::Block { forever });
    let enqueue = [true, false].map(|forever| How::Enqueue { forever });
    let (blocks, enqueues) = (scene.may(May::Block), scene.may(May::Enqueue));
    let block = block.into_iter().filter(move |_| blocks);
    let enqueue = enqueue.into_iter().filter(move |_| enqueues);
    [How::Not].into_iter().chain(block).chain(enqueue)
}

fn others(scene: &Scene, state: &State, lock: u8, actions: &mut Vec<Action>) {
    if state.is_held(lock) {
        actions.extend([Action::ForeignDelete { lock }, Action::ForceRelease { lock }]);
    }
    if !state.is_held(lock) || scene.reads_and_writes() && state.foreign_reader_may_join(lock) {
        actions.push(Action::ForeignAcquire { lock });
    }
}
