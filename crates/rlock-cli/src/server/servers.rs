//! All servers of a place, each as it describes itself.

use std::collections::HashSet;

use super::diagnosis;
use super::facts::{Fields, is_sentinel};
use super::link::Link;
use super::target::{Place, Target};
use super::walk::{self, Asked, Seen, Walk};
use crate::error::Error;

/// What a server says.
#[derive(Debug, Clone)]
pub(crate) struct Described {
    /// `redis`, `valkey`, `redict`.
    pub(crate) kind: &'static str,
    /// Its own version.
    pub(crate) version: String,
    /// `primary` or `replica`.
    pub(crate) role: &'static str,
    /// The version of the module, if it is loaded.
    pub(crate) module: Option<String>,
    /// Whether it is the primary or can be made one.
    pub(crate) may_lead: bool,
    /// What the module warns of: settings of the server, and faults of its version.
    pub(crate) warnings: Vec<String>,
}

/// A server of a place: its fields and what else was asked of it, or why it says nothing.
pub(crate) struct Found<T> {
    /// Where the server was asked.
    pub(crate) address: String,
    pub(crate) outcome: Result<(Fields, T), Error>,
}

/// What a server answered.
struct Answers<T> {
    seen: Seen,
    /// `None` of a Sentinel, which holds no locks and knows few commands.
    more: Option<T>,
}

impl<T> AsRef<Seen> for Answers<T> {
    fn as_ref(&self) -> &Seen {
        &self.seen
    }
}

/// The servers asked first, then all that they and the others know of: each with the fields of these sections of INFO, and what `more`
/// asks of it.
pub(crate) fn ask_all<T>(
    place: &Place,
    sections: &[&str],
    more: impl Fn(&mut Link, &Fields) -> Result<T, Error>,
) -> Result<Vec<Found<T>>, Error> {
    let mut walk = Walk::default();
    walk.visit(place.starts.clone(), |targets| {
        let look = |target: &Target| {
            let mut link = Link::new(target.clone());
            let seen = walk::look(&mut link, place, sections);
            let outcome = seen.and_then(|seen| {
                let locks = !is_sentinel(&seen.fields);
                let more = locks.then(|| more(&mut link, &seen.fields)).transpose()?;
                Ok(Answers { seen, more })
            });
            outcome.map_err(|error| diagnosis::explain(&Place::only(target.clone()), error))
        };
        targets.iter().map(look).collect()
    });
    let mut found = Vec::new();
    let mut failed = Vec::new();
    let mut ids = HashSet::new();
    for Asked { target, outcome } in walk.asked {
        let address = target.address();
        match outcome {
            // One server may have several addresses.
            Ok(Answers { seen, more }) => {
                if ids.insert(id(&address, &seen.fields))
                    && let Some(more) = more
                {
                    found.push(Found { address, outcome: Ok((seen.fields, more)) });
                }
            }
            Err(error) => failed.push((address, walk::is_start(place, &target), error)),
        }
    }
    if ids.is_empty() {
        // What a server says tells more than that another says nothing.
        let best = failed.iter().position(|(.., error)| !error.is_transport()).unwrap_or_default();
        return if failed.is_empty() { Ok(found) } else { Err(failed.swap_remove(best).2) };
    }
    for (address, start, error) in failed {
        // A Sentinel holds no locks: where another answers, that is enough.
        if !(start && place.service().is_some() && error.is_transport()) {
            found.push(Found { address, outcome: Err(error) });
        }
    }
    Ok(found)
}

/// The identity of a server, whatever its address.
pub(crate) fn id(address: &str, fields: &Fields) -> String {
    fields.get("run_id").cloned().unwrap_or_else(|| address.to_string())
}

/// What the fields say of a server.
pub(crate) fn described(fields: &Fields) -> Described {
    let field = |name: &str| fields.get(name).cloned();
    // The forks name a version of Redis besides their own.
    let versions = [("valkey", "valkey_version"), ("redict", "redict_version"), ("redis", "redis_version")];
    let known = versions.into_iter().find_map(|(kind, name)| Some((kind, field(name)?)));
    let (kind, version) = known.unwrap_or(("redis", "?".to_string()));
    let replica = field("role").is_some_and(|role| role == "slave");
    let never = field("slave_priority").is_some_and(|priority| priority == "0");
    Described {
        kind,
        version,
        role: if replica { "replica" } else { "primary" },
        module: field("rlock_version"),
        may_lead: !(replica && never),
        warnings: ["rlock_warning", "rlock_server_warning"].into_iter().filter_map(field).collect(),
    }
}
