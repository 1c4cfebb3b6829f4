//! The place of a part: a separate directory and a separate server.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rlock_testkit::clients::cluster::Cluster;
use rlock_testkit::{ServerBuilder, TestServer};

/// The workspace's root.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The time limit for one program, in seconds: with downloads.
const LIMIT_SECONDS: &str = "400";

pub(crate) type Outcome = Result<(), String>;

pub(crate) fn root() -> PathBuf {
    Path::new(ROOT).canonicalize().expect("the workspace is there")
}

/// A directory under `target/interop`, with what its part installed there before.
pub(crate) struct Place(PathBuf);

impl Place {
    pub(crate) fn new(name: &str) -> Place {
        let target =
            std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
        let directory = target.join("interop").join(name);
        fs::create_dir_all(&directory).expect("making a directory under target");
        Place(directory)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(crate) fn write(&self, name: &str, content: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("it is in a directory")).expect("making a directory");
        fs::write(path, content).expect("writing a file under target");
    }

    /// Copies files of `integration/interop/<source>` here: they list what to install.
    pub(crate) fn take(&self, source: &str, names: &[&str]) {
        for name in names {
            let from = root().join("integration/interop").join(source).join(name);
            let content =
                fs::read_to_string(&from).unwrap_or_else(|error| panic!("{}: {error}", from.display()));
            self.write(name, &content);
        }
    }

    /// Installs the versions that `manifest` pins, unless that was done before: a second run needs no network.
    pub(crate) fn install(&self, manifest: &str, install: impl FnOnce() -> Outcome) -> Outcome {
        let content = fs::read_to_string(self.path(manifest)).expect("it was taken here");
        self.once(&content, || {
            println!("installing what {manifest} names");
            install()
        })
    }

    /// Brings this place into the state that `content` describes, unless that was done before.
    pub(crate) fn once(&self, content: &str, work: impl FnOnce() -> Outcome) -> Outcome {
        let done = self.path(".installed");
        if fs::read_to_string(&done).is_ok_and(|before| before == content) {
            return Ok(());
        }
        // Unfinished work does not count as done.
        let _ = fs::remove_file(&done);
        work()?;
        fs::write(done, content).map_err(|error| error.to_string())
    }

    /// Runs a program here, and says what went wrong.
    pub(crate) fn run(&self, program: impl AsRef<OsStr>, arguments: &[&str]) -> Outcome {
        self.run_with(program, arguments, &[])
    }

    /// Runs a program here with these variables set.
    pub(crate) fn run_with(
        &self,
        program: impl AsRef<OsStr>,
        arguments: &[&str],
        variables: &[(&str, String)],
    ) -> Outcome {
        let program = program.as_ref();
        let mut command = Command::new("timeout");
        command.args(["--kill-after=5", LIMIT_SECONDS]).arg(program).args(arguments);
        command.current_dir(&self.0).envs(variables.iter().map(|(name, value)| (name, value)));
        let name = program.to_string_lossy();
        match command.status() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) if status.code() == Some(124) => {
                Err(format!("{name} was not done in {LIMIT_SECONDS} s"))
            }
            Ok(status) if status.code() == Some(127) => Err(format!("{name} is not installed")),
            Ok(status) => Err(format!("{name} {}: {status}", arguments.join(" "))),
            Err(error) => Err(format!("{name}: {error}")),
        }
    }
}

/// The variable with the server's address, for a program.
pub(crate) fn url(server: &TestServer) -> (&'static str, String) {
    ("REDIS_URL", address(server))
}

pub(crate) fn address(server: &TestServer) -> String {
    format!("redis://127.0.0.1:{}", server.port())
}

/// The newest server of a name such as `valkey-9.1` in the matrix; fetched if it is not here yet.
pub(crate) fn server(name: &str) -> Result<PathBuf, String> {
    let servers = root().join("target/servers");
    let newest = || {
        let list = fs::read_to_string(servers.join("servers.tsv")).unwrap_or_default();
        let line = list.lines().rfind(|line| line.starts_with(&format!("{name}.")))?.to_owned();
        line.split('\t').nth(5).map(PathBuf::from)
    };
    if newest().is_none() {
        let bring = root().join("integration/servers.sh");
        Command::new(bring).arg(&servers).arg(name).status().map_err(|error| error.to_string())?;
    }
    newest().ok_or_else(|| format!("{name} is not available"))
}

/// A cluster of three primaries, each started as the function says.
pub(crate) fn cluster(node: impl Fn() -> ServerBuilder) -> Cluster {
    let node = || node().conf("cluster-enabled", "yes").conf("cluster-announce-ip", "127.0.0.1");
    Cluster::start_as(node, 3, 0)
}
