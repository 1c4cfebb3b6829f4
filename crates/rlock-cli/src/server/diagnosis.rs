//! Why a server does not answer as the URL promises: the wrong server, the wrong protocol, the wrong database.
//!
//! An error of a driver names the symptom. The cause takes one more question, which is asked only after a failure.

use super::PATIENCE;
use super::facts::{about, is_cluster, is_sentinel};
use super::link::Link;
use super::primaries::primaries;
use super::protocol::{not_a_server, protected, wrong_protocol};
use super::sentinel::{a_sentinel, not_a_sentinel};
use super::target::{Place, Target};
use crate::error::Error;

/// The cause of an error, where the servers reveal it; else the error.
pub(crate) fn explain(place: &Place, error: Error) -> Error {
    let cause = match &error {
        Error::NoAnswer { address, cause } => no_answer(place, address, cause),
        Error::Tls { .. } => place.starts.iter().find_map(wrong_protocol),
        Error::NoModule { .. } => no_module(place),
        Error::Refused { text, .. } => refused(place, text),
        _ => None,
    };
    cause.unwrap_or(error)
}

fn no_answer(place: &Place, address: &str, cause: &str) -> Option<Error> {
    if cause.contains("has any slots") {
        let text = "CLUSTERDOWN no node has a slot".to_string();
        return Some(Error::Refused { address: address.to_string(), text });
    }
    if cause.contains("it is a replica") && place.service().is_none() {
        return replica(place);
    }
    let found = place.starts.iter().find_map(wrong_protocol);
    let by_sentinel = || by_sentinel(place);
    let garbled =
        || cause.contains("Parse error").then(|| not_a_server(address, "is not a Redis or Valkey server"));
    found.or_else(by_sentinel).or_else(garbled)
}

/// What is wrong with the Sentinels, or with the primary that they name.
fn by_sentinel(place: &Place) -> Option<Error> {
    place.service()?;
    match primaries(place) {
        Err(error) => matches!(error, Error::Mismatch { .. }).then_some(error),
        Ok(primaries) => primaries.iter().find_map(|primary| {
            let error = Link::new(primary.clone()).ask(&redis::cmd("PING"), PATIENCE).err()?;
            Some(wrong_protocol(primary).unwrap_or(error))
        }),
    }
}

/// A Sentinel knows no commands of the module either, nor does a module that is older than this command know all.
fn no_module(place: &Place) -> Option<Error> {
    for target in &place.starts {
        let Ok(fields) = about(&mut Link::new(target.clone())) else { continue };
        if is_sentinel(&fields) {
            if place.service().is_none() {
                return Some(a_sentinel(target));
            }
        } else if place.service().is_some() {
            return Some(not_a_sentinel(target, is_cluster(&fields)));
        }
    }
    let primaries = primaries(place).ok()?;
    let mut missing = Vec::new();
    let mut versions = Vec::new();
    for primary in primaries {
        let Ok(fields) = about(&mut Link::new(primary.clone())) else {
            continue;
        };
        match fields.get("rlock_version") {
            Some(version) => versions.push((primary.address(), version.clone())),
            None => missing.push(primary.address()),
        }
    }
    match versions.pop() {
        _ if !missing.is_empty() => Some(Error::NoModule { address: missing.join(", ") }),
        Some((address, version)) => Some(Error::Mismatch {
            what: format!("the module on {address} is older than this command (rlock {version})"),
            advice: format!("update the module to {} or later", env!("CARGO_PKG_VERSION")),
        }),
        None => None,
    }
}

fn refused(place: &Place, text: &str) -> Option<Error> {
    let address = || match place.service() {
        Some(service) => format!("the Sentinels' primary {service}"),
        None => place.address(),
    };
    let database = || place.starts.first().map_or(0, Target::database);
    if text.contains("DB index") {
        return Some(Error::Mismatch {
            what: format!("{} has no database {}", address(), database()),
            advice: "name another database at the end of the URL: redis://host:port/0; the server's option `databases` sets their number".to_string(),
        });
    }
    if text.contains("SELECT is not allowed") {
        return Some(Error::Mismatch {
            what: format!("{} has no database {}: a cluster has database 0 only", address(), database()),
            advice: "remove the database from the end of the URL".to_string(),
        });
    }
    match text.split(' ').next().unwrap_or_default() {
        "DENIED" => Some(protected(&place.address())),
        "READONLY" => replica(place),
        "NOAUTH" | "WRONGPASS" if !text.contains("said by a sentinel") => by_sentinel(place),
        _ => None,
    }
}

/// A replica knows its primary.
fn replica(place: &Place) -> Option<Error> {
    place.starts.iter().find_map(|target| {
        let fields = about(&mut Link::new(target.clone())).ok()?;
        let (host, port) = (fields.get("master_host")?, fields.get("master_port")?.parse().ok()?);
        let cut = fields.get("master_link_status").is_some_and(|status| status == "down");
        let state = if cut { "without its primary" } else { "and accepts no writes (READONLY)" };
        Some(Error::Mismatch {
            what: format!("{} is a replica {state}", target.address()),
            advice: format!(
                "use the URL of the primary, {}; to follow a fail-over, use redis+sentinel:// or redis+cluster://",
                target.at(host, port).address()
            ),
        })
    })
}
