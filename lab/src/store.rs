//! The files in docs: results, plots and the page.

use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use rlock_testkit::rows;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::counted;
use crate::environment::root;
use crate::fleet;
use crate::report::{doc, plots};
use crate::results::{Environment, Results, SCHEMA};
use crate::scale;
use crate::systems::{self, Systems};
use crate::threads::{self, Threads};

/// The server that the targets are about.
const MAIN: &str = "Redis 7.0.";

/// Whether it is the server that the targets are about.
pub(crate) fn is_main(environment: &Environment) -> bool {
    environment.server.starts_with(MAIN)
}

/// All stored results: those of the main server first.
pub(crate) struct Stored {
    pub(crate) main: Results,
    pub(crate) others: Vec<Results>,
    pub(crate) instructions: Vec<Value>,
    pub(crate) hand_offs: Vec<Value>,
    pub(crate) growth: Vec<Value>,
    pub(crate) limits: Vec<Value>,
    /// Nothing where they were not measured.
    pub(crate) systems: Option<Systems>,
    /// The same.
    pub(crate) threads: Option<Threads>,
}

impl Stored {
    /// Of all servers, the main one first.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Results> {
        std::iter::once(&self.main).chain(&self.others)
    }
}

/// What was counted on a server that was measured.
pub(crate) fn of<'a>(counted: &'a [Value], results: &Results) -> Option<&'a Value> {
    counted.iter().find(|one| one["server"] == results.environment.server.as_str())
}

fn folder() -> PathBuf {
    root().join("docs/bench")
}

fn path_of(results: &Results) -> PathBuf {
    let name = results.environment.server.to_lowercase().replace(' ', "-");
    folder().join(format!("{name}.json"))
}

/// Stores the results of a server in place of earlier ones. Stalls, the clients and Redisson's releases can be measured
/// without the others: their earlier results stay if they were not measured anew.
pub(crate) fn save(mut results: Results) -> Result<PathBuf, String> {
    let path = path_of(&results);
    // A missing file, or a file of another layout, has nothing to keep.
    if let Ok(stored) = read(&path) {
        results.stalls = results.stalls.or(stored.stalls);
        results.client = results.client.or(stored.client);
        results.clients = results.clients.or(stored.clients);
        results.redisson = results.redisson.or(stored.redisson);
    }
    keep(&path, &results)?;
    Ok(path)
}

/// Stores the stalls, the clients or Redisson's releases of a server beside its other results.
pub(crate) fn save_beside(results: Results) -> Result<PathBuf, String> {
    let path = path_of(&results);
    if !path.exists() {
        let server = results.environment.server;
        return Err(format!(
            "not stored: there are no other results of {server} yet, run `make bench` first"
        ));
    }
    let mut stored = read(&path)?;
    stored.stalls = results.stalls.or(stored.stalls);
    stored.client = results.client.or(stored.client);
    stored.clients = results.clients.or(stored.clients);
    stored.redisson = results.redisson.or(stored.redisson);
    keep(&path, &stored)?;
    Ok(path)
}

/// Stores results, a line for each measurement.
pub(crate) fn keep(path: &Path, results: &impl Serialize) -> Result<(), String> {
    write(path, &rows(results).map_err(|error| error.to_string())?)
}

/// Reads stored results of one of these versions of their layout. The command remakes them, as the error says.
pub(crate) fn kept<T: DeserializeOwned>(
    path: &Path,
    command: &str,
    versions: RangeInclusive<u32>,
    version: fn(&T) -> u32,
) -> Result<T, String> {
    let of_file = |error: String| format!("{}: {error}; remake it by `{command}`", path.display());
    let text = fs::read_to_string(path).map_err(|error| of_file(error.to_string()))?;
    let results = serde_json::from_str(&text).map_err(|error| of_file(error.to_string()))?;
    match version(&results) {
        known if versions.contains(&known) => Ok(results),
        other => Err(of_file(format!("version {other} of the layout, known are {versions:?}"))),
    }
}

/// Reads all stored results.
pub(crate) fn load() -> Result<Stored, String> {
    let listing = fs::read_dir(folder()).map_err(|error| format!("{}: {error}", folder().display()))?;
    let mut paths: Vec<PathBuf> = listing.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| {
        path.extension().is_some_and(|extension| extension == "json") && !path.ends_with(systems::FILE)
    });
    paths.sort();
    let mut all = paths.iter().map(|path| read(path)).collect::<Result<Vec<Results>, String>>()?;
    let main = all.iter().position(|results| is_main(&results.environment));
    let main = main.ok_or_else(|| format!("no results of {MAIN}* in {}", folder().display()))?;
    Ok(Stored {
        main: all.remove(main),
        others: all,
        instructions: counted::load("instructions")?,
        hand_offs: counted::load("hand-offs")?,
        growth: counted::load("growth")?,
        limits: counted::load("limits")?,
        systems: systems::load()?,
        threads: threads::stored()?,
    })
}

fn read(path: &Path) -> Result<Results, String> {
    kept(path, "make bench", 1..=SCHEMA, |results: &Results| results.schema)
}

/// The pages of the stored results and their plots: files below docs, and their text. The plots in docs/bench are not stored: only
/// the site shows them.
pub(crate) fn pages(stored: &Stored) -> Result<Vec<(PathBuf, String)>, String> {
    let of_scale = scale::stored()?;
    let mut pages = vec![
        (root().join("docs/BENCHMARKS.md"), doc::page(stored, of_scale.as_ref())),
        fleet::page()?,
        (root().join("docs/SCALE.md"), scale::page(of_scale.as_ref(), &stored.main)),
    ];
    let picture = of_scale.as_ref().map_or(Ok(None), scale::picture)?;
    for (name, plot) in plots::all(&stored.main)?.into_iter().chain(picture) {
        pages.push((folder().join(name), plot));
    }
    Ok(pages)
}

/// Writes the page and the plots.
pub(crate) fn render() -> Result<(), String> {
    for (path, text) in pages(&load()?)? {
        write(&path, &text)?;
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(path, text))
        .map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::{HOLDS_MS, WAITERS, Who};
    use crate::clients::Library;
    use crate::contender::Contender;
    use crate::contention::Protocol;
    use crate::memory::What;
    use crate::placement::Placement;
    use crate::readers::{SIZES, Way};
    use crate::redisson::{FIELDS, Field, Java};
    use crate::results::Client;
    use crate::stalls::{self, Scenario};
    use crate::uncontended::{DEPTHS, Setting};

    /// After a change of a benchmark, the template or a plot, `render` must remake the stored files.
    #[test]
    fn the_stored_pages_are_what_the_results_make() {
        for (path, expected) in pages(&load().unwrap()).unwrap() {
            if path.starts_with(folder()) {
                assert!(expected.starts_with("<svg"), "{}", path.display());
                continue;
            }
            let actual = fs::read_to_string(&path).unwrap_or_default();
            assert!(actual == expected, "{} is stale: run `make bench ONLY=render`", path.display());
        }
    }

    #[test]
    fn each_stored_measurement_is_a_line() {
        let stored = load().unwrap();
        for results in stored.all() {
            let path = path_of(results);
            assert!(fs::read_to_string(&path).unwrap() == rows(results).unwrap(), "{}", path.display());
        }
    }

    #[test]
    fn the_results_have_every_benchmark_and_no_other() {
        let stored = load().unwrap();
        // Older ones have other contenders.
        for results in stored.all().filter(|results| results.schema == SCHEMA) {
            let server = &results.environment.server;
            assert_eq!(uncontended_of(results), expected_uncontended(results), "{server}");
            if !is_main(&results.environment) && results.contention.is_empty() {
                continue;
            }
            let sizes = |one: Protocol| one.sizes().iter().map(move |size| (one.name().to_string(), *size));
            let expected: Vec<(String, usize)> = Protocol::ALL.into_iter().flat_map(sizes).collect();
            let contention = results.contention.iter().map(|one| (one.protocol.clone(), one.waiters));
            assert!(contention.eq(expected), "{server}: other protocols or sizes; run `make bench`");
            let memory = results.memory.iter().map(|one| one.what.as_str());
            assert!(
                memory.eq(What::ALL.map(What::name)),
                "{server}: other measures of memory; run `make bench`"
            );
            let readers = results.readers.iter().map(|one| (one.way.as_str(), one.readers));
            let sizes = |way: Way| SIZES.into_iter().filter(move |size| way.has(*size));
            let expected =
                Way::ALL.into_iter().flat_map(|way| sizes(way).map(move |size| (way.name(), size)));
            assert!(
                results.readers.is_empty() || readers.eq(expected),
                "{server}: other readers; run `make bench`"
            );
        }
    }

    #[test]
    fn what_is_measured_alone_is_whole() {
        let stored = load().unwrap();
        for results in stored.all() {
            let server = &results.environment.server;
            if let Some(client) = &results.client {
                check_client(client, server);
            }
            if let Some(redisson) = &results.redisson {
                let pairs = redisson.pairs.iter().map(|one| one.library.clone());
                assert!(pairs.eq(Java::ALL.map(Java::name)), "{server}: run `make bench ONLY=redisson`");
                let fields = redisson
                    .fields
                    .iter()
                    .map(|one| (one.processes, one.threads, one.hold_ms, one.library.clone()));
                let of = |field: Field| {
                    Java::ALL.map(|program| (field.processes, field.threads, field.hold_ms, program.name()))
                };
                let expected = FIELDS.into_iter().flat_map(of);
                assert!(fields.eq(expected), "{server}: other waiters; run `make bench ONLY=redisson`");
            }
            if let Some(stalls) = &results.stalls {
                let rows = stalls.rows.iter();
                let rows = rows.map(|one| (one.long_names, one.scenario.as_str(), one.waiters));
                let all = stalls::Names::ALL.into_iter();
                let all = all.flat_map(|names| Scenario::ALL.map(|scenario| (names, scenario)));
                let expected = all.flat_map(|(names, one)| {
                    let is_long = names == stalls::Names::Long;
                    one.sizes(names).iter().map(move |size| (is_long, one.name(), *size))
                });
                assert!(rows.eq(expected), "{server}: other stalls; run `make bench ONLY=stalls`");
            }
            if let Some(clients) = &results.clients {
                // Stored results that have no sizes are older than some of the libraries.
                let is_older = clients.rows.iter().all(|one| one.footprint.is_none());
                let rows = clients.rows.iter().map(|one| one.library.as_str());
                let whole = is_older || rows.eq(Library::ALL.map(Library::name));
                assert!(whole || results.schema < SCHEMA, "{server}: run `make bench ONLY=clients`");
            }
        }
    }

    fn check_client(client: &Client, server: &str) {
        let pairs = client.pairs.iter().map(|one| one.contender.as_str());
        let placed = Placement::ALL.into_iter().flat_map(|_| Who::ALL.map(Who::name));
        assert!(pairs.eq(placed), "{server}: other crates are missing; run `make bench ONLY=client`");
        let hand_offs = client.hand_offs.iter().map(|one| one.contender.as_str());
        assert!(hand_offs.eq(Who::ALL.map(Who::name)), "{server}: hand-offs; run `make bench ONLY=client`");
        let contended = client.contended.iter().map(|one| (one.waiters, one.hold_ms, one.contender.as_str()));
        let each = WAITERS.into_iter().flat_map(|waiters| HOLDS_MS.map(|hold_ms| (waiters, hold_ms)));
        let expected = each
            .flat_map(|(waiters, hold_ms)| [Who::Raw, Who::Client].map(|who| (waiters, hold_ms, who.name())));
        assert!(contended.eq(expected), "{server}: other waiters; run `make bench ONLY=client`");
    }

    type Names = Vec<(String, String, usize, Vec<String>)>;

    fn uncontended_of(results: &Results) -> Names {
        let names =
            |costs: &[crate::results::Cost]| costs.iter().map(|cost| cost.contender.clone()).collect();
        let one = |one: &crate::results::Uncontended| {
            (one.setting.clone(), one.placement.clone(), one.depth, names(&one.costs))
        };
        results.uncontended.iter().map(one).collect()
    }

    fn expected_uncontended(results: &Results) -> Names {
        // Only newer servers have a compare-and-delete command.
        let own = Contender::SetOwn.name();
        let has_own = results.uncontended.first().is_some_and(|one| one.cost(own).is_some());
        let contenders =
            Contender::ALL.map(Contender::name).into_iter().filter(|name| *name != own || has_own);
        let contenders: Vec<String> = contenders.map(String::from).collect();
        let mut names = Names::new();
        for setting in Setting::ALL {
            for placement in Placement::ALL {
                for (depth, _) in DEPTHS {
                    let (setting, placement) = (setting.name().into(), placement.name().into());
                    names.push((setting, placement, depth, contenders.clone()));
                }
            }
        }
        names
    }
}
