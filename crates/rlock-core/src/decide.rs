//! The rules of the plain lock: one function per command, from state, request and time to a [`Decision`].

use crate::bugs::{Bug, planted};
use crate::decision::{Admission, Change, Decision, HashChange, LockEvent, Reply, UnlockMessage};
use crate::error::Error;
use crate::request::{Acquire, DownTo, ForceRelease, Release, Renew};
use crate::shape::LockState;
use crate::token::Token;
use crate::types::{Expiry, Holds, LeaseMs, Mode, UnixMs};

/// RLOCK.ACQUIRE; `token` is the token for this acquisition, if it asks for one.
pub fn acquire(
    state: LockState,
    request: &Acquire<'_>,
    token: Option<Token>,
    now: UnixMs,
    admission: Admission,
) -> Result<Decision, Error> {
    if let LockState::ReadWrite(_) = state {
        return Err(Error::ReadWriteLock);
    }
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
            event: Some(LockEvent::Acquire),
            ..Change::default()
        },
    }
}

/// The token as replies tell it: 0 where none was asked for.
pub(crate) fn told(token: Option<Token>) -> i64 {
    token.map_or(0, Token::get)
}

pub(crate) fn stored(token: Option<Token>) -> Option<Token> {
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
    let Some(target) = arrival(holds, request.arrive_at)? else { return Ok(nothing(Reply::Denied)) };
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
            event: more.then_some(LockEvent::Acquire),
            ..Change::default()
        },
    })
}

/// How many holds an owner of so many comes to: one more, or with HOLDS the count to arrive at; `None` if that is out
/// of reach, since holds were lost.
pub(crate) fn arrival(holds: Holds, arrive_at: Option<Holds>) -> Result<Option<Holds>, Error> {
    match arrive_at {
        Some(wanted) if wanted <= holds && !planted(Bug::HoldsAdds) => Ok(Some(holds)),
        Some(wanted) if wanted > holds => Ok(holds.one_more().filter(|more| *more == wanted)),
        _ => holds.one_more().ok_or(Error::TooManyHolds).map(Some),
    }
}

/// How many holds are left of so many after a release; `None` if none.
pub(crate) fn left_of(holds: Holds, down_to: DownTo) -> Option<Holds> {
    match down_to {
        DownTo::OneLess => holds.one_less(),
        DownTo::AtMost(count) => Holds::new(count.min(holds.get())),
    }
}

/// Hands a free lock off to the first waiter. The lease counts from now.
pub fn hand_off(state: LockState, lease: LeaseMs, token: Option<Token>, now: UnixMs) -> Option<Change> {
    let hash = match state {
        LockState::Free => HashChange::Set(Holds::ONE),
        LockState::Abandoned => HashChange::Replace(Holds::ONE),
        LockState::Mine { .. } | LockState::Theirs | LockState::ReadWrite(_) => return None,
    };
    let expire_at = Some(now.after(lease));
    let token = stored(token);
    Some(Change { hash, expire_at, token, event: Some(LockEvent::HandOff), ..Change::default() })
}

/// The message to waiting Redisson clients after a hand-off, if they need one: they sleep until the lease end that they
/// know, and must retry if the new lease ends sooner.
pub fn message_on_hand_off(told: Expiry, ends: UnixMs, mode: Mode) -> Option<UnlockMessage> {
    match told {
        Expiry::At(told) if told <= ends => None,
        // A lease that had ended by the time of the hand-off is among those above.
        Expiry::At(_) | Expiry::Never => Some(UnlockMessage::to_all(mode)),
    }
}

/// Revokes a grant whose client has disconnected, if the lock is unchanged since: no owner re-entered, renewed or
/// acquired it. `ends` is the end of the granted lease.
pub fn revoke(state: LockState, ends: UnixMs) -> Option<Change> {
    let untouched = LockState::Mine { holds: Holds::ONE, expiry: Expiry::At(ends) };
    let mine = matches!(state, LockState::Mine { .. }) && planted(Bug::TakeBackWithoutId);
    (state == untouched || mine).then(|| freed(Reply::Released, LockEvent::Release).change)
}

/// RLOCK.RELEASE.
pub fn release(state: LockState, request: &Release<'_>, now: UnixMs) -> Decision {
    let LockState::Mine { holds, expiry } = state else {
        return nothing(Reply::NotHeld);
    };
    let Some(left) = left_of(holds, request.down_to) else {
        return freed(Reply::Released, LockEvent::Release);
    };
    let fewer = left < holds;
    Decision {
        reply: Reply::StillHeld,
        change: Change {
            hash: if fewer { HashChange::Set(left) } else { HashChange::Keep },
            expire_at: request.lease.map(|lease| now.after(lease)).filter(|at| Expiry::At(*at) != expiry),
            event: fewer.then_some(LockEvent::Release),
            ..Change::default()
        },
    }
}

/// RLOCK.RENEW: the lease counts from now, even if it ends sooner than before.
pub fn renew(state: LockState, request: &Renew<'_>, now: UnixMs) -> Decision {
    let LockState::Mine { expiry, .. } = state else {
        return nothing(Reply::NotRenewed);
    };
    let asked = now.after(request.lease);
    let expire_at = (Expiry::At(asked) != expiry).then_some(asked);
    Decision { reply: Reply::Renewed, change: Change { expire_at, ..Change::default() } }
}

/// RLOCK.FORCERELEASE; `state` as the given owner sees it; without an owner, as an owner without holds sees it.
pub fn force_release(state: LockState, request: &ForceRelease<'_>) -> Decision {
    match state {
        LockState::Mine { .. } => freed(Reply::Forced, LockEvent::ForceRelease),
        LockState::Theirs if request.owner.is_none() => freed(Reply::Forced, LockEvent::ForceRelease),
        LockState::Free | LockState::Abandoned | LockState::Theirs | LockState::ReadWrite(_) => {
            nothing(Reply::NothingToForce)
        }
    }
}

pub(crate) fn nothing(reply: Reply) -> Decision {
    Decision { reply, change: Change::default() }
}

fn freed(reply: Reply, event: LockEvent) -> Decision {
    let change = Change {
        hash: HashChange::Delete,
        unlock_message: Some(UnlockMessage::Free),
        event: Some(event),
        ..Change::default()
    };
    Decision { reply, change }
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
