//! The end of a guard: releasing its hold, and learning whether it was held until that moment.

use std::sync::Arc;

use redis::Value;

use super::{FIRST_PAUSE, LONGEST_PAUSE, last_moment};
use crate::command::{self, Refusal};
use crate::error::{Error, Lost};
use crate::exchange::{Manner, Trouble, exchange_one};
use crate::hold::Hold;

/// Whether to repeat a release after its outcome is known.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repeat {
    No,
    Yes,
}

/// Releases the last hold of an owner, whose guards are gone, and says whether it was held until that moment.
///
/// Tries until the lease has ended. Dropped before it is done, it leaves the rest to the caller's job.
pub(crate) async fn give_back(hold: &Arc<Hold>) -> (Repeat, Result<(), Error>) {
    let shared = &hold.shared;
    let key = &hold.party.key;
    let last = last_moment(hold);
    let (mut unanswered, mut refused) = (None, None);
    let mut pause = FIRST_PAUSE;
    hold.renewal_ended().await;
    loop {
        let command = command::release(&hold.party, 0);
        match exchange_one(shared, key, command, Manner::by(Some(last))).await {
            Ok(Ok(value)) => {
                let repeat = if unanswered.is_some() { Repeat::Yes } else { Repeat::No };
                return (repeat, outcome(key, &value, unanswered));
            }
            Ok(Err(Refusal { error: Error::NotALock { .. }, .. })) => {
                return (Repeat::No, outcome(key, &Value::Nil, unanswered));
            }
            Ok(Err(refusal)) if is_final(&refusal) => return (Repeat::No, Err(refusal.error)),
            Ok(Err(refusal)) => {
                tracing::debug!(error = %refusal.error, "a release was refused; trying again");
                refused = Some(refusal.error);
            }
            Err(Trouble::Unanswered(error)) => unanswered = Some(error),
            Err(Trouble::Unsent(error)) => {
                return (Repeat::Yes, Err(Error::unknown(key, unanswered.unwrap_or(error))));
            }
        }
        if shared.clock.now() >= last {
            let cause = unanswered.or(refused).unwrap_or_else(|| shared.trouble(key));
            return (Repeat::Yes, Err(Error::unknown(key, cause)));
        }
        tokio::time::sleep(pause).await;
        pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
    }
}

/// Brings the holds on the server down to the guards that are left.
pub(crate) async fn lower(hold: &Arc<Hold>) -> Result<(), Error> {
    let mut level = hold.level.lock().await;
    let guards = hold.guards();
    if guards == 0 {
        // The last guard went meanwhile, and its release takes all.
        return Ok(());
    }
    // Confirmed is from now on no more than what is left, whatever becomes of the request.
    *level = guards.min(*level);
    let command = command::release(&hold.party, guards);
    let by = hold.deadline().min(hold.shared.answer_by(&hold.party.key));
    let reply = exchange_one(&hold.shared, &hold.party.key, command, Manner::by(Some(by))).await;
    match reply {
        // The last guard's release may have come first; it tells whether the lock was held.
        Ok(Ok(Value::Nil)) if hold.guards() == 0 => Ok(()),
        Ok(Ok(Value::Nil) | Err(Refusal { error: Error::NotALock { .. }, .. })) => {
            hold.lose(Lost::Taken);
            Err(Error::lost(&hold.party.key, Lost::Taken))
        }
        Ok(Ok(_)) => Ok(()),
        Ok(Err(refusal)) => Err(refusal.error),
        Err(Trouble::Unsent(error) | Trouble::Unanswered(error)) => {
            Err(Error::unknown(&hold.party.key, error))
        }
    }
}

fn outcome(key: &[u8], value: &Value, unanswered: Option<Error>) -> Result<(), Error> {
    match (command::integer("RLOCK.RELEASE", value)?, unanswered) {
        (Some(_), _) => Ok(()),
        (None, None) => Err(Error::lost(key, Lost::Taken)),
        (None, Some(error)) => Err(Error::unknown(key, error)),
    }
}

/// The first refusal, or the answer to the last command, which is the release.
pub(super) fn last_or_refusal(answers: Vec<Result<Value, Refusal>>) -> Result<Value, Refusal> {
    answers.into_iter().try_fold(Value::Nil, |_, answer| answer)
}

/// Whether a refusal of a release will be the same next time.
pub(super) fn is_final(refusal: &Refusal) -> bool {
    matches!(refusal.error, Error::Permission { .. } | Error::ModuleMissing { .. } | Error::NotALock { .. })
}
