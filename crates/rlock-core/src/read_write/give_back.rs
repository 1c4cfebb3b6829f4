//! Release, revocation and forced release of holds of a read/write lock.

use super::{Held, Others, Reads, State, meant, newest, own_reads};
use crate::bugs::{Bug, planted};
use crate::decide::{left_of, nothing};
use crate::decision::{Change, Decision, HashChange, LockEvent, ReadLeases, Reply, UnlockMessage};
use crate::error::Error;
use crate::request::Release;
use crate::types::{Expiry, Holds, Mode, UnixMs};

/// RLOCK.RELEASE; `others` returns the facts about the other readers, and is called only for the owner's last hold.
pub fn release(
    state: State,
    request: &Release<'_>,
    now: UnixMs,
    others: impl FnOnce(Held) -> Others,
) -> Result<Decision, Error> {
    let mode = meant(state, request.mode)?;
    let State::Held(held) = state else { return Ok(nothing(Reply::NotHeld)) };
    let holds = match mode {
        Mode::Write => held.writes,
        Mode::Read | Mode::Mutex => held.reads.map(|reads| reads.holds),
    };
    let Some(holds) = holds else { return Ok(nothing(Reply::NotHeld)) };
    let lease = request.lease.map(|lease| now.after(lease));
    Ok(match (mode, left_of(holds, request.down_to)) {
        (Mode::Write, Some(left)) => fewer_writes(held, holds, left, lease),
        (Mode::Write, None) => writer_gone(held, LockEvent::Release),
        (_, Some(left)) => fewer_reads(held, holds, left, lease),
        (_, None) => reader_gone(held, holds, LockEvent::Release, others),
    })
}

fn fewer_writes(held: Held, holds: Holds, left: Holds, lease: Option<UnixMs>) -> Decision {
    // The key is there for as long as the owner's own read leases.
    let lease = lease.map(|lease| own_reads(held).map_or(lease, |reads| lease.max(reads)));
    Decision {
        reply: Reply::StillHeld,
        change: Change {
            mode: Mode::Write,
            hash: if left < holds { HashChange::Set(left) } else { HashChange::Keep },
            expire_at: lease.filter(|at| Expiry::At(*at) != held.expiry),
            event: (left < holds).then_some(LockEvent::Release),
            ..Change::default()
        },
    }
}

/// The last write hold goes; what the owner reads stays.
fn writer_gone(held: Held, event: LockEvent) -> Decision {
    if held.reads.is_none() && held.others == 0 {
        return freed(Mode::Write, event);
    }
    let alone = held.others == 0;
    let until = held.reads.map(|reads| reads.until).filter(|until| alone && *until != held.expiry);
    Decision {
        reply: Reply::Released,
        change: Change {
            mode: Mode::Write,
            hash: HashChange::Remove,
            becomes: Some(Mode::Read).filter(|_| !planted(Bug::DowngradeKeepsMode)),
            expire_at: until.and_then(|until| match until {
                Expiry::At(at) => Some(at),
                Expiry::Never => None,
            }),
            unlock_message: Some(UnlockMessage::WriterGone).filter(|_| !planted(Bug::DowngradeInSilence)),
            event: Some(event),
            ..Change::default()
        },
    }
}

fn fewer_reads(held: Held, holds: Holds, left: Holds, lease: Option<UnixMs>) -> Decision {
    // The lease of what is left is that of all before: the newest lease key had the longest.
    let until = lease.or_else(|| own_reads(held));
    let fewer = left < holds;
    // A lease that is asked for is that of every hold, or an older lease key would outlast it.
    let first = if lease.is_some() { newest(1, left).0 } else { left.get() };
    let set = until.filter(|_| fewer || lease.is_some()).map(|until| (first, left.get(), until));
    let longer = matches!((held.expiry, until), (Expiry::At(at), Some(until)) if until > at);
    Decision {
        reply: Reply::StillHeld,
        change: Change {
            mode: Mode::Read,
            hash: if fewer { HashChange::Set(left) } else { HashChange::Keep },
            leases: ReadLeases { set, gone: fewer.then(|| newest(left.get().saturating_add(1), holds)) },
            expire_at: until.filter(|_| longer),
            event: fewer.then_some(LockEvent::Release),
            ..Change::default()
        },
    }
}

/// The last read hold goes.
fn reader_gone(held: Held, holds: Holds, event: LockEvent, others: impl FnOnce(Held) -> Others) -> Decision {
    let gone = Some(newest(1, holds)).filter(|_| !planted(Bug::ReadLeaseStays));
    let leases = ReadLeases { set: None, gone };
    if held.writes.is_some() {
        let change = Change { hash: HashChange::Remove, leases, event: Some(event), ..reading() };
        return Decision { reply: Reply::Released, change };
    }
    let others = if held.others == 0 { Others::default() } else { others(held) };
    if others.dead >= held.others || planted(Bug::OneReaderFreesAll) {
        let mut decision = freed(Mode::Read, event);
        decision.change.leases = leases;
        return decision;
    }
    // Those who wait by Redisson's protocol sleep until the key's end: it is not to be that of who has gone.
    let latest = others.latest.filter(|_| !planted(Bug::KeyOutlastsReaders));
    let sooner = latest.filter(|latest| latest.sooner(held.expiry) != held.expiry);
    let expire_at = match sooner {
        Some(Expiry::At(at)) => Some(at),
        Some(Expiry::Never) | None => None,
    };
    let change = Change { hash: HashChange::Remove, leases, expire_at, event: Some(event), ..reading() };
    Decision { reply: Reply::Released, change }
}

fn reading() -> Change {
    Change { mode: Mode::Read, ..Change::default() }
}

/// RLOCK.FORCERELEASE; with `of_owner` only for that owner, whose read holds it counts, dead ones included. `others`
/// returns the facts about the other readers.
pub fn force_release(
    state: State,
    of_owner: bool,
    reads: Option<Holds>,
    others: impl FnOnce(Held) -> Others,
) -> Decision {
    let State::Held(held) = state else { return nothing(Reply::NothingToForce) };
    let event = LockEvent::ForceRelease;
    let mut decision = match (of_owner, held.writes, reads) {
        (true, None, None) => return nothing(Reply::NothingToForce),
        (true, None, Some(holds)) => reader_gone(held, holds, event, others),
        // Nobody reads beside a writer but itself.
        (false, ..) | (true, Some(_), _) => freed(Mode::Write, event),
    };
    decision.reply = Reply::Forced;
    if let (true, Some(holds)) = (of_owner, reads) {
        decision.change.leases.gone = Some(newest(1, holds));
    }
    decision
}

/// Revokes a grant whose client has disconnected, if the lock is unchanged since; `ends` is the end of the granted lease.
/// `others` returns the facts about the other readers.
pub fn revoke(state: State, mode: Mode, ends: UnixMs, others: impl FnOnce(Held) -> Others) -> Option<Change> {
    let State::Held(held) = state else { return None };
    let granted = Reads { holds: Holds::ONE, until: Expiry::At(ends) };
    match mode {
        Mode::Read if held.reads == Some(granted) && planted(Bug::ReadTakeBackTakesAll) => {
            Some(freed(Mode::Read, LockEvent::Release).change)
        }
        Mode::Read if held.reads == Some(granted) => {
            Some(reader_gone(held, Holds::ONE, LockEvent::Release, others).change)
        }
        // The key may be there for longer than the write's lease: for as long as the owner's own read.
        Mode::Write
            if held.writes == Some(Holds::ONE)
                && (held.expiry == granted.until
                    || held.reads.is_some_and(|reads| reads.until == held.expiry)) =>
        {
            Some(writer_gone(held, LockEvent::Release).change)
        }
        _ => None,
    }
}

fn freed(mode: Mode, event: LockEvent) -> Decision {
    let message = if mode == Mode::Read { UnlockMessage::ReadersGone } else { UnlockMessage::WriterGone };
    let change = Change {
        mode,
        hash: HashChange::Delete,
        unlock_message: Some(message),
        event: Some(event),
        ..Change::default()
    };
    Decision { reply: Reply::Released, change }
}
