//! `rlock ping`: is the module wherever it is needed, and do the primaries give locks?

use std::collections::BTreeSet;
use std::fmt::Write;

use serde::Serialize;

use super::{NO, YES};
use crate::error::Error;
use crate::output::{Output, Tone};
use crate::server::facts::SECTIONS;
use crate::server::servers::{Found, ask_all, described};
use crate::server::{Hindrance, Place, hindrance};

/// All servers, in JSON.
#[derive(Serialize)]
struct Report {
    /// Whether every server that may become the primary has the module, and every primary gives locks.
    ok: bool,
    /// What is wrong, and what to do; null where nothing is.
    advice: Option<String>,
    servers: Vec<Line>,
}

/// One server.
#[derive(Default, Serialize)]
struct Line {
    address: String,
    server: Option<String>,
    version: Option<String>,
    role: Option<&'static str>,
    /// The module's version; null where it is not loaded.
    module: Option<String>,
    may_become_primary: bool,
    ok: bool,
    /// What the module warns of; they do not make the server fail.
    warnings: Vec<String>,
    error: Option<String>,
    /// Why a primary gives no locks now.
    refuses: Option<String>,
    #[serde(skip)]
    cause: Option<Error>,
    #[serde(skip)]
    hindrance: Option<Hindrance>,
}

/// Asks all servers, and returns [`NO`] if locking could end when one of them becomes the primary.
pub(crate) fn ping(place: &Place, output: Output) -> Result<u8, Error> {
    let servers: Vec<Line> = ask_all(place, &SECTIONS, hindrance)?.into_iter().map(line).collect();
    let report = Report { ok: servers.iter().all(|line| line.ok), advice: advice(&servers), servers };
    output.either(&report, || text(&report, output))?;
    Ok(if report.ok { YES } else { NO })
}

fn line(Found { address, outcome }: Found<Option<Hindrance>>) -> Line {
    match outcome {
        Ok((fields, hindrance)) => {
            let described = described(&fields);
            Line {
                address,
                server: Some(described.kind.to_string()),
                version: Some(described.version),
                role: Some(described.role),
                ok: (described.module.is_some() || !described.may_lead) && hindrance.is_none(),
                module: described.module,
                may_become_primary: described.may_lead,
                warnings: described.warnings,
                refuses: hindrance.as_ref().map(Hindrance::text),
                hindrance,
                ..Line::default()
            }
        }
        // An unreachable server may return as primary and without the module.
        Err(error) => Line {
            address,
            may_become_primary: true,
            error: Some(error.to_string()),
            cause: Some(error),
            ..Line::default()
        },
    }
}

fn advice(servers: &[Line]) -> Option<String> {
    let bad = |unreachable: bool| {
        let is_bad = |line: &&Line| !line.ok && line.hindrance.is_none();
        servers.iter().filter(is_bad).filter(move |line| line.error.is_some() == unreachable)
    };
    let names =
        |lines: Vec<&Line>| lines.iter().map(|line| line.address.as_str()).collect::<Vec<_>>().join(", ");
    let missing: Vec<&Line> = bad(false).collect();
    if !missing.is_empty() {
        return Some(format!(
            "load the module on {}: `loadmodule /path/to/librlock.so` in its configuration file and a restart, or \
             MODULE LOAD; or set replica-priority 0 so that it never becomes primary",
            names(missing)
        ));
    }
    if let Some(hindrance) = servers.iter().find_map(|line| line.hindrance.as_ref()) {
        let same = |line: &&Line| line.hindrance.as_ref().is_some_and(|one| one.code() == hindrance.code());
        return Some(hindrance.advice(&names(servers.iter().filter(same).collect())));
    }
    // A server that answers with an error needs more than to be started.
    if let Some(error) =
        servers.iter().filter_map(|line| line.cause.as_ref()).find(|error| !error.is_transport())
    {
        return Some(error.advice());
    }
    let silent: Vec<&Line> = bad(true).collect();
    if !silent.is_empty() {
        return Some(format!("start {}, or remove it from replication", names(silent)));
    }
    let versions: BTreeSet<&str> = servers.iter().filter_map(|line| line.module.as_deref()).collect();
    (versions.len() > 1)
        .then(|| "the versions differ: update the module to the same version on all servers".to_string())
}

fn text(report: &Report, output: Output) -> String {
    let width = report.servers.iter().map(|line| line.address.len()).max().unwrap_or_default();
    let mut text = String::new();
    for line in &report.servers {
        let verdict = if line.ok { output.toned(Tone::Good, "ok") } else { output.toned(Tone::Bad, "NO") };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{verdict}  {:width$}  {}", line.address, describe(line));
    }
    for line in &report.servers {
        for warning in &line.warnings {
            let _ = writeln!(text, "{}  {}: {warning}", output.toned(Tone::Bad, "warning"), line.address);
        }
    }
    if let Some(advice) = &report.advice {
        let _ = writeln!(text, "→ {advice}");
    }
    text
}

fn describe(line: &Line) -> String {
    if let Some(error) = &line.error {
        return error.clone();
    }
    let module = match &line.module {
        Some(version) => format!("rlock {version}"),
        None if line.may_become_primary => "the module is not loaded".to_string(),
        None => "no module, and none needed: it never becomes primary".to_string(),
    };
    let (role, server, version) = (line.role, line.server.as_deref(), line.version.as_deref());
    let refuses = line.refuses.as_ref().map(|text| format!("; it {text}")).unwrap_or_default();
    format!(
        "{}  {} {}  {module}{refuses}",
        role.unwrap_or_default(),
        server.unwrap_or_default(),
        version.unwrap_or_default()
    )
}
