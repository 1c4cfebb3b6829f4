//! The primaries: where locks can be.

use rlock_links::{ServerKind, slot_of};

use super::facts::{about, is_cluster, is_sentinel, primary_of};
use super::hindrance::{Hindrance, hindrance};
use super::link::Link;
use super::nodes::{Node, nodes};
use super::sentinel::watched;
use super::target::{Address, Place, Target};
use super::walk::{check_kind, is_start};
use crate::error::Error;

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

/// Answers of the primaries that may have a lock and can be reached.
#[derive(Default)]
pub(crate) struct Beside {
    /// Why these primaries give no locks now, by address.
    pub(crate) hindrances: Vec<(String, Hindrance)>,
    /// Their time, in ms since 1970.
    pub(crate) now_ms: Option<u64>,
}

/// Asks the primaries that may have this lock. In a cluster it is the node of the slot.
pub(crate) fn beside(place: &Place, key: &[u8]) -> Beside {
    let slot = slot_of(key);
    let mut found = Beside::default();
    for start in &place.starts {
        let Ok(targets) = primaries_of(start, &place.kind, |node| node.has(slot)) else { continue };
        for target in targets {
            let mut link = Link::new(target);
            let Ok(fields) = about(&mut link) else { continue };
            let now_us = fields.get("server_time_usec").and_then(|text| text.parse::<u64>().ok());
            found.now_ms = found.now_ms.or(now_us.map(|us| us / 1_000));
            let hindrance = hindrance(&mut link, &fields).ok().flatten();
            found.hindrances.extend(hindrance.map(|hindrance| (link.address(), hindrance)));
        }
        break;
    }
    found
}

/// As [`primaries`]. Where no server of the URL answers, the nodes of its cluster that were found before are asked.
pub(crate) fn primaries_now(place: &Place, found: &[Target]) -> Result<Vec<Target>, Error> {
    primaries(place).or_else(|error| {
        let mut others = found.iter().filter(|target| place.service().is_none() && !is_start(place, target));
        others.find_map(|node| primaries_by(node, &ServerKind::Cluster).ok()).ok_or(error)
    })
}

fn primaries_by(target: &Target, kind: &ServerKind) -> Result<Vec<Target>, Error> {
    primaries_of(target, kind, |node| !node.slots.is_empty())
}

/// The primaries that a server knows; those nodes of a cluster that are `wanted`.
fn primaries_of(
    target: &Target,
    kind: &ServerKind,
    wanted: impl Fn(&Node) -> bool,
) -> Result<Vec<Target>, Error> {
    let mut link = Link::new(target.clone());
    let fields = about(&mut link)?;
    check_kind(target, kind, &fields)?;
    let addresses: Vec<Address> = if is_sentinel(&fields) {
        watched(&mut link, kind.service())?.into_iter().map(|(_, address)| address).collect()
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

/// Whether the server is a node of a cluster; no, if it does not say.
pub(crate) fn is_node(place: &Place) -> bool {
    let fields = place.starts.first().map(|start| about(&mut Link::new(start.clone())));
    fields.is_some_and(|fields| fields.is_ok_and(|fields| is_cluster(&fields)))
}
