//! The acquisitions of a client.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use rlock_links::{Graces, Instant, Line, Node, Order, Watch};
use rlock_machine::Input;
use tokio::sync::Notify;

use super::agenda::Agenda;
use super::{Acquisition, Terms};
use crate::command;
use crate::error::{Error, Lost};
use crate::events::Event;
use crate::message::{Claim, parse};
use crate::shared::Shared;

/// The most claims that are remembered of acquisitions that ended without a connection.
const BEHIND: usize = 10_000;

/// The most claims that are remembered of holds that outlast their release. A message is late by seconds at most.
const KEPT: usize = 1_000;

/// The most renewals in one piece, and the most that a request behind them waits for.
const TOGETHER: usize = 64;

/// The acquisitions of a client: each from its first request until nothing of it is left.
pub(crate) struct Acquisitions {
    pub(crate) shared: Shared,
    pub(super) agenda: Agenda,
    // Ordered, since two names of this length are compared in a tenth of the time that hashing one takes.
    by_claim: Mutex<BTreeMap<Arc<Claim>, Arc<Acquisition>>>,
    /// The number of acquisitions, for the links.
    busy: Arc<AtomicUsize>,
    graces: Arc<Graces>,
    left: Notify,
    /// The claims of acquisitions that ended while there was no connection: the server may carry out their requests late.
    behind: Mutex<Vec<Arc<Claim>>>,
    /// The claims of the last holds that outlast their release: a late message must not end them.
    kept: Mutex<VecDeque<Arc<Claim>>>,
}

impl Acquisitions {
    /// Creates an empty set, and starts the watchdog.
    pub(crate) fn start(
        busy: Arc<AtomicUsize>,
        graces: Arc<Graces>,
        shared: impl FnOnce(Weak<dyn Watch>) -> Shared,
    ) -> Arc<Acquisitions> {
        let all = Arc::new_cyclic(|this: &Weak<Acquisitions>| Acquisitions {
            shared: shared(this.clone()),
            agenda: Agenda::default(),
            by_claim: Mutex::default(),
            busy,
            graces,
            left: Notify::new(),
            behind: Mutex::default(),
            kept: Mutex::default(),
        });
        tokio::spawn(watch(all.clone()));
        all
    }

    /// Begins an acquisition with this input. The error is an acquisition of the same claim that has not ended.
    pub(crate) fn begin(
        self: &Arc<Self>,
        claim: Claim,
        terms: Terms,
        input: Input,
    ) -> Result<Arc<Acquisition>, Arc<Acquisition>> {
        let acquisition = Arc::new(Acquisition::new(self.clone(), claim, terms));
        match self.entries().entry(acquisition.claim.clone()) {
            Entry::Occupied(other) => return Err(other.get().clone()),
            Entry::Vacant(place) => place.insert(acquisition.clone()),
        };
        self.busy.fetch_add(1, Ordering::SeqCst);
        if let Some(grace) = terms.extras.session {
            self.graces.add(grace);
        }
        acquisition.begin(input);
        if self.shared.closing.is_cancelled() {
            // A close that has ended all waits by now does not know this one.
            acquisition.cancel(Error::Closed);
        }
        Ok(acquisition)
    }

    /// Removes an acquisition of which nothing is left.
    pub(super) fn leave(&self, acquisition: &Acquisition) {
        if self.entries().remove(&acquisition.claim).is_none() {
            return;
        }
        self.busy.fetch_sub(1, Ordering::SeqCst);
        if let Some(grace) = acquisition.terms.extras.session {
            self.graces.remove(grace);
        }
        self.left.notify_waiters();
    }

    /// Remembers the claim of an acquisition whose end the server has not answered.
    pub(super) fn leave_behind(&self, claim: Arc<Claim>) {
        let mut behind = self.behind.lock().unwrap_or_else(PoisonError::into_inner);
        if behind.len() < BEHIND {
            behind.push(claim);
        }
    }

    /// Remembers a claim whose hold outlasts its release.
    pub(super) fn keep(&self, claim: Arc<Claim>) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= KEPT {
            kept.pop_front();
        }
        kept.push_back(claim);
    }

    /// Whether the hold of this claim may last without an acquisition here.
    fn may_outlast(&self, claim: &Claim) -> bool {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).iter().any(|kept| **kept == *claim)
    }

    /// After a reconnect, cancels and releases at this server what acquisitions left behind.
    fn clear_up(&self, node: &Arc<Node>) {
        let has = |claim: &mut Arc<Claim>| Arc::ptr_eq(&self.shared.router.node(&claim.key), node);
        let mut behind = self.behind.lock().unwrap_or_else(PoisonError::into_inner);
        let here: Vec<Arc<Claim>> = behind.extract_if(.., has).collect();
        drop(behind);
        for claim in here {
            let cancel = command::about("RLOCK.CANCEL", &claim.key, Some(&claim.owner));
            let commands = vec![cancel, command::release(&claim, 0)];
            let response = self.shared.config.response();
            node.order(Order { commands, response, answered: Box::new(|_, _| ()) });
        }
    }

    /// Ends all waits, and marks all holds as lost.
    pub(crate) fn close(&self) {
        for acquisition in self.list() {
            acquisition.cancel(Error::Closed);
            acquisition.input(Input::Close);
        }
    }

    /// The number of acquisitions whose caller holds the lock, or held it until its release was sent.
    pub(crate) fn in_use(&self) -> usize {
        self.list().iter().filter(|acquisition| acquisition.is_in_use()).count()
    }

    /// Waits until no acquisition is left.
    pub(crate) async fn emptied(&self) {
        loop {
            let left = self.left.notified();
            tokio::pin!(left);
            left.as_mut().enable();
            if self.entries().is_empty() {
                return;
            }
            left.await;
        }
    }

    /// This process is the child of a fork: marks all holds as lost.
    fn forked(&self) {
        self.list().iter().for_each(|acquisition| acquisition.lose(Lost::Forked));
    }

    /// The client has ended: drops the acquisitions, which keep this set in memory as it keeps them. Guards may outlive the client.
    fn end(&self) {
        self.agenda.end();
        let acquisitions = std::mem::take(&mut *self.entries());
        drop(acquisitions);
        self.left.notify_waiters();
    }

    fn list(&self) -> Vec<Arc<Acquisition>> {
        self.entries().values().cloned().collect()
    }

    fn at(&self, node: &Arc<Node>) -> impl Iterator<Item = Arc<Acquisition>> {
        self.list().into_iter().filter(|acquisition| Arc::ptr_eq(&acquisition.state().servers.lock, node))
    }

    /// A link to this server is down.
    fn lost_by(&self, node: &Arc<Node>, line: Line) {
        for acquisition in self.at(node) {
            acquisition.change(|state, now, out| {
                if !acquisition.is_ready(state) && !state.machine.is_down() {
                    state.machine.input(now, Input::Down, out);
                }
            });
            acquisition.follow(None);
        }
        if line == Line::Main {
            self.tied_to(node).for_each(|acquisition| acquisition.untie(node));
        }
        self.shared.router.doubt();
    }

    /// The acquisitions whose sessions are tied to the connection to this server.
    fn tied_to(&self, node: &Arc<Node>) -> impl Iterator<Item = Arc<Acquisition>> {
        let is_tied = |acquisition: &Arc<Acquisition>| {
            acquisition.terms.extras.session.is_some()
                && Arc::ptr_eq(&acquisition.state().servers.session, node)
        };
        self.list().into_iter().filter(is_tied)
    }

    fn entries(&self) -> MutexGuard<'_, BTreeMap<Arc<Claim>, Arc<Acquisition>>> {
        self.by_claim.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The watchdog: renews locks and notices their lease ends. It ends with the client.
async fn watch(all: Arc<Acquisitions>) {
    let shared = &all.shared;
    loop {
        if shared.check_home().is_err() {
            // The child of a fork, in which a runtime of one thread continues.
            return all.forked();
        }
        let due = all.agenda.due(shared.clock.now());
        let locks = due.iter().filter(|acquisition| acquisition.is_held()).count();
        let span = (locks > 0).then(|| tracing::debug_span!("renew", locks).entered());
        for some in due.chunks(TOGETHER) {
            // Alone, a renewal costs as much again for its way to the connection and back.
            let _gathered: Vec<_> = servers_of(some).iter().map(|node| node.gather()).collect();
            some.iter().for_each(|acquisition| acquisition.input(Input::Tick));
        }
        drop(span);
        let nap = all.agenda.nap(shared.clock.now());
        tokio::select! {
            () = shared.stop.cancelled() => return all.end(),
            () = all.agenda.sooner.notified() => (),
            () = tokio::time::sleep(nap) => (),
        }
    }
}

/// The servers that have the locks of these acquisitions.
fn servers_of(acquisitions: &[Arc<Acquisition>]) -> Vec<Arc<Node>> {
    let mut servers: Vec<Arc<Node>> = Vec::new();
    for acquisition in acquisitions {
        let state = acquisition.state();
        if !servers.iter().any(|server| Arc::ptr_eq(server, &state.servers.lock)) {
            servers.push(state.servers.lock.clone());
        }
    }
    servers
}

impl Watch for Acquisitions {
    fn ready(&self, node: &Arc<Node>) {
        self.clear_up(node);
        for acquisition in self.at(node) {
            acquisition.change(|_, _, _| ());
        }
    }

    fn lost(&self, node: &Arc<Node>, line: Line, server: &str, error: &rlock_links::Error) {
        if line != Line::Durable {
            self.lost_by(node, line);
        }
        self.shared.tell(Event::Disconnected { server, error: &error.clone().into() });
    }

    fn restored(&self, server: &str, after: Duration) {
        self.shared.tell(Event::Reconnected { server, after });
    }

    fn failed(&self, node: &Arc<Node>, error: &rlock_links::Error) {
        if let rlock_links::Error::Permission { .. } = error {
            self.at(node).for_each(|acquisition| acquisition.cancel(error.clone().into()));
        }
        self.shared.router.doubt();
    }

    fn moved(&self) {
        self.list().iter().for_each(|acquisition| acquisition.follow(None));
    }

    fn message(&self, node: &Arc<Node>, current: bool, message: &[u8]) {
        let Some((message, claim)) = parse(message, current) else {
            tracing::debug!(message = %message.escape_ascii(), "a message of an unknown kind was skipped");
            return;
        };
        let acquisition = self.entries().get(&claim).cloned();
        match (acquisition, message) {
            (Some(acquisition), _) => acquisition.heard(node, message),
            // The acquisition has ended, and the server has granted a repeat of its requests.
            (None, rlock_machine::Message::Granted { .. })
                if self.shared.identity.is_mine(&claim.owner) && !self.may_outlast(&claim) =>
            {
                let commands = vec![command::release(&claim, 0)];
                let response = self.shared.config.response();
                node.order(Order { commands, response, answered: Box::new(|_, _| ()) });
            }
            (None, _) => (),
        }
    }

    fn alive(&self, node: &Arc<Node>, sent: Instant) {
        let proven = self.tied_to(node).filter(|acquisition| acquisition.state().servers.beside == 0);
        proven.for_each(|acquisition| acquisition.input(Input::Alive(sent.nanos())));
    }
}
