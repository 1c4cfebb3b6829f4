//! Finding all servers that belong together: from those that the URL names to all that they and the others name.

use std::collections::{HashMap, HashSet};

use rlock_links::ServerKind;

use super::facts::{Fields, info, is_cluster, is_sentinel, primary_of};
use super::link::Link;
use super::nodes::nodes;
use super::sentinel::{a_sentinel, listed, not_a_sentinel, watched};
use super::target::{Address, Place, Target};
use crate::error::Error;

/// More servers than this are not asked: enough for any deployment, and an end in any case.
const MOST: usize = 1_000;

/// What a server says, and which others it names.
#[derive(Debug)]
pub(crate) struct Seen {
    /// The fields of INFO.
    pub(crate) fields: Fields,
    /// The relatives of the server, by host and port.
    pub(crate) neighbours: Vec<Address>,
}

/// A server that was asked.
#[derive(Debug)]
pub(crate) struct Asked<T> {
    /// Where the server was asked.
    pub(crate) target: Target,
    /// What it answered, or why it did not.
    pub(crate) outcome: Result<T, Error>,
}

/// All servers that were asked, in the order in which they became known.
#[derive(Debug)]
pub(crate) struct Walk<T> {
    addresses: HashSet<String>,
    /// One server may be here by several addresses.
    pub(crate) asked: Vec<Asked<T>>,
}

impl<T> Default for Walk<T> {
    fn default() -> Self {
        Walk { addresses: HashSet::new(), asked: Vec::new() }
    }
}

impl AsRef<Seen> for Seen {
    fn as_ref(&self) -> &Seen {
        self
    }
}

impl<T: AsRef<Seen>> Walk<T> {
    /// Asks these servers and all that are found by them, unless they were asked before. `ask` gets those that became
    /// known at the same time, and answers in their order.
    pub(crate) fn visit(
        &mut self,
        targets: Vec<Target>,
        mut ask: impl FnMut(&[Target]) -> Vec<Result<T, Error>>,
    ) {
        let mut next = targets;
        next.retain(|target| self.is_new(target));
        while !next.is_empty() {
            let mut found = Vec::new();
            let outcomes = ask(&next);
            for (target, outcome) in next.into_iter().zip(outcomes) {
                let neighbours = outcome.iter().flat_map(|answer| &answer.as_ref().neighbours);
                found.extend(neighbours.map(|(host, port)| target.at(host, *port)));
                self.asked.push(Asked { target, outcome });
            }
            found.retain(|target| self.is_new(target));
            next = found;
        }
    }

    fn is_new(&mut self, target: &Target) -> bool {
        self.addresses.len() < MOST && self.addresses.insert(target.address())
    }
}

/// Whether the URL names this server itself.
pub(crate) fn is_start(place: &Place, target: &Target) -> bool {
    place.starts.iter().any(|start| start.address() == target.address())
}

/// Whether the server is what the URL says. A Sentinel, or a node of a cluster, may also be named as a server: it leads
/// to the others.
pub(super) fn check_kind(target: &Target, kind: &ServerKind, fields: &Fields) -> Result<(), Error> {
    match kind {
        ServerKind::Sentinel(_) if !is_sentinel(fields) => Err(not_a_sentinel(target, is_cluster(fields))),
        ServerKind::Cluster if is_sentinel(fields) => Err(a_sentinel(target)),
        ServerKind::Cluster if !is_cluster(fields) => Err(Error::not_a_cluster(&target.address())),
        _ => Ok(()),
    }
}

/// The fields of a server in these sections of INFO, and its neighbours.
pub(crate) fn look(link: &mut Link, place: &Place, sections: &[&str]) -> Result<Seen, Error> {
    let target = link.target().clone();
    let mut fields = info(link, sections)?;
    // Those that are found are servers, whatever the URL names.
    check_kind(&target, if is_start(place, &target) { &place.kind } else { &ServerKind::Server }, &fields)?;
    let neighbours = if is_sentinel(&fields) {
        let mut addresses = Vec::new();
        for (name, address) in watched(link, place.service())? {
            addresses.push(address);
            addresses.extend(listed(link, "REPLICAS", Some(&name))?.into_iter().map(|(_, address)| address));
        }
        addresses
    } else if is_cluster(&fields) {
        let nodes = nodes(link, &target)?;
        let own = nodes.iter().find(|node| node.is("myself"));
        if own.is_some_and(|node| node.is("nofailover")) {
            fields.insert("slave_priority".to_string(), "0".to_string());
        }
        nodes.into_iter().filter(|node| !node.is("noaddr")).map(|node| node.address).collect()
    } else {
        relatives(&fields)
    };
    Ok(Seen { fields, neighbours })
}

/// Its primary and its replicas.
fn relatives(fields: &Fields) -> Vec<Address> {
    let mut found = Vec::new();
    found.extend(primary_of(fields));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::Certificates;

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

    /// Those that become known together are asked together, and each address once.
    #[test]
    fn a_walk_goes_from_server_to_server() {
        let target = |port| {
            Place::parse(&format!("redis://a:{port}"), Certificates::default()).unwrap().starts.remove(0)
        };
        let mut rounds = Vec::new();
        let mut walk = Walk::default();
        let mut ask = |targets: &[Target]| {
            rounds.push(targets.iter().map(Target::address).collect::<Vec<_>>().join(" "));
            let neighbours = |address: &str| match address {
                "a:1" => vec![("a".to_string(), 2), ("a".to_string(), 3)],
                "a:2" => vec![("a".to_string(), 1), ("a".to_string(), 4)],
                _ => vec![("a".to_string(), 1)],
            };
            let seen =
                |target: &Target| Seen { fields: Fields::new(), neighbours: neighbours(&target.address()) };
            targets.iter().map(|target| Ok(seen(target))).collect()
        };
        walk.visit(vec![target(1), target(1)], &mut ask);
        walk.visit(vec![target(4), target(5)], &mut ask);
        assert_eq!(rounds, ["a:1", "a:2 a:3", "a:4", "a:5"]);
        assert_eq!(walk.asked.len(), 5);
    }
}
