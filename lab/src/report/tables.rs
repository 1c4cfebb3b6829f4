//! The results as Markdown tables, which are readable in a terminal too.

use std::fmt::Write;

use super::{client, clients, redisson, stalls, targets};
use crate::contender::Contender;
use crate::contention::Protocol;
use crate::memory::What;
use crate::placement::Placement;
use crate::readers::{SIZES, Way};
use crate::results::{Contention, Cost, Memory, Readers, Results, Uncontended};
use crate::spread::Spread;
use crate::uncontended::{BASES, Setting};

/// A figure and its spread: `1.74 (1.70–1.79)`, or only the figure if the spread does not show.
pub(crate) fn figure(spread: Spread) -> String {
    let [median, low, high] = [spread.median, spread.p10, spread.p90].map(number);
    if low == high { median } else { format!("{median} ({low}–{high})") }
}

/// A figure without its spread.
pub(crate) fn median(spread: Spread) -> String {
    number(spread.median)
}

/// With as many digits as say something.
pub(crate) fn number(value: f64) -> String {
    match value {
        _ if value >= 100.0 => grouped(value.round() as u64),
        _ if value >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// `12345` as `12,345`.
pub(crate) fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A table of a head and rows, whose cells a bar divides.
pub(crate) fn table(head: &str, rows: impl IntoIterator<Item = String>) -> String {
    let mut text = format!("| {head} |\n|{}\n", "---|".repeat(head.matches('|').count() + 1));
    rows.into_iter().for_each(|row| {
        let _ = writeln!(text, "| {row} |");
    });
    text
}

/// What readers cost that come and go.
pub(crate) fn readers(results: &[Readers]) -> String {
    if results.is_empty() {
        return "No results are stored.".into();
    }
    let mut text = String::from(
        "| other readers | rlock, µs | ratio to 10 others | Redisson 3.46 to 4.7, µs |\n|---|---|---|---|\n",
    );
    let of = |way: Way, readers: usize| {
        results.iter().find(move |one| one.way == way.name() && one.readers == readers)
    };
    for readers in SIZES {
        let ours = of(Way::Rlock, readers);
        let us = |one: Option<&Readers>| one.map_or("-".into(), |one| median(one.cpu_us));
        let (ours_us, ratio) = (us(ours), ours.map(|one| one.to_fewest));
        let scripts = us(of(Way::Redisson, readers));
        let others = grouped(readers as u64);
        let _ = writeln!(text, "| {others} | {ours_us} | {} | {scripts} |", shown(ratio));
    }
    if let Some(most) = results.iter().rfind(|one| one.way == Way::Rlock.name()) {
        let verdict = if most.to_fewest.median <= targets::GROWTH { "met" } else { "**missed**" };
        let _ = write!(text, "\nThe target for the last ratio is at most {}: {verdict}.\n", targets::GROWTH);
    }
    text
}

/// What one setting and depth means.
fn setting(results: &Uncontended) -> String {
    let depth = if results.depth == 1 { "one".into() } else { results.depth.to_string() };
    let with = if results.setting == Setting::Plain.name() { "" } else { ", AOF and replica" };
    format!("{depth} in flight{with}")
}

/// The costs with this placement: a column for each setting, and rlock's ratios to the bases.
pub(crate) fn uncontended(results: &[Uncontended], placement: Placement) -> String {
    let settings: Vec<&Uncontended> =
        results.iter().filter(|one| one.placement == placement.name()).collect();
    let head: String = settings.iter().map(|one| format!(" | {}", setting(one))).collect();
    let costs = settings.first().map_or(&[][..], |one| &one.costs[..]);
    let row = |cost: &Cost| {
        let label = Contender::named(&cost.contender).map_or("?", Contender::label);
        let costs =
            settings.iter().map(|one| one.costs.iter().find(|other| other.contender == cost.contender));
        let cells: String =
            costs.map(|cost| format!(" | {}", cost.map_or("-".into(), |cost| median(cost.cpu_us)))).collect();
        format!("{label}{cells}")
    };
    let ratios = |one: &&Uncontended| {
        let rlock = one.costs.iter().find(|cost| cost.contender == Contender::Rlock.name());
        let ratios = BASES.map(|base| shown(rlock.and_then(|rlock| rlock.to(base.name()))));
        format!("{} | {}", setting(one), ratios.join(" | "))
    };
    let bases = BASES.map(|base| format!(" | to {}", base.label())).concat();
    format!(
        "{}\n{}",
        table(&format!("µs{head}"), costs.iter().map(row)),
        table(&format!("{}, ratio{bases}", Contender::Rlock.label()), settings.iter().map(ratios)),
    )
}

fn shown(spread: Option<Spread>) -> String {
    spread.map_or("-".into(), figure)
}

/// What a hand-off costs, and how long it takes.
pub(crate) fn contention(results: &[Contention]) -> String {
    let row = |one: &Contention| {
        let busy = one.busy_cpu_us.map_or("-".into(), |cpu| number(cpu.median));
        let [fewest, _, most] = one.grants.map(number);
        format!(
            "{} | {} | {} | {} | {busy} | {} | {fewest} to {most} | {} | {} | {}",
            label(&one.protocol),
            grouped(one.waiters as u64),
            number(one.commands.median),
            median(one.cpu_us),
            number(one.per_second.median),
            number(one.latency.p50),
            number(one.latency.p99),
            figure(one.latency_to_publish),
        )
    };
    table(
        "| waiters | commands | CPU, µs | without a pause | a second | grants | time, µs | p99 | ratio to PUBLISH",
        results.iter().map(row),
    )
}

fn label(protocol: &str) -> String {
    let found = Protocol::ALL.into_iter().find(|one| one.name() == protocol);
    found.map_or(protocol.into(), |one| one.label().into())
}

/// Bytes.
pub(crate) fn memory(results: &[Memory]) -> String {
    let row = |one: &Memory| {
        let label = What::ALL.into_iter().find(|what| what.name() == one.what).map_or("?", What::label);
        format!("{label} | {} | {}", number(one.bytes.median), grouped(one.count as u64))
    };
    table("| bytes each | measured with", results.iter().map(row))
}

/// All that was measured, for the terminal.
pub(crate) fn everything(results: &Results) -> String {
    let mut text = String::new();
    for placement in Placement::ALL.into_iter().filter(|_| !results.uncontended.is_empty()) {
        let costs = uncontended(&results.uncontended, placement);
        let _ = write!(text, "\nacquire and release, {}\n\n{costs}", placement.name());
    }
    if !results.contention.is_empty() {
        let _ = write!(text, "\nper hand-off\n\n{}", contention(&results.contention));
    }
    if !results.memory.is_empty() {
        let _ = write!(text, "\nmemory\n\n{}", memory(&results.memory));
    }
    if !results.readers.is_empty() {
        let _ = write!(text, "\nacquire and release of one reader\n\n{}", readers(&results.readers));
    }
    if let Some(costs) = &results.client {
        let (pairs, hand_offs) = (client::pairs(costs), client::hand_offs(costs));
        let _ = write!(text, "\nthe client: an acquire and a release, one after the other\n\n{pairs}");
        let _ = write!(text, "\nthe client: from release to the next holder's guard\n\n{hand_offs}");
        let _ = write!(text, "\nthe client: the same with many waiters\n\n{}", client::contended(costs));
        if let Some(before) = &costs.before {
            let _ =
                write!(text, "\nthe client: beside that of {}\n\n{}", before.commit, client::before(before));
        }
        let _ = write!(text, "\n{}", client::renewal(&costs.renewal));
    }
    if results.clients.is_some() {
        let _ = write!(
            text,
            "\nthe clients for other languages\n\n{}",
            clients::tables(results.clients.as_ref())
        );
    }
    if results.redisson.is_some() {
        let _ = write!(text, "\nRedisson itself\n\n{}", redisson::tables(results.redisson.as_ref()));
    }
    if let Some(measured) = &results.stalls {
        let _ = write!(text, "\nmany waits that end at one moment\n\n{}", stalls::tables(measured));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_digits_that_say_something() {
        let shown = [0.034, 1.2345, 12.345, 123.45, 12_345.0].map(number);
        assert_eq!(shown, ["0.03", "1.23", "12.3", "123", "12,345"]);
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }
}
