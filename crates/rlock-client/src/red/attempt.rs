//! One attempt to get a red lock, and a task for each server that lasts as long as the lock is held.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;
use tracing::Instrument;

use super::guard::RedGuard;
use super::members::Members;
use crate::clock::{Clock, Instant};
use crate::error::{Error, name};
use crate::guard::Guard;
use crate::kind::Any;
use crate::lock::Spec;

/// An attempt fails after the lease divided by this …
const PART: u32 = 20;

/// … at least this …
const SHORTEST: Duration = Duration::from_millis(20);

/// … and at most this.
const LONGEST: Duration = Duration::from_secs(1);

/// The pause before a server that did not have the lock is asked again; each next is four times as long, up to a third of the
/// lease.
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// What came of an attempt.
pub(super) enum Outcome {
    Held(RedGuard),
    /// Others have it on some of the servers.
    Denied,
    /// These alone, at least one, prevented a quorum.
    Failed(Vec<Error>),
}

/// Which server it is, and what it said to the first request.
type Vote = (usize, Result<bool, Error>);

/// An attempt under way. Dropped, it releases whatever it got or may get.
pub(super) struct Attempt {
    guard: RedGuard,
    members: Arc<Members>,
    votes: UnboundedReceiver<Vote>,
    /// The addresses of the servers that have not answered; empty of one that has.
    silent: Vec<Option<String>>,
    clock: Clock,
    by: Instant,
}

impl Attempt {
    /// Asks all servers.
    pub(super) fn begin(locks: &[Spec], quorum: usize) -> Attempt {
        let name_of = locks.first().map_or(&[][..], |lock| &lock.key);
        let clock = locks.first().map_or(Clock::System, |lock| lock.handle.shared.clock);
        let members = Members::new(name_of, locks.len(), quorum);
        let (sender, votes) = unbounded_channel();
        let span = tracing::debug_span!("acquire", red = %name(name_of));
        let mut tasks = JoinSet::new();
        for (server, lock) in locks.iter().enumerate() {
            let keep = keep(server, lock.clone(), members.clone(), sender.clone());
            tasks.spawn_on(keep.instrument(span.clone()), &lock.handle.runtime);
        }
        let by = clock.now().after(patience(locks));
        let silent = locks.iter().map(|lock| Some(lock.handle.server.clone())).collect();
        let guard = RedGuard::new(members.clone(), tasks);
        Attempt { guard, members, votes, silent, clock, by }
    }

    /// Waits until there is a quorum, or can be none.
    pub(super) async fn outcome(mut self) -> Outcome {
        let spare = self.silent.len().saturating_sub(self.members.quorum());
        let mut errors = Vec::new();
        let mut denials: usize = 0;
        loop {
            let Some(vote) = self.clock.until(Some(self.by), self.votes.recv()).await else {
                let late = |server| Error::transport(server, "no reply in time");
                errors.extend(self.silent.into_iter().flatten().map(late));
                break;
            };
            // A channel that is closed has no vote of the others: their tasks have ended.
            let Some((server, vote)) = vote else { break };
            if let Some(silent) = self.silent.get_mut(server) {
                *silent = None;
            }
            match vote {
                Ok(true) if self.members.are_enough() => return Outcome::Held(self.guard),
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

/// The servers' time to answer.
pub(super) fn patience(locks: &[Spec]) -> Duration {
    let lease = locks.iter().map(|lock| lock.lease).min().unwrap_or_default();
    (lease / PART).clamp(SHORTEST, LONGEST)
}

/// Gets the lock on one server, and again after a loss there, until the red lock is lost or released.
async fn keep(server: usize, lock: Spec, members: Arc<Members>, votes: UnboundedSender<Vote>) {
    let lost = members.lost.clone();
    let mut votes = Some(votes);
    let mut vote = move |vote| {
        // Only the first vote counts, and only while votes are counted.
        votes.take().is_some_and(|votes| votes.send((server, vote)).is_ok())
    };
    let kept = async {
        let mut pause = FIRST_PAUSE;
        loop {
            match get(&lock).await {
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
            if !lock.renew {
                return;
            }
            rest(&mut pause, lock.lease).await;
            // Only a held lock needs another server: a late grant to an attempt keeps others from a quorum.
            while !members.are_enough() {
                rest(&mut pause, lock.lease).await;
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
    tokio::time::sleep((*pause).min(lease / 3).mul_f64(0.75 + fastrand::f64() / 2.0)).await;
    *pause = pause.saturating_mul(4);
}

/// Asks for the lock, but not a server that is known to be out of reach.
async fn get(lock: &Spec) -> Result<Guard<Any>, Error> {
    lock.handle.shared.router.settled().await?;
    lock.acquire_now().await
}
