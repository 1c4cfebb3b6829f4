//! The figures in docs/bench, one file for each server.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rlock_testkit::{ServerVersion, TestServer};
use serde_json::Value;

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

/// The figures of the server under test, or of another patch release of it.
#[track_caller]
pub(crate) fn read(folder: &str) -> Value {
    let ServerVersion { name, major, minor, .. } = version();
    let start = format!("{name:?}-{major}.{minor}.").to_lowercase();
    let listing = fs::read_dir(path(folder)).into_iter().flatten().flatten();
    let file = listing.map(|entry| entry.path()).find(|path| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with(&start))
    });
    let file = file.unwrap_or_else(|| {
        panic!(
            "no figures of {start}* in docs/bench/{folder}: store some with STORE=1, or set RLOCK_TEST_SERVER"
        )
    });
    let text = fs::read_to_string(&file).unwrap();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

fn path(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/bench").join(folder)
}

fn version() -> ServerVersion {
    TestServer::builder().without_module().start().version()
}
