//! The rules: one function per command, from state, request and time to a [`Decision`].

use crate::bugs::{Bug, planted};
use crate::error::Error;
use crate::request::{Acquire, DownTo, ForceRelease, Release, Renew};
use crate::shape::LockState;
use crate::token::Token;
use crate::types::{Expiry, Holds, LeaseMs, UnixMs};

/// What shall happen: answer this, after performing that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// What the caller is told.
    pub reply: Reply,
    /// What happens to the lock; nothing at all on a denial.
    pub change: Change,
}

/// What the caller is told; truthy when it got what the command's name says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reply {
    /// ACQUIRE: the caller holds the lock. `[holds, lease-ms, token]`.
    Acquired {
        /// How many times.
        holds: Holds,
        /// What is left of the lease in ms, or -1 where the key has no expiry.
        lease_ms: i64,
        /// The fencing token, or 0 where none was asked for.
        token: i64,
    },
    /// ACQUIRE with ENQUEUE: the caller waits. `[0, 0, 0]`.
    Enqueued,
    /// ACQUIRE: somebody else holds the lock, or the hold to build on is lost. Null.
    Denied,
    /// RELEASE: the owner's last hold is gone. 1.
    Released,
    /// RELEASE: the owner still holds. 0.
    StillHeld,
    /// RELEASE: the owner held nothing. Null.
    NotHeld,
    /// RENEW: the lease counts from now. 1.
    Renewed,
    /// RENEW: the owner holds nothing. 0.
    NotRenewed,
    /// CANCEL: the owner waits no more. 1.
    Cancelled,
    /// CANCEL: the owner did not wait. 0.
    NotQueued,
    /// FORCERELEASE: holds were removed. 1.
    Forced,
    /// FORCERELEASE: there was nothing to remove. 0.
    NothingToForce,
}

/// What happens to the lock, in this order: the hash, its expiry, the token, the event, the unlock message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// What happens to the hash.
    pub hash: HashChange,
    /// The expiry that the key gets.
    pub expire_at: Option<UnixMs>,
    /// The lock's last fencing token from now on.
    pub token: Option<Token>,
    /// Whether the release is published to those who wait by Redisson's protocol.
    pub unlock_message: Option<UnlockMessage>,
    /// The keyspace event of our own.
    pub event: Option<LockEvent>,
}

/// What happens to the lock's hash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HashChange {
    /// It stays as it is.
    #[default]
    Keep,
    /// The caller's field is set to so many holds.
    Set(Holds),
    /// It is deleted first, then the caller's field is set: what was there was no hold.
    Replace(Holds),
    /// The key is deleted.
    Delete,
}

/// The message on the unlock channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnlockMessage {
    /// `0`: the lock is free.
    Free,
}

/// Keyspace events of class `d`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockEvent {
    /// `rlock.acquire`: an owner took a hold.
    Acquire,
    /// `rlock.release`: an owner gave holds back.
    Release,
    /// `rlock.handoff`: the lock went to the one who waited longest.
    HandOff,
    /// `rlock.forcerelease`: holds were removed by force.
    ForceRelease,
}

/// Whether those who hold nothing yet may acquire (`rlock.accept`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Anybody may.
    Open,
    /// Only holders, to re-enter.
    HoldersOnly,
}

/// RLOCK.ACQUIRE; `token` is the one that the acquisition gets, where it asks for one.
pub fn acquire(
    state: LockState,
    request: &Acquire<'_>,
    token: Option<Token>,
    now: UnixMs,
    admission: Admission,
) -> Result<Decision, Error> {
    if let LockState::Mine { holds, expiry } = state {
        return re_enter(holds, expiry, request, token, now);
    }
    if admission == Admission::HoldersOnly {
        return Err(Error::NotAccepting);
    }
    // More holds than the first were to be there: they are lost, and their owner must learn it.
    let first = request.arrive_at.is_none_or(|wanted| wanted == Holds::ONE);
    Ok(match state {
        LockState::Free if first => take(HashChange::Set(Holds::ONE), request, token, now),
        LockState::Abandoned if first => take(HashChange::Replace(Holds::ONE), request, token, now),
        _ => nothing(Reply::Denied),
    })
}

fn take(hash: HashChange, request: &Acquire<'_>, token: Option<Token>, now: UnixMs) -> Decision {
    Decision {
        reply: Reply::Acquired { holds: Holds::ONE, lease_ms: request.lease.get(), token: told(token) },
        change: Change {
            hash,
            expire_at: Some(now.after(request.lease)),
            token: stored(token),
            unlock_message: None,
            event: Some(LockEvent::Acquire),
        },
    }
}

/// The token as replies tell it: 0 where none was asked for.
pub(crate) fn told(token: Option<Token>) -> i64 {
    token.map_or(0, Token::get)
}

fn stored(token: Option<Token>) -> Option<Token> {
    token.filter(|_| !planted(Bug::TokenNotStored))
}

/// One hold more, or with HOLDS the count to arrive at; never a shorter lease. Who asks for a token gets a
/// new one also where nothing else changes: the last one may have been another owner's.
fn re_enter(
    holds: Holds,
    expiry: Expiry,
    request: &Acquire<'_>,
    token: Option<Token>,
    now: UnixMs,
) -> Result<Decision, Error> {
    let target = match request.arrive_at {
        None => holds.one_more().ok_or(Error::TooManyHolds)?,
        Some(wanted) if wanted <= holds && planted(Bug::HoldsAdds) => {
            holds.one_more().ok_or(Error::TooManyHolds)?
        }
        Some(wanted) if wanted <= holds => holds,
        Some(wanted) if holds.one_more() == Some(wanted) => wanted,
        Some(_) => return Ok(nothing(Reply::Denied)),
    };
    let asked = now.after(request.lease);
    let longer = matches!(expiry, Expiry::At(at) if asked > at || planted(Bug::ShortenOnReEntry));
    let in_force = if longer { Expiry::At(asked) } else { expiry };
    let more = target > holds;
    let stays = planted(Bug::TokenStaysOnReEntry);
    Ok(Decision {
        reply: Reply::Acquired {
            holds: target,
            lease_ms: in_force.left(now),
            token: told(token) - i64::from(stays),
        },
        change: Change {
            hash: if more { HashChange::Set(target) } else { HashChange::Keep },
            expire_at: longer.then_some(asked),
            token: stored(token).filter(|_| !stays),
            unlock_message: None,
            event: more.then_some(LockEvent::Acquire),
        },
    })
}

/// Gives the lock to the one who waits first, if it is free. The lease counts from now.
pub fn hand_off(state: LockState, lease: LeaseMs, token: Option<Token>, now: UnixMs) -> Option<Change> {
    let hash = match state {
        LockState::Free => HashChange::Set(Holds::ONE),
        LockState::Abandoned => HashChange::Replace(Holds::ONE),
        LockState::Mine { .. } | LockState::Theirs => return None,
    };
    let expire_at = Some(now.after(lease));
    let token = stored(token);
    Some(Change { hash, expire_at, token, unlock_message: None, event: Some(LockEvent::HandOff) })
}

/// Whether those who wait by Redisson's protocol must be told of a hand-off: they sleep until the end of
/// the lease that they were told of, and must try again when the new one ends sooner.
pub fn message_on_hand_off(told: Expiry, ends: UnixMs) -> Option<UnlockMessage> {
    match told {
        Expiry::At(told) if told <= ends => None,
        // A lease that had ended by the time of the hand-off is among those above.
        Expiry::At(_) | Expiry::Never => Some(UnlockMessage::Free),
    }
}

/// Takes a grant back whose client is gone, if it is still as it was made: nobody re-entered, renewed or
/// took the lock after it. `ends` is the end of the lease that was granted.
pub fn take_back(state: LockState, ends: UnixMs) -> Option<Change> {
    let untouched = LockState::Mine { holds: Holds::ONE, expiry: Expiry::At(ends) };
    let mine = matches!(state, LockState::Mine { .. }) && planted(Bug::TakeBackWithoutId);
    (state == untouched || mine).then(|| freed(Reply::Released, LockEvent::Release).change)
}

/// RLOCK.RELEASE.
pub fn release(state: LockState, request: &Release<'_>, now: UnixMs) -> Decision {
    let LockState::Mine { holds, expiry } = state else {
        return nothing(Reply::NotHeld);
    };
    let left = match request.down_to {
        DownTo::OneLess => holds.one_less(),
        DownTo::AtMost(count) => Holds::new(count.min(holds.get())),
    };
    let Some(left) = left else {
        return freed(Reply::Released, LockEvent::Release);
    };
    let fewer = left < holds;
    Decision {
        reply: Reply::StillHeld,
        change: Change {
            hash: if fewer { HashChange::Set(left) } else { HashChange::Keep },
            expire_at: request.lease.map(|lease| now.after(lease)).filter(|at| Expiry::At(*at) != expiry),
            token: None,
            unlock_message: None,
            event: fewer.then_some(LockEvent::Release),
        },
    }
}

/// RLOCK.RENEW: the lease counts from now, also where that is sooner than before.
pub fn renew(state: LockState, request: &Renew<'_>, now: UnixMs) -> Decision {
    let LockState::Mine { expiry, .. } = state else {
        return nothing(Reply::NotRenewed);
    };
    let asked = now.after(request.lease);
    let expire_at = (Expiry::At(asked) != expiry).then_some(asked);
    Decision { reply: Reply::Renewed, change: Change { expire_at, ..Change::default() } }
}

/// RLOCK.FORCERELEASE; `state` as the owner given sees it, or as a stranger does where none is given.
pub fn force_release(state: LockState, request: &ForceRelease<'_>) -> Decision {
    match state {
        LockState::Mine { .. } => freed(Reply::Forced, LockEvent::ForceRelease),
        LockState::Theirs if request.owner.is_none() => freed(Reply::Forced, LockEvent::ForceRelease),
        LockState::Free | LockState::Abandoned | LockState::Theirs => nothing(Reply::NothingToForce),
    }
}

fn nothing(reply: Reply) -> Decision {
    Decision { reply, change: Change::default() }
}

fn freed(reply: Reply, event: LockEvent) -> Decision {
    let change = Change {
        hash: HashChange::Delete,
        expire_at: None,
        token: None,
        unlock_message: Some(UnlockMessage::Free),
        event: Some(event),
    };
    Decision { reply, change }
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
