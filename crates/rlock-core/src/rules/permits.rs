//! The rules of locks with permits: a limited number of owners hold one permit each, each for its own lease.
//!
//! The limit is each caller's own, and is not stored. A permit is alive until its lease ends, whether its owner is still a
//! member of the sorted set or not. The key expires with the last permit.
//!
//! `#[cold]` keeps these rules out of the way of plain locks, whose calls are measured.

use super::nothing;
use crate::decision::{Admission, Change, Decision, KeyChange, LockEvent, Reply};
use crate::error::Error;
use crate::request::{Acquire, DownTo, Release, Renew};
use crate::types::{Expiry, Holds, LeaseMs, Mode, PermitLimit, UnixMs};
use crate::view::{Kind, Need, Others, Step, View};

/// RLOCK.ACQUIRE with PERMITS. An owner with a permit keeps it, whatever the limit.
#[cold]
pub(super) fn acquire(
    view: &View,
    request: &Acquire<'_>,
    limit: PermitLimit,
    now: UnixMs,
    admission: Admission,
    kept_out: bool,
) -> Result<Step, Error> {
    check_kind(view)?;
    if view.shared.is_none() {
        if admission == Admission::HoldersOnly {
            return Err(Error::NotAccepting);
        }
        if kept_out {
            return Ok(nothing(Reply::Denied));
        }
    }
    Ok(take(view, limit, request.lease, now, LockEvent::Acquire))
}

/// Hands a permit to the first waiter, if its limit admits one more; otherwise the reply is a denial.
#[cold]
pub(super) fn hand_off(view: &View, limit: PermitLimit, lease: LeaseMs, now: UnixMs) -> Result<Step, Error> {
    check_kind(view)?;
    Ok(take(view, limit, lease, now, LockEvent::HandOff))
}

/// Whether the limit admits one more beside the other owners; `None` if the look must count them first.
pub(crate) fn has_room(view: &View, limit: PermitLimit) -> Option<bool> {
    match view.others {
        Others::Permits { members, .. } if limit.admits(members) => Some(true),
        Others::Permits { living, .. } => living.map(|living| limit.admits(living)),
        _ => Some(true),
    }
}

/// Refuses a lock of another kind.
fn check_kind(view: &View) -> Result<(), Error> {
    match view.kind {
        Kind::Free | Kind::Abandoned | Kind::Permits => Ok(()),
        Kind::Mutex | Kind::Reading | Kind::Writing => Err(Error::NoPermitsLock),
    }
}

fn take(view: &View, limit: PermitLimit, lease: LeaseMs, now: UnixMs, event: LockEvent) -> Step {
    let asked = now.after(lease);
    if let Some(own) = own_end(view) {
        // A re-entry never shortens the lease.
        let ends = own.max(asked);
        let change = if ends > own { with_end(view, ends, None) } else { unchanged() };
        return acquired(ends, now, change);
    }
    match has_room(view, limit) {
        None => Step::Look(Need::Room),
        Some(false) => nothing(Reply::Denied),
        Some(true) => acquired(asked, now, with_end(view, asked, Some(event))),
    }
}

fn acquired(ends: UnixMs, now: UnixMs, change: Change) -> Step {
    let lease_ms = Expiry::At(ends).left(now);
    Step::Done(Decision { reply: Reply::Acquired { holds: Holds::ONE, lease_ms, token: 0 }, change })
}

/// RLOCK.RELEASE of a permit. With HOLDS 1 or more the owner keeps it.
#[cold]
pub(super) fn release(view: &View, request: &Release<'_>, now: UnixMs) -> Result<Step, Error> {
    if request.mode.is_some() {
        return Err(Error::PermitsLock);
    }
    let Some(own) = own_end(view) else { return Ok(nothing(Reply::NotHeld)) };
    Ok(match request.down_to {
        DownTo::OneLess | DownTo::AtMost(..=0) => gone(view, Reply::Released, LockEvent::Release),
        DownTo::AtMost(_) => {
            let ends = request.lease.map_or(own, |lease| now.after(lease));
            ends_at(view, own, ends, Reply::StillHeld)
        }
    })
}

/// RLOCK.RENEW of a permit: the lease counts from now, even if it ends sooner than before.
#[cold]
pub(super) fn renew(view: &View, request: &Renew<'_>, now: UnixMs) -> Result<Step, Error> {
    if request.mode.is_some() {
        return Err(Error::PermitsLock);
    }
    let Some(own) = own_end(view) else { return Ok(nothing(Reply::NotRenewed)) };
    Ok(ends_at(view, own, now.after(request.lease), Reply::Renewed))
}

/// RLOCK.FORCERELEASE of all permits, or of this owner's, even if it has ended.
#[cold]
pub(super) fn force_release(view: &View, of_owner: bool) -> Step {
    let event = LockEvent::ForceRelease;
    match (of_owner, view.shared_holds()) {
        (false, _) => deleted(Reply::Forced, event),
        (true, Some(_)) => gone(view, Reply::Forced, event),
        (true, None) => nothing(Reply::NothingToForce),
    }
}

/// Revokes a permit that was granted until `ends`, if no call of its owner has changed it since.
#[cold]
pub(super) fn revoke(view: &View, ends: UnixMs) -> Step {
    if own_end(view) == Some(ends) {
        gone(view, Reply::Released, LockEvent::Release)
    } else {
        nothing(Reply::NotHeld)
    }
}

/// The connection of the owner has ended: its permit ends at `ends`, or before.
#[cold]
pub(super) fn end_session(view: &View, ends: UnixMs) -> Step {
    match own_end(view) {
        Some(own) if own > ends => ends_at(view, own, ends, Reply::StillHeld),
        Some(_) => nothing(Reply::StillHeld),
        None => nothing(Reply::NotHeld),
    }
}

/// The key expires with its last permit again, whatever another client made of it. No owner asks for this.
pub fn lower_expiry(view: &View) -> Step {
    let last = last_other(view).filter(|_| view.kind == Kind::Permits);
    let change = Change { expire_at: last.and_then(|last| new_expiry(view, last)), ..unchanged() };
    Step::Done(Decision { reply: Reply::StillHeld, change })
}

/// When the owner's living permit ends.
fn own_end(view: &View) -> Option<UnixMs> {
    match view.shared?.until {
        Expiry::At(at) => Some(at),
        Expiry::Never => None,
    }
}

/// The owner keeps its permit until another time.
fn ends_at(view: &View, own: UnixMs, ends: UnixMs, reply: Reply) -> Step {
    let change = if ends == own { unchanged() } else { with_end(view, ends, None) };
    Step::Done(Decision { reply, change })
}

fn unchanged() -> Change {
    Change { mode: Mode::Permit, ..Change::default() }
}

/// The owner's permit ends then, and the key with the last one.
fn with_end(view: &View, ends: UnixMs, event: Option<LockEvent>) -> Change {
    let last = last_other(view).map_or(ends, |last| last.max(ends));
    let key = match view.kind {
        Kind::Abandoned => KeyChange::ReplaceByPermit(ends),
        _ => KeyChange::Permit(ends),
    };
    Change { mode: Mode::Permit, key, expire_at: new_expiry(view, last), event, ..Change::default() }
}

/// Removes the owner's permit, and the key if no other permit is alive.
fn gone(view: &View, reply: Reply, event: LockEvent) -> Step {
    let Some(last) = last_other(view) else { return deleted(reply, event) };
    let (mode, key) = (Mode::Permit, KeyChange::Remove);
    let expire_at = new_expiry(view, last);
    Step::Done(Decision {
        reply,
        change: Change { mode, key, expire_at, event: Some(event), ..Change::default() },
    })
}

fn deleted(reply: Reply, event: LockEvent) -> Step {
    let (mode, key) = (Mode::Permit, KeyChange::Delete);
    Step::Done(Decision { reply, change: Change { mode, key, event: Some(event), ..Change::default() } })
}

/// When the last permit of another owner ends, if one is alive.
fn last_other(view: &View) -> Option<UnixMs> {
    if let Others::Permits { last_end, .. } = view.others { Some(last_end) } else { None }
}

/// The key's new expiry, if it needs another one. A new key has none.
fn new_expiry(view: &View, last: UnixMs) -> Option<UnixMs> {
    (view.kind != Kind::Permits || view.key_end != Expiry::At(last)).then_some(last)
}
