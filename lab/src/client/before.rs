//! The client beside that of another commit, each with its own module: how much a change of the waiting path gains.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rlock_testkit::TestServer;

use super::contended::{HOLDS_MS, Round, WAITERS, in_turns};
use super::process::{Who, Worker};
use crate::environment::{peers_target, root};
use crate::placement::Placement;
use crate::plan::Plan;
use crate::progress::Progress;
use crate::results::{Before, Compared};
use crate::rng::Rng;
use crate::spread::{Spread, quantile};

/// Names the commit.
const VARIABLE: &str = "RLOCK_BEFORE";

/// The name of the program in that commit's tree.
const PROGRAM: &str = "before";

/// The sources of the program, and their names in that tree.
const SOURCES: [(&str, &str); 3] = [
    ("lab/before/main.rs", "main.rs"),
    ("lab/src/client/worker.rs", "worker.rs"),
    ("lab/src/client/by_client.rs", "by_client.rs"),
];

/// Another commit, built.
pub(super) struct Earlier {
    commit: String,
    module: PathBuf,
    program: PathBuf,
}

impl Earlier {
    /// Builds the commit that the environment names, if it names one.
    pub(super) fn wanted(progress: &Progress) -> Result<Option<Earlier>, String> {
        let Some(commit) = std::env::var(VARIABLE).ok().filter(|commit| !commit.is_empty()) else {
            return Ok(None);
        };
        progress.show(&format!("client: building that of {commit}"));
        Earlier::build(commit.clone()).map(Some).map_err(|why| format!("{VARIABLE}={commit}: {why}"))
    }

    fn build(commit: String) -> Result<Earlier, String> {
        let tree = peers_target().join(PROGRAM);
        let _ = fs::remove_dir_all(tree.join("lab"));
        let _ = fs::remove_dir_all(tree.join("benches"));
        fs::create_dir_all(&tree).map_err(|error| error.to_string())?;
        run(Command::new("sh")
            .args(["-c", "git archive \"$1\" | tar -x -C \"$2\"", "sh", &commit])
            .arg(&tree)
            .current_dir(root()))?;
        // Commits without lab/ have the benchmarks in benches/.
        let lab = Some(tree.join("lab")).filter(|lab| lab.exists()).unwrap_or_else(|| tree.join("benches"));
        let sources = lab.join("src/bin").join(PROGRAM);
        fs::create_dir_all(&sources).map_err(|error| error.to_string())?;
        for (from, to) in SOURCES {
            fs::copy(root().join(from), sources.join(to)).map_err(|error| format!("{from}: {error}"))?;
        }
        let target = tree.join("target");
        for (folder, arguments) in [
            (&lab, ["-p", "rlock-bench", "--bin", PROGRAM]),
            (&tree, ["-p", "rlock-module", "--lib", "--quiet"]),
        ] {
            let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
            let fixed = ["build", "--release", "--locked", "--target-dir"];
            run(Command::new(cargo).args(fixed).arg(&target).args(arguments).current_dir(folder))?;
        }
        let built = |name: &str| target.join("release").join(name);
        Ok(Earlier { commit, module: built("librlock.so"), program: built(PROGRAM) })
    }

    fn start(&self, port: u16) -> Worker {
        let mut command = Command::new(&self.program);
        command.arg(format!("redis://127.0.0.1:{port}"));
        Worker::spawn(command)
    }
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).trim().to_string())
}

/// Lets both hand locks around, in turns.
pub(super) fn run_beside(
    earlier: &Earlier,
    server: &TestServer,
    plan: &Plan,
    rng: &mut Rng,
    progress: &Progress,
) -> Before {
    let other = server_of(&earlier.module);
    let mut rows = Vec::new();
    for waiters in WAITERS {
        // One server rests while the other works.
        Placement::TwoCores.apply(other.pid(), None);
        let then: Vec<Worker> = (0..=waiters).map(|_| earlier.start(other.port())).collect();
        Placement::TwoCores.apply(server.pid(), None);
        let now = (0..=waiters).map(|_| Worker::start(Who::Client, server.port())).collect();
        let mut workers = [then, now];
        for hold_ms in HOLDS_MS {
            let figures = in_turns(&mut workers, hold_ms, plan.contention_rounds, rng, |round| {
                progress.show(&format!("client: {waiters} waiters beside {}, round {round}", earlier.commit));
            });
            rows.push(compared((waiters, hold_ms), &figures));
        }
    }
    Before { commit: earlier.commit.clone(), rows }
}

fn server_of(module: &Path) -> TestServer {
    TestServer::builder().module(module).start()
}

fn compared((waiters, hold_ms): (usize, u64), [then, now]: &[Vec<Round>; 2]) -> Compared {
    let median = |round: &Round| quantile(&round.times, 0.5);
    Compared {
        waiters,
        hold_ms,
        rounds: now.len(),
        ratio: Spread::ratio(now, then, median),
        before_us: Spread::by(then, median),
        us: Spread::by(now, median),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_is_compared_with_the_same_round() {
        let round = |us: f64| Round { times: vec![us], per_second: 1.0 };
        let row = compared((2, 1), &[vec![round(100.0), round(200.0)], vec![round(50.0), round(150.0)]]);
        assert_eq!((row.waiters, row.hold_ms, row.rounds), (2, 1, 2));
        assert_eq!(row.ratio, Spread::of(vec![0.5, 0.75]));
    }
}
