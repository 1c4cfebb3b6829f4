//! docs/BENCHMARKS.md.

use super::{client, clients, limits, prose, redisson, stalls, tables, targets};
use crate::contender::Contender;
use crate::placement::Placement;
use crate::results::{Before, Client, Compared, Environment, Results};
use crate::scale::{self, Scale};
use crate::store::Stored;
use crate::systems;
use crate::threads;
use crate::uncontended::Setting;

const TEMPLATE: &str = include_str!("../../BENCHMARKS.md.in");

/// The page.
pub(crate) fn page(stored: &Stored, of_scale: Option<&Scale>) -> String {
    let main = &stored.main;
    let parts = [
        ("environment", machine(&main.environment)),
        ("won", prose::won(stored)),
        ("targets", targets::table(stored)),
        ("missed", prose::missed(stored)),
        ("limits", limits::section(&stored.limits)),
        ("permits", prose::permits(stored)),
        ("uncontended", tables::uncontended(&main.uncontended, Placement::OneCore)),
        ("uncontended-rounds", main.uncontended.iter().map(|one| one.rounds).min().unwrap_or(0).to_string()),
        ("contention", tables::contention(&main.contention)),
        ("contention-rounds", main.contention.iter().map(|one| one.rounds).min().unwrap_or(0).to_string()),
        ("redisson", redisson::tables(main.redisson.as_ref())),
        ("memory", tables::memory(&main.memory)),
        ("readers", tables::readers(&main.readers)),
        ("client", of_client(main)),
        ("clients", clients::tables(main.clients.as_ref())),
        ("stalls", stalls::server(main)),
        (
            "scale",
            of_scale.map_or("No results are stored.".into(), scale::section)
                + &threads::section(stored.threads.as_ref()),
        ),
        ("others", others(&stored.others)),
        ("systems", systems::section(stored.systems.as_ref())),
    ];
    filled(TEMPLATE, &parts)
}

/// The template with its parts, each in the place of its name.
pub(crate) fn filled(template: &str, parts: &[(&str, String)]) -> String {
    let mut text = template.to_string();
    for (name, value) in parts {
        let slot = format!("@{name}@");
        assert!(text.contains(&slot), "the template has no {slot}");
        text = text.replace(&slot, value.trim_end());
    }
    text
}

/// When, where and with what the figures were measured.
pub(crate) fn environment(environment: &Environment) -> String {
    let Environment { server, commit, date, seed, load: [before, after], .. } = environment;
    format!("{date}: {server}, rlock {commit}, seed {seed}, load average {before} before, {after} after.")
}

/// The same with the machine.
pub(crate) fn machine(measured: &Environment) -> String {
    let Environment { cpu, cores, kernel, .. } = measured;
    format!("{}\n{cpu}, {cores} cores, {kernel}.", environment(measured))
}

/// What the Rust client costs.
fn of_client(results: &Results) -> String {
    let Some(costs) = &results.client else { return "No results are stored.".into() };
    let rounds = |count: Option<usize>| count.unwrap_or(0);
    format!(
        "{}\n\n### Acquire and release\n\n{} rounds.\n\n{}\n### From release to the next guard\n\n{} rounds, two processes:\n\n{}\n\
         {}{}\n### Targets\n\n{}",
        environment(&costs.environment),
        rounds(costs.pairs.first().map(|one| one.rounds)),
        client::pairs(costs),
        rounds(costs.hand_offs.first().map(|one| one.rounds)),
        client::hand_offs(costs),
        contended(costs),
        client::renewal(&costs.renewal),
        targets::of_client(costs),
    )
}

/// Hand-offs among many waiters.
fn contended(costs: &Client) -> String {
    format!(
        "{} rounds, each waiter a process. A holder asks for the lock again at once, and keeps it for 1 to 2 ms or, with an empty \
         critical section, not at all. The 99th percentile is of all rounds together.\n\n{}\n",
        costs.contended.first().map_or(0, |one| one.rounds),
        client::contended(costs),
    ) + &costs.before.as_ref().map(before).unwrap_or_default()
}

/// The same beside another commit.
fn before(before: &Before) -> String {
    let ratio = |one: &Compared| {
        let section = client::section(one.hold_ms);
        format!("{} ({} waiters, {section})", tables::number(one.ratio.median), one.waiters)
    };
    format!(
        "Measured in turns with the client and the module of commit {}, {} rounds, the part of their time that a hand-off takes: {}.\n\n",
        before.commit,
        before.rows.first().map_or(0, |one| one.rounds),
        before.rows.iter().map(ratio).collect::<Vec<_>>().join(", "),
    )
}

/// The main figures of other servers.
fn others(results: &[Results]) -> String {
    if results.is_empty() {
        return "None are stored.".into();
    }
    let row = |one: &Results| {
        let costs = one.uncontended(Setting::Plain.name(), Placement::OneCore.name(), 50)?;
        let ratio = |contender: Contender| {
            let ratio = costs.cost(contender.name()).and_then(|cost| cost.to(Contender::SetDel.name()));
            ratio.map_or("-".into(), tables::figure)
        };
        let ratios = [Contender::Pings, Contender::SetOwn, Contender::Rlock].map(ratio).join(" | ");
        Some(format!("{}, {} | {ratios}", one.environment.server, one.environment.date))
    };
    tables::table(
        "| two PINGs | SET NX PX + own compare-and-delete | RLOCK.ACQUIRE + RLOCK.RELEASE",
        results.iter().filter_map(row),
    )
}
