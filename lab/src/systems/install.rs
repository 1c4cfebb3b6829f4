//! What the systems need on this machine: programs, and where they are.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::system::Package;
use crate::environment::root;

fn target() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").filter(|path| !path.is_empty());
    root().join(target.as_deref().map_or(Path::new("target"), Path::new))
}

/// Where install.sh puts programs.
pub(super) fn folder() -> PathBuf {
    target().join("systems")
}

/// Installs a package; the error says why that failed.
pub(super) fn install(package: Package) -> Result<(), String> {
    let script = root().join("lab/peers/systems/install.sh");
    match Command::new("sh").arg(script).arg(folder()).arg(package.name()).output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_string()),
        Err(error) => Err(error.to_string()),
    }
}

/// A Redis or Valkey server of which integration/servers.sh has unpacked this version.
pub(crate) fn redis_server(version: &str) -> PathBuf {
    let list = target().join("servers/servers.tsv");
    let text = fs::read_to_string(&list).unwrap_or_else(|error| panic!("{}: {error}", list.display()));
    server_in(&text, version).unwrap_or_else(|| panic!("{} has no {version}", list.display()))
}

/// The path of a server, the sixth field of its line.
fn server_in(list: &str, version: &str) -> Option<PathBuf> {
    let line = list.lines().find(|line| line.starts_with(version))?;
    line.split('\t').nth(5).map(PathBuf::from)
}

/// A program of the newest PostgreSQL.
pub(super) fn postgres(program: &str) -> PathBuf {
    let unpacked = folder().join("postgresql/usr/lib/postgresql");
    let versions = [Path::new("/usr/lib/postgresql"), &unpacked].map(fs::read_dir).into_iter().flatten();
    let mut folders: Vec<PathBuf> = versions.flatten().flatten().map(|entry| entry.path()).collect();
    folders.retain(|folder| folder.join("bin").join(program).is_file());
    folders.sort();
    folders.pop().unwrap_or_else(|| panic!("no {program} of PostgreSQL")).join("bin").join(program)
}

/// The version in the name of a Java library, such as `zookeeper-3.9.5.jar`.
pub(super) fn library_version(library: &str) -> String {
    let files = fs::read_dir(folder().join("zookeeper/libraries")).into_iter().flatten().flatten();
    let names = files.filter_map(|file| file.file_name().into_string().ok());
    names.filter_map(|name| version_in(&name, library)).next().unwrap_or_default()
}

fn version_in(file: &str, library: &str) -> Option<String> {
    let version = file.strip_prefix(library)?.strip_prefix('-')?.strip_suffix(".jar")?;
    version.starts_with(|first: char| first.is_ascii_digit()).then(|| version.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_found_by_its_version() {
        let list = "redis-8.0.6\tredis\t8.0.6\tx\tsid\t/a/redis-server\t/a/redis-cli\n\
                    redis-8.6.3\tredis\t8.6.3\tx\tsid\t/b/redis-server\t/b/redis-cli\n";
        assert_eq!(server_in(list, "redis-8.6"), Some("/b/redis-server".into()));
        assert_eq!(server_in(list, "valkey-9.1"), None);
    }

    #[test]
    fn the_name_of_a_library_has_its_version() {
        assert_eq!(version_in("zookeeper-3.9.5.jar", "zookeeper"), Some("3.9.5".into()));
        assert_eq!(version_in("zookeeper-jute-3.9.5.jar", "zookeeper"), None);
    }
}
