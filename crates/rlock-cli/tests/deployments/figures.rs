//! What was measured, stored in docs/jobs.json, and the tables of docs/JOBS.md that show it.

#![allow(dead_code, reason = "the tests that measure store it, another one compares the page")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};

/// All that is stored.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Figures {
    pub(crate) starts: Option<Measured<Starts>>,
    pub(crate) recoveries: Option<Measured<Vec<Recovery>>>,
}

/// When something was measured, and on which server.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Measured<T> {
    date: String,
    server: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    figures: T,
}

/// What became of the times at which several machines started a job.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Starts {
    /// Times of all jobs.
    pub(crate) starts: usize,
    /// Machines that were killed.
    pub(crate) killed: usize,
    pub(crate) fail_overs: usize,
    /// Times with one run.
    pub(crate) once: usize,
    /// Times without a run: a machine died or failed with the lock, or the time before was run late.
    pub(crate) none: usize,
    /// Runs after the first one of a time.
    pub(crate) again: usize,
    /// Locks that a fail-over lost while they were held, and that were acquired again.
    pub(crate) lost: usize,
    /// Times at which a machine got no answer from the servers in time, without a fail-over: the test's own machine was busy.
    pub(crate) unanswered: usize,
    /// Times that were run again when `--at-least` was over: a machine was too late.
    pub(crate) late: usize,
}

/// How long a fault kept a job without its leader, in ms.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Recovery {
    pub(crate) options: String,
    pub(crate) fault: String,
    pub(crate) ms: Vec<u64>,
}

fn docs(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name)
}

pub(crate) fn stored() -> Figures {
    let text = fs::read_to_string(docs("jobs.json")).expect("docs/jobs.json");
    serde_json::from_str(&text).expect("figures in docs/jobs.json")
}

pub(crate) fn page() -> String {
    fs::read_to_string(docs("JOBS.md")).expect("docs/JOBS.md")
}

pub(crate) fn store_starts(starts: Starts, seed: u64) {
    store(|figures| figures.starts = Some(measured(starts, Some(seed))));
}

pub(crate) fn store_recoveries(recoveries: Vec<Recovery>) {
    store(|figures| figures.recoveries = Some(measured(recoveries, None)));
}

/// Whether what is measured will be stored.
pub(crate) fn are_stored() -> bool {
    std::env::var_os("RLOCK_JOBS_DOC").is_some_and(|text| !text.is_empty())
}

/// Changes what is stored, and the page, if that is wanted.
fn store(change: impl FnOnce(&mut Figures)) {
    if !are_stored() {
        return;
    }
    let mut figures = if docs("jobs.json").exists() { stored() } else { Figures::default() };
    change(&mut figures);
    let text = rlock_testkit::rows(&figures).expect("JSON");
    fs::write(docs("jobs.json"), text).expect("docs/jobs.json is written");
    fs::write(docs("JOBS.md"), shown(&figures, &page())).expect("docs/JOBS.md is written");
}

fn measured<T>(figures: T, seed: Option<u64>) -> Measured<T> {
    let date = Command::new("date").args(["-u", "+%Y-%m-%d"]).output().expect("a program that runs");
    let date = String::from_utf8(date.stdout).expect("UTF-8").trim().to_string();
    let version = rlock_testkit::TestServer::start().version();
    let server = format!("{:?} {}.{}.{}", version.name, version.major, version.minor, version.patch);
    Measured { date, server, seed, figures }
}

/// The page with these figures.
pub(crate) fn shown(figures: &Figures, page: &str) -> String {
    let starts = figures.starts.as_ref().map(starts_table).unwrap_or_default();
    let recoveries = figures.recoveries.as_ref().map(recoveries_table).unwrap_or_default();
    with(&with(page, "starts", &starts), "recoveries", &recoveries)
}

fn with(page: &str, name: &str, table: &str) -> String {
    let (begin, end) = (format!("<!-- {name} -->"), format!("<!-- end of {name} -->"));
    let (before, rest) = page.split_once(&begin).expect("where the table begins");
    let (_, after) = rest.split_once(&end).expect("where the table ends");
    format!("{before}{begin}\n\n{table}\n{end}{after}")
}

fn starts_table(measured: &Measured<Starts>) -> String {
    let Starts { starts, killed, fail_overs, once, none, again, lost, late, unanswered } = &measured.figures;
    let seed = measured.seed.map(|seed| format!(", RLOCK_SEED={seed}")).unwrap_or_default();
    let rows = [
        ("due times on three machines", *starts),
        ("machines killed", *killed),
        ("fail-overs", *fail_overs),
        ("due times with one run", *once),
        ("without a run: a machine died with the lock, or the run before was late", *none),
        ("due times with a machine that no server answered in time", *unanswered),
        ("runs too many", *again),
        ("of these after a fail-over that lost the lock", *lost),
        ("of these after the end of `--at-least`", *late),
    ];
    let rows: String = rows.iter().map(|(what, count)| format!("| {what} | {count} |\n")).collect();
    format!("| | |\n|---|---|\n{rows}\n{}, {}{seed}.\n", measured.date, measured.server)
}

fn recoveries_table(measured: &Measured<Vec<Recovery>>) -> String {
    let seconds = |ms: u64| format!("{}.{}", ms / 1_000, ms % 1_000 / 100);
    let rows: String = measured
        .figures
        .iter()
        .map(|recovery| {
            let mut ms = recovery.ms.clone();
            ms.sort_unstable();
            let range = match &ms[..] {
                [] => String::new(),
                [one] => seconds(*one),
                [least, .., most] => format!("{} to {}", seconds(*least), seconds(*most)),
            };
            format!("| {} | {} | {range} |\n", recovery.fault, recovery.options)
        })
        .collect();
    let count = measured.figures.first().map_or(0, |one| one.ms.len());
    format!(
        "| fault | options of `rlock lead` | seconds |\n|---|---|---|\n{rows}\n{count} trials each, {}, {}.\n",
        measured.date, measured.server
    )
}
