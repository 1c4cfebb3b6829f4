//! `rlock release` and `rlock force-release`.

use std::io::{IsTerminal, Write, stderr, stdin};

use serde::Serialize;

use super::{NO, YES, status};
use crate::error::Error;
use crate::names;
use crate::output::Output;
use crate::server::{LockInfo, Locks, Place};

/// The outcome, in JSON.
#[derive(Serialize)]
struct Outcome {
    key: String,
    owner: Option<String>,
    released: bool,
}

/// Releases all holds of an owner.
pub(crate) fn release(place: &Place, key: &[u8], owner: &[u8], output: Output) -> Result<u8, Error> {
    let released = Locks::with(place, key)?.release_all_of(key, owner)?;
    report(key, Some(owner), released, output)
}

/// What to check before a forced release.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Doubts {
    /// Ask for a confirmation.
    pub(crate) ask: bool,
    /// Refuse what is probably no lock.
    pub(crate) locks_only: bool,
}

/// Releases a lock by force.
pub(crate) fn force_release(place: &Place, key: &[u8], doubts: Doubts, output: Output) -> Result<u8, Error> {
    if !doubts.ask {
        let locks = Locks::with(place, key)?;
        let info = if doubts.locks_only { Some(locks.info(key)?) } else { None };
        info.as_ref().map_or(Ok(()), check)?;
        return force(&locks, key, None, output);
    }
    if !stdin().is_terminal() {
        return Err(needs_terminal());
    }
    let locks = Locks::with(place, key)?;
    let info = locks.info(key)?;
    let Some(holder) = info.holders.first() else {
        return report(key, None, false, output);
    };
    if doubts.locks_only {
        check(&info)?;
    }
    write!(stderr(), "{}", status::text(&info, output.on_stderr()))?;
    if !is_confirmed("The holder may still be at work. Release the lock?")? {
        return report(key, None, false, output);
    }
    // Only from the holder that was shown: another owner may have acquired the lock since.
    let shown = (info.holder_count == 1).then_some(holder.owner.as_slice());
    force(&locks, key, shown, output)
}

pub(super) fn needs_terminal() -> Error {
    Error::Usage(
        "the release needs a confirmation, but there is no terminal".to_string(),
        "add --yes if you know that the holder no longer works",
    )
}

/// Asks on the terminal.
pub(super) fn is_confirmed(question: &str) -> Result<bool, Error> {
    let mut terminal = stderr();
    write!(terminal, "{question} [y/N] ")?;
    terminal.flush()?;
    let mut answer = String::new();
    stdin().read_line(&mut answer)?;
    Ok(["y", "yes"].contains(&answer.trim().to_ascii_lowercase().as_str()))
}

/// Refuses what is probably no lock: it may be data of another program.
fn check(info: &LockInfo) -> Result<(), Error> {
    if !info.probably_no_lock {
        return Ok(());
    }
    let field = info.holders.first().map(|holder| names::shown(&holder.owner)).unwrap_or_default();
    Err(Error::Mismatch {
        what: format!(
            "{} is probably no lock (no expiry, no fencing token, no waiter, and its field {field} does not look like \
             an owner of a known client); nothing was changed",
            names::shown(&info.key)
        ),
        advice: "check it with HGETALL; if it is a lock, add --any".to_string(),
    })
}

fn force(locks: &Locks, key: &[u8], owner: Option<&[u8]>, output: Output) -> Result<u8, Error> {
    report(key, owner, locks.force_release(key, owner)?, output)
}

pub(super) fn report(key: &[u8], owner: Option<&[u8]>, released: bool, output: Output) -> Result<u8, Error> {
    let outcome = Outcome { key: names::json(key), owner: owner.map(names::json), released };
    output.either(&outcome, || {
        let name = names::shown(key);
        match (released, owner) {
            (true, _) => format!("{name}  released"),
            (false, None) => format!("{name}  nothing was released"),
            (false, Some(owner)) => {
                format!("{name}  nothing was released: {} does not hold it", names::shown(owner))
            }
        }
    })?;
    Ok(if released { YES } else { NO })
}
