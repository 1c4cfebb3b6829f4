//! A fleet of Redisson threads under load, replaced one by one by threads of the Java client, and back; the programs of the page
//! that says how to move; and what a hold costs before and after.

mod figures;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use rlock_testkit::TestServer;

use crate::environment::{load, peers_target, root};
use crate::redisson::Release;
use crate::results::Environment;
use crate::store;
pub(crate) use figures::page;

/// The page, and the programs that it shows or links to.
const PAGE: &str = "docs/clients/from-redisson.md";
const PROGRAMS: [&str; 2] = ["SameCode", "After"];

/// The time limit for one program, in seconds: with downloads.
const LIMIT_SECONDS: &str = "400";

/// Checks the move and the programs of the page. Unless it is quick, measures a hold, and stores that.
pub(crate) fn run(is_quick: bool, seed: u64) -> Result<(), String> {
    build()?;
    let server = TestServer::start();
    let java = |main: &str, arguments: &[&str]| {
        let mut java = limited("java");
        java.args(["-cp", "classes:lib/*", main]).args(arguments).env("RLOCK_SEED", seed.to_string());
        run_all_of(java.env("REDIS_URL", format!("redis://127.0.0.1:{}", server.port())))
    };
    java("rlock.fleet.Main", &[])?;
    PROGRAMS.iter().try_for_each(|program| java(program, &[]))?;
    if is_quick {
        println!("\nnothing is measured: only a full run does that");
        return Ok(());
    }
    let mut environment = Environment::now(seed);
    java("rlock.fleet.Main", &["rounds.jsonl"])?;
    environment.load[1] = load();
    let rounds = fs::read_to_string(folder().join("rounds.jsonl")).map_err(|error| error.to_string())?;
    figures::keep(&rounds, environment)?;
    store::render()?;
    println!("\nstored, and {PAGE} remade");
    Ok(())
}

fn folder() -> PathBuf {
    peers_target().join("fleet")
}

/// Builds the fleet with the client's sources and the programs of the page; the libraries are in `lib`.
fn build() -> Result<(), String> {
    fs::create_dir_all(folder()).map_err(|error| error.to_string())?;
    let build = "rm -rf page classes && mkdir page && awk -v out=page -f \"$0/clients/java/programs.awk\" \"$0/$1\" && \
                 cp \"$0/docs/clients/code/After.java\" page && \
                 \"$0/integration/interop/tools.sh\" mvn --batch-mode --quiet -f \"$0/lab/fleet/pom.xml\" -Dout=\"$PWD\" \
                 -Dredisson.version=\"$2\" compile";
    run_all_of(limited("sh").args(["-c", build]).arg(root()).args([PAGE, Release::Newest.version()]))
}

/// A program in the folder of the fleet.
fn limited(program: &str) -> Command {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", LIMIT_SECONDS, program]).current_dir(folder());
    command
}

fn run_all_of(command: &mut Command) -> Result<(), String> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{command:?}: {status}; 124 is {LIMIT_SECONDS} s that were not enough")),
        Err(error) => Err(format!("{command:?}: {error}")),
    }
}
