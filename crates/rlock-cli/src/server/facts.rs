//! The fields of INFO, by which a server describes itself.

use std::collections::HashMap;

use redis::pipe;

use super::PATIENCE;
use super::link::{Link, refusal};
use super::reply::text;
use super::target::Address;
use crate::error::Error;

/// The fields of INFO, by name.
pub(crate) type Fields = HashMap<String, String>;

/// The sections of INFO that describe servers.
pub(crate) const SECTIONS: [&str; 5] = ["server", "replication", "cluster", "memory", "rlock"];

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
            refusal(link.address(), code, detail)
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
