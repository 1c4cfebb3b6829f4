//! Acquisition, re-entry and hand-off of a read/write lock.

use super::{Held, Reads, State, holds_any};
use crate::bugs::{Bug, planted};
use crate::decide::{arrival, nothing, stored, told};
use crate::decision::{Admission, Change, Decision, HashChange, LockEvent, ReadLeases, Reply};
use crate::error::Error;
use crate::request::Acquire;
use crate::token::Token;
use crate::types::{Expiry, Holds, LeaseMs, Mode, UnixMs};

/// RLOCK.ACQUIRE with READ or WRITE. `awaited`: the lock already has waiters, and an owner without holds must not
/// overtake them.
pub fn acquire(
    state: State,
    request: &Acquire<'_>,
    token: Option<Token>,
    now: UnixMs,
    admission: Admission,
    awaited: bool,
) -> Result<Decision, Error> {
    if request.mode == Mode::Write && request.wait.is_some() && reads_only(state) {
        return Err(Error::Upgrade);
    }
    if !holds_any(state) {
        if admission == Admission::HoldersOnly {
            return Err(Error::NotAccepting);
        }
        let overtakes = request.mode == Mode::Read && planted(Bug::ReaderOvertakes);
        if awaited && !overtakes {
            return Ok(nothing(Reply::Denied));
        }
    }
    take(state, request.mode, request.arrive_at, request.lease, token, now, LockEvent::Acquire)
}

/// Hands the lock off to the first waiter, if it can have it. The lease counts from now. If the owner already holds it in
/// this mode by another call, the number of its holds stays the same.
pub fn hand_off(
    state: State,
    mode: Mode,
    lease: LeaseMs,
    token: Option<Token>,
    now: UnixMs,
) -> Option<Decision> {
    let decision = take(state, mode, Some(Holds::ONE), lease, token, now, LockEvent::HandOff).ok()?;
    (decision.reply != Reply::Denied).then_some(decision)
}

fn take(
    state: State,
    mode: Mode,
    arrive_at: Option<Holds>,
    lease: LeaseMs,
    token: Option<Token>,
    now: UnixMs,
    event: LockEvent,
) -> Result<Decision, Error> {
    let new = New { mode, lease, token, now, event };
    let held = match state {
        State::Held(held) => held,
        // More holds than the first were to be there: they are lost, and their owner must learn it.
        _ if arrive_at.is_some_and(|wanted| wanted != Holds::ONE) => return Ok(nothing(Reply::Denied)),
        State::Free => return Ok(new.first(HashChange::Set(Holds::ONE), Expiry::At(now))),
        State::Abandoned => return Ok(new.first(HashChange::Replace(Holds::ONE), Expiry::At(now))),
    };
    let before = match mode {
        Mode::Write => held.writes.map(|holds| Reads { holds, until: held.expiry }),
        Mode::Read | Mode::Mutex => held.reads,
    };
    if let Some(before) = before {
        let Some(target) = arrival(before.holds, arrive_at)? else { return Ok(nothing(Reply::Denied)) };
        return Ok(new.again(held, before, target));
    }
    let first = arrive_at.is_none_or(|wanted| wanted == Holds::ONE);
    let joins = mode == Mode::Read && (!held.writing || held.writes.is_some());
    Ok(if joins && first { new.joined(held) } else { nothing(Reply::Denied) })
}

/// A hold that is being made.
struct New {
    mode: Mode,
    lease: LeaseMs,
    token: Option<Token>,
    now: UnixMs,
    event: LockEvent,
}

impl New {
    /// Nobody held the lock.
    fn first(&self, hash: HashChange, key_until: Expiry) -> Decision {
        let mut decision = self.hold(hash, Holds::ONE, self.now.after(self.lease), key_until);
        decision.change.becomes = Some(self.mode);
        decision
    }

    /// Other readers hold the lock, or the owner writes.
    fn joined(&self, held: Held) -> Decision {
        self.hold(HashChange::Set(Holds::ONE), Holds::ONE, self.now.after(self.lease), held.expiry)
    }

    /// The owner holds it so already; never a shorter lease.
    fn again(&self, held: Held, before: Reads, target: Holds) -> Decision {
        let asked = self.now.after(self.lease);
        let more = target > before.holds;
        let hash = if more { HashChange::Set(target) } else { HashChange::Keep };
        let ends = match before.until {
            Expiry::At(at) => at.max(asked),
            // Somebody has made it last for ever.
            Expiry::Never => asked,
        };
        let mut decision = self.hold(hash, target, ends, held.expiry);
        if !more {
            decision.change.event = None;
            if before.until == Expiry::At(ends) {
                decision.change.leases = ReadLeases::default();
            }
        }
        if before.until == Expiry::Never {
            decision.reply = self.reply(target, Expiry::Never);
        }
        decision
    }

    /// So many holds, the newest of which ends then.
    fn hold(&self, hash: HashChange, holds: Holds, ends: UnixMs, key_until: Expiry) -> Decision {
        // The key is there for as long as anybody's lease.
        let longer = matches!(key_until, Expiry::At(at) if ends > at);
        let leases = match self.mode {
            Mode::Read if planted(Bug::ReadLeaseNotWritten) => ReadLeases::default(),
            Mode::Read => ReadLeases { set: Some((holds.get(), holds.get(), ends)), gone: None },
            Mode::Write | Mode::Mutex => ReadLeases::default(),
        };
        let in_force = if self.mode == Mode::Write && !longer { key_until } else { Expiry::At(ends) };
        Decision {
            reply: self.reply(holds, in_force),
            change: Change {
                mode: self.mode,
                hash,
                becomes: None,
                leases,
                expire_at: longer.then_some(ends),
                token: stored(self.token),
                unlock_message: None,
                event: Some(self.event),
            },
        }
    }

    fn reply(&self, holds: Holds, in_force: Expiry) -> Reply {
        Reply::Acquired { holds, lease_ms: in_force.left(self.now), token: told(self.token) }
    }
}

fn reads_only(state: State) -> bool {
    matches!(state, State::Held(held) if held.reads.is_some() && held.writes.is_none())
}
