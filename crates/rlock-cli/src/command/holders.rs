//! `rlock release --holder`: releases the holds of owners that match a pattern, for instance after a machine died.

use std::io::{IsTerminal, Write, stderr, stdin};
use std::rc::Rc;

use super::ls::each_held;
use super::release::{is_confirmed, needs_terminal, report};
use super::{NO, YES};
use crate::error::Error;
use crate::names;
use crate::output::Output;
use crate::owners::{Owners, described};
use crate::server::{Locks, Place};

/// A hold of one of the owners.
struct Hold {
    locks: Rc<Locks>,
    key: Vec<u8>,
    owner: Vec<u8>,
}

/// Releases everything that these owners hold, on all primaries; asks first, unless `sure`.
pub(crate) fn release(place: &Place, holders: &Owners, sure: bool, output: Output) -> Result<u8, Error> {
    if !sure && !stdin().is_terminal() {
        return Err(needs_terminal());
    }
    let mut holds = Vec::new();
    each_held(place, b"*", Some(holders), |locks, info| {
        let of_a_lock = info.holders.into_iter().filter(|_| !info.probably_no_lock);
        holds.extend(of_a_lock.map(|holder| Hold {
            locks: locks.clone(),
            key: info.key.clone(),
            owner: holder.owner,
        }));
        Ok(())
    })?;
    if holds.is_empty() || !(sure || are_confirmed(&holds)?) {
        return Ok(NO);
    }
    for Hold { locks, key, owner } in &holds {
        report(key, Some(owner), locks.release_all_of(key, owner)?, output)?;
    }
    Ok(YES)
}

fn are_confirmed(holds: &[Hold]) -> Result<bool, Error> {
    let mut terminal = stderr();
    for Hold { key, owner, .. } in holds {
        let process = described(owner).map(|process| format!("  ({process})")).unwrap_or_default();
        writeln!(terminal, "{}  {}{process}", names::shown(key), names::shown(owner))?;
    }
    is_confirmed("Their processes may still be at work. Release all of these?")
}
