//! The rules of all locks: one function per command, from a [`View`] of the lock, the request and the time to a
//! [`Decision`], or to what else the rule needs to know.
//!
//! A plain lock has one holder. Readers share a read/write lock, a writer holds it exclusively; the writer may also read,
//! and keeps its read holds when it releases its write holds. The layout is the one of Redisson: each read hold has its own lease
//! key, whose end reveals a dead reader.

mod end_session;
mod give_back;
mod permits;
mod take;

pub use end_session::end_session;
pub use give_back::{force_release, release, revoke};
pub(crate) use permits::has_room;
pub use permits::lower_expiry;
pub use take::{acquire, hand_off};

use crate::decision::{Change, Decision, ReadLeases, Reply, UnlockMessage};
use crate::error::Error;
use crate::read_leases::MAX_LEASE_KEYS;
use crate::request::{DownTo, Renew};
use crate::token::Token;
use crate::types::{Expiry, Holds, Mode, UnixMs};
use crate::view::{Hold, Kind, Step, View};

/// RLOCK.RENEW: the lease counts from now, even if it ends sooner than before.
pub fn renew(view: &View, request: &Renew<'_>, now: UnixMs) -> Result<Step, Error> {
    if view.kind == Kind::Permits {
        return permits::renew(view, request, now);
    }
    let mode = meant(view, request.mode)?;
    let Some(hold) = view.held_in(mode) else { return Ok(nothing(Reply::NotRenewed)) };
    let ends = now.after(request.lease);
    let change = if mode == Mode::Read {
        let (first, last) = newest(1, hold.holds);
        let longer = matches!(view.key_end, Expiry::At(at) if ends > at);
        let leases = ReadLeases { set: Some((first, last, ends)), gone: None };
        Change { mode, shared: leases.change(), expire_at: longer.then_some(ends), ..Change::default() }
    } else {
        let expire_at = sole_end(view, ends);
        Change { mode, expire_at, ..Change::default() }
    };
    Ok(Step::Done(Decision { reply: Reply::Renewed, change }))
}

/// The message to waiting Redisson clients after a hand-off, if they need one: they sleep until the lease end that they
/// know, and must retry if the new lease ends sooner.
pub fn message_on_hand_off(announced: Expiry, ends: UnixMs, mode: Mode) -> Option<UnlockMessage> {
    match announced {
        Expiry::At(announced) if announced <= ends => None,
        // A lease that had ended by the time of the hand-off is among those above.
        Expiry::At(_) | Expiry::Never => UnlockMessage::to_all(mode),
    }
}

/// Refuses a mode that does not fit the kind of the lock.
fn check_kind(view: &View, mode: Mode) -> Result<(), Error> {
    match (view.kind, mode) {
        (Kind::Reading | Kind::Writing, Mode::Mutex) => Err(Error::ReadWriteLock),
        (Kind::Mutex, Mode::Read | Mode::Write) => Err(Error::Mutex),
        (Kind::Permits, Mode::Mutex | Mode::Read | Mode::Write) => Err(Error::PermitsLock),
        (Kind::Mutex | Kind::Reading | Kind::Writing, Mode::Permit) => Err(Error::NoPermitsLock),
        _ => Ok(()),
    }
}

/// The mode of a call that may omit READ and WRITE: the mode of the owner's holds.
fn meant(view: &View, asked: Option<Mode>) -> Result<Mode, Error> {
    match (view.kind, asked, view.shared, view.sole) {
        (Kind::Mutex, Some(_), ..) => Err(Error::Mutex),
        (_, Some(mode), ..) => Ok(mode),
        (Kind::Free | Kind::Abandoned | Kind::Mutex, None, ..) => Ok(Mode::Mutex),
        (_, None, Some(_), Some(_)) => Err(Error::WhichMode),
        (_, None, _, Some(_)) => Ok(Mode::Write),
        (_, None, _, None) => Ok(Mode::Read),
    }
}

/// The number of holds that an acquisition leads to: one more, or with HOLDS the count to arrive at. `None` if that is
/// out of reach, since holds were lost.
fn arrival(holds: Holds, arrive_at: Option<Holds>) -> Result<Option<Holds>, Error> {
    match arrive_at {
        Some(wanted) if wanted <= holds => Ok(Some(holds)),
        Some(wanted) if wanted > holds => Ok(holds.one_more().filter(|more| *more == wanted)),
        _ => holds.one_more().ok_or(Error::TooManyHolds).map(Some),
    }
}

/// The number of holds that remain after a release; `None` if none remains.
fn left_of(holds: Holds, down_to: DownTo) -> Option<Holds> {
    match down_to {
        DownTo::OneLess => holds.one_less(),
        DownTo::AtMost(count) => Holds::new(count.min(holds.get())),
    }
}

/// The new expiry of the key if an exclusive hold gets this lease end, and the key needs another expiry for that. The key
/// lasts at least as long as the owner's own read leases.
fn sole_end(view: &View, lease_end: UnixMs) -> Option<UnixMs> {
    let ends = own_reads(view).map_or(lease_end, |reads| lease_end.max(reads));
    (Expiry::At(ends) != view.key_end).then_some(ends)
}

/// When the owner's own read leases end, if they do.
fn own_reads(view: &View) -> Option<UnixMs> {
    match view.shared? {
        Hold { until: Expiry::At(at), .. } => Some(at),
        Hold { until: Expiry::Never, .. } => None,
    }
}

/// The lease keys from this one on that one call touches.
fn newest(from: i64, holds: Holds) -> (i64, i64) {
    (from.max(holds.get().saturating_sub(MAX_LEASE_KEYS - 1)), holds.get())
}

/// The token as replies have it: 0 without FENCED.
pub(crate) fn reply_token(token: Option<Token>) -> i64 {
    token.map_or(0, Token::get)
}

fn nothing(reply: Reply) -> Step {
    Step::Done(Decision { reply, change: Change::default() })
}

#[cfg(test)]
mod tests;
