//! What servers say of themselves and of others: replicas, what a Sentinel watches, the nodes of a cluster.

use std::collections::{HashMap, HashSet};

use redis::{Value, cmd, pipe};

use super::hindrance::slot_of;
use super::nodes::{Node, nodes};
use super::walk::{self, Asked, Seen, Walk};
use super::{Hindrance, Kind, Link, PATIENCE, Place, Target, diagnosis, fields, hindrance, text};
use crate::error::Error;

/// One server, as it describes itself.
#[derive(Debug)]
pub(crate) struct Server {
    /// Where it was asked.
    pub(crate) address: String,
    /// What it says, or why it says nothing.
    pub(crate) state: Result<Described, Error>,
    /// Why it gives no locks now, if it is a primary with the module.
    pub(crate) hindrance: Option<Hindrance>,
}

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

/// What a server answered, and why it gives no locks.
struct Checked {
    seen: Seen,
    hindrance: Option<Hindrance>,
}

impl AsRef<Seen> for Checked {
    fn as_ref(&self) -> &Seen {
        &self.seen
    }
}

pub(crate) type Fields = HashMap<String, String>;
pub(super) type Address = (String, u16);

/// What INFO says of servers.
const SECTIONS: [&str; 5] = ["server", "replication", "cluster", "memory", "rlock"];

/// The servers asked first, then all that they and the others know of.
pub(crate) fn all(place: &Place) -> Result<Vec<Server>, Error> {
    let mut walk = Walk::default();
    walk.visit(place.starts.clone(), |targets| {
        let look = |target: &Target| {
            let mut link = Link::new(target.clone());
            let seen = walk::look(&mut link, place, &SECTIONS);
            let outcome = seen.and_then(|seen| {
                let hindrance = hindrance(&mut link, &seen.fields)?;
                Ok(Checked { seen, hindrance })
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
            // One server may have several addresses; a Sentinel holds no locks.
            Ok(Checked { seen, hindrance }) => {
                if ids.insert(id(&address, &seen.fields)) && !is_sentinel(&seen.fields) {
                    found.push(Server { address, state: Ok(described(&seen.fields)), hindrance });
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
            found.push(Server { address, state: Err(error), hindrance: None });
        }
    }
    Ok(found)
}

/// What tells a server from others, whatever its address.
pub(crate) fn id(address: &str, fields: &Fields) -> String {
    fields.get("run_id").cloned().unwrap_or_else(|| address.to_string())
}

/// Where locks can be: the server itself, the primaries that Sentinels watch, those of a cluster.
pub(crate) fn primaries(place: &Place) -> Result<Vec<Target>, Error> {
    let mut outcome = Ok(Vec::new());
    for start in &place.starts {
        outcome = primaries_by(start, &place.kind);
        if outcome.is_ok() {
            break;
        }
    }
    outcome
}

/// Why the primaries that may have this lock give no locks now, those that can be asked. In a cluster it is the node of the slot.
pub(crate) fn hindrances(place: &Place, key: &[u8]) -> Vec<(String, Hindrance)> {
    let slot = slot_of(key);
    let mut found = Vec::new();
    for start in &place.starts {
        let Ok(targets) = primaries_of(start, &place.kind, |node| node.has(slot)) else { continue };
        for target in targets {
            let mut link = Link::new(target);
            let hindrance = about(&mut link).and_then(|fields| hindrance(&mut link, &fields));
            found.extend(hindrance.ok().flatten().map(|hindrance| (link.address(), hindrance)));
        }
        break;
    }
    found
}

/// As [`primaries`]. Where no server of the URL answers, the nodes of its cluster that were found before are asked.
pub(crate) fn primaries_now(place: &Place, found: &[Target]) -> Result<Vec<Target>, Error> {
    primaries(place).or_else(|error| {
        let mut others =
            found.iter().filter(|target| place.service().is_none() && !walk::is_start(place, target));
        others.find_map(|node| primaries_by(node, &Kind::Cluster).ok()).ok_or(error)
    })
}

fn primaries_by(target: &Target, kind: &Kind) -> Result<Vec<Target>, Error> {
    primaries_of(target, kind, |node| !node.slots.is_empty())
}

/// The primaries that a server knows; those nodes of a cluster that are `wanted`.
fn primaries_of(target: &Target, kind: &Kind, wanted: impl Fn(&Node) -> bool) -> Result<Vec<Target>, Error> {
    let mut link = Link::new(target.clone());
    let fields = about(&mut link)?;
    check_kind(target, kind, &fields)?;
    let service = match kind {
        Kind::Sentinel(service) => Some(service.as_str()),
        Kind::Server | Kind::Cluster => None,
    };
    let addresses: Vec<Address> = if is_sentinel(&fields) {
        watched(&mut link, service)?.into_iter().map(|(_, address)| address).collect()
    } else if is_cluster(&fields) {
        let nodes = nodes(&mut link, target)?.into_iter();
        nodes.filter(|node| node.is("master") && wanted(node)).map(|node| node.address).collect()
    } else {
        // A replica knows its primary, which has the locks.
        match primary_of(&fields) {
            Some(address) => vec![address],
            None => return Ok(vec![target.clone()]),
        }
    };
    Ok(addresses.into_iter().map(|(host, port)| target.at(&host, port)).collect())
}

/// Whether the server is what the URL says. A Sentinel, or a node of a cluster, may also be named as a server: it leads
/// to the others.
pub(super) fn check_kind(target: &Target, kind: &Kind, fields: &Fields) -> Result<(), Error> {
    match kind {
        Kind::Sentinel(_) if !is_sentinel(fields) => {
            Err(diagnosis::not_a_sentinel(target, is_cluster(fields)))
        }
        Kind::Cluster if is_sentinel(fields) => Err(diagnosis::a_sentinel(target)),
        Kind::Cluster if !is_cluster(fields) => Err(diagnosis::not_a_cluster(&target.address())),
        _ => Ok(()),
    }
}

/// Whether the server is a node of a cluster; where it does not say, it is taken for none.
pub(crate) fn is_node(place: &Place) -> bool {
    let fields = place.starts.first().map(|start| about(&mut Link::new(start.clone())));
    fields.is_some_and(|fields| fields.is_ok_and(|fields| is_cluster(&fields)))
}

/// The fields of INFO that matter for every command.
pub(crate) fn about(link: &mut Link) -> Result<Fields, Error> {
    info(link, &SECTIONS)
}

/// The fields of these sections of INFO.
pub(super) fn info(link: &mut Link, sections: &[&str]) -> Result<Fields, Error> {
    let mut questions = pipe();
    for section in sections {
        questions.cmd("INFO").arg(section);
    }
    let mut fields = Fields::new();
    for answer in link.ask_all(&questions, PATIENCE)? {
        let answer = answer.extract_error().map_err(|error| {
            let (code, detail) = (error.code().unwrap_or_default(), error.detail().unwrap_or_default());
            super::refusal(link.address(), code, detail)
        })?;
        let lines = text(&answer).unwrap_or_default();
        let pairs = lines.lines().filter_map(|line| line.split_once(':'));
        fields.extend(pairs.map(|(name, value)| (name.to_string(), value.trim().to_string())));
    }
    Ok(fields)
}

/// The primary of a replica.
pub(super) fn primary_of(fields: &Fields) -> Option<Address> {
    Some((fields.get("master_host")?.clone(), fields.get("master_port")?.parse().ok()?))
}

pub(crate) fn is_sentinel(fields: &Fields) -> bool {
    // As Redis, Valkey and Redict call it.
    let names = ["redis_mode", "server_mode", "redict_mode"];
    names.iter().any(|name| fields.get(*name).is_some_and(|mode| mode == "sentinel"))
}

pub(super) fn is_cluster(fields: &Fields) -> bool {
    fields.get("cluster_enabled").is_some_and(|enabled| enabled == "1")
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

/// The primaries that a Sentinel watches, with their names; only that of the service, if one is meant.
pub(super) fn watched(link: &mut Link, service: Option<&str>) -> Result<Vec<(String, Address)>, Error> {
    let mut primaries = listed(link, "MASTERS", None)?;
    let known: Vec<String> = primaries.iter().map(|(name, _)| name.clone()).collect();
    primaries.retain(|(name, _)| service.is_none_or(|service| service == name));
    if primaries.is_empty() {
        let what = service.map_or("nothing".to_string(), |service| format!("no primary called {service}"));
        return Err(Error::Mismatch {
            what: format!("the Sentinel {} watches {what}", link.address()),
            advice: match known.is_empty() {
                true => {
                    "add `sentinel monitor <name> <host> <port> <quorum>` to its configuration".to_string()
                }
                false => format!("write a watched name at the end of the URL: {}", known.join(", ")),
            },
        });
    }
    Ok(primaries)
}

/// What a Sentinel calls the primaries that it watches.
pub(super) fn services(link: &mut Link) -> Result<Vec<String>, Error> {
    Ok(listed(link, "MASTERS", None)?.into_iter().map(|(name, _)| name).collect())
}

/// What a Sentinel lists: names and addresses.
pub(super) fn listed(link: &mut Link, what: &str, of: Option<&str>) -> Result<Vec<(String, Address)>, Error> {
    let mut command = cmd("SENTINEL");
    command.arg(what).arg(of);
    let Value::Array(servers) = link.ask(&command, PATIENCE)? else {
        return Err(Error::Unexpected { address: link.address(), what: "SENTINEL" });
    };
    let read = |server: Value| {
        let fields: HashMap<String, Value> = fields(server).into_iter().collect();
        let field = |name: &str| text(fields.get(name)?);
        Some((field("name")?, (field("ip")?, field("port")?.parse().ok()?)))
    };
    Ok(servers.into_iter().filter_map(read).collect())
}
