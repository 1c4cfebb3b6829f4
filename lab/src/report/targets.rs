//! The targets for the cost of rlock, and the measured figures: those that are met first.

use std::fmt::Display;

use serde::Serialize;

use super::stalls;
use super::template::{figure, grouped, number};
use crate::client::Who;
use crate::contender::Contender;
use crate::contention::Protocol;
use crate::counted::figure as figure_of;
use crate::memory::What;
use crate::placement::Placement;
use crate::redisson::Release;
use crate::results::{Client, Contention, Results};
use crate::spread::Spread;
use crate::store::{self, Stored};
use crate::uncontended::Setting;

/// The depth that the targets are about.
const DEPTH: usize = 50;

/// Instructions of an acquire and a release to those of SET NX PX and DEL, at most, and with an AOF and a replica.
const INSTRUCTIONS: [(&str, &str, &str, f64); 2] =
    [("pair", "plain", "", 1.65), ("with-replica", "aof-replica", ", AOF and one replica", 1.9)];

/// Instructions of a hand-off to those of RPUSH and BLPOP, at most.
const HAND_OFFS: [(&str, &str, f64); 3] = [
    ("BLOCK", "block", 2.2),
    ("ENQUEUE, confirmed by RENEW", "enqueue", 3.6),
    ("ENQUEUE without the RENEW", "enqueue-unconfirmed", 2.9),
];

/// How often a hand-off by BLOCK opens the lock's key: its release, and the acquire that waits.
const KEY_OPENS: f64 = 3.0;

/// The CPU of an acquire and a release to another way's, at most.
const RATIOS: [(Contender, f64); 2] =
    [(Contender::SetScript, 0.85), (Contender::Redisson(Release::Newest), 0.25)];

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

/// A measured figure, and whether it meets its target.
#[derive(Serialize)]
struct Cell {
    measured: String,
    met: bool,
}

#[derive(Serialize)]
pub(super) struct Row {
    /// The page explains a miss by it; nothing where no miss is explained yet.
    reason: Option<&'static str>,
    what: String,
    target: String,
    /// One for each server, the main one first; nothing where it was not measured.
    cells: Vec<Option<Cell>>,
    met: bool,
}

/// The targets of all servers.
struct Table<'a> {
    stored: &'a Stored,
    rows: Vec<Row>,
}

/// All of them, those that are met first.
pub(super) fn rows(stored: &Stored) -> Vec<Row> {
    let mut table = Table { stored, rows: Vec::new() };
    table.counted();
    table.uncontended();
    table.contended();
    table.memory();
    table.stalls();
    table.rows.sort_by_key(|row| !row.met);
    table.rows
}

impl Table<'_> {
    /// Adds a row with a figure of each server, unless none has it.
    fn row(
        &mut self,
        reason: Option<&'static str>,
        what: String,
        target: String,
        cell: impl Fn(&Results) -> Option<Cell>,
    ) {
        let cells: Vec<Option<Cell>> = self.stored.all().map(cell).collect();
        if cells.iter().any(Option::is_some) {
            let met = cells.iter().flatten().all(|cell| cell.met);
            self.rows.push(Row { reason, what, target, cells, met });
        }
    }

    fn counted(&mut self) {
        let stored = self.stored;
        for (reason, way, with, most) in INSTRUCTIONS {
            let what = format!("acquire + release, instructions to those of SET NX PX + DEL{with}");
            self.row(Some(reason), what, at_most(most), |results| {
                let counted = store::of(&stored.instructions, results)?;
                Some(cell(figure_of(counted, way, "rlock")? / figure_of(counted, way, "set_del")?, most))
            });
        }
        for (label, way, most) in HAND_OFFS {
            let what = format!("hand-off, instructions to those of RPUSH + BLPOP, {label}");
            self.row(Some("hand-off"), what, at_most(most), |results| {
                Some(cell(figure_of(store::of(&stored.hand_offs, results)?, way, "ratio")?, most))
            });
        }
        let what = "hand-off, opens of the lock's key, BLOCK".into();
        self.row(Some("hand-off"), what, at_most(KEY_OPENS), |results| {
            let opens = figure_of(store::of(&stored.hand_offs, results)?, "block", "key_opens")?;
            Some(Cell { measured: opens.to_string(), met: opens <= KEY_OPENS })
        });
    }

    fn uncontended(&mut self) {
        for (base, most) in RATIOS {
            let what = format!("acquire + release, CPU to that of {}", base.label());
            self.row(Some("pair"), what, at_most(most), |results| {
                let costs = results.uncontended(Setting::Plain.name(), Placement::OneCore.name(), DEPTH)?;
                Some(spread_cell(costs.cost(Contender::Rlock.name())?.to(base.name())?, most))
            });
        }
    }

    fn contended(&mut self) {
        let range = |protocol: Protocol| {
            let [first, last] = [protocol.sizes().first(), protocol.sizes().last()];
            let [first, last] = [first, last].map(|size| grouped(*size.unwrap_or(&0) as u64));
            format!("{first} to {last} waiters")
        };
        for (protocol, most) in COMMANDS {
            let what = format!("commands per hand-off, {}, {}", protocol.label(), range(protocol));
            self.row(None, what, most.to_string(), |results| {
                let commands = worst(results, protocol, |one| one.commands)?;
                // The window of a measurement cuts through a hand-off at either end.
                Some(Cell { measured: figure(commands), met: (commands.median - most).abs() < 0.02 })
            });
        }
        for (protocol, reason) in
            [(Protocol::Block, "block-growth"), (Protocol::EnqueueShared, "enqueue-growth")]
        {
            let what = format!("CPU per hand-off, {}, growth over {}", protocol.label(), range(protocol));
            self.row(Some(reason), what, at_most(GROWTH), |results| {
                let sizes = results.protocol(protocol.name());
                let median = |one: &Contention| one.busy_cpu_us.map_or(f64::NAN, |cpu| cpu.median);
                Some(cell(median(sizes.last()?) / median(sizes.first()?), GROWTH))
            });
        }
        for protocol in [Protocol::Block, Protocol::EnqueueShared] {
            let (label, range) = (protocol.label(), range(protocol));
            let what = format!("release to next holder, ratio to a PUBLISH, {label}, worst of {range}");
            self.row(Some("next-holder"), what, at_most(LATENCY), |results| {
                Some(spread_cell(worst(results, protocol, |one| one.latency_to_publish)?, LATENCY))
            });
        }
    }

    fn memory(&mut self) {
        let what = "bytes per enqueued waiter, short names".into();
        self.row(None, what, format!("< {BYTES}"), |results| {
            let bytes = results.memory.iter().find(|one| one.what == What::Enqueued.name())?.bytes.median;
            Some(Cell { measured: number(bytes), met: bytes < BYTES })
        });
    }

    fn stalls(&mut self) {
        let worst = |results: &Results, figure: fn(&stalls::Case) -> Option<f64>| {
            let cases = stalls::cases(results.stalls.as_ref()?);
            let cases = cases.iter().flat_map(|case| [Some(case), case.long.as_deref()]).flatten();
            cases.filter_map(figure).reduce(f64::max)
        };
        let what = |figure| format!("many waits that end at one moment: {figure}, worst case");
        let longest = what("the longest PING of another client, ms");
        self.row(None, longest, at_most(stalls::LONGEST_MS), |results| {
            Some(cell(worst(results, |case| Some(case.longest_ms))?, stalls::LONGEST_MS))
        });
        let growth = what("total, growth with five times as many");
        self.row(None, growth, at_most(stalls::GROWTH), |results| {
            Some(cell(worst(results, |case| case.growth)?, stalls::GROWTH))
        });
    }
}

fn at_most(most: impl Display) -> String {
    format!("≤ {most}")
}

fn cell(value: f64, most: f64) -> Cell {
    Cell { measured: number(value), met: value <= most }
}

fn spread_cell(spread: Spread, most: f64) -> Cell {
    Cell { measured: figure(spread), met: spread.median <= most }
}

/// Worst of all sizes.
fn worst(results: &Results, protocol: Protocol, figure: fn(&Contention) -> Spread) -> Option<Spread> {
    let spreads = results.protocol(protocol.name()).into_iter().map(figure);
    spreads.max_by(|a, b| a.median.total_cmp(&b.median))
}

/// The targets of the Rust client, a table of its own.
pub(super) fn of_client(costs: &Client) -> Vec<Row> {
    let row = |what: String, most: f64, spread: Spread| {
        let cell = spread_cell(spread, most);
        Row { reason: None, what, target: at_most(most), met: cell.met, cells: vec![Some(cell)] }
    };
    let places = [(Placement::OneCore, "one core"), (Placement::TwoCores, "two cores")];
    let pairs = places.into_iter().filter_map(|(placement, place)| {
        let ratio = costs.pairs(Who::Client.name(), placement.name())?.wall_to_raw;
        Some(row(format!("acquire + release, ratio to the raw commands, {place}"), PAIR, ratio))
    });
    let what = "hand-off between two processes, ratio to raw BLOCK".into();
    let hand_off = costs.hand_off(Who::Client.name()).map(|one| row(what, HAND_OFF, one.to_raw));
    let what = format!("renewal of {} locks, % of a core", grouped(costs.renewal.locks));
    pairs.chain(hand_off).chain([row(what, RENEWAL, costs.renewal.percent)]).collect()
}
