//! The targets for the cost of rlock, and the measured figures: those that are met first.

use std::fmt::Write;

use super::stalls;
use super::tables::{figure, grouped, number};
use crate::client::Who;
use crate::contender::Contender;
use crate::contention::Protocol;
use crate::memory::What;
use crate::placement::Placement;
use crate::readers::Way;
use crate::results::{Client, Contention, Results, Stalls};
use crate::spread::Spread;
use crate::uncontended::Setting;

/// The depth that the targets are about.
const DEPTH: usize = 50;

/// Acquire and release to another way's, at most.
const RATIOS: [(Setting, Contender, f64); 5] = [
    (Setting::Plain, Contender::SetDel, 1.75),
    (Setting::Plain, Contender::SetScript, 0.85),
    (Setting::Plain, Contender::Redisson4, 0.23),
    (Setting::AofReplica, Contender::SetDel, 1.75),
    (Setting::AofReplica, Contender::Redisson4, 0.28),
];

/// Commands per hand-off.
const COMMANDS: [(Protocol, f64); 2] = [(Protocol::Block, 2.0), (Protocol::EnqueueShared, 3.0)];

/// The time to the next holder's knowledge, to that of a PUBLISH.
const LATENCY: f64 = 1.3;

/// CPU per hand-off with the most waiters, to that with the fewest.
const GROWTH: f64 = 1.3;

/// Bytes for an enqueued waiter with short names.
const BYTES: f64 = 512.0;

/// An acquire and a release by the client to the raw commands by the driver that it uses.
const PAIR: f64 = 1.1;

/// A hand-off by the client, confirmed, to that of two connections that block.
const HAND_OFF: f64 = 2.2;

/// Percent of a core for the renewal of all locks that are measured.
const RENEWAL: f64 = 1.0;

struct Row {
    what: String,
    target: String,
    measured: String,
    met: bool,
}

/// The table.
pub(crate) fn table(results: &Results) -> String {
    let mut rows: Vec<Row> = RATIOS.iter().flat_map(|target| ratio_rows(results, *target)).collect();
    rows.extend(COMMANDS.iter().map(|target| commands(results, *target)));
    rows.extend([Protocol::Block, Protocol::EnqueueShared].map(|protocol| growth(results, protocol)));
    rows.extend([Protocol::Block, Protocol::EnqueueShared].map(|protocol| latency(results, protocol)));
    rows.extend(memory(results));
    rows.extend(readers(results));
    rows.extend(results.client.iter().flat_map(of_client));
    rows.extend(results.stalls.iter().flat_map(of_stalls));
    rows.sort_by_key(|row| !row.met);
    let mut text = String::from("| what | target | measured | |\n|---|---|---|---|\n");
    for Row { what, target, measured, met } in rows {
        let verdict = if met { "met" } else { "**missed**" };
        let _ = writeln!(text, "| {what} | {target} | {measured} | {verdict} |");
    }
    text
}

fn ratio_rows(results: &Results, (setting, base, most): (Setting, Contender, f64)) -> Vec<Row> {
    let row = |placement: Placement| {
        let costs = results.uncontended(setting.name(), placement.name(), DEPTH)?;
        let ratio = costs.cost(Contender::Rlock.name())?.to(base.name())?;
        let place = if placement == Placement::OneCore { "one core" } else { "two cores" };
        let with = if setting == Setting::Plain { "" } else { "AOF and replica, " };
        let what = format!("acquire + release, ratio to {}, {with}{place}", base.label());
        Some(row_of(what, format!("≤ {most}"), figure(ratio), ratio.median <= most))
    };
    Placement::ALL.into_iter().filter_map(row).collect()
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
    row_of(what, format!("{target}"), figure(most), (most.median - target).abs() < 0.02)
}

fn growth(results: &Results, protocol: Protocol) -> Row {
    let sizes = results.protocol(protocol.name());
    let median =
        |one: Option<&&Contention>| one.and_then(|one| one.busy_cpu_us).map_or(f64::NAN, |cpu| cpu.median);
    let ratio = median(sizes.last()) / median(sizes.first());
    let what = format!("CPU per hand-off, {}, growth over {}", protocol.label(), range(&sizes));
    row_of(what, format!("≤ {GROWTH}"), number(ratio), ratio <= GROWTH)
}

fn latency(results: &Results, protocol: Protocol) -> Row {
    let sizes = results.protocol(protocol.name());
    let most = worst(&sizes, |one| one.latency_to_publish);
    let what = format!(
        "release to next holder, ratio to a PUBLISH, {}, worst of {}",
        protocol.label(),
        range(&sizes)
    );
    row_of(what, format!("≤ {LATENCY}"), figure(most), most.median <= LATENCY)
}

fn memory(results: &Results) -> Option<Row> {
    let bytes = results.memory.iter().find(|one| one.what == What::Enqueued.name())?.bytes;
    let what = "bytes per enqueued waiter, short names".into();
    Some(row_of(what, format!("< {BYTES}"), number(bytes.median), bytes.median < BYTES))
}

fn readers(results: &Results) -> Option<Row> {
    let most = results.readers.iter().rfind(|one| one.way == Way::Rlock.name())?;
    let what = format!(
        "acquire + release of a reader, ratio of {} other readers to 10",
        grouped(most.readers as u64)
    );
    Some(row_of(what, format!("≤ {GROWTH}"), figure(most.to_fewest), most.to_fewest.median <= GROWTH))
}

fn of_client(costs: &Client) -> Vec<Row> {
    let row = |what: String, most: f64, spread: Spread| {
        row_of(what, format!("≤ {most}"), figure(spread), spread.median <= most)
    };
    let pairs = |placement: Placement| {
        let ratio = costs.pairs(Who::Client.name(), placement.name())?.wall_to_raw;
        let place = if placement == Placement::OneCore { "one core" } else { "two cores" };
        Some(row(
            format!("client: acquire + release, ratio to the raw commands, same driver, {place}"),
            PAIR,
            ratio,
        ))
    };
    let hand_off = costs.hand_off(Who::Client.name()).map(|one| {
        row("client: hand-off between two processes, ratio to raw BLOCK".into(), HAND_OFF, one.to_raw)
    });
    let what = format!("client: renewal of {} locks, % of a core", grouped(costs.renewal.locks));
    let renewal = row(what, RENEWAL, costs.renewal.percent);
    Placement::ALL.into_iter().filter_map(pairs).chain(hand_off).chain([renewal]).collect()
}

fn of_stalls(results: &Stalls) -> Vec<Row> {
    let cases = stalls::cases(results);
    let row = |what: &str, most: f64, figures: Vec<f64>| {
        let worst = figures.iter().copied().reduce(f64::max)?;
        let what = format!("many waits that end at one moment: {what}, worst of {} cases", figures.len());
        Some(row_of(what, format!("≤ {most}"), number(worst), worst <= most))
    };
    let longest = cases.iter().map(stalls::Case::longest).collect();
    let growth = cases.iter().filter_map(stalls::Case::growth).collect();
    let rows = [
        row("the longest PING of another client, ms", stalls::LONGEST_MS, longest),
        row("total, growth with five times as many", stalls::GROWTH, growth),
    ];
    rows.into_iter().flatten().collect()
}

fn row_of(what: String, target: String, measured: String, met: bool) -> Row {
    Row { what, target, measured, met }
}

fn range(sizes: &[&Contention]) -> String {
    let at = |one: Option<&&Contention>| grouped(one.map_or(0, |one| one.waiters as u64));
    format!("{} to {} waiters", at(sizes.first()), at(sizes.last()))
}
