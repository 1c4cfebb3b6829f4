//! Finding all servers that belong together: replicas, what a Sentinel watches, the nodes of a cluster.

use std::collections::{HashMap, HashSet, VecDeque};

use redis::{Value, cmd, pipe};

use super::target::{joined, parted};
use super::{Kind, Link, PATIENCE, Place, Target, diagnosis, fields, text};
use crate::error::Error;

/// More servers than this are not asked: enough for any deployment, and an end in any case.
const MOST: usize = 1_000;

/// One server, as it describes itself.
#[derive(Debug)]
pub(crate) struct Server {
    /// Where it was asked.
    pub(crate) address: String,
    /// What it says, or why it says nothing.
    pub(crate) state: Result<Described, Error>,
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
}

pub(crate) type Fields = HashMap<String, String>;
type Address = (String, u16);

/// A node in CLUSTER NODES.
struct Node {
    address: Address,
    flags: Vec<String>,
    has_slots: bool,
}

/// The servers asked first, then all that they and the others know of.
pub(crate) fn all(place: &Place) -> Result<Vec<Server>, Error> {
    let mut found = Vec::new();
    let mut failed = Vec::new();
    let mut asked: HashSet<String> = place.starts.iter().map(Target::address).collect();
    let mut ids = HashSet::new();
    let mut waiting: VecDeque<Target> = place.starts.iter().cloned().collect();
    while let Some(next) = waiting.pop_front() {
        let start = place.starts.iter().any(|one| one.address() == next.address());
        let kind = if start { &place.kind } else { &Kind::Server };
        let (fields, neighbours) = match look(&next, kind, place.service()) {
            Ok(seen) => seen,
            Err(error) => {
                let error = diagnosis::explain(&Place::only(next.clone()), error);
                failed.push((next.address(), start, error));
                continue;
            }
        };
        // One server may go by several addresses; a Sentinel is none that holds locks.
        if ids.insert(fields.get("run_id").cloned().unwrap_or_else(|| next.address()))
            && !is_sentinel(&fields)
        {
            found.push(Server { address: next.address(), state: Ok(described(&fields)) });
        }
        for (host, port) in neighbours {
            if asked.len() < MOST && asked.insert(joined(&host, port)) {
                waiting.push_back(next.at(&host, port));
            }
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
            found.push(Server { address, state: Err(error) });
        }
    }
    Ok(found)
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

fn primaries_by(target: &Target, kind: &Kind) -> Result<Vec<Target>, Error> {
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
        nodes.filter(|node| node.has_slots && node.is("master")).map(|node| node.address).collect()
    } else {
        return Ok(vec![target.clone()]);
    };
    Ok(addresses.into_iter().map(|(host, port)| target.at(&host, port)).collect())
}

/// Whether the server is what the URL says. A Sentinel, or a node of a cluster, may also be named as a server: it leads
/// to the others.
fn check_kind(target: &Target, kind: &Kind, fields: &Fields) -> Result<(), Error> {
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

/// A server's own words, and whom it knows.
fn look(target: &Target, kind: &Kind, service: Option<&str>) -> Result<(Fields, Vec<Address>), Error> {
    let mut link = Link::new(target.clone());
    let mut fields = about(&mut link)?;
    check_kind(target, kind, &fields)?;
    let neighbours = if is_sentinel(&fields) {
        let mut addresses = Vec::new();
        for (name, address) in watched(&mut link, service)? {
            addresses.push(address);
            addresses
                .extend(listed(&mut link, "REPLICAS", Some(&name))?.into_iter().map(|(_, address)| address));
        }
        addresses
    } else if is_cluster(&fields) {
        let nodes = nodes(&mut link, target)?;
        let own = nodes.iter().find(|node| node.is("myself"));
        if own.is_some_and(|node| node.is("nofailover")) {
            fields.insert("slave_priority".to_string(), "0".to_string());
        }
        nodes.into_iter().filter(|node| !node.is("noaddr")).map(|node| node.address).collect()
    } else {
        relatives(&fields)
    };
    Ok((fields, neighbours))
}

/// The fields of INFO that matter here.
pub(crate) fn about(link: &mut Link) -> Result<Fields, Error> {
    let mut questions = pipe();
    for section in ["server", "replication", "cluster", "rlock"] {
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

pub(super) fn is_sentinel(fields: &Fields) -> bool {
    // As Redis, Valkey and Redict call it.
    let names = ["redis_mode", "server_mode", "redict_mode"];
    names.iter().any(|name| fields.get(*name).is_some_and(|mode| mode == "sentinel"))
}

pub(super) fn is_cluster(fields: &Fields) -> bool {
    fields.get("cluster_enabled").is_some_and(|enabled| enabled == "1")
}

fn described(fields: &Fields) -> Described {
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
    }
}

/// Its primary and its replicas.
fn relatives(fields: &Fields) -> Vec<Address> {
    let mut found = Vec::new();
    if let (Some(host), Some(port)) = (fields.get("master_host"), fields.get("master_port")) {
        found.extend(port.parse().ok().map(|port| (host.clone(), port)));
    }
    for (_, line) in fields.iter().filter(|(name, _)| is_replica_line(name)) {
        let words: HashMap<&str, &str> = line.split(',').filter_map(|word| word.split_once('=')).collect();
        if let (Some(host), Some(Ok(port))) = (words.get("ip"), words.get("port").map(|port| port.parse())) {
            found.push(((*host).to_string(), port));
        }
    }
    found.sort();
    found
}

/// `slave0`, `slave1` and so on: fields that each describe a replica.
fn is_replica_line(name: &str) -> bool {
    name.strip_prefix("slave").is_some_and(|number| number.parse::<u32>().is_ok())
}

/// The primaries that a Sentinel watches, with their names; only that of the service, if one is meant.
fn watched(link: &mut Link, service: Option<&str>) -> Result<Vec<(String, Address)>, Error> {
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
fn listed(link: &mut Link, what: &str, of: Option<&str>) -> Result<Vec<(String, Address)>, Error> {
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

impl Node {
    fn is(&self, flag: &str) -> bool {
        self.flags.iter().any(|own| own == flag)
    }

    /// Reads a line: id, address, flags, primary, ping, pong, epoch, link, slots.
    fn read(line: &str, asked: &Target) -> Option<Node> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, address, flags, ..] = words.as_slice() else { return None };
        // host:port@bus,hostname
        let (host, port) = parted(address.split(['@', ',']).next()?)?;
        // A node that has not been spoken to by address knows none of its own.
        let host = if host.is_empty() { asked.host().to_string() } else { host };
        let flags = flags.split(',').map(str::to_string).collect();
        Some(Node { address: (host, port), flags, has_slots: words.len() > 8 })
    }
}

fn nodes(link: &mut Link, asked: &Target) -> Result<Vec<Node>, Error> {
    let mut command = cmd("CLUSTER");
    command.arg("NODES");
    let lines = text(&link.ask(&command, PATIENCE)?).unwrap_or_default();
    Ok(lines.lines().filter_map(|line| Node::read(line, asked)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_cluster_are_read() {
        let asked = Place::parse("redis://10.0.0.9:7000").unwrap().starts.remove(0);
        let cases = [
            ("a 10.0.0.1:7000@17000 master - 0 0 1 connected 0-5", Some(("10.0.0.1", 7000, "master", true))),
            ("a :7001@17001,host myself,slave b 0 0 1 connected", Some(("10.0.0.9", 7001, "myself", false))),
            ("a ::1:7002@17002 slave,nofailover b 0 0 1 connected", Some(("::1", 7002, "nofailover", false))),
            ("a", None),
            ("", None),
        ];
        for (line, expected) in cases {
            let node = Node::read(line, &asked);
            let seen = node.as_ref().map(|node| (node.address.0.as_str(), node.address.1, node.has_slots));
            assert_eq!(seen, expected.map(|(host, port, _, slots)| (host, port, slots)), "{line}");
            assert!(expected.is_none_or(|(_, _, flag, _)| node.unwrap().is(flag)), "{line}");
        }
    }

    #[test]
    fn relatives_are_read() {
        let line = |name: &str, value: &str| (name.to_string(), value.to_string());
        let fields = Fields::from([
            line("master_host", "10.0.0.1"),
            line("master_port", "6379"),
            line("slave0", "ip=10.0.0.3,port=6380,state=online"),
            line("slave_priority", "100"),
            line("slave1", "nonsense"),
        ]);
        assert_eq!(relatives(&fields), [("10.0.0.1".to_string(), 6379), ("10.0.0.3".to_string(), 6380)]);
    }
}
