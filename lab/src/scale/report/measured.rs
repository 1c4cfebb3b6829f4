//! The measured points as tables.

use std::fmt::Write;

use super::{per_second, round};
use crate::contender::Contender;
use crate::placement::Placement;
use crate::report::tables::{figure, grouped, median, number, table};
use crate::results::Results;
use crate::scale::fill::What;
use crate::scale::results::{Measured, Stop, Traffic};
use crate::scale::tied::Kind;
use crate::scale::traffic::{COMMANDS, State};
use crate::spread::{quantile, rounded};
use crate::uncontended::Setting;

/// The share of a server's one core that a plan should use.
pub(super) const PLANNED: f64 = 0.6;

/// The primaries of the clusters in the table.
const CLUSTERS: [u32; 2] = [3, 16];

/// Renewals in a second for a lock with the usual lease of 30 s.
const RENEWALS: f64 = 0.1;
/// The time of the server's work, the rate of a whole core, and the rate that the load generator, one thread, has reached.
pub(super) fn rates(measured: &Measured) -> String {
    let piped = measured.piped.iter().map(|one| {
        let what = match one.work.as_str() {
            "pair" => "acquire + release, 50 in flight on one connection",
            "renew" => "renewal, 50 in flight",
            _ => "hand-off by ENQUEUE (release, confirmation, next request), 50 in flight",
        };
        format!("{what} | {} | {} | -", median(one.cpu_us), round(per_second(one.cpu_us.median)))
    });
    let row = |what: String, cpu_us: f64, reached: f64| {
        format!("{what} | {} | {} | {}", number(cpu_us), round(per_second(cpu_us)), round(reached))
    };
    let single = measured.single.iter().map(|one| {
        let clients = if one.connections == 1 {
            "1 client".into()
        } else {
            format!("{} clients", grouped(one.connections.into()))
        };
        row(format!("acquire + release, {clients} with one command in flight"), one.cpu_us, one.per_second)
    });
    let paced = measured.paced.iter().map(|one| {
        let what = format!(
            "acquire + release, {} clients that pause: the server sleeps {} times",
            one.connections,
            number(one.sleeps),
        );
        row(what, one.cpu_us, one.per_second)
    });
    let contended = measured.contended.iter().map(|one| {
        let clients = grouped(one.connections.into());
        let locks = if one.locks == 1 { "one lock".into() } else { format!("{} locks", one.locks) };
        row(format!("hand-off by BLOCK, {clients} clients for {locks}"), one.cpu_us, one.per_second)
    });
    table(
        "| server CPU, µs | a second on a whole core | reached by one load generator",
        piped.chain(single).chain(paced).chain(contended),
    )
}

/// What one server and clusters carry.
pub(super) fn carries(measured: &Measured, main: &Results) -> String {
    let piped = |work: &str| {
        measured.piped.iter().find(|one| one.work == work).map_or(f64::NAN, |one| one.cpu_us.median)
    };
    let most = measured.single.last().map_or(f64::NAN, |one| one.cpu_us);
    let many = measured.contended.last().map_or(f64::NAN, |one| one.cpu_us);
    // An acquisition and a release, with an AOF and a replica to those without.
    let safe = |setting: Setting| {
        let costs = main.uncontended(setting.name(), Placement::OneCore.name(), 50)?;
        Some(costs.cost(Contender::Rlock.name())?.cpu_us.median)
    };
    let dearer = safe(Setting::AofReplica).zip(safe(Setting::Plain)).map(|(with, without)| with / without);
    let rows = [
        ("locks a second, 50 in flight on each connection", per_second(piped("pair"))),
        (
            "the same with an AOF (everysec) and a replica",
            per_second(piped("pair") * dearer.unwrap_or(f64::NAN)),
        ),
        ("locks a second, thousands of clients with one command in flight", per_second(most)),
        ("hand-offs a second by BLOCK, many locks", per_second(many)),
        ("hand-offs a second by ENQUEUE, 50 in flight", per_second(piped("hand-off"))),
        ("held locks that clients renew every 10 s (a lease of 30 s)", per_second(piped("renew")) / RENEWALS),
    ];
    let rows = rows.into_iter().filter(|row| row.1.is_finite()).map(|(what, whole)| {
        let mut row = format!("{what} | {} | {}", round(whole), round(whole * PLANNED));
        for primaries in CLUSTERS {
            let _ = write!(row, " | {}", round(whole * PLANNED * f64::from(primaries)));
        }
        row
    });
    let [few, many] = CLUSTERS;
    let planned = number(PLANNED * 100.0);
    table(
        &format!(
            "| one server, a whole core | at {planned} % | {few} primaries at {planned} % | {many} primaries at {planned} %"
        ),
        rows,
    )
}

/// Memory, other clients' waits and the load at rest.
pub(super) fn rest(measured: &Measured) -> String {
    let filled = measured.memory.iter().map(|one| {
        let label = What::ALL.into_iter().find(|what| what.name() == one.what).map_or("?", What::label);
        format!(
            "{} {label} | {} | {} | {} | {}",
            grouped(one.count as u64),
            number(one.bytes_each),
            number(one.used_mb),
            number(one.coming_ms),
            number(one.idle_percent),
        )
    });
    let tied = measured.tied.iter().map(|one| {
        let label = Kind::ALL.into_iter().find(|kind| kind.name() == one.what).map_or("?", Kind::label);
        let megabytes = one.bytes_each * one.connections as f64 / 1e6;
        format!(
            "{} {label} | {} | {} | - | {}",
            grouped(one.connections as u64),
            number(one.bytes_each),
            number(megabytes),
            number(one.idle_percent),
        )
    });
    table("| bytes each | `used_memory`, MB | PING, ms | CPU at rest, %", filled.chain(tied))
}

pub(super) fn traffic(measured: &Measured) -> String {
    let row = |state: State| {
        let mut row = state.label().to_string();
        for command in COMMANDS {
            let one = measured.traffic.iter().find(|one| one.state == state.name() && one.command == command);
            let shown = |one: &Traffic| match state {
                State::Without => format!("1 ({} µs)", number(one.cpu_us.median)),
                _ => figure(one.to_without),
            };
            let _ = write!(row, " | {}", one.map_or("-".into(), shown));
        }
        row
    };
    table(&format!("| {}", COMMANDS.join(" | ")), State::ALL.map(row))
}

impl Stop {
    /// Of all its kills.
    pub(crate) fn median(&self) -> f64 {
        let mut seconds = self.seconds.clone();
        seconds.sort_by(f64::total_cmp);
        rounded(quantile(&seconds, 0.5))
    }
}

pub(super) fn stops(stops: &[Stop]) -> String {
    let row = |one: &Stop| {
        let way = if one.option.starts_with("cluster") {
            "cluster: 3 primaries, 3 replicas"
        } else {
            "3 Sentinels: a primary, a replica"
        };
        let seconds: Vec<String> = one.seconds.iter().map(|seconds| number(*seconds)).collect();
        format!("{way} | `{} {}` | {}", one.option, one.option_ms, seconds.join(", "))
    };
    table("| option, ms | seconds until locks are served, each kill", stops.iter().map(row))
}
