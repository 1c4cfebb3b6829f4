//! The rules of the read/write lock, on Redisson's layout: the hash counts holds, `mode` says which kind they are,
//! and each read hold has a lease key of its own, by whose end a reader that died is known.
//!
//! Readers hold together, a writer alone; the writer may read too, and keeps that when it releases the write.

use crate::bugs::{Bug, planted};
use crate::decide::{arrival, left_of, nothing, stored, told};
use crate::decision::{Admission, Change, Decision, HashChange, LockEvent, ReadLeases, Reply, UnlockMessage};
use crate::error::Error;
use crate::request::{Acquire, Release};
use crate::token::Token;
use crate::types::{Expiry, Holds, LeaseMs, Mode, UnixMs};

/// The most lease keys of one owner that one call writes, or looks at: an owner of more holds has them in its lower
/// lease keys as well, which nothing but their number makes different.
pub const MAX_LEASE_KEYS: i64 = 1_000;

/// A read/write lock as one owner sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// There is no key.
    Free,
    /// A hash is there, but nobody holds it.
    Abandoned,
    /// Somebody holds it.
    Held(Held),
}

/// A read/write lock that somebody holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Whether there is a writer; else there are readers.
    pub writing: bool,
    /// The owner's read holds, if they live.
    pub reads: Option<Reads>,
    /// How many write holds the owner has.
    pub writes: Option<Holds>,
    /// How many fields of others there are, those of dead readers included.
    pub others: usize,
    /// Until when the key is there.
    pub expiry: Expiry,
}

/// An owner's read holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reads {
    /// How many.
    pub holds: Holds,
    /// Until when.
    pub until: Expiry,
}

/// What is known of the other readers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Others {
    /// How many of them are dead.
    pub dead: usize,
    /// The latest end of the leases of all the others, where all were looked at and one lives.
    pub latest: Option<Expiry>,
}

/// Whether the owner holds the lock in any way.
pub(crate) fn holds_any(state: State) -> bool {
    matches!(state, State::Held(held) if held.reads.is_some() || held.writes.is_some())
}

fn reads_only(state: State) -> bool {
    matches!(state, State::Held(held) if held.reads.is_some() && held.writes.is_none())
}

/// RLOCK.ACQUIRE with READ or WRITE; `awaited` is whether others wait already, whom nobody overtakes who holds
/// nothing.
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

/// Gives the lock to the one who waits first, if it can have it. The lease counts from now. Who has come to hold it so
/// by another call meanwhile holds it no more often than before.
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

/// Which holds a call without READ and WRITE means: those that the owner has.
pub fn meant(state: State, asked: Option<Mode>) -> Result<Mode, Error> {
    let State::Held(held) = state else { return Ok(asked.unwrap_or(Mode::Read)) };
    match (asked, held.reads, held.writes) {
        (Some(mode), ..) => Ok(mode),
        (None, Some(_), Some(_)) => Err(Error::WhichMode),
        (None, _, Some(_)) => Ok(Mode::Write),
        (None, _, None) => Ok(Mode::Read),
    }
}

/// RLOCK.RELEASE; `others` is what is known of the other readers, asked for where the owner's last hold goes.
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

/// When the owner's own read leases end, if it has some that do.
fn own_reads(held: Held) -> Option<UnixMs> {
    match held.reads?.until {
        Expiry::At(at) => Some(at),
        Expiry::Never => None,
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

/// The lease keys from this one on, of so many holds.
fn newest(from: i64, holds: Holds) -> (i64, i64) {
    (from.max(holds.get().saturating_sub(MAX_LEASE_KEYS - 1)), holds.get())
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

/// RLOCK.RENEW: the lease counts from now, also where that is sooner than before.
pub fn renew(state: State, asked: Option<Mode>, lease: LeaseMs, now: UnixMs) -> Result<Decision, Error> {
    let mode = meant(state, asked)?;
    let State::Held(held) = state else { return Ok(nothing(Reply::NotRenewed)) };
    let ends = now.after(lease);
    let change = match (mode, held.reads, held.writes) {
        (Mode::Write, reads, Some(_)) => {
            let ends = reads.and_then(|_| own_reads(held)).map_or(ends, |reads| ends.max(reads));
            let expire_at = (Expiry::At(ends) != held.expiry).then_some(ends);
            Change { mode, expire_at, ..Change::default() }
        }
        (Mode::Read, Some(reads), _) => {
            let (first, last) = newest(1, reads.holds);
            let longer =
                matches!(held.expiry, Expiry::At(at) if ends > at || planted(Bug::RenewReadLowersKey));
            let leases = ReadLeases { set: Some((first, last, ends)), gone: None };
            Change { mode, leases, expire_at: longer.then_some(ends), ..Change::default() }
        }
        _ => return Ok(nothing(Reply::NotRenewed)),
    };
    Ok(Decision { reply: Reply::Renewed, change })
}

/// RLOCK.FORCERELEASE; of one owner's holds where `of_owner`, whose read holds these are, dead ones too. `others` is
/// what is known of the other readers.
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

/// Takes a grant back whose client is gone, if it is still as it was made; `ends` is the end of the lease granted.
/// `others` is what is known of the other readers.
pub fn take_back(
    state: State,
    mode: Mode,
    ends: UnixMs,
    others: impl FnOnce(Held) -> Others,
) -> Option<Change> {
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

#[cfg(test)]
#[path = "read_write_tests.rs"]
mod tests;
