//! A running server.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::Signal;

use crate::binary::binary_version;
use crate::datadir::DataDir;
use crate::process::Process;
use crate::version::ServerVersion;
use crate::wait::eventually;

/// The log's name in the server's directory; standard output and error go there as well.
pub(crate) const LOG_FILE: &str = "server.log";

/// The name of the file by which a test steps the clock.
pub(crate) const CLOCK_FILE: &str = "clock";

/// The time limit for a server to end after a request to end.
const EXIT_DEADLINE: Duration = Duration::from_secs(20);

/// The number of log lines that a failing test shows.
const LOG_LINES_SHOWN: usize = 40;

/// A server for one test: killed, waited for and its directory removed when dropped.
///
/// Dropping it panics if the server has crashed, unless the test asked it to end
/// ([`TestServer::signal`]) or awaited its end ([`TestServer::wait_exit`]).
#[derive(Debug)]
pub struct TestServer {
    pub(crate) process: Process,
    pub(crate) port: u16,
    /// `Some` until the server is stopped and the directory handed on.
    pub(crate) data: Option<DataDir>,
    pub(crate) log_start: u64,
    pub(crate) binary: PathBuf,
    pub(crate) password: Option<String>,
    pub(crate) end_expected: AtomicBool,
}

/// A server that has ended, and the directory it leaves.
///
/// `TestServer::builder().dir(server.shutdown())` starts the next one on the same data.
#[derive(Debug)]
pub struct Stopped {
    /// How the server ended.
    pub status: ExitStatus,
    /// Its directory, which still exists.
    pub data: DataDir,
}

impl From<Stopped> for DataDir {
    fn from(stopped: Stopped) -> Self {
        stopped.data
    }
}

impl TestServer {
    /// The TCP port it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Its working directory: data files, configuration (`test.conf`) and log.
    pub fn dir(&self) -> &Path {
        self.data.as_ref().expect("present until stopped").path()
    }

    /// The server binary it runs.
    pub fn binary(&self) -> &Path {
        &self.binary
    }

    /// Everything it logged, including the starts before this one on the same directory.
    pub fn log(&self) -> String {
        self.log_from(0)
    }

    /// What it logged since it was started.
    pub fn log_of_this_start(&self) -> String {
        self.log_from(self.log_start as usize)
    }

    fn log_from(&self, offset: usize) -> String {
        let log = fs::read(self.dir().join(LOG_FILE)).unwrap_or_default();
        String::from_utf8_lossy(log.get(offset..).unwrap_or_default()).into_owned()
    }

    /// The server's name and version.
    #[must_use]
    #[track_caller]
    pub fn version(&self) -> ServerVersion {
        binary_version(&self.binary)
    }

    /// Whether the process still runs; a stopped one (SIGSTOP) does.
    pub fn is_alive(&self) -> bool {
        self.process.exited().is_none()
    }

    /// Steps the wall clock of a server that was started with
    /// [`crate::ServerBuilder::with_a_clock_that_steps`] to this number of seconds ahead of the real one.
    pub fn set_clock_ahead(&self, seconds: i64) {
        self.write_clocks(&seconds.to_string());
    }

    /// Sets both clocks of a server that was started with [`crate::ServerBuilder::with_clocks_that_stand`], in ms. They stand still until they are set again.
    pub fn set_clocks(&self, wall: i64, monotonic: i64) {
        self.write_clocks(&format!("{wall} {monotonic} {}", wall.wrapping_add(monotonic)));
    }

    fn write_clocks(&self, text: &str) {
        // In place and without a moment at which the file is empty: the server may read it at any time.
        let file =
            OpenOptions::new().write(true).open(self.dir().join(CLOCK_FILE)).expect("the clock's file");
        file.write_all_at(format!("{text:<80}").as_bytes(), 0).expect("writing the clock's file");
    }

    /// Sends a signal, for instance `libc::SIGSTOP` and `SIGCONT`. After SIGSTOP the whole server stands still:
    /// its threads stop only once one of them has taken the signal.
    #[track_caller]
    pub fn signal(&self, signal: i32) {
        if ![Signal::STOP, Signal::CONT].map(Signal::as_raw).contains(&signal) {
            self.end_expected.store(true, Ordering::Relaxed);
        }
        self.process.signal(signal);
        if signal == Signal::STOP.as_raw() && cfg!(target_os = "linux") {
            eventually("the server to stand still", EXIT_DEADLINE, || self.stands_still().then_some(()));
        }
    }

    /// Whether no thread runs: the state follows the name, which is in brackets.
    fn stands_still(&self) -> bool {
        let Ok(threads) = fs::read_dir(format!("/proc/{}/task", self.pid())) else { return true };
        threads.flatten().all(|thread| {
            let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
            stat.rsplit_once(')').is_none_or(|(_, rest)| rest.trim_start().starts_with(['T', 't', 'Z', 'X']))
        })
    }

    /// Waits until the server has ended by itself, for tests that expect that.
    #[track_caller]
    pub fn wait_exit(&self, within: Duration) -> ExitStatus {
        self.end_expected.store(true, Ordering::Relaxed);
        self.process.wait(within).unwrap_or_else(|| {
            panic!("the server still runs after {within:?}; its log:\n{}", self.log_tail())
        })
    }

    /// Sends `SHUTDOWN` and waits until the server has ended; it saves if its `save` says so.
    #[track_caller]
    pub fn shutdown(self) -> Stopped {
        self.shutdown_with(&[])
    }

    /// Sends `SHUTDOWN` with arguments (`SAVE`, `NOSAVE`, `NOW`) and waits for the end.
    #[track_caller]
    pub fn shutdown_with(mut self, arguments: &[&str]) -> Stopped {
        let outcome = redis::cmd("SHUTDOWN").arg(arguments).query::<()>(&mut self.connect());
        // Success shows as a closed connection; a reply is a refusal.
        if let Err(error) = outcome
            && error.code().is_some()
        {
            panic!("SHUTDOWN {arguments:?} was refused: {error}; the log:\n{}", self.log_tail());
        }
        let status = self.wait_exit(EXIT_DEADLINE);
        Stopped { status, data: self.data.take().expect("present until stopped") }
    }

    /// Kills the server (SIGKILL) with all its child processes: nothing is saved or flushed.
    pub fn kill9(mut self) -> Stopped {
        self.end_expected.store(true, Ordering::Relaxed);
        let status = self.process.kill();
        Stopped { status, data: self.data.take().expect("present until stopped") }
    }

    pub(crate) fn log_tail(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..].join("\n")
    }

    /// Whether it ended in a way that the test did not ask for.
    fn crashed(&self) -> bool {
        let failed = self.process.exited().is_some_and(|status| !status.success());
        failed && !self.end_expected.load(Ordering::Relaxed)
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        if self.data.is_none() {
            return;
        }
        let crashed = self.crashed();
        let log = self.log_tail();
        // Before the directory is removed: a running server would write into it.
        self.process.kill();
        if std::thread::panicking() {
            eprintln!("the end of the log of the server on port {}:\n{log}", self.port);
        } else if crashed {
            panic!("the server on port {} crashed; the end of its log:\n{log}", self.port);
        }
    }
}
