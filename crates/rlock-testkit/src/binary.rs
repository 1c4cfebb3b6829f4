//! Finding the server under test and its command line client.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::version::ServerVersion;

/// The server under test: `RLOCK_TEST_SERVER`, `REDIS_SERVER`, or one on the `PATH`.
pub(crate) fn server_binary() -> PathBuf {
    for name in ["RLOCK_TEST_SERVER", "REDIS_SERVER"] {
        if let Some(value) = env::var_os(name).filter(|value| !value.is_empty()) {
            return named(name, &value);
        }
    }
    on_path(&["redis-server", "valkey-server"]).unwrap_or_else(|| {
        panic!(
            "no redis-server or valkey-server on the PATH: run `make setup`, or set \
             RLOCK_TEST_SERVER to a server binary"
        )
    })
}

/// The value of the variable `name`: a path, or a program on the `PATH`.
fn named(name: &str, value: &OsStr) -> PathBuf {
    let path = Path::new(value);
    let bare = path.components().count() == 1;
    let found = if bare { value.to_str().and_then(|name| on_path(&[name])) } else { None };
    let path = found.unwrap_or_else(|| path.to_path_buf());
    assert!(path.is_file(), "{name} names {}, which is not a file: correct or unset it", path.display());
    path
}

/// The client that belongs to `server`: beside it, else on the `PATH`.
pub(crate) fn cli_binary(server: &Path) -> PathBuf {
    let names = ["redis-cli", "valkey-cli", "redict-cli"];
    let own_name = server.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let twin = own_name.replace("-server", "-cli");
    let beside = std::iter::once(twin.as_str())
        .filter(|name| *name != own_name)
        .chain(names)
        .map(|name| server.with_file_name(name))
        .find(|path| path.is_file());
    beside.or_else(|| on_path(&names)).unwrap_or_else(|| {
        panic!("no redis-cli beside {} and none on the PATH: run `make setup`", server.display())
    })
}

/// The version a server binary reports without being started.
pub(crate) fn binary_version(server: &Path) -> ServerVersion {
    let output = Command::new(server)
        .arg("--version")
        .output()
        .unwrap_or_else(|error| panic!("cannot run {}: {error}", server.display()));
    let banner = String::from_utf8_lossy(&output.stdout);
    ServerVersion::from_banner(&banner)
        .unwrap_or_else(|| panic!("{} is unknown to this kit: {banner}", server.display()))
}

fn on_path(names: &[&str]) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let directories: Vec<PathBuf> = env::split_paths(&path).collect();
    let candidates = names.iter().flat_map(|name| directories.iter().map(move |dir| dir.join(name)));
    candidates.into_iter().find(|candidate| candidate.is_file())
}
