//! What the Rust client costs, as Markdown tables.

use super::tables::{figure, grouped, median, number, table};
use crate::client::Who;
use crate::placement::Placement;
use crate::results::{Before, Client, Compared, Contended, HandOff, Renewal};

/// What an acquire and a release cost, on one core and on two.
pub(crate) fn pairs(client: &Client) -> String {
    let row = |who: Who| {
        let of = Placement::ALL.map(|placement| client.pairs(who.name(), placement.name()));
        let first = of.into_iter().flatten().next()?;
        let figures = of.map(|one| {
            let figures = one.map(|one| {
                format!("{} | {} | {}", median(one.wall_us), figure(one.wall_to_raw), figure(one.cpu_to_raw))
            });
            figures.unwrap_or_else(|| "- | - | -".into())
        });
        Some(format!("{} | {} | {}", who.label(), figures.join(" | "), number(first.commands)))
    };
    let head = Placement::ALL.map(|placement| {
        let place = if placement == Placement::OneCore { "one core" } else { "two cores" };
        format!(" | {place}: µs | ratio | CPU, ratio")
    });
    table(&format!("{} | commands", head.concat().trim_start()), Who::ALL.into_iter().filter_map(row))
}

/// What a hand-off takes.
pub(crate) fn hand_offs(client: &Client) -> String {
    let row =
        |one: &HandOff| format!("{} | {} | {}", label(&one.contender), median(one.us), figure(one.to_raw));
    table("| µs | ratio to the raw commands", client.hand_offs.iter().map(row))
}

/// What a hand-off takes where many wait.
pub(crate) fn contended(client: &Client) -> String {
    let of = |who: Who| client.contended.iter().filter(move |one| one.contender == who.name());
    let row = |one: &Contended| {
        let raw = of(Who::Raw).find(|raw| (raw.waiters, raw.hold_ms) == (one.waiters, one.hold_ms))?;
        Some(format!(
            "{} | {} | {} | {} | {} | {} | {} | {} | {}",
            grouped(one.waiters as u64),
            section(one.hold_ms),
            median(raw.us),
            median(one.us),
            figure(one.to_raw),
            number(raw.p99_us),
            number(one.p99_us),
            median(raw.per_second),
            median(one.per_second),
        ))
    };
    table(
        "waiters | critical section | raw, µs | rlock-client, µs | ratio | raw, p99 | rlock-client, p99 | raw, locks a second | \
         rlock-client, locks a second",
        of(Who::Client).filter_map(row),
    )
}

/// The same beside another commit.
pub(crate) fn before(before: &Before) -> String {
    let row = |one: &Compared| {
        let (waiters, section) = (grouped(one.waiters as u64), section(one.hold_ms));
        format!("{waiters} | {section} | {}", [one.before_us, one.us, one.ratio].map(figure).join(" | "))
    };
    let head = format!("waiters | critical section | {}, µs | µs | ratio", before.commit);
    table(&head, before.rows.iter().map(row))
}

/// The critical section of a holder.
pub(super) fn section(hold_ms: u64) -> String {
    if hold_ms == 0 { "empty".into() } else { format!("{hold_ms} ms") }
}

/// What keeping many locks takes.
pub(crate) fn renewal(renewal: &Renewal) -> String {
    format!(
        "Renewing {} held locks takes {} % of a core, measured for the whole process; without a lock the process takes {} %.\n",
        grouped(renewal.locks),
        figure(renewal.percent),
        number(renewal.idle_percent),
    )
}

fn label(contender: &str) -> &'static str {
    let found = Who::ALL.into_iter().find(|who| who.name() == contender);
    found.map_or("?", Who::label)
}

#[cfg(test)]
mod tests {
    use crate::client::Who;
    use crate::placement::Placement;
    use crate::report::doc;
    use crate::results::{Before, Client, Compared, Contended, HandOff, Pairs, Renewal};
    use crate::spread::Spread;
    use crate::store;

    fn spread(median: f64) -> Spread {
        Spread { median, p10: median - 0.01, p90: median + 0.01 }
    }

    fn pairs(placement: Placement) -> Pairs {
        let (contender, placement) = (Who::Client.name().into(), placement.name().into());
        let (wall_us, wall_to_raw, cpu_us, cpu_to_raw) =
            (spread(20.0), spread(1.05), spread(12.0), spread(1.2));
        Pairs { contender, placement, rounds: 7, wall_us, wall_to_raw, cpu_us, cpu_to_raw, commands: 2.0 }
    }

    fn contended((who, us, to_raw): (Who, f64, f64)) -> Contended {
        let (us, to_raw, per_second) = (spread(us), spread(to_raw), spread(9_000.0));
        let contender = who.name().into();
        Contended { contender, waiters: 100, hold_ms: 0, rounds: 6, us, to_raw, p99_us: 180.0, per_second }
    }

    fn before() -> Before {
        let (before_us, us, ratio) = (spread(400.0), spread(200.0), spread(0.5));
        let row = Compared { waiters: 20, hold_ms: 1, rounds: 6, before_us, us, ratio };
        Before { commit: "0123abcd".into(), rows: vec![row] }
    }

    #[test]
    fn the_page_has_what_was_measured_and_what_was_aimed_at() {
        let mut stored = store::load().unwrap();
        stored.main.client = None;
        assert!(!doc::page(&stored, None).contains("renewal of 10,000 locks"));
        let environment = stored.main.environment.clone();
        stored.main.client = Some(Client {
            environment,
            pairs: Placement::ALL.map(pairs).into(),
            hand_offs: vec![HandOff {
                contender: Who::Client.name().into(),
                rounds: 8,
                us: spread(250.0),
                to_raw: spread(2.5),
            }],
            contended: [(Who::Raw, 70.0, 1.0), (Who::Client, 95.0, 1.3)].map(contended).into(),
            before: Some(before()),
            renewal: Renewal { locks: 10_000, rounds: 3, percent: spread(0.5), idle_percent: 0.01 },
        });
        let page = doc::page(&stored, None);
        for line in [
            "| acquire + release, ratio to the raw commands, one core | ≤ 1.1 | 1.05 (1.04–1.06) | met |",
            "| hand-off between two processes, ratio to raw BLOCK | ≤ 2.2 | 2.50 (2.49–2.51) | **missed** |",
            "| renewal of 10,000 locks, % of a core | ≤ 1 | 0.50 (0.49–0.51) | met |",
            "| rlock-client | 20.0 | 1.05 (1.04–1.06) | 1.20 (1.19–1.21) | 20.0 | 1.05 (1.04–1.06) | 1.20 (1.19–1.21) | 2.00 |",
            "| rlock-client | 250 | 2.50 (2.49–2.51) |",
            "commit 0123abcd, 6 rounds, the part of their time that a hand-off takes: 0.50 (20 waiters, 1 ms).",
            "| 100 | empty | 70.0 | 95.0 | 1.30 (1.29–1.31) | 180 | 180 | 9,000 | 9,000 |",
        ] {
            assert!(page.contains(line), "{line}\n{page}");
        }
    }
}
