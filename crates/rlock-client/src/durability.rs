//! Waiting until replicas have a lock before it is handed out.

use std::time::Duration;

use redis::{Value, cmd};

use crate::acquire::Attempt;
use crate::clock::Moment;
use crate::command;
use crate::config::Durability;
use crate::error::{Error, name};
use crate::exchange::{Manner, Trouble, exchange, exchange_one};

/// Makes sure that enough replicas have a hold that was acquired by a request sent at `sent`.
///
/// Returns the moment from which the lease counts; `None` where the hold was lost meanwhile. Before an error is
/// returned the hold is taken back, but not where there was no connection: that can be tried again.
pub(crate) async fn ensure(attempt: &mut Attempt, sent: Moment) -> Result<Option<Moment>, Error> {
    let outcome = try_ensure(attempt, sent).await;
    if outcome.as_ref().is_err_and(|error| !matches!(error, Error::Transport { .. })) {
        attempt.take_back().await;
    }
    outcome
}

async fn try_ensure(attempt: &Attempt, sent: Moment) -> Result<Option<Moment>, Error> {
    let wanted = match attempt.order.durability {
        Durability::None | Durability::Replicas(0) => return Ok(Some(sent)),
        Durability::Replicas(wanted) => wanted,
        Durability::Majority => majority(attempt).await?,
    };
    let shared = &attempt.handle.shared;
    let party = attempt.order.party.clone();
    let key = &party.key;
    let patience = shared.config.durability_wait;
    let mut wait = cmd("WAIT");
    wait.arg(wanted).arg(command::milliseconds(patience));
    // WAIT counts who has the last write of its own connection, and all that was written before that. A renewal
    // that changes nothing, in the same millisecond as the last, is no write: Redis 8 and Valkey 8.1 would count
    // the replicas at once. So of two that differ by a millisecond the second is one.
    let lease = attempt.order.lease;
    let shorter = lease.saturating_sub(Duration::from_millis(1));
    let commands = [command::renew(&party, shorter), command::renew(&party, lease), wait];
    let sent = shared.clock.now();
    let by = sent.after(shared.config.response()).after(patience);
    let manner = Manner { durable: Some(patience), ..Manner::by(Some(by)) };
    let unmet = |reached| Error::Durability { lock: name(key), wanted, reached };
    let mut replies = match exchange(shared, key, &commands, manner, &mut None).await {
        Ok(replies) => replies,
        Err(Trouble::Unsent(error)) => return Err(error),
        Err(Trouble::Unanswered(_)) => return Err(unmet(0)),
    };
    let held = replies.take(1).map_err(|refusal| refusal.error)?;
    let reached = replies.take(2).map_err(|refusal| refusal.error)?;
    let reached =
        command::integer("WAIT", &reached)?.and_then(|count| usize::try_from(count).ok()).unwrap_or(0);
    if reached < wanted {
        return Err(unmet(reached));
    }
    let lasts = shared.clock.now() < sent.end_of(lease);
    Ok((held == Value::Int(1) && lasts).then_some(sent))
}

/// How many replicas make a majority with the primary: of as many as were ever seen, and one at least.
async fn majority(attempt: &Attempt) -> Result<usize, Error> {
    let shared = &attempt.handle.shared;
    let key = &attempt.order.party.key;
    let by = shared.clock.now().after(shared.config.response());
    let role = match exchange_one(shared, key, cmd("ROLE"), Manner::by(Some(by))).await {
        Ok(reply) => reply.map_err(|refusal| refusal.error)?,
        Err(Trouble::Unsent(error)) => return Err(error),
        Err(Trouble::Unanswered(why)) => return Err(Error::transport(why)),
    };
    let connected = match &role {
        Value::Array(items) => match items.get(2) {
            Some(Value::Array(replicas)) => replicas.len(),
            _ => 0,
        },
        _ => 0,
    };
    let seen = shared.router.node(key).replicas_seen(connected);
    Ok(seen.saturating_add(1).div_euclid(2).max(1))
}
