//! What Redisson read/write scripts write to the keys, the same for `rlock-core` and the oracle.

use super::hash::{Hash, Leases, owners};
use super::op::{Owner, Script};

/// Runs a script of this owner, and returns the hash after it. A script that would be of no use does nothing.
pub(super) fn run(
    script: Script,
    owner: Owner,
    lease: i64,
    hash: Option<Hash>,
    leases: &mut Leases,
    now: i64,
) -> Option<Hash> {
    let ends = now + lease;
    let Some(mut hash) = hash else { return taken(script, owner, ends, leases) };
    let (own, reads) = (hash.writes[owner.0] > 0, hash.reads[owner.0]);
    match script {
        Script::Read if !hash.writing || own => {
            hash.reads[owner.0] = reads + 1;
            leases.insert((owner, reads + 1), ends);
            hash.ends = Some(hash.ends.unwrap_or(now).max(ends));
        }
        Script::Write if hash.writing && own => {
            hash.writes[owner.0] += 1;
            hash.ends = Some(hash.ends.unwrap_or(now) + lease);
        }
        Script::EndRead if reads > 0 => {
            hash.reads[owner.0] = reads - 1;
            leases.remove(&(owner, reads));
            return read_ended(hash, leases, now);
        }
        Script::EndWrite if hash.writing && own => {
            hash.writes[owner.0] -= 1;
            if hash.writes[owner.0] > 0 {
                hash.ends = Some(ends);
            } else if hash.is_empty() {
                return None;
            } else {
                hash.writing = false;
            }
        }
        Script::RenewRead if reads > 0 => {
            for hold in 1..=reads {
                // PEXPIRE: an expired key stays expired.
                leases.entry((owner, hold)).and_modify(|at| *at = if *at >= now { ends } else { *at });
            }
            hash.ends = Some(ends);
        }
        Script::RenewWrite if own => hash.ends = Some(ends),
        _ => {}
    }
    Some(hash)
}

/// A free lock is taken.
fn taken(script: Script, owner: Owner, ends: i64, leases: &mut Leases) -> Option<Hash> {
    let mut hash = Hash { ends: Some(ends), ..Hash::default() };
    match script {
        Script::Read => {
            hash.reads[owner.0] = 1;
            leases.insert((owner, 1), ends);
        }
        Script::Write => {
            hash.writing = true;
            hash.writes[owner.0] = 1;
        }
        _ => return None,
    }
    Some(hash)
}

/// The hash lasts as long as the longest read lease. Without a live reader it is deleted, unless an owner writes.
fn read_ended(mut hash: Hash, leases: &Leases, now: i64) -> Option<Hash> {
    match hash.latest(leases, None, now) {
        Some(latest) if latest > now => hash.ends = Some(latest),
        _ if hash.writing && owners().any(|owner| hash.writes[owner.0] > 0) => {}
        _ => return None,
    }
    Some(hash)
}
