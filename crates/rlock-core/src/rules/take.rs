//! Acquisition, re-entry and hand-off.

use super::{arrival, check_kind, nothing, permits, reply_token};
use crate::decision::{Admission, Change, Decision, KeyChange, LockEvent, ReadLeases, Reply};
use crate::error::Error;
use crate::request::Acquire;
use crate::token::Token;
use crate::types::{Expiry, Holds, LeaseMs, Mode, UnixMs, Wanted};
use crate::view::{Hold, Kind, Need, Others, Step, View};

/// RLOCK.ACQUIRE; `token` is the token for this acquisition, if it asks for one. `kept_out`: an owner without holds must
/// not overtake the waiters of the lock.
#[inline(always)]
pub fn acquire(
    view: &View,
    request: &Acquire<'_>,
    token: Option<Token>,
    now: UnixMs,
    admission: Admission,
    kept_out: bool,
) -> Result<Step, Error> {
    if let Wanted::Permit(limit) = request.wanted {
        return permits::acquire(view, request, limit, now, admission, kept_out);
    }
    let mode = request.mode();
    check_kind(view, mode)?;
    if must_check_readers(view, mode) {
        return Ok(Step::Look(Need::AnyOther));
    }
    let reads_only = view.shared.is_some() && view.sole.is_none();
    if mode == Mode::Write && request.wait.is_some() && reads_only {
        return Err(Error::Upgrade);
    }
    if !view.holds_any() {
        if admission == Admission::HoldersOnly {
            return Err(Error::NotAccepting);
        }
        if kept_out {
            return Ok(nothing(Reply::Denied));
        }
    }
    let new = New { mode, lease: request.lease, token, now, event: LockEvent::Acquire };
    new.take(view, request.arrive_at)
}

/// Hands the lock off to the first waiter, if it can have it; otherwise the reply is a denial. The lease counts from now. If
/// the owner already holds a read/write lock in its mode by another call, the number of its holds stays the same.
pub fn hand_off(
    view: &View,
    wanted: Wanted,
    lease: LeaseMs,
    token: Option<Token>,
    now: UnixMs,
) -> Result<Step, Error> {
    if let Wanted::Permit(limit) = wanted {
        return permits::hand_off(view, limit, lease, now);
    }
    let mode = wanted.mode();
    check_kind(view, mode)?;
    if must_check_readers(view, mode) {
        return Ok(Step::Look(Need::AnyOther));
    }
    if view.kind == Kind::Mutex {
        return Ok(nothing(Reply::Denied));
    }
    New { mode, lease, token, now, event: LockEvent::HandOff }.take(view, Some(Holds::ONE))
}

/// Whether it depends on the other readers, dead or alive, if a writer can have the lock.
fn must_check_readers(view: &View, mode: Mode) -> bool {
    let by_others = view.kind == Kind::Reading && view.shared.is_none();
    mode == Mode::Write && by_others && matches!(view.others, Others::NotAsked(_))
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
    #[inline(always)]
    fn take(&self, view: &View, arrive_at: Option<Holds>) -> Result<Step, Error> {
        // An owner that asks for more than its first hold had others before: they are lost, and it must learn that.
        let is_first_hold = arrive_at.is_none_or(|wanted| wanted == Holds::ONE);
        let joins = self.mode == Mode::Read && (view.kind == Kind::Reading || view.sole.is_some());
        let decision = if view.is_free_for(self.mode) {
            is_first_hold.then(|| self.first_holder(view))
        } else if let Some(before) = view.held_in(self.mode) {
            arrival(before.holds, arrive_at)?.map(|target| self.again(view, before, target))
        } else {
            (joins && is_first_hold).then(|| self.joined(view))
        };
        Ok(decision.map_or_else(|| nothing(Reply::Denied), Step::Done))
    }

    /// The lock had no holder.
    fn first_holder(&self, view: &View) -> Decision {
        let key = match view.kind {
            Kind::Free => KeyChange::Set(Holds::ONE),
            _ => KeyChange::Replace(Holds::ONE),
        };
        let mut decision = self.hold(key, Holds::ONE, self.now.after(self.lease), Expiry::At(self.now));
        decision.change.becomes = Some(self.mode).filter(|mode| *mode != Mode::Mutex);
        decision
    }

    /// Other readers hold the lock, or the owner writes.
    fn joined(&self, view: &View) -> Decision {
        self.hold(KeyChange::Set(Holds::ONE), Holds::ONE, self.now.after(self.lease), view.key_end)
    }

    /// The owner holds the lock in this mode already: the lease never gets shorter. FENCED gets a new token even if
    /// nothing else changes: the last one may have been another owner's.
    fn again(&self, view: &View, before: Hold, target: Holds) -> Decision {
        let asked = self.now.after(self.lease);
        let more = target > before.holds;
        let key = if more { KeyChange::Set(target) } else { KeyChange::Keep };
        let ends = match before.until {
            Expiry::At(at) => at.max(asked),
            // Another client removed the expiry (PERSIST).
            Expiry::Never => asked,
        };
        let mut decision = self.hold(key, target, ends, view.key_end);
        if !more {
            decision.change.event = None;
            if before.until == Expiry::At(ends) {
                decision.change.shared = None;
            }
        }
        if before.until == Expiry::Never {
            decision.reply = self.reply(target, Expiry::Never);
        }
        decision
    }

    /// This number of holds, the newest of which has this lease end.
    fn hold(&self, key: KeyChange, holds: Holds, ends: UnixMs, key_end: Expiry) -> Decision {
        // The key lasts as long as the longest lease.
        let longer = matches!(key_end, Expiry::At(at) if ends > at);
        let leases = match self.mode {
            Mode::Read => ReadLeases { set: Some((holds.get(), holds.get(), ends)), gone: None },
            Mode::Write | Mode::Mutex | Mode::Permit => ReadLeases::default(),
        };
        let in_force = if self.mode == Mode::Read || longer { Expiry::At(ends) } else { key_end };
        Decision {
            reply: self.reply(holds, in_force),
            change: Change {
                mode: self.mode,
                key,
                becomes: None,
                shared: leases.change(),
                expire_at: longer.then_some(ends),
                token: self.token,
                unlock_message: None,
                event: Some(self.event),
            },
        }
    }

    fn reply(&self, holds: Holds, in_force: Expiry) -> Reply {
        Reply::Acquired { holds, lease_ms: in_force.left(self.now), token: reply_token(self.token) }
    }
}
