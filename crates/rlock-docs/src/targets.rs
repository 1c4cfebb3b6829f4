//! The table of docs/INSTALL.md that shows what ran with the module of each target: docs/targets.tsv, which scripts/target_tests.sh
//! writes.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const PAGE: &str = "docs/INSTALL.md";
const STORED: &str = "docs/targets.tsv";
const BEGIN: &str = "<!-- targets -->\n";
const END: &str = "<!-- end of targets -->";

/// The files, and the target of each.
const FILES: [(&str, &str); 4] = [
    ("linux-gnu-x86_64", "x86_64-unknown-linux-gnu"),
    ("linux-gnu-aarch64", "aarch64-unknown-linux-gnu"),
    ("linux-musl-x86_64", "x86_64-unknown-linux-musl"),
    ("linux-musl-aarch64", "aarch64-unknown-linux-musl"),
];

/// The tests that are not a room of the module's: the command without a library, stored for the target that it is built for, the
/// planted panics, and the rounds of `make chaos`.
const COMMAND: &str = "command";
const GUARD: &str = "guard";
const CHAOS: &str = "chaos";

const NOT_TESTED: &str = "not tested";

/// A stored run.
struct Run<'a> {
    target: &'a str,
    server: &'a str,
    tests: &'a str,
    passed: u32,
    date: &'a str,
}

/// Writes the table into the page.
pub(crate) fn write(root: &Path) -> Result<(), String> {
    let (page, path) = (read(root, PAGE)?, root.join(PAGE));
    let remade = remade(&page, &read(root, STORED)?)?;
    fs::write(&path, remade).map_err(|error| format!("{}: {error}", path.display()))
}

fn read(root: &Path, name: &str) -> Result<String, String> {
    fs::read_to_string(root.join(name)).map_err(|error| format!("{name}: {error}"))
}

/// The page with the table of these results.
fn remade(page: &str, stored: &str) -> Result<String, String> {
    let marks = page.split_once(BEGIN).and_then(|(before, rest)| Some((before, rest.split_once(END)?.1)));
    let (before, after) = marks.ok_or_else(|| format!("{PAGE} has no {BEGIN}"))?;
    let runs: Option<Vec<Run>> = stored.lines().skip(1).map(run).collect();
    let runs = runs.ok_or_else(|| format!("{STORED} has a line with other columns"))?;
    Ok(format!("{before}{BEGIN}{}{END}{after}", table(&runs)))
}

fn run(line: &str) -> Option<Run<'_>> {
    let cells: Vec<&str> = line.split('\t').collect();
    let [target, server, tests, passed, date, _commit] = cells[..] else { return None };
    Some(Run { target, server, tests, passed: passed.parse().ok()?, date })
}

fn table(runs: &[Run]) -> String {
    let mut table =
        "| file | server | planted panics | the module's tests | the command `rlock` |\n".to_string();
    table += "|---|---|---|---|---|\n";
    for (file, target) in FILES {
        let command = cell(
            runs.iter().filter(|run| run.target == target.replace("-gnu", "-musl") && run.tests == COMMAND),
        );
        let is_of = |run: &&Run| run.target == target && run.tests != COMMAND;
        let servers: BTreeSet<&str> = runs.iter().filter(is_of).map(|run| run.server).collect();
        if servers.is_empty() {
            table += &format!("| `{file}` | none | {NOT_TESTED} | {NOT_TESTED} | {command} |\n");
        }
        for server in servers {
            let of = |run: &Run| run.target == target && run.server == server;
            let named = |name| cell(runs.iter().filter(|run| of(run) && run.tests == name));
            let mut tests =
                cell(runs.iter().filter(|run| of(run) && ![COMMAND, GUARD, CHAOS].contains(&run.tests)));
            if let Some(chaos) = runs.iter().find(|run| of(run) && run.tests == CHAOS) {
                tests += &format!("; {} rounds of `make chaos` ({})", chaos.passed, chaos.date);
            }
            table += &format!("| `{file}` | {server} | {} | {tests} | {command} |\n", named(GUARD));
        }
    }
    table
}

/// The number of tests that passed in these runs, with the oldest date.
fn cell<'a>(runs: impl IntoIterator<Item = &'a Run<'a>>) -> String {
    let sum = runs.into_iter().fold(None, |sum: Option<(u32, &str)>, run| {
        let (passed, date) = sum.unwrap_or((0, run.date));
        Some((passed + run.passed, date.min(run.date)))
    });
    sum.map_or(NOT_TESTED.into(), |(passed, date)| format!("{passed} ({date})"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root;

    #[test]
    fn the_page_shows_the_stored_runs() {
        let page = read(&root(), PAGE).unwrap();
        let remade = remade(&page, &read(&root(), STORED).unwrap()).unwrap();
        assert!(remade == page, "{PAGE} does not show {STORED}: cargo run -p rlock-docs -- targets");
    }

    #[test]
    fn a_server_has_a_row_and_a_cell_the_sum_and_the_oldest_date() {
        let runs: Vec<Run> = [
            "aarch64-unknown-linux-gnu\tRedis 7\tguard\t6\t2026-01-03\tabc",
            "aarch64-unknown-linux-gnu\tRedis 7\tpermits\t7\t2026-01-02\tabc",
            "aarch64-unknown-linux-gnu\tRedis 7\tacquire\t5\t2026-01-01\tabc",
            "aarch64-unknown-linux-gnu\tRedis 7\tchaos\t3\t2026-01-04\tabc",
            "aarch64-unknown-linux-gnu\tValkey 9\tguard\t6\t2026-01-04\tabc",
        ]
        .map(|line| run(line).unwrap())
        .into();
        let table = table(&runs);
        let rows: Vec<&str> = table.lines().skip(2).collect();
        assert_eq!(rows[0], "| `linux-gnu-x86_64` | none | not tested | not tested | not tested |");
        assert_eq!(
            rows[1],
            "| `linux-gnu-aarch64` | Redis 7 | 6 (2026-01-03) | 12 (2026-01-01); 3 rounds of `make chaos` \
             (2026-01-04) | not tested |"
        );
        assert_eq!(rows[2], "| `linux-gnu-aarch64` | Valkey 9 | 6 (2026-01-04) | not tested | not tested |");
    }
}
