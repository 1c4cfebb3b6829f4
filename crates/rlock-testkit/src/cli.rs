//! The command line client.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::binary::cli_binary;
use crate::server::TestServer;

/// How long a command may take, blocking ones included.
const CLI_DEADLINE: Duration = Duration::from_secs(30);

impl TestServer {
    /// The client that belongs to the server: beside its binary, else on the `PATH`.
    #[must_use]
    pub fn cli_path(&self) -> PathBuf {
        cli_binary(self.binary())
    }

    /// Runs the command line client (`--no-raw`) and returns what it prints, errors of the server
    /// included.
    ///
    /// Options may come before the command. Arguments may hold any bytes but NUL, which no
    /// program argument can. Panics if the client does not end within 30 seconds.
    #[track_caller]
    pub fn cli<A: AsRef<[u8]>>(&self, arguments: &[A]) -> String {
        let mut command = Command::new(self.cli_path());
        command.arg("-p").arg(self.port().to_string()).arg("--no-raw");
        if let Some(password) = &self.password {
            command.args(["--no-auth-warning", "-a", password]);
        }
        command.args(arguments.iter().map(|argument| OsStr::from_bytes(argument.as_ref())));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let (sender, output) = channel();
        thread::spawn(move || sender.send(child.wait_with_output()));
        let Ok(output) = output.recv_timeout(CLI_DEADLINE) else {
            // The thread still waits for the child, so the id is still its own.
            pid.map(|pid| kill_process(pid, Signal::KILL));
            panic!("{command:?} did not end within {CLI_DEADLINE:?}")
        };
        let output = output.expect("reading the client's output");
        let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
        // What the client itself complains about, such as a refused login.
        text.push_str(&String::from_utf8_lossy(&output.stderr));
        text
    }
}
