//! What the answers of the servers mean.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::Serialize;

use super::examination::{Answers, Patient};
use crate::duration;

/// Clocks that differ by more are a finding: lease ends go from one server to another as times of day.
const CLOCKS_DIFFER: i64 = 500;

/// A replica that is behind by more seconds is a finding.
const LAG: u64 = 10;

/// A certificate that ends sooner is a finding.
const RENEWAL: Duration = Duration::from_secs(14 * 24 * 3_600);

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Severity {
    /// Locking works, and may not work tomorrow.
    Warning,
    /// Locks are refused, or may be lost.
    Wrong,
}

impl Severity {
    pub(super) fn word(self) -> &'static str {
        match self {
            Severity::Warning => "warning",
            Severity::Wrong => "WRONG",
        }
    }

    /// The code to exit with.
    pub(super) fn code(self) -> u8 {
        match self {
            Severity::Warning => 1,
            Severity::Wrong => 2,
        }
    }
}

/// A finding: something to do.
#[derive(Debug, Serialize)]
pub(super) struct Finding {
    pub(super) severity: Severity,
    /// The servers to which it applies.
    pub(super) servers: Vec<String>,
    pub(super) what: String,
    pub(super) advice: String,
}

/// All findings, the worst first. `alone`: the URL names one server, which needs no others.
pub(super) fn findings(patients: &[Patient], alone: bool) -> Vec<Finding> {
    let mut findings: Vec<Finding> = Vec::new();
    for patient in patients {
        for (severity, what, advice) in of_one(patient, alone) {
            findings.push(Finding { severity, servers: vec![patient.address.clone()], what, advice });
        }
    }
    findings.extend(differences(patients));
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    findings
}

type Found = (Severity, String, String);

fn found(severity: Severity, what: impl Into<String>, advice: impl Into<String>) -> Found {
    (severity, what.into(), advice.into())
}

fn of_one(patient: &Patient, alone: bool) -> Vec<Found> {
    use Severity::{Warning, Wrong};
    let answers = match &patient.state {
        Ok(answers) => answers,
        Err(error) => return vec![found(Wrong, error.to_string(), error.advice())],
    };
    let described = &answers.described;
    let mut list = Vec::new();
    if described.module.is_none() && described.may_lead {
        list.push(found(
            Wrong,
            "the module is not loaded",
            "add `loadmodule /path/to/librlock.so` to its configuration file and restart it; or set replica-priority 0, so that \
             it never becomes primary",
        ));
    }
    if let Some(hindrance) = &answers.hindrance {
        list.push(found(Wrong, format!("it {}", hindrance.text()), hindrance.advice(&patient.address)));
    }
    list.extend(described.warnings.iter().map(|text| {
        // The module's warnings end with what to do.
        let (what, advice) =
            text.split_once(": ").unwrap_or((text, "update the server to a version without this fault"));
        found(Warning, what, advice)
    }));
    list.extend(certificate(answers));
    list.extend(memory(answers));
    list.extend(durability(answers, alone));
    list.extend(replication(answers));
    if !answers.denied.is_empty() {
        let what = format!("this user may not use {}", answers.denied.join(", "));
        let advice = "ACL SETUSER … +@rlock +subscribe ~<the locks' names> &rlock:grants:*; if it needs no locks, ignore this";
        list.push(found(Warning, what, advice));
    }
    list
}

fn certificate(answers: &Answers) -> Option<Found> {
    let left = answers.certificate_left.filter(|left| *left < RENEWAL)?;
    let left = duration::shown(duration::ms(left).cast_signed());
    let advice = "renew it, then CONFIG SET tls-cert-file and tls-key-file, or restart the server: expired, it stops all clients";
    Some(found(Severity::Warning, format!("its certificate expires in {left}"), advice))
}

fn memory(answers: &Answers) -> Option<Found> {
    let (limit, used) = (answers.number("maxmemory"), answers.number("used_memory"));
    let evicts = answers.field("maxmemory_policy").is_some_and(|policy| policy != "noeviction");
    // Of eviction the module itself warns.
    (!evicts && limit > 0 && used.saturating_mul(10) > limit.saturating_mul(9) && answers.hindrance.is_none())
        .then(|| {
            found(
                Severity::Warning,
                "more than nine tenths of its memory are used: it will refuse locks soon",
                "raise maxmemory, or remove keys",
            )
        })
}

fn durability(answers: &Answers, alone: bool) -> Vec<Found> {
    let mut list = Vec::new();
    if answers.is("aof_last_write_status", "err") {
        let advice = "free the disk, or correct the folder's rights; the server's log names the cause";
        list.push(found(Severity::Wrong, "its AOF cannot be written", advice));
    }
    if answers.is("rdb_last_bgsave_status", "err") {
        let advice =
            "free the disk, or correct the folder's rights: without a snapshot no replica can be added";
        list.push(found(Severity::Warning, "its last snapshot failed", advice));
    }
    let is_primary = answers.described.role == "primary";
    let no_replica = is_primary && answers.number("connected_slaves") == 0;
    if no_replica && !alone {
        let advice = "start a replica of it: without one nothing can take over";
        list.push(found(Severity::Warning, "it has no replica", advice));
    } else if no_replica && answers.is("aof_enabled", "0") {
        list.push(found(
            Severity::Warning,
            "it has neither an AOF nor a replica: after a crash all locks are free, while their holders may still work",
            "set appendonly yes, or add a replica; SAFETY.md says what each of them saves",
        ));
    }
    list
}

fn replication(answers: &Answers) -> Vec<Found> {
    if answers.described.role == "replica" {
        return if answers.is("master_link_status", "down") {
            let advice =
                "check the primary's address, the network and masterauth; the server's log names the cause";
            vec![found(
                Severity::Wrong,
                "its link to the primary is down: after a fail-over to it locks are lost",
                advice,
            )]
        } else {
            Vec::new()
        };
    }
    let lines = (0..answers.number("connected_slaves")).filter_map(|n| answers.field(&format!("slave{n}")));
    let behind = lines.filter_map(|line| {
        let part = |name: &str| line.split(',').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
        let lag: u64 = part("lag")?.parse().ok()?;
        let (ip, port) = (part("ip")?, part("port")?);
        (lag > LAG).then(|| {
            found(
                Severity::Warning,
                format!("its replica {ip}:{port} has said nothing for {lag}s: after a fail-over to it locks are lost"),
                "check that machine and the network to it",
            )
        })
    });
    behind.collect()
}

/// A server that has answered.
type Answered<'a> = (&'a str, &'a Answers);

/// Values that should be the same on all servers.
fn differences(patients: &[Patient]) -> Vec<Finding> {
    let answered: Vec<Answered<'_>> = patients
        .iter()
        .filter_map(|patient| Some((patient.address.as_str(), patient.state.as_ref().ok()?)))
        .collect();
    let advice = "update the module to the same version on all servers, the replicas first";
    let version = |answers: &Answers| answers.described.module.clone();
    let mut findings: Vec<Finding> =
        differ("the versions of the module differ", advice, &answered, version).into_iter().collect();
    // It is set for the time of a maintenance, and is a finding of its own.
    let names = answered.iter().flat_map(|(_, answers)| answers.options.keys());
    let names: BTreeSet<&String> = names.filter(|name| *name != "rlock.accept").collect();
    let advice = "CONFIG SET the same value on all servers, and in their configuration files: a replica may become primary";
    findings.extend(names.into_iter().filter_map(|name| {
        differ(&format!("{name} differs"), advice, &answered, |answers| answers.options.get(name).cloned())
    }));
    let ahead = || answered.iter().filter_map(|(_, answers)| answers.ahead);
    if let (Some(first), Some(last)) = (ahead().min(), ahead().max())
        && last.saturating_sub(first) > CLOCKS_DIFFER
    {
        let advice = "synchronise the clocks (NTP): after a fail-over leases end too early or too late by the difference";
        let shown = |answers: &Answers| answers.ahead.map(|ms| format!("{ms:+} ms"));
        findings.extend(differ("the clocks differ, counted from this machine's", advice, &answered, shown));
    }
    findings
}

/// A finding if not all servers that have this value have the same.
fn differ(
    what: &str,
    advice: &str,
    answered: &[Answered<'_>],
    value: impl Fn(&Answers) -> Option<String>,
) -> Option<Finding> {
    let mut values: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (address, answers) in answered {
        if let Some(value) = value(answers) {
            values.entry(value).or_default().push(address);
        }
    }
    let shown: Vec<String> =
        values.iter().map(|(value, servers)| format!("{value} ({})", servers.join(", "))).collect();
    (values.len() > 1).then(|| Finding {
        severity: Severity::Warning,
        servers: values.into_values().flatten().map(str::to_string).collect(),
        what: format!("{what}: {}", shown.join("; ")),
        advice: advice.to_string(),
    })
}

#[cfg(test)]
mod tests;
