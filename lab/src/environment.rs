//! The place and the object of a measurement.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::available_parallelism;

use rlock_testkit::TestServer;

use crate::results::Environment;

/// The repository.
pub(crate) fn root() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().unwrap_or(own).to_path_buf()
}

/// Where the programs of other projects are built.
pub(crate) fn peers_target() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").filter(|path| !path.is_empty());
    root().join(target.as_deref().map_or(Path::new("target"), Path::new)).join("peers")
}

impl Environment {
    /// The environment at the start of a run; what only the end can tell is still 0.
    pub(crate) fn now(seed: u64) -> Environment {
        let version = TestServer::builder().without_module().start().version();
        Environment {
            server: format!("{:?} {}.{}.{}", version.name, version.major, version.minor, version.patch),
            cpu: cpu(),
            cores: available_parallelism().map_or(1, usize::from),
            kernel: format!("{} {}", line("/proc/sys/kernel/ostype"), line("/proc/sys/kernel/osrelease")),
            commit: commit(),
            date: output("date", &["-u", "+%Y-%m-%d"]),
            seed,
            load: [load(), 0.0],
            seconds: 0,
        }
    }
}

/// The load average of the last minute.
pub(crate) fn load() -> f64 {
    line("/proc/loadavg").split(' ').next().and_then(|load| load.parse().ok()).unwrap_or(0.0)
}

fn cpu() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    format!("{} ({})", model.map_or("unknown", |(_, model)| model), std::env::consts::ARCH)
}

/// The commit whose module and client are measured: a module that `RLOCK_MODULE` names can have any commit.
fn commit() -> String {
    if std::env::var_os("RLOCK_MODULE").is_some_and(|path| !path.is_empty()) {
        return "a module named by RLOCK_MODULE".into();
    }
    let crates =
        ["rlock-core", "rlock-machine", "rlock-links", "rlock-client"].map(|name| format!("crates/{name}"));
    let mut paths = vec!["src", "Cargo.toml", "Cargo.lock", "lab/Cargo.lock"];
    paths.extend(crates.iter().map(String::as_str));
    let changed = output("git", &[&["status", "--porcelain", "--"][..], &paths].concat());
    let commit = output("git", &["rev-parse", "--short=12", "HEAD"]);
    if changed.is_empty() { commit } else { format!("{commit} with changes") }
}

fn line(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_string()
}

/// The output of a program; empty if the program is not installed.
fn output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).current_dir(root()).output();
    output.map_or(String::new(), |output| String::from_utf8_lossy(&output.stdout).trim().to_string())
}
