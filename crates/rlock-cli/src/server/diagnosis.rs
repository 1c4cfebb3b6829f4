//! Why a server does not answer as the URL promises: the wrong server, the wrong protocol, the wrong database.
//!
//! An error of a driver names the symptom. The cause takes one more question, which is asked only after a failure.

use super::probe::Heard;
use super::{Link, PATIENCE, Place, Target, probe, servers};
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

/// The server of a URL that speaks another protocol; `None` where it does not, or does not reveal it.
pub(super) fn wrong_protocol(target: &Target) -> Option<Error> {
    let address = target.address();
    match (probe::hear(target), target.is_encrypted()) {
        (Heard::Encrypted, false) => Some(Error::Mismatch {
            what: format!("{address} accepts TLS connections only"),
            advice: "write rediss:// in place of redis://".to_string(),
        }),
        (Heard::Server(_), true) => Some(Error::Mismatch {
            what: format!("{address} accepts no TLS connections"),
            advice: "write redis:// in place of rediss://, or the server's TLS port (tls-port)".to_string(),
        }),
        (Heard::Server(reply), false) if reply.starts_with("DENIED") => Some(protected(&address)),
        (Heard::Server(text), false) if text.contains("max number of clients") => {
            Some(Error::Refused { address, text })
        }
        (Heard::Web, _) => Some(not_a_server(&address, "is a web server, not a Redis or Valkey server")),
        (Heard::Other, _) => Some(not_a_server(&address, "is not a Redis or Valkey server")),
        (Heard::Server(_) | Heard::Encrypted | Heard::Nothing, _) => None,
    }
}

fn protected(address: &str) -> Error {
    Error::Mismatch {
        what: format!("{address} accepts no connections from other machines (protected mode)"),
        advice:
            "set a password for its users (requirepass, or ACL SETUSER), or run rlock on the server's machine"
                .to_string(),
    }
}

fn not_a_server(address: &str, what: &str) -> Error {
    Error::Mismatch {
        what: format!("{address} {what}"),
        advice: "correct the host and the port in --url or REDIS_URL; the usual port is 6379".to_string(),
    }
}

/// A server that should be a node of a cluster.
pub(crate) fn not_a_cluster(address: &str) -> Error {
    Error::Mismatch {
        what: format!("{address} is not a node of a cluster"),
        advice: "write redis:// in place of redis+cluster://".to_string(),
    }
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
    match servers::primaries(place) {
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
        let Ok(fields) = servers::about(&mut Link::new(target.clone())) else { continue };
        if servers::is_sentinel(&fields) {
            if place.service().is_none() {
                return Some(a_sentinel(target));
            }
        } else if place.service().is_some() {
            return Some(not_a_sentinel(target, servers::is_cluster(&fields)));
        }
    }
    let primaries = servers::primaries(place).ok()?;
    let mut missing = Vec::new();
    let mut versions = Vec::new();
    for primary in primaries {
        let Ok(fields) = servers::about(&mut Link::new(primary.clone())) else {
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

/// A Sentinel that should be a server with locks.
pub(super) fn a_sentinel(target: &Target) -> Error {
    let services = servers::services(&mut Link::new(target.clone())).unwrap_or_default();
    let service = services.first().map_or("<name>", String::as_str);
    let (address, scheme) = (target.address(), target.scheme());
    Error::Mismatch {
        what: format!("{address} is a Sentinel, which has no locks"),
        advice: format!("write {scheme}+sentinel://{address}/{service}"),
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
        let fields = servers::about(&mut Link::new(target.clone())).ok()?;
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
