//! The processes that are measured.

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::environment::{peers_target, root};

/// The argument by which this program becomes one of its own processes.
pub(super) const ROLE: &str = "client-worker";

/// The contenders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    Raw,
    Client,
    Rslock,
    Rlock,
}

impl Who {
    /// Every contender, in the order of the tables.
    pub(crate) const ALL: [Who; 4] = [Who::Raw, Who::Client, Who::Rslock, Who::Rlock];
    /// The contenders of this project.
    pub(super) const OWN: [Who; 2] = [Who::Raw, Who::Client];
    /// Other crates.
    pub(super) const PEERS: [Who; 2] = [Who::Rslock, Who::Rlock];

    /// Its name in the results.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Who::Raw => "raw",
            Who::Client => "client",
            Who::Rslock => "rslock",
            Who::Rlock => "rlock",
        }
    }

    /// Its name in the tables.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Who::Raw => "raw commands, same driver",
            Who::Client => "rlock-client",
            Who::Rslock => "crate rslock 0.10",
            Who::Rlock => "crate rlock 0.2 (another project)",
        }
    }

    /// Whether it waits by polling.
    pub(super) fn polls(self) -> bool {
        Who::PEERS.contains(&self)
    }
}

/// One process, on the cores of the thread that starts it; killed when dropped.
pub(crate) struct Worker {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Worker {
    pub(super) fn start(who: Who, port: u16) -> Worker {
        let url = format!("redis://127.0.0.1:{port}");
        let mut command = if who.polls() {
            Command::new(peers_target().join("release/rlock-peers"))
        } else {
            let mut own = Command::new(std::env::current_exe().expect("this program"));
            own.arg(ROLE);
            own
        };
        command.arg(who.name()).arg(url);
        Worker::spawn(command)
    }

    pub(crate) fn spawn(mut command: Command) -> Worker {
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let input = child.stdin.take().expect("its input");
        let output = BufReader::new(child.stdout.take().expect("its output")).lines();
        Worker { child, input, output }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends one line of work.
    pub(crate) fn tell(&mut self, work: &str) {
        writeln!(self.input, "{work}").expect("a process that reads");
    }

    /// The next line.
    pub(crate) fn line(&mut self) -> String {
        self.output.next().expect("a process that lives").expect("its output")
    }

    /// The two numbers of the next line.
    pub(crate) fn answer(&mut self) -> (u64, u64) {
        let line = self.line();
        let (first, second) = line.split_once(' ').expect("two numbers");
        (first.parse().expect("a number"), second.parse().expect("a number"))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Builds the programs of the other crates; where that fails, says why they are left out.
pub(super) fn build_peers() -> Result<(), String> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let build = ["build", "--release", "--locked", "--quiet", "-p", "rlock-peers", "--target-dir"];
    let output = Command::new(cargo).args(build).arg(peers_target()).current_dir(root().join("lab")).output();
    match output {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_string()),
        Err(error) => Err(error.to_string()),
    }
}
