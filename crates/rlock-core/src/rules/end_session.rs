//! The end of a connection: the holds that are tied to it get shorter leases.

use super::{check_kind, newest, nothing, own_reads, permits, sole_end};
use crate::decision::{Change, Decision, ReadLeases, Reply};
use crate::error::Error;
use crate::types::{Expiry, Mode, UnixMs};
use crate::view::{Need, Others, Step, View};

/// The lease of the owner's holds in this mode becomes the shorter one of what is left and the grace period, which ends at
/// `ends`. `latest`: the latest lease end of all of the owner's read holds.
pub fn end_session(view: &View, mode: Mode, latest: Option<Expiry>, ends: UnixMs) -> Result<Step, Error> {
    check_kind(view, mode)?;
    if mode == Mode::Permit {
        return Ok(permits::end_session(view, ends));
    }
    let Some(hold) = view.held_in(mode) else { return Ok(nothing(Reply::NotHeld)) };
    if mode == Mode::Read {
        let until = latest.map_or(hold.until, |latest| latest.later(hold.until));
        return Ok(if is_longer(until, ends) {
            shorter_reads(view, ends)
        } else {
            nothing(Reply::StillHeld)
        });
    }
    let end = own_reads(view).map_or(ends, |reads| ends.max(reads));
    if !is_longer(view.key_end, end) {
        return Ok(nothing(Reply::StillHeld));
    }
    let change = Change { mode, expire_at: sole_end(view, ends), ..Change::default() };
    Ok(Step::Done(Decision { reply: Reply::StillHeld, change }))
}

/// All lease keys get one end, as by RENEW. The key's expiry follows as by RELEASE: waiting Redisson clients sleep
/// until it.
fn shorter_reads(view: &View, ends: UnixMs) -> Step {
    let Some(hold) = view.shared else { return nothing(Reply::NotHeld) };
    let last_end = match view.others {
        _ if view.sole.is_some() => None,
        Others::NotAsked(_) => return Step::Look(Need::LastOther),
        Others::Live { last_end, .. } => last_end.map(|last| last.later(Expiry::At(ends))),
        Others::InDoubt | Others::Permits { .. } => None,
        Others::None | Others::Dead => Some(Expiry::At(ends)),
    };
    let expire_at = match last_end {
        Some(Expiry::At(at)) if is_longer(view.key_end, at) => Some(at),
        Some(Expiry::At(_) | Expiry::Never) | None => None,
    };
    let (first, last) = newest(1, hold.holds);
    let leases = ReadLeases { set: Some((first, last, ends)), gone: None };
    let change = Change { mode: Mode::Read, shared: leases.change(), expire_at, ..Change::default() };
    Step::Done(Decision { reply: Reply::StillHeld, change })
}

fn is_longer(end: Expiry, than: UnixMs) -> bool {
    match end {
        Expiry::At(at) => at > than,
        Expiry::Never => true,
    }
}
