//! Waiting until replicas have a lock before it is handed out.

use std::time::Duration;

use redis::{Cmd, Value, cmd};

use crate::acquire::{Attempt, Step};
use crate::clock::Instant;
use crate::command::{self, Refusal};
use crate::config::Durability;
use crate::error::{Error, name};
use crate::exchange::{Manner, Trouble, exchange, exchange_one};

/// The outcome of the wait for replicas.
pub(crate) enum Ensured {
    /// Enough replicas have the hold. Its lease counts from this time.
    Since(Instant),
    /// The hold was lost meanwhile.
    Lost,
    /// Unknown: there was no connection, no reply, or the server is being replaced. A retry can help.
    Unknown(Error),
}

impl Ensured {
    /// Why the outcome is unknown.
    pub(crate) fn trouble(self) -> Option<Error> {
        match self {
            Ensured::Unknown(error) => Some(error),
            Ensured::Since(_) | Ensured::Lost => None,
        }
    }
}

/// Makes sure that enough replicas have a hold that was acquired by a request sent at `sent`.
///
/// The hold is released before an error is returned.
pub(crate) async fn ensure(attempt: &mut Attempt, sent: Instant) -> Result<Ensured, Error> {
    if matches!(attempt.order.durability, Durability::None | Durability::Replicas(0)) {
        return Ok(Ensured::Since(sent));
    }
    let outcome = match try_ensure(attempt).await {
        Ok(Ensured::Since(_)) if attempt.order.extras.session.is_some() => tie_again(attempt).await,
        outcome => outcome,
    };
    if outcome.is_err() {
        attempt.take_back().await;
    }
    outcome
}

/// Ties a hold to the usual connection: the renewals that replicas were waited for on another have untied it.
async fn tie_again(attempt: &mut Attempt) -> Result<Ensured, Error> {
    let shared = &attempt.handle.shared;
    let by = shared.clock.now().after(shared.config.response());
    match attempt.renew(Some(by)).await {
        Ok(Some(sent)) => Ok(Ensured::Since(sent)),
        Ok(None) => Ok(Ensured::Lost),
        Err(Step::Refused(refusal)) => {
            let error = refusal.error.clone();
            Ok(Ensured::Unknown(refused(attempt, refusal, error)?))
        }
        Err(Step::Unsent(error)) => Ok(Ensured::Unknown(unsent(error)?)),
        Err(Step::Unanswered(error)) => Ok(Ensured::Unknown(error)),
        Err(_) => Ok(Ensured::Lost),
    }
}

async fn try_ensure(attempt: &Attempt) -> Result<Ensured, Error> {
    match replicas_needed(attempt).await? {
        Ok(needed) => confirm(attempt, needed).await,
        Err(passing) => Ok(Ensured::Unknown(passing)),
    }
}

/// The number of replicas that must have the hold. The inner error passes.
async fn replicas_needed(attempt: &Attempt) -> Result<Result<usize, Error>, Error> {
    Ok(match attempt.order.durability {
        Durability::None => Ok(0),
        Durability::Replicas(needed) => Ok(needed),
        Durability::Majority => match role(attempt).await {
            Ok(Ok(role)) => Ok(majority(attempt, &role)),
            Ok(Err(refusal)) => {
                let error = refusal.error.clone();
                Err(refused(attempt, refusal, error)?)
            }
            Err(Trouble::Unsent(error)) => Err(unsent(error)?),
            Err(Trouble::Unanswered(error)) => Err(error),
        },
    })
}

/// Renews the hold, and waits until this number of replicas has the renewal.
async fn confirm(attempt: &Attempt, needed: usize) -> Result<Ensured, Error> {
    let shared = &attempt.handle.shared;
    let (key, lease) = (&attempt.order.party.key, attempt.order.lease);
    let patience = shared.config.durability_wait;
    let sent = shared.clock.now();
    let by = sent.after(shared.config.response()).after(patience);
    let manner = Manner { durable: Some(patience), ..Manner::by(Some(by)) };
    let unmet = |reached| Error::Durability { lock: name(key), wanted: needed, reached };
    let mut replies = match exchange(shared, key, &renew_and_wait(attempt, needed), manner, &mut None).await {
        Ok(replies) => replies,
        Err(Trouble::Unsent(error)) => return Ok(Ensured::Unknown(unsent(error)?)),
        Err(Trouble::Unanswered(_)) => return Ok(Ensured::Unknown(unmet(0))),
    };
    let (held, reached) = match (replies.take(RENEWED), replies.take(WAITED)) {
        (Ok(held), Ok(reached)) => (held, reached),
        // A fail-over on purpose ends WAIT with a refusal.
        (Err(refusal), _) | (_, Err(refusal)) => {
            return Ok(Ensured::Unknown(refused(attempt, refusal, unmet(0))?));
        }
    };
    let reached =
        command::integer("WAIT", &reached)?.and_then(|count| usize::try_from(count).ok()).unwrap_or(0);
    if reached < needed {
        return Err(unmet(reached));
    }
    let lasts = shared.clock.now() < sent.end_of(lease);
    Ok(if held == Value::Int(1) && lasts { Ensured::Since(sent) } else { Ensured::Lost })
}

/// The places of the replies to [`renew_and_wait`] that count.
const RENEWED: usize = 1;
const WAITED: usize = 2;

/// A renewal that is certainly a write, and WAIT for this number of replicas.
///
/// WAIT counts the replicas that have the last write of its own connection, and all writes before that. A renewal that changes
/// nothing, in the same millisecond as the last, is not a write: Redis 8 and Valkey 8.1 would count the replicas at once. Of
/// two renewals that differ by a millisecond the second one is a write.
fn renew_and_wait(attempt: &Attempt, needed: usize) -> [Cmd; 3] {
    let (party, lease) = (&attempt.order.party, attempt.order.lease);
    let mut wait = cmd("WAIT");
    wait.arg(needed).arg(command::milliseconds(attempt.handle.shared.config.durability_wait));
    let shorter = lease.saturating_sub(Duration::from_millis(1));
    // Without a session: the renewal by `tie_again` ties the hold to the usual connection again.
    [command::renew(party, shorter, None), command::renew(party, lease, None), wait]
}

/// A transport error passes; any other one is final.
fn unsent(error: Error) -> Result<Error, Error> {
    match error {
        Error::Transport { .. } => Ok(error),
        error => Err(error),
    }
}

/// A refusal that passes is not an answer: it becomes `unmet`, the error of a caller that does not ask again.
fn refused(attempt: &Attempt, refusal: Refusal, unmet: Error) -> Result<Error, Error> {
    if attempt.handle.shared.router.passes(&refusal) { Ok(unmet) } else { Err(refusal.error) }
}

/// The primary's reply to ROLE.
async fn role(attempt: &Attempt) -> Result<Result<Value, Refusal>, Trouble> {
    let shared = &attempt.handle.shared;
    let by = shared.clock.now().after(shared.config.response());
    exchange_one(shared, &attempt.order.party.key, cmd("ROLE"), Manner::by(Some(by))).await
}

/// How many replicas make a majority with the primary: of as many as were ever seen, and one at least.
fn majority(attempt: &Attempt, role: &Value) -> usize {
    let connected = match role {
        Value::Array(items) => match items.get(2) {
            Some(Value::Array(replicas)) => replicas.len(),
            _ => 0,
        },
        _ => 0,
    };
    let node = attempt.handle.shared.router.node(&attempt.order.party.key);
    node.replicas_seen(connected).saturating_add(1).div_euclid(2).max(1)
}
