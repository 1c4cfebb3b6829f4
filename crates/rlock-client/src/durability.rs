//! Waiting until replicas have a lock before it is handed out.

use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, Value, cmd};
use rlock_links::{Failed, Line, NoAnswer};

use crate::acquisition::Acquisition;
use crate::command;
use crate::config::Durability;
use crate::error::{Error, Lost, name};

/// The pause before the next wait for replicas.
const PAUSE: Duration = Duration::from_millis(50);

/// Why it is not certain that replicas have a hold.
enum Unsure {
    /// Too few have it, or asking again changes nothing.
    Final(Error),
    /// There was no answer, or the server is being replaced.
    Passing(Error),
}

/// Makes sure that enough replicas have a hold; `false` if the hold was lost meanwhile. After an error the caller releases the hold.
pub(crate) async fn ensure(hold: &Arc<Acquisition>, durability: Durability) -> Result<bool, Error> {
    if matches!(durability, Durability::None | Durability::Replicas(0)) {
        return Ok(true);
    }
    let by = hold.wait_ends();
    loop {
        let unsure = match try_ensure(hold, durability).await {
            Ok(()) => return Ok(hold.check().is_ok()),
            Err(unsure) => unsure,
        };
        if hold.check().is_err() {
            return Ok(false);
        }
        match unsure {
            Unsure::Final(error) => return Err(error),
            Unsure::Passing(error) if by.is_some_and(|by| hold.all.shared.clock.now().after(PAUSE) >= by) => {
                return Err(hold.gave_up(error));
            }
            Unsure::Passing(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

async fn try_ensure(hold: &Arc<Acquisition>, durability: Durability) -> Result<(), Unsure> {
    let key = &hold.claim.key;
    let needed = match durability {
        Durability::None => 0,
        Durability::Replicas(needed) => needed,
        Durability::Majority => {
            let role = hold.all.shared.router.request(key, cmd("ROLE")).await;
            majority(hold, &role.map_err(|failed| unsure(key, failed, None))?)
        }
    };
    confirm(hold, needed).await?;
    let Some(session) = hold.terms.extras.session else { return Ok(()) };
    // Ties the hold to the usual connection. The renewals that replicas were waited for on another, a younger one, have untied it: on
    // this one a RENEW without SESSION comes first.
    for session in [None, Some(session)] {
        let reply = hold.request(command::renew(&hold.claim, hold.terms.lease, session)).await;
        held(hold, &reply.map_err(|failed| unsure(key, failed, None))?);
    }
    Ok(())
}

/// Renews the hold, and waits until this number of replicas has the renewal.
async fn confirm(hold: &Arc<Acquisition>, needed: usize) -> Result<(), Unsure> {
    let (shared, key) = (&hold.all.shared, &hold.claim.key);
    let by = shared.clock.now().after(shared.config.response()).after(shared.config.durability_wait);
    let unmet = |reached| Error::Durability { lock: name(key), wanted: needed, reached };
    let commands = renew_and_wait(hold, needed);
    let replies = shared.router.request_all(key, &commands, Line::Durable, by).await;
    // A fail-over on purpose ends WAIT with a refusal.
    let replies = replies.map_err(|failed| unsure(key, failed, Some(unmet(0))))?;
    let [_, renewed, reached] = replies.as_slice() else { return Err(Unsure::Passing(unmet(0))) };
    let reached = command::integer("WAIT", reached).map_err(Unsure::Final)?.unwrap_or_default();
    let reached = usize::try_from(reached).unwrap_or_default();
    if reached < needed {
        return Err(Unsure::Final(unmet(reached)));
    }
    held(hold, renewed);
    Ok(())
}

/// Reads the reply to a renewal.
fn held(hold: &Arc<Acquisition>, reply: &Value) {
    if *reply != Value::Int(1) {
        hold.lose(Lost::Taken);
    }
}

/// A renewal that is certainly a write, and WAIT for this number of replicas.
///
/// WAIT counts the replicas that have the last write of its own connection, and all writes before that. A renewal that changes
/// nothing, in the same millisecond as the last, is not a write: Redis 8 and Valkey 8.1 would count the replicas at once. Of
/// two renewals that differ by a millisecond the second one is a write.
fn renew_and_wait(hold: &Acquisition, needed: usize) -> [Cmd; 3] {
    let (claim, lease) = (&hold.claim, hold.terms.lease);
    let mut wait = cmd("WAIT");
    wait.arg(needed).arg(command::milliseconds(hold.all.shared.config.durability_wait));
    let shorter = lease.saturating_sub(Duration::from_millis(1));
    [command::renew(claim, shorter, None), command::renew(claim, lease, None), wait]
}

/// Why replicas may lack the hold. `unmet` is the error of a caller that does not ask again.
fn unsure(key: &[u8], failed: Failed, unmet: Option<Error>) -> Unsure {
    let passes = match &failed {
        Failed::Refused(refusal) => refusal.passes() || refusal.is_read_only(),
        Failed::NoAnswer(NoAnswer::Unsent(error)) => matches!(error, rlock_links::Error::Transport { .. }),
        Failed::NoAnswer(NoAnswer::Unanswered(_)) => true,
    };
    let is_unsent = matches!(failed, Failed::NoAnswer(NoAnswer::Unsent(_)));
    let error = command::failed(key, failed);
    match unmet {
        _ if !passes => Unsure::Final(error),
        Some(unmet) if !is_unsent => Unsure::Passing(unmet),
        _ => Unsure::Passing(error),
    }
}

/// How many replicas make a majority with the primary, of the most that were ever seen; at least one.
fn majority(hold: &Acquisition, role: &Value) -> usize {
    let connected = match role {
        Value::Array(items) => match items.get(2) {
            Some(Value::Array(replicas)) => replicas.len(),
            _ => 0,
        },
        _ => 0,
    };
    let node = hold.all.shared.router.node(&hold.claim.key);
    node.replicas_seen(connected).saturating_add(1).div_euclid(2).max(1)
}
