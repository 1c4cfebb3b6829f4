//! docs/BENCHMARKS.md.

use std::fmt::Write;

use super::{client, clients, limits, prose, redisson, stalls, tables, targets};
use crate::contender::Contender;
use crate::placement::Placement;
use crate::redisson::Release;
use crate::results::{Before, Client, Environment, Results};
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
        ("environment", environment(&main.environment)),
        ("won", prose::won(stored)),
        ("targets", targets::table(stored)),
        ("missed", prose::missed(stored)),
        ("limits", limits::section(&stored.limits)),
        ("permits", prose::permits(stored)),
        ("uncontended", uncontended(main)),
        ("contention", tables::contention(&main.contention)),
        ("contention-rounds", main.contention.iter().map(|one| one.rounds).min().unwrap_or(0).to_string()),
        ("latency", tables::latency(&main.contention)),
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

pub(crate) fn environment(environment: &Environment) -> String {
    let Environment { server, cpu, cores, kernel, commit, date, seed, load: [before, after], seconds } =
        environment;
    let rows = [
        ("server", server.clone()),
        ("processor", format!("{cpu}, {cores} cores")),
        ("kernel", kernel.clone()),
        ("rlock", commit.clone()),
        ("date", date.clone()),
        ("seed", seed.to_string()),
        ("took", format!("{seconds} s; load average {before} before, {after} after")),
    ];
    let mut text = String::from("| | |\n|---|---|\n");
    for (name, value) in rows {
        let _ = writeln!(text, "| {name} | {value} |");
    }
    text
}

fn uncontended(results: &Results) -> String {
    let mut text = String::new();
    for one in results.uncontended.iter().filter(|one| one.placement == Placement::OneCore.name()) {
        let title = tables::uncontended_title(one);
        let _ = write!(text, "### {title}\n\n{} rounds.\n\n{}\n", one.rounds, tables::uncontended(one));
    }
    text
}

/// What the Rust client costs.
fn of_client(results: &Results) -> String {
    let Some(costs) = &results.client else { return "No results are stored.".into() };
    let rounds = |count: Option<usize>| count.unwrap_or(0);
    format!(
        "{}\n### Acquire and release\n\n{} rounds.\n\n{}\n### From release to the next guard\n\n{} rounds.\n\n{}\n\
         {}### Renewal\n\n{}\n### Targets\n\n{}",
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
        "### From release to the next guard, by the number of waiters\n\n{} rounds. Each waiter is a process. Each holder asks for the \
         lock again at once. With a critical section of 1 ms it keeps the lock for 1 to 2 ms. The 99th percentile is of all rounds \
         together.\n\n{}\n",
        costs.contended.first().map_or(0, |one| one.rounds),
        client::contended(costs),
    ) + &costs.before.as_ref().map(before).unwrap_or_default()
}

/// The same beside another commit.
fn before(before: &Before) -> String {
    format!(
        "### Beside the client of another commit\n\nThe client and the module of commit {} measured in turns with these, {} rounds.\n\n{}\n",
        before.commit,
        before.rows.first().map_or(0, |one| one.rounds),
        client::before(before),
    )
}

/// The main figures of other servers.
fn others(results: &[Results]) -> String {
    if results.is_empty() {
        return "None are stored.".into();
    }
    let mut text = String::from(
        "| | two PINGs | SET NX PX + own compare-and-delete | RLOCK.ACQUIRE + RLOCK.RELEASE | the same, ratio to Redisson 3.46 to 4.7 |\n\
         |---|---|---|---|---|\n",
    );
    for one in results {
        let Some(costs) = one.uncontended(Setting::Plain.name(), Placement::OneCore.name(), 50) else {
            continue;
        };
        let ratio = |contender: Contender, base: Contender| {
            let ratio = costs.cost(contender.name()).and_then(|cost| cost.to(base.name()));
            ratio.map_or("-".into(), tables::figure)
        };
        let _ = writeln!(
            text,
            "| {}, {} | {} | {} | {} | {} |",
            one.environment.server,
            one.environment.date,
            ratio(Contender::Pings, Contender::SetDel),
            ratio(Contender::SetOwn, Contender::SetDel),
            ratio(Contender::Rlock, Contender::SetDel),
            ratio(Contender::Rlock, Contender::Redisson(Release::Newest)),
        );
    }
    text
}
