//! Servers of other systems: processes that end with this one.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rlock_testkit::{DataDir, eventually};
use rustix::process::{Pid, Signal, geteuid, kill_process};

/// How long a server may take until it accepts connections.
const START: Duration = Duration::from_secs(60);

/// The user `nobody`: PostgreSQL does not run as root.
const NOBODY: u32 = 65534;

/// The signal that ends a server with all of its processes.
#[derive(Clone, Copy)]
pub(super) enum End {
    Kill,
    Quit,
}

impl End {
    /// Its name for `setpriv`, which takes no number.
    fn name(self) -> &'static str {
        match self {
            End::Kill => "KILL",
            End::Quit => "QUIT",
        }
    }

    fn signal(self) -> Signal {
        match self {
            End::Kill => Signal::KILL,
            End::Quit => Signal::QUIT,
        }
    }
}

/// A running server, and its data; ended, and its data removed, when dropped.
pub(super) struct Daemon {
    child: Child,
    end: End,
    _data: DataDir,
}

/// How a server runs.
pub(super) struct Recipe {
    pub(super) data: DataDir,
    pub(super) end: End,
    pub(super) words: Vec<String>,
    /// Whether it refuses to run as root.
    pub(super) unprivileged: bool,
}

impl Recipe {
    /// Starts the server. `setpriv` has it end with this process, however that ends.
    pub(super) fn start(self) -> Daemon {
        let log = log_of(&self.data);
        let file = File::create(&log).unwrap_or_else(|error| panic!("{}: {error}", log.display()));
        let mut command = command(self.unprivileged, self.end, &self.words);
        command.current_dir(self.data.path()).stdin(Stdio::null());
        command.stdout(file.try_clone().expect("a second handle of the log")).stderr(file);
        let child = command.spawn().unwrap_or_else(|error| panic!("setpriv: {error}; install util-linux"));
        Daemon { child, end: self.end, _data: self.data }
    }
}

/// Runs a program to its end, as a server would run.
pub(super) fn prepare(data: &DataDir, words: &[String]) {
    if geteuid().is_root() {
        chown(data.path(), Some(NOBODY), Some(NOBODY)).expect("giving a folder away");
    }
    let output = command(true, End::Kill, words).current_dir(data.path()).output();
    let output = output.unwrap_or_else(|error| panic!("setpriv: {error}; install util-linux"));
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn command(unprivileged: bool, end: End, words: &[String]) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", end.name()]);
    if unprivileged && geteuid().is_root() {
        let id = NOBODY.to_string();
        command.args(["--reuid", &id, "--regid", &id, "--clear-groups"]);
    }
    command.arg("--").args(words);
    command
}

fn log_of(data: &DataDir) -> PathBuf {
    data.path().join("server.log")
}

impl Daemon {
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it accepts connections, and its log says this.
    pub(super) fn accepts(&mut self, port: u16, says: &str) {
        let log = log_of(&self._data);
        eventually("a server to accept connections", START, || {
            let ended = self.child.try_wait().expect("an own child");
            assert!(ended.is_none(), "the server ended; its log:\n{}", tail(&log));
            TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()?;
            fs::read_to_string(&log).is_ok_and(|text| text.contains(says)).then_some(())
        });
    }
}

fn tail(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It fails if the server has ended already.
        let _ = kill_process(Pid::from_child(&self.child), self.end.signal());
        let _ = self.child.wait();
    }
}
