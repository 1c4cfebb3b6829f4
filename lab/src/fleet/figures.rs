//! What a hold costs in a fleet before, half-way and after its move: stored in docs/fleet.json, shown in the page.

use std::fs;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::PAGE;
use crate::environment::root;
use crate::redisson::Release;
use crate::results::Environment;
use crate::spread::quantile;
use crate::store;

/// Between these the table stands in the page.
const BEGIN: &str = "<!-- figures -->";
const END: &str = "<!-- end of figures -->";

const FILE: &str = "docs/fleet.json";

#[derive(Serialize, Deserialize)]
struct Figures {
    date: String,
    server: String,
    redisson: String,
    cores: usize,
    /// The load average before and after.
    load: [f64; 2],
    rounds: Vec<Round>,
}

/// One kind of lock in one mix, for some seconds; see `Measurement.java`.
#[derive(Serialize, Deserialize)]
struct Round {
    kind: String,
    native_percent: u32,
    holds: f64,
    redisson_holds: f64,
    requests: f64,
    commands: f64,
    cpu_us: f64,
    hand_off_us: f64,
    hand_off_p90_us: f64,
    longest_wait_ms: f64,
}

/// Stores the rounds, one JSON object in each line.
pub(super) fn keep(rounds: &str, environment: Environment) -> Result<(), String> {
    let rounds: Result<Vec<Round>, _> = rounds.lines().map(serde_json::from_str).collect();
    let figures = Figures {
        date: environment.date,
        server: environment.server,
        redisson: Release::Newest.version().into(),
        cores: environment.cores,
        load: environment.load,
        rounds: rounds.map_err(|error| format!("the fleet's rounds: {error}"))?,
    };
    store::keep(&root().join(FILE), &figures)
}

/// The page with the stored figures.
pub(crate) fn page() -> Result<(PathBuf, String), String> {
    let read = |file| fs::read_to_string(root().join(file)).map_err(|error| format!("{file}: {error}"));
    let figures: Figures = serde_json::from_str(&read(FILE)?).map_err(|error| format!("{FILE}: {error}"))?;
    let page = read(PAGE)?;
    let marks = page.split_once(BEGIN).and_then(|(before, rest)| Some((before, rest.split_once(END)?.1)));
    let (before, after) = marks.ok_or_else(|| format!("{PAGE} has no {BEGIN}"))?;
    Ok((root().join(PAGE), format!("{before}{BEGIN}\n\n{}\n{END}{after}", figures.table())))
}

impl Figures {
    /// Medians of the rounds.
    fn table(&self) -> String {
        let mut table = String::from(
            "| lock | native threads | requests per hold | commands per hold, scripts' own included | server CPU per hold, µs \
             | release to next holder, ms (90 %) | longest wait, ms | holds by Redisson threads |\n\
             |---|---|---|---|---|---|---|---|\n",
        );
        let mut cells: Vec<(&str, u32)> = Vec::new();
        for round in &self.rounds {
            let cell = (round.kind.as_str(), round.native_percent);
            if !cells.contains(&cell) {
                cells.push(cell);
            }
        }
        let order = ["plain", "fair", "read/write"];
        cells.sort_by_key(|(kind, percent)| (order.iter().position(|one| one == kind), *percent));
        for (kind, percent) in cells {
            table += &self.row(kind, percent);
        }
        let [before, after] = self.load;
        table
            + &format!(
                "\nMedians of {} rounds each, {}, {} with Redisson {}, {} cores, load average {before} before and {after} after. ",
                self.of("plain", 0).count(),
                self.date,
                self.server,
                self.redisson,
                self.cores
            )
            + "Read the ratios: a busy \
               machine makes all times longer.\n"
    }

    fn of<'a>(&'a self, kind: &'a str, percent: u32) -> impl Iterator<Item = &'a Round> {
        self.rounds.iter().filter(move |round| round.kind == kind && round.native_percent == percent)
    }

    fn row(&self, kind: &str, percent: u32) -> String {
        let median = |figure: fn(&Round) -> f64| median(self.of(kind, percent).map(figure).collect());
        let longest = self.of(kind, percent).map(|round| round.longest_wait_ms).fold(0.0, f64::max);
        format!(
            "| {kind} | {percent} % | {:.1} | {:.1} | {:.0} | {:.2} ({:.2}) | {longest:.0} | {:.0} % |\n",
            median(|round| round.requests),
            median(|round| round.commands),
            median(|round| round.cpu_us),
            median(|round| round.hand_off_us) / 1e3,
            median(|round| round.hand_off_p90_us) / 1e3,
            median(|round| 100.0 * round.redisson_holds / round.holds.max(1.0)),
        )
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    quantile(&values, 0.5)
}
