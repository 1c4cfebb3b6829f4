//! Waiting for a lock, in a task of its own: whatever the caller's future does, a grant is confirmed in time.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tracing::Instrument;

use crate::acquire::{Attempt, Step};
use crate::clock::Instant;
use crate::durability::{self, Ensured};
use crate::error::Error;
use crate::guard::Guard;
use crate::kind::Any;
use crate::message::Notice;
use crate::node::Place;
use crate::shared::Shared;

/// When a waiter first asks for the holder's lease. Most waits are shorter.
const FIRST_LOOK: Duration = Duration::from_secs(1);

/// The longest time between two looks, where the holder's lease has no end or is unknown.
const LONGEST_LOOK: Duration = Duration::from_secs(30);

/// The pause between two requests where there is no queue to wait in; each next is twice as long …
const FIRST_PAUSE: Duration = Duration::from_millis(20);

/// … up to this.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Waits for the lock after a first request that did not get it; `by` limits the wait.
///
/// Dropping the returned future ends the wait. A guard that was on its way is released.
pub(crate) async fn wait(attempt: Attempt, step: Step, by: Option<Instant>) -> Result<Guard<Any>, Error> {
    let (mut answer, outcome) = oneshot::channel();
    let handle = attempt.handle.clone();
    let task = async move {
        let shared = attempt.handle.shared.clone();
        let outcome = tokio::select! {
            outcome = pursue(attempt, step, by) => outcome,
            () = answer.closed() => return,
            () = shared.closing.cancelled() => Err(Error::Closed),
        };
        // A guard that is not received is dropped, and thereby released.
        drop(answer.send(outcome));
    };
    handle.runtime.spawn(task.in_current_span());
    outcome.await.unwrap_or(Err(Error::Closed))
}

/// Follows up each step of an acquisition until the lock is held, or cannot be.
pub(crate) async fn pursue(
    mut attempt: Attempt,
    mut step: Step,
    by: Option<Instant>,
) -> Result<Guard<Any>, Error> {
    let shared = attempt.handle.shared.clone();
    // With the reason why the last request did not say whether the lock is free.
    let (mut pause, mut look, mut trouble) = (FIRST_PAUSE, false, None);
    loop {
        match step {
            Step::Held(sent) => match durability::ensure(&mut attempt, sent).await? {
                Ensured::Since(sent) => return Ok(attempt.finish(sent)),
                // While replicas were waited for, the lock was lost, or the primary.
                lost => {
                    trouble = lost.trouble().or(trouble);
                    rest(&shared, &mut pause, None, by).await;
                }
            },
            Step::Queued(place, lease) => {
                (pause, trouble) = (FIRST_PAUSE, None);
                match hear(&mut attempt, &place, next_look(look, lease), by).await {
                    Heard::Held(sent) => {
                        step = Step::Held(sent);
                        continue;
                    }
                    Heard::Over => return Err(timeout(&attempt, None)),
                    Heard::Nothing => look = true,
                    Heard::Dropped => rest(&shared, &mut pause, None, by).await,
                    Heard::Lost => look = false,
                }
            }
            Step::Denied(lease) => {
                (look, trouble) = (true, None);
                rest(&shared, &mut pause, lease, by).await;
            }
            failed @ (Step::Refused(_) | Step::Unsent(_) | Step::Unanswered(_)) => {
                trouble = Some(passing(&shared, failed)?);
                rest(&shared, &mut pause, None, by).await;
            }
        }
        if by.is_some_and(|by| shared.clock.now() >= by) {
            return Err(timeout(&attempt, trouble));
        }
        step = attempt.ask_in_queue(look, by).await;
    }
}

/// How long to wait for a message before the server is asked again: at first a short time, later the holder's lease.
fn next_look(has_asked: bool, lease: Option<Duration>) -> Duration {
    if has_asked { lease.unwrap_or(LONGEST_LOOK).clamp(FIRST_LOOK, LONGEST_LOOK) } else { FIRST_LOOK }
}

/// The reason of a request that failed, if another request can help; else it is the error.
fn passing(shared: &Shared, failed: Step) -> Result<Error, Error> {
    match failed {
        Step::Refused(refusal) if shared.router.passes(&refusal) || refusal.is_draining() => {
            Ok(refusal.error)
        }
        Step::Refused(refusal) => Err(refusal.error),
        Step::Unsent(error @ (Error::Permission { .. } | Error::ModuleMissing { .. } | Error::Closed)) => {
            Err(error)
        }
        Step::Unsent(error) | Step::Unanswered(error) => Ok(error),
        // Not failed: another owner holds it.
        Step::Held(_) | Step::Queued(..) | Step::Denied(_) => Ok(Error::Closed),
    }
}

fn timeout(attempt: &Attempt, cause: Option<Error>) -> Error {
    let waited = attempt.handle.shared.clock.now().since(attempt.began);
    Error::timeout(&attempt.order.party.key, waited, cause)
}

/// Sleeps for the pause, shorter where the lock is free sooner or the wait over, and doubles it.
async fn rest(shared: &Arc<Shared>, pause: &mut Duration, lease: Option<Duration>, by: Option<Instant>) {
    let jitter = pause.mul_f64(0.5 + fastrand::f64() / 2.0);
    let at_most = lease.map_or(jitter, |lease| jitter.min(lease.saturating_add(Duration::from_millis(1))));
    let wake = shared.clock.now().after(at_most);
    shared.clock.sleep_until(by.map_or(wake, |by| by.min(wake))).await;
    *pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
}

/// What was heard while standing in the queue.
enum Heard {
    /// The grant, confirmed by a request sent at this instant.
    Held(Instant),
    /// The end of the wait.
    Over,
    /// Nothing arrived, and it is time to ask again.
    Nothing,
    /// The server waits no more for this owner.
    Dropped,
    /// The connection was lost, or the grant was: ask again at once.
    Lost,
}

async fn hear(attempt: &mut Attempt, place: &Place, bound: Duration, by: Option<Instant>) -> Heard {
    let shared = attempt.handle.shared.clone();
    let look_at = shared.clock.now().after(bound.mul_f64(1.0 + fastrand::f64() / 4.0));
    let end = by.map_or(look_at, |by| by.min(look_at));
    let notice = tokio::select! {
        biased;
        notice = attempt.notice() => notice,
        () = place.unheard() => return Heard::Lost,
        () = shared.clock.sleep_until(end) => {
            return if by.is_some_and(|by| by <= look_at) { Heard::Over } else { Heard::Nothing };
        }
    };
    match notice {
        Notice::Granted => match attempt.confirm(by).await {
            Ok(Some(sent)) => Heard::Held(sent),
            // No longer held, or unknown: the next request finds out.
            Ok(None) | Err(_) => Heard::Lost,
        },
        // Either may be about an earlier wait of this owner: only the clock ends this one.
        Notice::Timeout | Notice::Dropped => Heard::Dropped,
    }
}

/// Runs acquisitions that must not wait: asks until there is an answer, or `by`.
pub(crate) async fn ask_once(mut attempt: Attempt, by: Instant) -> Result<Option<Guard<Any>>, Error> {
    let shared: Arc<Shared> = attempt.handle.shared.clone();
    let mut pause = FIRST_PAUSE;
    loop {
        let error = match attempt.ask_now(Some(by)).await {
            Step::Held(sent) => match durability::ensure(&mut attempt, sent).await? {
                Ensured::Since(sent) => return Ok(Some(attempt.finish(sent))),
                Ensured::Lost => return Ok(None),
                Ensured::Unknown(error) => error,
            },
            Step::Denied(_) | Step::Queued(..) => return Ok(None),
            Step::Refused(refusal) if shared.router.passes(&refusal) => refusal.error,
            Step::Refused(refusal) => return Err(refusal.error),
            Step::Unsent(error) | Step::Unanswered(error) => error,
        };
        rest(&shared, &mut pause, None, Some(by)).await;
        if shared.clock.now() >= by || error == Error::Closed {
            return Err(error);
        }
    }
}
