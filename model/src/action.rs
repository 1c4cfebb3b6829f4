//! The actions of one step.

use std::fmt;

use rlock_core::Mode;
use rlock_core::facts::WriteAccess;

use crate::fair::{self, Script};
use crate::ghost::{MOST_CALLS, Party};
use crate::scene::{self, May, Scene};
use crate::sessions;
use crate::state::State;
use crate::writers::{self, Deed};

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// ACQUIRE … HOLDS 1; if the reply is lost, the owner does not know that it holds.
    Acquire { party: Party, how: How, reply: Reply },
    /// ACQUIRE … HOLDS 2 by an owner that knows that it holds.
    Again { party: Party },
    /// RELEASE … HOLDS n.
    Release { party: Party, down_to: u8 },
    /// RENEW.
    Renew { party: Party },
    /// CANCEL.
    Cancel { owner: u8, lock: u8 },
    /// The undelivered answer to a client arrives: the oldest client is 0.
    Deliver { client: u8 },
    /// A client that is blocked, or has an undelivered answer, disconnects.
    Disconnect { client: u8 },
    /// Another client deletes the key, without the module.
    ForeignDelete { lock: u8 },
    /// Another client takes the free lock, or joins its readers, without the module.
    ForeignAcquire { lock: u8 },
    /// A script of Redisson's fair lock.
    Fair { lock: u8, script: Script },
    /// A step of a Redisson client that wants to write.
    Writer { lock: u8, deed: Deed },
    /// FORCERELEASE.
    ForceRelease { lock: u8 },
    /// Another client writes the key of the last fencing token: an invalid value, or the former token again.
    SpoilToken { lock: u8 },
    /// A channel loses or regains its subscriber.
    Listen { channel: u8 },
    /// Time passes until the next end of a lease or a wait, or the next timer.
    Pass,
    /// The due timer fires.
    Fire,
    /// The server becomes a replica, or a primary again.
    Role,
    /// CLIENT PAUSE begins or ends.
    Pause,
    /// The lock's slot begins to migrate, or returns.
    Slot,
    /// An owner gives its connection up, or has lost it, and opens another.
    Connect { owner: u8 },
    /// The server sees the end of the oldest connection of an owner.
    End { owner: u8 },
    /// RENEW arrives late, on a connection that was given up.
    Late { party: Party },
    /// The wall clock steps forward or back by this many ms.
    Step { ms: i8 },
}

/// How a caller waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// Not at all.
    Not,
    /// BLOCK, for ever or for a while.
    Block { forever: bool },
    /// ENQUEUE, for ever or for a while.
    Enqueue { forever: bool },
}

/// The fate of an immediate reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// It arrives.
    Arrives,
    /// It is lost with the connection.
    Lost,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Acquire { party, how, reply } => {
                let wait = match how {
                    How::Not => "",
                    How::Block { forever: true } => " BLOCK 0",
                    How::Block { forever: false } => " BLOCK 3",
                    How::Enqueue { forever: true } => " ENQUEUE 0",
                    How::Enqueue { forever: false } => " ENQUEUE 3",
                };
                let lost = if reply == Reply::Lost { ", and the reply is lost" } else { "" };
                write!(f, "o{}: ACQUIRE {party}, HOLDS 1{wait}{lost}", party.owner)
            }
            Self::Again { party } => write!(f, "o{}: ACQUIRE {party}, HOLDS 2", party.owner),
            Self::Release { party, down_to } => {
                write!(f, "o{}: RELEASE {party}, HOLDS {down_to}", party.owner)
            }
            Self::Renew { party } => write!(f, "o{}: RENEW {party}", party.owner),
            Self::Cancel { owner, lock } => write!(f, "o{owner}: CANCEL k{lock}"),
            Self::Deliver { client } => write!(f, "the answer to waiting client {client} arrives"),
            Self::Disconnect { client } => write!(f, "waiting client {client} disconnects"),
            Self::ForeignDelete { lock } => write!(f, "another client deletes k{lock}"),
            Self::ForeignAcquire { lock } => write!(f, "another client takes k{lock}"),
            Self::Fair { lock, script } => write!(f, "Redisson's fair lock k{lock}: {script:?}"),
            Self::Writer { lock, deed } => write!(f, "a Redisson client {deed} k{lock}"),
            Self::ForceRelease { lock } => write!(f, "an operator: FORCERELEASE k{lock}"),
            Self::SpoilToken { lock } => write!(f, "the token key of k{lock} is spoiled, or mended"),
            Self::Listen { channel } => write!(f, "channel c{channel} loses or regains its subscriber"),
            Self::Pass => f.write_str("time passes"),
            Self::Fire => f.write_str("the timer fires"),
            Self::Role => f.write_str("the server's role changes"),
            Self::Pause => f.write_str("CLIENT PAUSE begins or ends"),
            Self::Slot => f.write_str("the slot begins to migrate, or returns"),
            Self::Connect { owner } => write!(f, "o{owner} opens another connection"),
            Self::End { owner } => write!(f, "the server sees the end of the oldest connection of o{owner}"),
            Self::Late { party } => {
                write!(f, "o{}: RENEW {party} arrives late, on an old connection", party.owner)
            }
            Self::Step { ms } => write!(f, "the wall clock steps by {ms} ms"),
        }
    }
}

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
        } else if belief.by >= state.ghost.connections(owner).oldest {
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
