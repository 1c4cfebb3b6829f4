//! What was simulated, as tables.

use super::round;
use crate::report::tables::{grouped, number, table};
use crate::scale::checks::{Comparison, comparisons};
use crate::scale::fleet::{LINES, Line, NAMES, SHARE};
use crate::scale::outcome::Figures;
use crate::scale::results::{Measured, Scale};

/// In place of what is simulated.
const LEFT_OUT: &str = "The simulated fleet is left out: its simulation was too far from the last measurements, as the table below shows.";

/// The plot, and how to read its lines.
pub(super) fn picture(scale: &Scale) -> String {
    if scale.fleet.is_none() {
        return LEFT_OUT.into();
    }
    format!(
        "<!-- site: ![Left: locks acquired a second, by the number that a fleet asks for. Right: the same during a fail-over.](bench/scale/fleet.svg) -->\n\n\
         \"One lock all want\" is {} % of the acquisitions, \"that lock divided\" has {NAMES} names. With \
         \"steep popularity\" the lock of rank n is wanted in proportion to 1/n, else to the square root of that.",
        number(SHARE * 100.0)
    )
}

/// The fleet at every second load: what it gets, and how long it waits. The plot has all loads.
pub(super) fn points(scale: &Scale) -> String {
    let Some(fleet) = &scale.fleet else { return String::new() };
    let of = |line: Line| fleet.points.iter().filter(move |point| point.line == line.name).step_by(2);
    let asked: Vec<String> = of(LINES[0]).map(|point| round(point.asked_per_second)).collect();
    let one = |what: &str, figure: fn(&Figures) -> String| {
        let row = |line: Line| {
            let cells: Vec<String> = of(line).map(|point| figure(&point.figures)).collect();
            format!("{} | {}", line.label, cells.join(" | "))
        };
        table(&format!("{what} | {}", asked.join(" | ")), LINES.map(row))
    };
    let acquired =
        one("acquired a second, by the number that is asked for", |figures| round(figures.per_second));
    let waits = one("waits, 99th percentile, ms", |figures| number(figures.p99_ms));
    format!("{acquired}\n{waits}")
}

pub(super) fn crashes(scale: &Scale) -> String {
    let Some(fleet) = &scale.fleet else { return LEFT_OUT.into() };
    let rows = fleet.crashes.iter().map(|one| {
        let way = if one.stays_ms < 10_000 { "SESSION" } else { "lease" };
        let figures = &one.figures;
        format!(
            "{way}, {} ms | {} | {} | {}",
            grouped(one.stays_ms),
            number(figures.mean_ms),
            number(figures.p99_ms),
            number(figures.longest_ms),
        )
    });
    table("a dead holder's lock is free after | mean wait, ms | 99th percentile, ms | longest, ms", rows)
}

/// What a fail-over does to a fleet.
pub(super) fn outage(scale: &Scale) -> String {
    let Some(fleet) = &scale.fleet else { return LEFT_OUT.into() };
    let rows = fleet.outages.iter().map(|one| {
        let series = &one.per_second;
        let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len().max(1) as f64;
        let before = mean(series.get(..10).unwrap_or(series));
        let end = (10 + one.stop_ms as usize / 100).min(series.len());
        let last = mean(series.get(end.saturating_sub(5)..end).unwrap_or(&[]));
        let after = series.get(end..).unwrap_or(&[]);
        let seconds = after.iter().rposition(|rate| *rate > before * 1.1).map_or(0, |at| at + 1);
        format!(
            "{} s | {} | {} | {}",
            number(one.think_ms as f64 / 1e3),
            round(before),
            round(last),
            number(seconds as f64 / 10.0),
        )
    });
    table(
        "each process pauses | locks a second before | at its end | seconds until the backlog is served",
        rows,
    )
}

/// A row for each profile: its rate, and the figure with the largest deviation.
pub(super) fn checks(scale: &Scale) -> String {
    let all = comparisons(scale);
    let row = |profile: &[Comparison]| {
        let [rate, ..] = profile else { return None };
        let worst = profile.iter().max_by(|a, b| a.excess().total_cmp(&b.excess()))?;
        let deviation = format!("{:+.0} %", worst.deviation() * 100.0);
        let deviation = if worst.is_near() { deviation } else { format!("**{deviation}**") };
        let (measured, simulated, bound) =
            (number(rate.measured), number(rate.simulated), worst.bound() * 100.0);
        let what = worst.what.split_once(',').map_or(worst.what, |(what, _)| what);
        Some(format!("{} | {measured} | {simulated} | {deviation}, {what} | {bound:.0} %", rate.check))
    };
    let profiles = all.chunk_by(|a, b| a.check == b.check);
    table("| measured, a second | simulated | largest deviation | bound", profiles.filter_map(row))
}

/// What the simulation takes for its costs.
pub(super) fn costs(measured: &Measured) -> String {
    let costs = measured.costs(u32::MAX);
    let us = |ns: u64| number(ns as f64 / 1e3);
    let wakes: Vec<String> = costs
        .wakes
        .into_iter()
        .map(|wake| format!("{} more after a sleep of {} µs", us(wake.cost_ns), us(wake.slept_ns)))
        .collect();
    format!(
        "A command takes {} µs on a server with the most connections: {} more if it is an acquisition that waits, {}.",
        us(costs.command_ns),
        us(costs.wait_ns),
        wakes.join(", ")
    )
}
