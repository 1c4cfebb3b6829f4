//! What was simulated, as tables.

use super::round;
use crate::report::tables::{grouped, number, table};
use crate::scale::checks::{Comparison, comparisons};
use crate::scale::fleet::{LINES, NAMES, SHARE};
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
         In the fleet \"one lock all want\", {} % of the acquisitions want one lock. \"That lock divided\" has {NAMES} names. In \
         \"steep popularity\" the lock of rank n is wanted in proportion to 1/n, in the other fleets to the square root of that.",
        number(SHARE * 100.0)
    )
}

/// The fleet at each load.
pub(super) fn points(scale: &Scale) -> String {
    let Some(fleet) = &scale.fleet else { return String::new() };
    let rows = fleet.points.iter().map(|point| {
        let label = LINES.into_iter().find(|line| line.name == point.line).map_or("?", |line| line.label);
        let figures = &point.figures;
        format!(
            "{label} | {} | {} | {} | {} | {}",
            round(point.asked_per_second),
            round(figures.per_second),
            number(figures.busiest),
            number(figures.mean_ms),
            number(figures.p99_ms),
        )
    });
    table(
        "fleet | asked for, a second | acquired, a second | busiest primary, % | mean wait, ms | 99th percentile, ms",
        rows,
    )
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
        let most = series.iter().copied().fold(0.0, f64::max);
        let seconds = series
            .get(end..)
            .unwrap_or(&[])
            .iter()
            .rposition(|rate| *rate > before * 1.1)
            .map_or(0, |at| at + 1);
        format!(
            "{} | {} | {} | {} | {}",
            number(one.think_ms as f64 / 1e3),
            round(before),
            round(last),
            round(most),
            number(seconds as f64 / 10.0),
        )
    });
    table(
        "a process pauses for, s | acquired before, a second | in the last half second of the fail-over | most after it | until the backlog is served, s",
        rows,
    )
}

pub(super) fn checks(scale: &Scale) -> String {
    let row = |one: Comparison| {
        let deviation = format!("{:+.0} %", one.deviation() * 100.0);
        let deviation = if one.is_near() { deviation } else { format!("**{deviation}**") };
        let (measured, simulated, bound) = (number(one.measured), number(one.simulated), one.bound() * 100.0);
        format!("{} | {} | {measured} | {simulated} | {deviation} | {bound:.0} %", one.check, one.what)
    };
    let rows = comparisons(scale).into_iter().map(row);
    table("| | measured | simulated | deviation | bound", rows)
}

/// What the simulation takes for its costs.
pub(super) fn costs(measured: &Measured) -> String {
    let costs = measured.costs(u32::MAX);
    let us = |ns: u64| number(ns as f64 / 1e3);
    let rows = [
        ("a command, on a server with the most connections", us(costs.command_ns)),
        ("more for an acquisition that waits", us(costs.wait_ns)),
    ];
    let rows = rows.map(|(what, us)| format!("{what} | {us}")).into_iter();
    let wakes = costs.wakes.into_iter().map(|wake| {
        format!("more where the server has slept for {} µs | {}", us(wake.slept_ns), us(wake.cost_ns))
    });
    table("| µs", rows.chain(wakes))
}
