//! The primaries that a Sentinel watches, and servers that a URL takes for a Sentinel by mistake.

use std::collections::HashMap;

use redis::{Value, cmd};

use super::PATIENCE;
use super::link::Link;
use super::reply::{fields, text};
use super::target::{Address, Target};
use crate::error::Error;

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
fn services(link: &mut Link) -> Result<Vec<String>, Error> {
    Ok(listed(link, "MASTERS", None)?.into_iter().map(|(name, _)| name).collect())
}

/// What a Sentinel lists: names and addresses.
pub(super) fn listed(link: &mut Link, what: &str, of: Option<&str>) -> Result<Vec<(String, Address)>, Error> {
    let Value::Array(servers) = link.ask(cmd("SENTINEL").arg(what).arg(of), PATIENCE)? else {
        return Err(Error::Unexpected { address: link.address(), what: "SENTINEL" });
    };
    let read = |server: Value| {
        let fields: HashMap<String, Value> = fields(server).into_iter().collect();
        let field = |name: &str| text(fields.get(name)?);
        Some((field("name")?, (field("ip")?, field("port")?.parse().ok()?)))
    };
    Ok(servers.into_iter().filter_map(read).collect())
}

/// A server that should be a Sentinel.
pub(super) fn not_a_sentinel(target: &Target, in_cluster: bool) -> Error {
    let (address, scheme) = (target.address(), target.scheme());
    let kind = if in_cluster { "+cluster" } else { "" };
    Error::Mismatch {
        what: format!("{address} is not a Sentinel"),
        advice: format!(
            "write {scheme}{kind}://{address} to use this server, or the port of a Sentinel (usually 26379)"
        ),
    }
}

/// A Sentinel that should be a server with locks.
pub(super) fn a_sentinel(target: &Target) -> Error {
    let services = services(&mut Link::new(target.clone())).unwrap_or_default();
    let service = services.first().map_or("<name>", String::as_str);
    let (address, scheme) = (target.address(), target.scheme());
    Error::Mismatch {
        what: format!("{address} is a Sentinel, which has no locks"),
        advice: format!("write {scheme}+sentinel://{address}/{service}"),
    }
}
