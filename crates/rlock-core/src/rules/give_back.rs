//! Release, revocation and forced release.

use super::{check_kind, left_of, meant, newest, nothing, own_reads, permits, sole_end};
use crate::decision::{Change, Decision, KeyChange, LockEvent, ReadLeases, Reply, UnlockMessage};
use crate::error::Error;
use crate::request::Release;
use crate::types::{Expiry, Holds, Mode, UnixMs};
use crate::view::{Hold, Kind, Need, Others, Step, View};

/// RLOCK.RELEASE.
#[inline(always)]
pub fn release(view: &View, request: &Release<'_>, now: UnixMs) -> Result<Step, Error> {
    if view.kind == Kind::Permits {
        return permits::release(view, request, now);
    }
    let mode = meant(view, request.mode)?;
    let Some(Hold { holds, .. }) = view.held_in(mode) else { return Ok(nothing(Reply::NotHeld)) };
    let lease = request.lease.map(|lease| now.after(lease));
    Ok(match (mode, left_of(holds, request.down_to)) {
        (Mode::Read, None) => reader_gone(view, holds, LockEvent::Release),
        (Mode::Read, Some(left)) => fewer_reads(view, holds, left, lease),
        (Mode::Mutex | Mode::Write | Mode::Permit, Some(left)) => fewer_sole(view, mode, holds, left, lease),
        (Mode::Mutex | Mode::Write | Mode::Permit, None) => sole_gone(view, mode, LockEvent::Release),
    })
}

fn fewer_sole(view: &View, mode: Mode, holds: Holds, left: Holds, lease: Option<UnixMs>) -> Step {
    let fewer = left < holds;
    Step::Done(Decision {
        reply: Reply::StillHeld,
        change: Change {
            mode,
            key: if fewer { KeyChange::Set(left) } else { KeyChange::Keep },
            expire_at: lease.and_then(|lease| sole_end(view, lease)),
            event: fewer.then_some(LockEvent::Release),
            ..Change::default()
        },
    })
}

/// Removes the last exclusive hold; the owner's read holds remain.
#[inline]
fn sole_gone(view: &View, mode: Mode, event: LockEvent) -> Step {
    let alone = view.others == Others::None;
    if view.shared.is_none() && alone {
        return freed(mode, ReadLeases::default(), event);
    }
    let other_end = alone && view.shared.is_some_and(|reads| reads.until != view.key_end);
    Step::Done(Decision {
        reply: Reply::Released,
        change: Change {
            mode,
            key: KeyChange::Remove,
            becomes: Some(Mode::Read),
            expire_at: own_reads(view).filter(|_| other_end),
            unlock_message: Some(UnlockMessage::WriterGone),
            event: Some(event),
            ..Change::default()
        },
    })
}

fn fewer_reads(view: &View, holds: Holds, left: Holds, lease: Option<UnixMs>) -> Step {
    // The remaining holds keep the lease of all: the newest lease key had the longest.
    let until = lease.or_else(|| own_reads(view));
    let fewer = left < holds;
    // LEASE is for every hold, or an older lease key would outlast it.
    let first = if lease.is_some() { newest(1, left).0 } else { left.get() };
    let set = until.filter(|_| fewer || lease.is_some()).map(|until| (first, left.get(), until));
    let leases = ReadLeases { set, gone: fewer.then(|| newest(left.get().saturating_add(1), holds)) };
    let longer = matches!((view.key_end, until), (Expiry::At(at), Some(until)) if until > at);
    Step::Done(Decision {
        reply: Reply::StillHeld,
        change: Change {
            mode: Mode::Read,
            key: if fewer { KeyChange::Set(left) } else { KeyChange::Keep },
            shared: leases.change(),
            expire_at: until.filter(|_| longer),
            event: fewer.then_some(LockEvent::Release),
            ..Change::default()
        },
    })
}

/// Removes the last read hold. The lock is free if no other owner is alive.
fn reader_gone(view: &View, holds: Holds, event: LockEvent) -> Step {
    let leases = ReadLeases { set: None, gone: Some(newest(1, holds)) };
    let last_end = match view.others {
        _ if view.sole.is_some() => None,
        Others::NotAsked(_) => return Step::Look(Need::LastOther),
        Others::Live { last_end, .. } => last_end,
        Others::InDoubt => None,
        Others::None | Others::Dead | Others::Permits { .. } => return freed(Mode::Read, leases, event),
    };
    // Waiting Redisson clients sleep until the key's end: it must not stay that of the departing reader.
    let expire_at = match last_end {
        Some(Expiry::At(at)) if Expiry::At(at).sooner(view.key_end) != view.key_end => Some(at),
        Some(Expiry::At(_) | Expiry::Never) | None => None,
    };
    let change = Change {
        mode: Mode::Read,
        key: KeyChange::Remove,
        shared: leases.change(),
        expire_at,
        event: Some(event),
        ..Change::default()
    };
    Step::Done(Decision { reply: Reply::Released, change })
}

/// RLOCK.FORCERELEASE; with `of_owner` only for the owner of this view, whose read holds count even if they are dead.
pub fn force_release(view: &View, of_owner: bool) -> Step {
    if view.kind == Kind::Permits {
        return permits::force_release(view, of_owner);
    }
    let event = LockEvent::ForceRelease;
    let step = match (view.kind, view.sole, view.shared_holds()) {
        (Kind::Free | Kind::Abandoned, ..) => return nothing(Reply::NothingToForce),
        (_, None, None) if of_owner => return nothing(Reply::NothingToForce),
        (_, None, Some(holds)) if of_owner => reader_gone(view, holds, event),
        (Kind::Mutex, ..) => freed(Mode::Mutex, ReadLeases::default(), event),
        // A writer shares the lock only with its own reads.
        (Kind::Reading | Kind::Writing | Kind::Permits, ..) => {
            freed(Mode::Write, ReadLeases::default(), event)
        }
    };
    let Step::Done(mut decision) = step else { return step };
    decision.reply = Reply::Forced;
    if let (true, Some(holds)) = (of_owner, view.shared_holds()) {
        decision.change.set_leases(ReadLeases { gone: Some(newest(1, holds)), ..decision.change.leases() });
    }
    Step::Done(decision)
}

/// Revokes a grant whose client has disconnected, if the lock is unchanged since: no call of its owner has re-entered,
/// renewed or released it. `ends` is the end of the granted lease.
pub fn revoke(view: &View, mode: Mode, ends: UnixMs) -> Result<Step, Error> {
    check_kind(view, mode)?;
    if mode == Mode::Permit {
        return Ok(permits::revoke(view, ends));
    }
    let granted = Hold { holds: Holds::ONE, until: Expiry::At(ends) };
    let event = LockEvent::Release;
    Ok(match mode {
        Mode::Read if view.shared == Some(granted) => reader_gone(view, Holds::ONE, event),
        Mode::Mutex | Mode::Write if is_sole_as_granted(view, granted) => sole_gone(view, mode, event),
        _ => nothing(Reply::NotHeld),
    })
}

/// Whether the owner's exclusive hold is as it was granted. The key may last longer than the lease of a write: as long as
/// the owner's own read.
fn is_sole_as_granted(view: &View, granted: Hold) -> bool {
    let Some(sole) = view.sole else { return false };
    let ends = view.key_end == granted.until || view.shared.is_some_and(|reads| reads.until == view.key_end);
    sole.holds == granted.holds && ends
}

#[inline]
fn freed(mode: Mode, leases: ReadLeases, event: LockEvent) -> Step {
    let message = match mode {
        Mode::Read => Some(UnlockMessage::ReadersGone),
        mode => UnlockMessage::to_all(mode),
    };
    let change = Change {
        mode,
        key: KeyChange::Delete,
        shared: leases.change(),
        unlock_message: message,
        event: Some(event),
        ..Change::default()
    };
    Step::Done(Decision { reply: Reply::Released, change })
}
