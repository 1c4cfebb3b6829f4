//! The targets for the cost of rlock, and the measured figures: those that are met first.

use std::fmt::{Display, Write};

use super::stalls;
use super::tables::{figure, grouped, number};
use crate::client::Who;
use crate::contender::Contender;
use crate::contention::Protocol;
use crate::memory::What;
use crate::placement::Placement;
use crate::redisson::Release;
use crate::results::{Client, Contention, Results};
use crate::spread::Spread;
use crate::store::Stored;
use crate::uncontended::Setting;

/// The depth that the targets are about.
const DEPTH: usize = 50;

/// Instructions of an acquire and a release to those of SET NX PX and DEL, at most, and with an AOF and a replica.
const INSTRUCTIONS: [(Goal, &str, f64); 2] =
    [(Goal::Pair, "plain", 1.65), (Goal::PairWithReplica, "aof-replica", 1.9)];

/// Instructions of a hand-off to those of RPUSH and BLPOP, at most.
const HAND_OFFS: [(&str, &str, f64); 3] = [
    ("BLOCK", "block", 2.2),
    ("ENQUEUE, confirmed by RENEW", "enqueue", 3.6),
    ("ENQUEUE without the RENEW", "enqueue-unconfirmed", 2.9),
];

/// How often a hand-off by BLOCK opens the lock's key: its release, and the acquire that waits.
const KEY_OPENS: u64 = 3;

/// The CPU of an acquire and a release to another way's, at most.
const RATIOS: [(Goal, Contender, f64); 2] = [
    (Goal::Script, Contender::SetScript, 0.85),
    (Goal::Redisson, Contender::Redisson(Release::Newest), 0.25),
];

/// Commands per hand-off.
const COMMANDS: [(Protocol, f64); 2] = [(Protocol::Block, 2.0), (Protocol::EnqueueShared, 3.0)];

/// The time to the next holder's knowledge, to that of a PUBLISH.
const LATENCY: f64 = 1.3;

/// CPU per hand-off with the most waiters, to that with the fewest.
pub(super) const GROWTH: f64 = 1.3;

/// Bytes for an enqueued waiter with short names.
const BYTES: f64 = 512.0;

/// An acquire and a release by the client to the raw commands by the driver that it uses.
const PAIR: f64 = 1.1;

/// A hand-off by the client to that of two connections that block.
const HAND_OFF: f64 = 2.2;

/// Percent of a core for the renewal of all locks that are measured.
const RENEWAL: f64 = 1.0;

/// The subject of a target whose miss is explained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Goal {
    Pair,
    PairWithReplica,
    Script,
    Redisson,
    HandOff,
    BlockGrowth,
    EnqueueGrowth,
    NextHolder,
    Other,
}

/// A measured figure, and whether it meets its target.
struct Cell {
    measured: String,
    met: bool,
}

struct Row {
    goal: Goal,
    what: String,
    target: String,
    /// One for each server, the main one first; nothing where it was not measured.
    cells: Vec<Option<Cell>>,
}

impl Row {
    fn is_met(&self) -> bool {
        self.cells.iter().flatten().all(|cell| cell.met)
    }
}

/// The table.
pub(super) fn table(stored: &Stored) -> String {
    let mut rows = rows(stored);
    rows.sort_by_key(|row| !row.is_met());
    let servers = stored.all().map(|results| results.environment.server.as_str());
    let mut text = format!("| what | target | {} | |\n", servers.collect::<Vec<_>>().join(" | "));
    let _ = writeln!(text, "|{}", "---|".repeat(stored.others.len() + 4));
    for row in rows {
        let cells = row.cells.iter().map(|cell| match cell {
            Some(Cell { measured, met: true }) => measured.clone(),
            Some(Cell { measured, .. }) => format!("**{measured}**"),
            None => "-".into(),
        });
        let cells = cells.collect::<Vec<_>>().join(" | ");
        let verdict = if row.is_met() { "met" } else { "**missed**" };
        let _ = writeln!(text, "| {} | {} | {cells} | {verdict} |", row.what, row.target);
    }
    text
}

/// The goals that are missed on any server.
pub(super) fn missed(stored: &Stored) -> Vec<(Goal, String)> {
    rows(stored).into_iter().filter(|row| !row.is_met()).map(|row| (row.goal, row.what)).collect()
}

fn rows(stored: &Stored) -> Vec<Row> {
    let mut rows: Vec<Row> = INSTRUCTIONS.iter().map(|target| instructions(stored, *target)).collect();
    rows.extend(HAND_OFFS.iter().map(|target| hand_off(stored, *target)));
    rows.push(key_opens(stored));
    rows.extend(RATIOS.iter().map(|target| ratio(stored, *target)));
    for (server, results) in stored.all().enumerate() {
        for of_server in [contended(results), memory(results), of_stalls(results)].into_iter().flatten() {
            place(&mut rows, server, of_server);
        }
    }
    for row in &mut rows {
        row.cells.resize_with(stored.others.len() + 1, || None);
    }
    rows.retain(|row| row.cells.iter().any(Option::is_some));
    rows
}

/// Puts the only cell of a server's row into the row of all servers.
fn place(rows: &mut Vec<Row>, server: usize, mut of_server: Row) {
    let cell = of_server.cells.pop().flatten();
    let at = rows.iter().position(|row| row.what == of_server.what).unwrap_or_else(|| {
        rows.push(of_server);
        rows.len() - 1
    });
    rows[at].cells.resize_with(server, || None);
    rows[at].cells.push(cell);
}

fn instructions(stored: &Stored, (goal, way, most): (Goal, &str, f64)) -> Row {
    let cell = |results: &Results| {
        let ratio = stored.instructions(results)?.way(way)?.ratio();
        Some(Cell { measured: format!("{ratio:.2}"), met: ratio <= most })
    };
    let with = if goal == Goal::Pair { "" } else { ", AOF and one replica" };
    let what = format!("acquire + release, instructions to those of SET NX PX + DEL{with}");
    at_most(goal, what, most, stored.all().map(cell).collect())
}

fn hand_off(stored: &Stored, (label, way, most): (&str, &str, f64)) -> Row {
    let cell = |results: &Results| {
        let ratio = stored.hand_offs(results)?.way(way)?.ratio;
        Some(Cell { measured: format!("{ratio:.2}"), met: ratio <= most })
    };
    let what = format!("hand-off, instructions to those of RPUSH + BLPOP, {label}");
    at_most(Goal::HandOff, what, most, stored.all().map(cell).collect())
}

fn key_opens(stored: &Stored) -> Row {
    let cell = |results: &Results| {
        let opens = stored.hand_offs(results)?.way("block")?.key_opens;
        Some(Cell { measured: opens.to_string(), met: opens <= KEY_OPENS })
    };
    let what = "hand-off, opens of the lock's key, BLOCK".into();
    at_most(Goal::HandOff, what, KEY_OPENS, stored.all().map(cell).collect())
}

fn ratio(stored: &Stored, (goal, base, most): (Goal, Contender, f64)) -> Row {
    let cell = |results: &Results| {
        let costs = results.uncontended(Setting::Plain.name(), Placement::OneCore.name(), DEPTH)?;
        let ratio = costs.cost(Contender::Rlock.name())?.to(base.name())?;
        Some(Cell { measured: figure(ratio), met: ratio.median <= most })
    };
    let what = format!("acquire + release, CPU to that of {}", base.label());
    at_most(goal, what, most, stored.all().map(cell).collect())
}

fn contended(results: &Results) -> Vec<Row> {
    if results.contention.is_empty() {
        return Vec::new();
    }
    let mut rows: Vec<Row> = COMMANDS.iter().map(|target| commands(results, *target)).collect();
    rows.extend([Protocol::Block, Protocol::EnqueueShared].map(|protocol| growth(results, protocol)));
    rows.extend([Protocol::Block, Protocol::EnqueueShared].map(|protocol| latency(results, protocol)));
    rows
}

/// Worst of all sizes.
fn worst(sizes: &[&Contention], figure: fn(&Contention) -> Spread) -> Spread {
    let spreads = sizes.iter().map(|one| figure(one));
    spreads.max_by(|a, b| a.median.total_cmp(&b.median)).expect("every protocol has a size")
}

fn commands(results: &Results, (protocol, target): (Protocol, f64)) -> Row {
    let sizes = results.protocol(protocol.name());
    let most = worst(&sizes, |one| one.commands);
    let what = format!("commands per hand-off, {}, {}", protocol.label(), range(&sizes));
    // The window of a measurement cuts through a hand-off at either end.
    row_of(Goal::Other, what, format!("{target}"), figure(most), (most.median - target).abs() < 0.02)
}

fn growth(results: &Results, protocol: Protocol) -> Row {
    let sizes = results.protocol(protocol.name());
    let median =
        |one: Option<&&Contention>| one.and_then(|one| one.busy_cpu_us).map_or(f64::NAN, |cpu| cpu.median);
    let ratio = median(sizes.last()) / median(sizes.first());
    let goal = if protocol == Protocol::Block { Goal::BlockGrowth } else { Goal::EnqueueGrowth };
    let what = format!("CPU per hand-off, {}, growth over {}", protocol.label(), range(&sizes));
    row_of(goal, what, format!("≤ {GROWTH}"), number(ratio), ratio <= GROWTH)
}

fn latency(results: &Results, protocol: Protocol) -> Row {
    let sizes = results.protocol(protocol.name());
    let most = worst(&sizes, |one| one.latency_to_publish);
    let what = format!(
        "release to next holder, ratio to a PUBLISH, {}, worst of {}",
        protocol.label(),
        range(&sizes)
    );
    row_of(Goal::NextHolder, what, format!("≤ {LATENCY}"), figure(most), most.median <= LATENCY)
}

fn memory(results: &Results) -> Vec<Row> {
    let enqueued = results.memory.iter().filter(|one| one.what == What::Enqueued.name());
    let row = |bytes: f64| {
        let what = "bytes per enqueued waiter, short names".into();
        row_of(Goal::Other, what, format!("< {BYTES}"), number(bytes), bytes < BYTES)
    };
    enqueued.map(|one| row(one.bytes.median)).collect()
}

fn of_stalls(results: &Results) -> Vec<Row> {
    let Some(measured) = &results.stalls else { return Vec::new() };
    let cases = stalls::cases(measured);
    let row = |what: &str, most: f64, figures: Vec<f64>| {
        let worst = figures.iter().copied().reduce(f64::max)?;
        let what = format!("many waits that end at one moment: {what}, worst case");
        Some(row_of(Goal::Other, what, format!("≤ {most}"), number(worst), worst <= most))
    };
    let longest = cases.iter().map(stalls::Case::longest).collect();
    let growth = cases.iter().filter_map(stalls::Case::growth).collect();
    let rows = [
        row("the longest PING of another client, ms", stalls::LONGEST_MS, longest),
        row("total, growth with five times as many", stalls::GROWTH, growth),
    ];
    rows.into_iter().flatten().collect()
}

/// The targets of the Rust client, a table of its own.
pub(super) fn of_client(costs: &Client) -> String {
    let mut text = String::from("| what | target | measured | |\n|---|---|---|---|\n");
    let mut row = |what: String, most: f64, spread: Spread| {
        let verdict = if spread.median <= most { "met" } else { "**missed**" };
        let _ = writeln!(text, "| {what} | ≤ {most} | {} | {verdict} |", figure(spread));
    };
    for placement in Placement::ALL {
        if let Some(pairs) = costs.pairs(Who::Client.name(), placement.name()) {
            let place = if placement == Placement::OneCore { "one core" } else { "two cores" };
            row(format!("acquire + release, ratio to the raw commands, {place}"), PAIR, pairs.wall_to_raw);
        }
    }
    if let Some(hand_off) = costs.hand_off(Who::Client.name()) {
        row("hand-off between two processes, ratio to raw BLOCK".into(), HAND_OFF, hand_off.to_raw);
    }
    let what = format!("renewal of {} locks, % of a core", grouped(costs.renewal.locks));
    row(what, RENEWAL, costs.renewal.percent);
    text
}

/// A row for all servers.
fn at_most(goal: Goal, what: String, most: impl Display, cells: Vec<Option<Cell>>) -> Row {
    Row { goal, what, target: format!("≤ {most}"), cells }
}

fn row_of(goal: Goal, what: String, target: String, measured: String, met: bool) -> Row {
    Row { goal, what, target, cells: vec![Some(Cell { measured, met })] }
}

fn range(sizes: &[&Contention]) -> String {
    let at = |one: Option<&&Contention>| grouped(one.map_or(0, |one| one.waiters as u64));
    format!("{} to {} waiters", at(sizes.first()), at(sizes.last()))
}
