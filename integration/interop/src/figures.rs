//! What a hold costs in a fleet before, half-way and after its move: stored in docs/fleet.json, shown in the page.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread::available_parallelism;

use rlock_testkit::ServerVersion;
use serde::{Deserialize, Serialize};

use crate::fleet::PAGE;
use crate::parts::REDISSON;
use crate::place::{Outcome, root};

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

/// The load average of the last minute.
pub(crate) fn load() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|load| load.parse().ok()).unwrap_or(0.0)
}

/// Stores the rounds, one JSON object in each line, and shows them in the page.
pub(crate) fn store(rounds: &str, version: &ServerVersion, before: f64) -> Outcome {
    let rounds: Result<Vec<Round>, _> = rounds.lines().map(serde_json::from_str).collect();
    let figures = Figures {
        date: date()?,
        server: format!("{:?} {}.{}.{}", version.name, version.major, version.minor, version.patch),
        redisson: REDISSON.into(),
        cores: available_parallelism().map_or(1, usize::from),
        load: [before, load()],
        rounds: rounds.map_err(|error| format!("the fleet's rounds: {error}"))?,
    };
    let json = rlock_testkit::rows(&figures).map_err(|error| error.to_string())?;
    write(&root().join(FILE), &json)?;
    render()
}

/// Remakes the table of the page from what is stored.
pub(crate) fn render() -> Outcome {
    let figures = stored()?;
    println!("{}", figures.table());
    write(&root().join(PAGE), &shown(&figures, &page()?)?)
}

fn stored() -> Result<Figures, String> {
    let json = fs::read_to_string(root().join(FILE)).map_err(|error| format!("{FILE}: {error}"))?;
    serde_json::from_str(&json).map_err(|error| format!("{FILE}: {error}"))
}

fn date() -> Result<String, String> {
    let output =
        Command::new("date").args(["-u", "+%Y-%m-%d"]).output().map_err(|error| error.to_string())?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn page() -> Result<String, String> {
    fs::read_to_string(root().join(PAGE)).map_err(|error| format!("{PAGE}: {error}"))
}

fn write(path: &Path, text: &str) -> Outcome {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

/// The page with these figures.
fn shown(figures: &Figures, page: &str) -> Result<String, String> {
    let marks = page.split_once(BEGIN).and_then(|(before, rest)| Some((before, rest.split_once(END)?.1)));
    let (before, after) = marks.ok_or_else(|| format!("{PAGE} has no {BEGIN}"))?;
    Ok(format!("{before}{BEGIN}\n\n{}\n{END}{after}", figures.table()))
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
    let at = |index: usize| values.get(index).copied().unwrap_or(0.0);
    f64::midpoint(at(values.len().saturating_sub(1) / 2), at(values.len() / 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_shows_the_stored_figures() {
        let page = page().unwrap();
        let remade = shown(&stored().unwrap(), &page).unwrap();
        assert!(remade == page, "remake it: make interop ONLY=fleet DOC=render");
    }
}
