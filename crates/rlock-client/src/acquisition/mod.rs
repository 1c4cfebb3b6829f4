//! One acquisition of a lock, from its first request to its last: the shell of a machine.
//!
//! The machine decides. Its inputs come from the caller, the links and the agenda. If the caller's future is dropped, the
//! machine leaves the queue and releases what the server granted.

mod agenda;
mod all;
mod beside;
mod hold;
mod sending;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use rlock_links::{Instant, Node};
use rlock_machine::{Input, Loss, Machine, Outcome, Output, Plan, Refusal};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::command::{Extras, LONGEST};
use crate::error::{Error, Lost};
use crate::events::Event;
use crate::message::Claim;
use crate::shared::Shared;
pub(crate) use all::Acquisitions;
pub(crate) use hold::Reentry;
pub use hold::State;

/// The terms of an acquisition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) lease: Duration,
    /// Whether the lease is renewed.
    pub(crate) renew: bool,
    /// How long to wait: `None` is for ever, zero asks once.
    pub(crate) wait: Option<Duration>,
    pub(crate) extras: Extras,
    /// Whether the user named the owner, which may therefore be used again.
    pub(crate) named: bool,
    /// Whether a grant by message is confirmed before the caller gets it.
    pub(crate) confirm_first: bool,
    /// How long the lock stays held at least.
    pub(crate) at_least: Duration,
    /// How long the lock is renewed.
    pub(crate) max_hold: Option<Duration>,
}

/// An acquisition.
pub(crate) struct Acquisition {
    pub(crate) claim: Arc<Claim>,
    pub(crate) terms: Terms,
    pub(crate) all: Arc<Acquisitions>,
    /// How many holds the server has at least, as last confirmed; locked throughout a request that changes them.
    pub(crate) level: tokio::sync::Mutex<u64>,
    id: u64,
    began: Instant,
    state: Mutex<AcquisitionState>,
    /// Notified when the caller has a lock or an error, when a release has ended, and when nothing is left.
    changed: Notify,
    token: AtomicU64,
    /// Cancelled when the lock is lost; made when it is first asked for.
    lost: OnceLock<CancellationToken>,
}

struct AcquisitionState {
    machine: Machine,
    servers: Servers,
    /// The place in the agenda.
    wake_at: Option<Instant>,
    guards: u64,
    held_at: Instant,
    /// When the last guard was released.
    released_at: Option<Instant>,
    loss: Option<Lost>,
    /// The caller's result: the lock, or an error.
    settled: Option<Result<(), Error>>,
    /// The outcome of the release.
    released: Option<Result<(), Error>>,
    last: Last,
}

/// The servers of an acquisition: two while a slot moves, otherwise one.
struct Servers {
    /// The server that has the lock, as far as is known.
    lock: Arc<Node>,
    /// The server that answered last, to which a session is tied.
    session: Arc<Node>,
    /// The number of commands under way at other servers, which may tie the session there. Meanwhile no heartbeat proves the hold.
    beside: u32,
}

/// The outcome of the last command.
enum Last {
    /// No command was answered yet.
    Nothing,
    Answered,
    Failed(Error),
}

impl Acquisition {
    /// An acquisition that has not begun.
    fn new(all: Arc<Acquisitions>, claim: Claim, terms: Terms) -> Acquisition {
        let shared = &all.shared;
        let node = shared.router.node(&claim.key);
        let machine = Machine::new(plan(shared, &node, &terms));
        let began = shared.clock.now();
        let state = AcquisitionState {
            machine,
            servers: Servers { session: node.clone(), lock: node, beside: 0 },
            wake_at: None,
            guards: 1,
            held_at: began,
            released_at: None,
            loss: None,
            settled: None,
            released: None,
            last: Last::Nothing,
        };
        Acquisition {
            claim: Arc::new(claim),
            terms,
            id: shared.next_id(),
            all,
            level: tokio::sync::Mutex::new(1),
            began,
            state: Mutex::new(state),
            changed: Notify::new(),
            token: AtomicU64::new(0),
            lost: OnceLock::new(),
        }
    }

    /// Makes the first request, as soon as the links are up.
    fn begin(self: &Arc<Self>, input: Input) {
        self.change(|state, now, out| {
            if !self.is_ready(state) && !state.machine.is_down() {
                state.machine.input(now, Input::Down, out);
            }
            state.machine.input(now, input, out);
        });
    }

    /// Gives the machine an input.
    pub(crate) fn input(self: &Arc<Self>, input: Input) {
        self.change(|state, now, out| state.machine.input(now, input, out));
    }

    /// The caller stops waiting, for this reason.
    pub(crate) fn cancel(self: &Arc<Self>, error: Error) {
        self.change(|state, now, out| {
            if state.machine.state().waits() {
                state.last = Last::Failed(error);
                state.machine.input(now, Input::Cancel, out);
            }
        });
    }

    /// The caller is gone without the lock.
    pub(crate) fn abandon(self: &Arc<Self>) {
        self.cancel(Error::Closed);
        self.change(|state, now, out| {
            state.guards = 0;
            state.machine.input(now, Input::Cancel, out);
            self.leave_if_gone(state);
        });
        self.changed.notify_waiters();
    }

    /// Releases the lock, and waits for the answer as long as a call does.
    pub(crate) async fn release_now(self: &Arc<Self>) {
        self.abandon();
        let shared = &self.all.shared;
        let answered = self.when(|state| (state.released.is_some() || self.is_gone(state)).then_some(()));
        shared.clock.until(Some(shared.router.answer_by(&self.claim.key)), answered).await;
    }

    /// Waits until the caller has the lock, or an error.
    pub(crate) async fn settled(&self) -> Result<(), Error> {
        self.when(|state| state.settled.clone()).await
    }

    /// When the caller's wait ends; `None` if it never ends.
    pub(crate) fn wait_ends(&self) -> Option<Instant> {
        let response = self.all.shared.config.response();
        self.terms.wait.map(|wait| self.began.after(if wait.is_zero() { response } else { wait }))
    }

    /// The error of a caller that could not wait longer, for this reason.
    pub(crate) fn gave_up(&self, error: Error) -> Error {
        if self.terms.wait.is_none_or(|wait| wait.is_zero()) {
            return error;
        }
        let waited = self.all.shared.clock.now().since(self.began);
        Error::timeout(&self.claim.key, waited, Some(error))
    }

    /// Waits until a release has ended, as long as a call does.
    pub(crate) async fn release_answered(&self) -> Result<(), Error> {
        let (shared, key) = (&self.all.shared, &self.claim.key);
        let released = self.when(|state| state.released.clone());
        let outcome = shared.clock.until(Some(shared.router.answer_by(key)), released).await;
        outcome.unwrap_or_else(|| Err(Error::unknown(key, shared.router.node(key).fault().into())))
    }

    /// Reports that the caller has the lock.
    pub(crate) fn tell_acquired(&self) {
        let waited = self.state().held_at.since(self.began);
        self.all.shared.tell(Event::Acquired { lock: &self.claim.key, waited });
    }

    async fn when<T>(&self, mut look: impl FnMut(&AcquisitionState) -> Option<T>) -> T {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let found = look(&self.state());
            if let Some(found) = found {
                return found;
            }
            changed.await;
        }
    }

    /// Gives an input of the caller, the links or the agenda to the machine, and carries out what the machine decides. The state stays
    /// locked meanwhile, so that commands leave in their order. Events come last: their receiver may ask about the hold.
    fn change<T>(
        self: &Arc<Self>,
        change: impl FnOnce(&mut AcquisitionState, i64, &mut Vec<Output>) -> T,
    ) -> T {
        let mut out = Vec::new();
        let mut state = self.state();
        let now = self.all.shared.clock.now();
        let result = change(&mut state, now.nanos(), &mut out);
        // A lock that is lost or given up needs no messages any more.
        if state.machine.is_down() && self.is_ready(&state) {
            state.machine.input(now.nanos(), Input::Up, &mut out);
        }
        for output in &out {
            self.carry_out(&mut state, now, *output);
        }
        let wake_at = state.machine.timer().map(Instant::of);
        if wake_at != state.wake_at {
            self.all.agenda.plan(self, std::mem::replace(&mut state.wake_at, wake_at), wake_at);
        }
        drop(state);
        out.iter().for_each(|output| self.tell(*output, now));
        result
    }

    fn state(&self) -> MutexGuard<'_, AcquisitionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the links that the machine needs are up.
    fn is_ready(&self, state: &AcquisitionState) -> bool {
        let waits = self.queues() && state.machine.state().waits();
        state.servers.lock.is_ready(waits)
    }

    fn carry_out(self: &Arc<Self>, state: &mut AcquisitionState, now: Instant, output: Output) {
        match output {
            Output::Send { n, command } => self.send(&state.servers.lock, n, command),
            Output::Guard { token } => {
                self.raise_token(token);
                state.held_at = now;
                state.settled = Some(Ok(()));
            }
            Output::Refused(refusal) => state.settled = Some(Err(self.refusal(state, now, refusal))),
            Output::Lost(loss) => {
                let why = self.why(state, now, loss);
                state.loss.get_or_insert(why);
            }
            Output::Released(outcome) => {
                if outcome == Outcome::Lost {
                    state.loss = Some(Lost::Taken);
                }
                state.released = Some(self.outcome(state, outcome));
            }
            Output::Ended => {
                match state.machine.is_kept() {
                    true => self.all.keep(self.claim.clone()),
                    false if state.machine.is_down() && !self.terms.named => {
                        self.all.leave_behind(self.claim.clone());
                    }
                    false => (),
                }
                self.leave_if_gone(state);
            }
            Output::Renewed | Output::RenewalFailed | Output::Timer(_) => return,
        }
        if !matches!(output, Output::Send { .. }) {
            self.changed.notify_waiters();
        }
    }

    /// Reports what has happened.
    fn tell(&self, output: Output, now: Instant) {
        let (shared, lock) = (&self.all.shared, &self.claim.key);
        match output {
            Output::Renewed => shared.tell(Event::Renewed { lock }),
            Output::RenewalFailed => {
                let error = self.kept(&self.state());
                shared.tell(Event::RenewalFailed { lock, error: &error });
            }
            Output::Lost(_) | Output::Released(Outcome::Lost) => {
                if let Some(lost) = self.lost.get() {
                    lost.cancel();
                }
                let (held_at, why) = {
                    let state = self.state();
                    (state.held_at, state.loss.unwrap_or(Lost::Taken))
                };
                shared.tell(Event::Lost { lock, held: now.since(held_at), why });
            }
            Output::Released(_) => {
                let state = self.state();
                let held = state.released_at.map(|at| at.since(state.held_at));
                drop(state);
                if let Some(held) = held {
                    shared.tell(Event::Released { lock, held });
                }
            }
            _ => (),
        }
    }

    fn refusal(&self, state: &AcquisitionState, now: Instant, refusal: Refusal) -> Error {
        let key = &self.claim.key;
        match (refusal, &state.last) {
            (Refusal::Denied, _) => Error::denied(key),
            (Refusal::Lost, _) => Error::lost(key, Lost::Taken),
            (Refusal::Timeout, Last::Answered) if !state.machine.is_down() => {
                Error::timeout(key, now.since(self.began), None)
            }
            (Refusal::Timeout, _) => Error::timeout(key, now.since(self.began), Some(self.kept(state))),
            (Refusal::Error, _) => self.kept(state),
        }
    }

    /// The error that has kept the server from answering, or the server's refusal.
    fn kept(&self, state: &AcquisitionState) -> Error {
        let is_up = state.servers.lock.main.live().is_some();
        match &state.last {
            Last::Failed(Error::Refused { .. } | Error::Transport { .. }) if !is_up => {
                state.servers.lock.fault().into()
            }
            Last::Failed(error) => error.clone(),
            Last::Nothing | Last::Answered => state.servers.lock.fault().into(),
        }
    }

    fn why(&self, state: &AcquisitionState, now: Instant, loss: Loss) -> Lost {
        match loss {
            Loss::Taken => Lost::Taken,
            Loss::Closed => Lost::Closed,
            Loss::Overdue => Lost::Overdue,
            Loss::Expired if self.terms.renew || now.nanos() < state.machine.lease_end() => Lost::Unreachable,
            Loss::Expired => Lost::Expired,
        }
    }

    fn outcome(&self, state: &AcquisitionState, outcome: Outcome) -> Result<(), Error> {
        let key = &self.claim.key;
        match outcome {
            Outcome::Ok => Ok(()),
            Outcome::Lost => Err(Error::lost(key, Lost::Taken)),
            Outcome::Unknown => Err(Error::unknown(key, self.kept(state))),
            Outcome::Error => Err(self.kept(state)),
        }
    }

    /// Whether nothing is left: a named owner's next acquisition waits until the last guard of a lost lock is gone.
    fn is_gone(&self, state: &AcquisitionState) -> bool {
        let ended = state.machine.state() == rlock_machine::State::Ended;
        ended && (state.guards == 0 || state.loss.is_none() || !self.terms.named)
    }

    fn leave_if_gone(&self, state: &AcquisitionState) {
        if self.is_gone(state) {
            self.all.leave(self);
        }
    }

    pub(crate) fn raise_token(&self, token: i64) {
        self.token.fetch_max(u64::try_from(token).unwrap_or_default(), Ordering::Relaxed);
    }
}

/// A time as the machine counts it.
fn nanos(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

fn plan(shared: &Shared, node: &Node, terms: &Terms) -> Plan {
    let config = &shared.config;
    Plan {
        wait: terms.wait.map(|wait| nanos(wait.min(LONGEST))),
        renew: terms.renew,
        renewals: config.renewals,
        fenced: terms.extras.fenced,
        confirm_first: terms.confirm_first,
        // Asking once ends after two of them.
        response: nanos(node.response() / 2),
        grace: terms.extras.session.map(nanos),
        at_least: nanos(terms.at_least.min(LONGEST)),
        max_hold: terms.max_hold.map(|time| nanos(time.min(LONGEST))),
        ..Plan::new(nanos(terms.lease))
    }
}
