//! `rlock doctor`: faults of the servers, and what to do.

mod examination;
mod findings;

use std::fmt::Write;

use serde::Serialize;

use self::examination::{Patient, examine};
use self::findings::{Finding, Severity, findings};
use crate::error::Error;
use crate::names::counted;
use crate::output::{Output, Tone};
use crate::server::Place;

/// The report, in JSON.
#[derive(Serialize)]
struct Report {
    worst: Option<Severity>,
    servers: Vec<Facts>,
    findings: Vec<Finding>,
}

/// What a server says of itself, in JSON; nothing of one that did not answer.
#[derive(Default, Serialize)]
struct Facts {
    address: String,
    role: Option<&'static str>,
    server: Option<String>,
    module: Option<String>,
    memory: Option<String>,
    persistence: Option<String>,
    replicas: Option<u64>,
}

/// Examines all servers. The exit code is 0, 1 with warnings, or 2 where something is wrong.
pub(crate) fn doctor(place: &Place, output: Output) -> Result<u8, Error> {
    let patients = examine(place)?;
    let findings = findings(&patients, place.is_one_server());
    let worst = findings.iter().map(|finding| finding.severity).max();
    let report = Report { worst, servers: patients.iter().map(facts).collect(), findings };
    output.either(&report, || text(&report, output))?;
    Ok(worst.map_or(super::YES, Severity::code))
}

fn facts(patient: &Patient) -> Facts {
    let address = patient.address.clone();
    let Ok(healthy) = &patient.state else { return Facts { address, ..Facts::default() } };
    let persistence = match (healthy.is("aof_enabled", "1"), &healthy.fsync) {
        (true, Some(fsync)) => format!("AOF {fsync}"),
        (true, None) => "AOF".to_string(),
        (false, _) => "no AOF".to_string(),
    };
    let field = |name| healthy.field(name).unwrap_or("?");
    let used = field("used_memory_human");
    let memory = match healthy.number("maxmemory") {
        0 => format!("{used}, no maxmemory"),
        _ => format!("{used} of {}, {}", field("maxmemory_human"), field("maxmemory_policy")),
    };
    let described = &healthy.described;
    Facts {
        address,
        role: Some(described.role),
        server: Some(format!("{} {}", described.kind, described.version)),
        module: described.module.clone(),
        memory: Some(memory),
        persistence: Some(persistence),
        replicas: (described.role == "primary").then(|| healthy.number("connected_slaves")),
    }
}

fn text(report: &Report, output: Output) -> String {
    let mut text = String::new();
    let width = report.servers.iter().map(|server| server.address.len()).max().unwrap_or_default();
    for server in &report.servers {
        let _ = writeln!(text, "{:width$}  {}", server.address, line(server));
    }
    for finding in &report.findings {
        let tone = if finding.severity == Severity::Wrong { Tone::Bad } else { Tone::Wait };
        let word = output.toned(tone, finding.severity.word());
        let _ = writeln!(text, "{word}  {}: {}", finding.servers.join(", "), finding.what);
        let _ = writeln!(text, "  → {}", finding.advice);
    }
    if report.findings.is_empty() {
        let _ = writeln!(text, "{}  nothing is wrong", output.toned(Tone::Good, "ok"));
    }
    text
}

fn line(server: &Facts) -> String {
    let Some(role) = server.role else { return "no answer".to_string() };
    let module = server.module.as_ref().map_or("no module".to_string(), |version| format!("rlock {version}"));
    let mut parts = vec![role.to_string(), server.server.clone().unwrap_or_default(), module];
    parts.extend(server.persistence.clone());
    parts.extend(server.memory.clone());
    parts.extend(server.replicas.map(|count| counted(count, "replica")));
    parts.join("  ")
}
