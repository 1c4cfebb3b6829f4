//! One attempt to acquire a red lock. It has a task for each server, which lasts as long as the lock is held.

use std::sync::Arc;
use std::time::Duration;

use rlock_client::{Cause, Error, Guard, Lock};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tracing::Instrument;

use super::RedLock;
use super::guard::RedGuard;
use super::members::Members;
use crate::name;

/// The pause before a server that did not have the lock is asked again; each next is four times as long, up to a third of the
/// lease.
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// The outcome of an attempt.
pub(super) enum Outcome {
    Held(RedGuard),
    /// Other owners hold the lock on some of the servers.
    Denied,
    /// Only these errors, at least one, prevented a quorum.
    Failed(Vec<Error>),
}

/// Which server it is, and what it said to the first request.
type Vote = (usize, Result<bool, Error>);

/// An attempt under way. When it is dropped, it releases whatever it got or may get.
pub(super) struct Attempt {
    guard: RedGuard,
    members: Arc<Members>,
    votes: UnboundedReceiver<Vote>,
    /// The addresses of the servers that have not answered; empty of one that has.
    silent: Vec<Option<String>>,
}

impl Attempt {
    /// Asks all servers.
    pub(super) fn begin(lock: &RedLock) -> Attempt {
        let members = Members::new(lock.name(), lock.locks.len(), lock.quorum());
        let (sender, votes) = unbounded_channel();
        let span = tracing::debug_span!("acquire", red = %name(lock.name()));
        let mut tasks = JoinSet::new();
        for server in 0..lock.locks.len() {
            let keep = keep(lock.clone(), server, members.clone(), sender.clone());
            tasks.spawn(keep.instrument(span.clone()));
        }
        let silent = lock.locks.iter().map(|lock| Some(lock.server().to_string())).collect();
        Attempt { guard: RedGuard::new(members.clone(), tasks), members, votes, silent }
    }

    /// Waits for `patience` at most, until there is a quorum or cannot be one.
    pub(super) async fn outcome(mut self, patience: Duration) -> Outcome {
        let end = sleep(patience);
        tokio::pin!(end);
        let spare = self.silent.len().saturating_sub(self.members.quorum);
        let mut errors = Vec::new();
        let mut denials: usize = 0;
        loop {
            let vote = tokio::select! {
                biased;
                vote = self.votes.recv() => vote,
                () = &mut end => {
                    let late = |server| Error::Transport { server, source: Cause::new("no reply in time") };
                    errors.extend(self.silent.into_iter().flatten().map(late));
                    break;
                }
            };
            // A channel that is closed has no vote of the others: their tasks have ended.
            let Some((server, vote)) = vote else { break };
            if let Some(silent) = self.silent.get_mut(server) {
                *silent = None;
            }
            match vote {
                Ok(true) if self.members.check().is_ok() => return Outcome::Held(self.guard),
                Ok(true) => (),
                Ok(false) => denials = denials.saturating_add(1),
                Err(error) => errors.push(error),
            }
            if denials.saturating_add(errors.len()) > spare || self.silent.iter().all(Option::is_none) {
                break;
            }
        }
        if errors.len() > spare { Outcome::Failed(errors) } else { Outcome::Denied }
    }
}

/// Acquires the lock on one server, and again after a loss there, until the red lock is lost or released.
async fn keep(red: RedLock, server: usize, members: Arc<Members>, votes: UnboundedSender<Vote>) {
    let Some(lock) = red.locks.get(server) else { return };
    let lost = members.lost.clone();
    let mut votes = Some(votes);
    let mut vote = move |vote| {
        // Only the first vote counts, and only while votes are counted.
        votes.take().is_some_and(|votes| votes.send((server, vote)).is_ok())
    };
    let kept = async {
        let mut pause = FIRST_PAUSE;
        loop {
            match get(lock).await {
                Ok(guard) => {
                    let held = guard.held();
                    if !members.join(server, guard) {
                        return;
                    }
                    vote(Ok(true));
                    members.leave(server, held.lost().await);
                    pause = FIRST_PAUSE;
                }
                Err(Error::Denied { .. }) => _ = vote(Ok(false)),
                Err(error) => _ = vote(Err(error)),
            }
            if !red.renew {
                return;
            }
            rest(&mut pause, lock.effective_lease()).await;
            // Only a held lock needs another server: a late grant to an attempt keeps others from a quorum.
            while members.check().is_err() {
                rest(&mut pause, lock.effective_lease()).await;
            }
        }
    };
    tokio::select! {
        () = lost.cancelled() => (),
        () = kept => (),
    }
}

/// Sleeps for the pause, at most for a third of the lease, and makes it four times as long.
async fn rest(pause: &mut Duration, lease: Duration) {
    sleep((*pause).min(lease / 3).mul_f64(0.75 + fastrand::f64() / 2.0)).await;
    *pause = pause.saturating_mul(4);
}

/// Acquires the lock, unless the server is known to be out of reach.
async fn get(lock: &Lock) -> Result<Guard, Error> {
    lock.connected()?;
    lock.try_acquire().await
}
