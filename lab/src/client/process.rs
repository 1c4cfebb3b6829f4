//! The processes that are measured.

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::environment::{peers_target, root};
use crate::named::named;

/// The argument by which this program becomes one of its own processes.
pub(super) const ROLE: &str = "client-worker";

named! {
    /// The contenders.
    enum Who {
        Raw = "raw", "raw commands, same driver";
        Client = "client", "rlock-client";
        Rslock = "rslock", "crate rslock 0.10";
        Rlock = "rlock", "crate rlock 0.2 (another project)";
    }
}

impl Who {
    /// The contenders of this project.
    pub(super) const OWN: [Who; 2] = [Who::Raw, Who::Client];
    /// Other crates.
    pub(super) const PEERS: [Who; 2] = [Who::Rslock, Who::Rlock];

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

    /// Sends one line of work, and returns the two numbers of its answer.
    pub(crate) fn ask(&mut self, work: &str) -> (u64, u64) {
        self.tell(work);
        self.answer()
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
