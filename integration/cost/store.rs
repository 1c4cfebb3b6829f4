//! The figures in docs/bench, one file for each server.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rlock_testkit::{ServerVersion, TestServer};

/// Whether to store the figures.
pub(crate) fn is_wanted() -> bool {
    std::env::var_os("RLOCK_COST_STORE").is_some_and(|value| !value.is_empty())
}

/// Writes docs/bench/<folder>/<server>.json: the server, the commit, the date, and these lines.
pub(crate) fn write(folder: &str, lines: &str) {
    let ServerVersion { name, major, minor, patch } = version();
    let server = format!("{name:?} {major}.{minor}.{patch}");
    let output = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim().to_string()
    };
    let text = format!(
        "{{\n  \"server\": \"{server}\",\n  \"commit\": \"{}\",\n  \"date\": \"{}\",\n{lines}\n}}\n",
        output("git", &["rev-parse", "--short=12", "HEAD"]),
        output("date", &["-u", "+%Y-%m-%d"]),
    );
    let folder = path(folder);
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join(format!("{}.json", server.to_lowercase().replace(' ', "-")));
    fs::write(&path, text).unwrap();
    println!("stored in {}", path.display());
}

fn path(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/bench").join(folder)
}

fn version() -> ServerVersion {
    TestServer::builder().without_module().start().version()
}
