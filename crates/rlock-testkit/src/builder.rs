//! The settings of a server, and starting it.

use std::fmt::{self, Display};
use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use redis::Connection;

use crate::binary::{binary_version, server_binary};
use crate::client::ready;
use crate::conf::{Conf, words};
use crate::datadir::DataDir;
use crate::module::{clock_path, module_path};
use crate::port::free_port;
use crate::process::Process;
use crate::server::{CLOCK_FILE, LOG_FILE, TestServer};
use crate::version::ServerName;
use crate::wait::poll;

/// The time limit for a server's first answer: generous, since machines may be very busy.
const START_DEADLINE: Duration = Duration::from_secs(20);

/// A server to be started; see [`TestServer::builder`].
#[derive(Debug, Default)]
pub struct ServerBuilder {
    conf: Conf,
    module: Module,
    module_args: Vec<String>,
    dir: Option<DataDir>,
    binary: Option<PathBuf>,
    clocks: Clocks,
    sentinel: bool,
}

/// The clocks that the test sets.
#[derive(Debug, Default, PartialEq, Eq)]
enum Clocks {
    /// None of them.
    #[default]
    Real,
    /// The wall clock, which steps.
    Step,
    /// Both, which stand.
    Stand,
}

#[derive(Debug, Default)]
enum Module {
    #[default]
    Built,
    At(PathBuf),
    None,
}

/// A server that ended, or did not answer in time, instead of starting.
#[derive(Debug)]
pub struct StartFailure {
    /// The server's log of this start, its standard error included.
    pub log: String,
    /// The exit status; `None` if the server still ran but did not answer within 20 seconds.
    pub status: Option<ExitStatus>,
}

impl Display for StartFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.status {
            Some(status) => write!(f, "the server ended with {status}; its log:\n{}", self.log),
            None => write!(f, "no answer within {START_DEADLINE:?}; the log:\n{}", self.log),
        }
    }
}

impl std::error::Error for StartFailure {}

impl ServerBuilder {
    /// Adds a configuration directive; repeatable, and in place of the kit's default if any.
    ///
    /// The value is split at white space as in a configuration file and every word quoted;
    /// an empty value is the empty word (`save ""`). See [`ServerBuilder::conf_words`].
    #[must_use]
    pub fn conf(self, name: &str, value: impl Display) -> Self {
        let words = words(&value.to_string());
        self.push(name, words)
    }

    /// Adds a configuration directive whose words may hold any characters.
    #[must_use]
    pub fn conf_words(self, name: &str, words: &[&str]) -> Self {
        self.push(name, words.iter().map(ToString::to_string).collect())
    }

    fn push(mut self, name: &str, words: Vec<String>) -> Self {
        self.conf.push(name, words);
        self
    }

    /// Passes arguments to the module, as after the path in a `loadmodule` line.
    #[must_use]
    pub fn module_args(mut self, arguments: &[&str]) -> Self {
        self.module_args.extend(arguments.iter().map(ToString::to_string));
        self
    }

    /// Starts a plain server.
    #[must_use]
    pub fn without_module(mut self) -> Self {
        self.module = Module::None;
        self
    }

    /// Starts a sentinel instead of a server; give it `sentinel` directives, `monitor` first.
    #[must_use]
    pub fn sentinel(mut self) -> Self {
        self.sentinel = true;
        self.without_module()
    }

    /// Loads the module at `path` instead of [`module_path()`].
    #[must_use]
    pub fn module(mut self, path: impl Into<PathBuf>) -> Self {
        self.module = Module::At(path.into());
        self
    }

    /// Starts on existing data: the result of [`TestServer::shutdown`], or a [`DataDir`].
    #[must_use]
    pub fn dir(mut self, dir: impl Into<DataDir>) -> Self {
        self.dir = Some(dir.into());
        self
    }

    /// Listens on this port instead of a free one: clients and replicas find a restarted server there.
    #[must_use]
    pub fn port(self, port: u16) -> Self {
        self.conf("port", port)
    }

    /// Runs this server binary instead of the one under test.
    #[must_use]
    pub fn binary(mut self, path: impl Into<PathBuf>) -> Self {
        self.binary = Some(path.into());
        self
    }

    /// Lets the test step the server's wall clock: [`TestServer::set_clock_ahead`].
    #[must_use]
    pub fn with_a_clock_that_steps(mut self) -> Self {
        self.clocks = Clocks::Step;
        self
    }

    /// Lets the test set both clocks of the server, which stand: [`TestServer::set_clocks`].
    #[must_use]
    pub fn with_clocks_that_stand(mut self) -> Self {
        self.clocks = Clocks::Stand;
        self
    }

    /// Starts the server and waits until it answers; panics with its log if it does not.
    #[must_use]
    #[track_caller]
    pub fn start(self) -> TestServer {
        match self.try_start() {
            Ok(server) => server,
            Err(failure) => panic!("the server did not start: {failure}"),
        }
    }

    /// Yields to Redisson waiters after this number of hand-offs or this time, and for this window.
    #[must_use]
    pub fn foreign_turns(self, grants: u64, turn_ms: u64, window_ms: u64) -> Self {
        self.conf("rlock.foreign-turn-grants", grants)
            .conf("rlock.foreign-turn-ms", turn_ms)
            .conf("rlock.foreign-window-ms", window_ms)
    }

    /// Writes each change to the AOF before its answer: with the default, everysec, the file lags behind.
    #[must_use]
    pub fn with_aof(self) -> Self {
        self.conf("appendonly", "yes").conf("appendfsync", "always")
    }

    /// Starts the server, and a connection to it.
    #[must_use]
    #[track_caller]
    pub fn start_and_connect(self) -> (TestServer, Connection) {
        let server = self.start();
        let client = server.connect();
        (server, client)
    }

    /// Starts the server, for tests that expect it to refuse.
    pub fn try_start(mut self) -> Result<TestServer, StartFailure> {
        let binary = self.binary.take().unwrap_or_else(server_binary);
        let dir = self.dir.take().unwrap_or_else(DataDir::temporary);
        self.complete(&binary, &dir);
        let given = self.conf.first_word("port").map(|port| port.parse().expect("a port number"));
        let server = self.launch(&binary, dir, given.unwrap_or_else(free_port));
        match await_ready(&server) {
            None => Ok(server),
            Some(failure) => {
                server.kill9();
                Err(failure)
            }
        }
    }

    /// Adds the kit's defaults and the module to what the test asked for.
    fn complete(&mut self, binary: &Path, dir: &DataDir) {
        let version = binary_version(binary);
        let path = dir.path().to_str().expect("the temporary directory's path is UTF-8");
        let defaults = [
            ("bind", "127.0.0.1"),
            ("protected-mode", "no"),
            ("daemonize", "no"),
            ("dir", path),
            ("logfile", LOG_FILE),
            ("loglevel", "notice"),
            ("save", ""),
            ("appendonly", "no"),
            // With the server's own default a write can be put off, so that the file lags behind a reply.
            ("appendfsync", "always"),
            // Otherwise every first replication waits 5 seconds for more replicas.
            ("repl-diskless-sync-delay", "0"),
        ];
        for (name, value) in defaults {
            self.conf.push_default(name, &[value]);
        }
        if version.name != ServerName::Redis || version.major >= 7 {
            self.conf.push_default("enable-module-command", &["local"]);
            self.conf.push_default("enable-debug-command", &["local"]);
        }
        let module = match &self.module {
            Module::None => return,
            Module::At(path) => path.as_path(),
            Module::Built => module_path(),
        };
        let mut line = vec![module.to_str().expect("the module's path is UTF-8").to_string()];
        line.append(&mut self.module_args);
        self.conf.push("loadmodule", line);
    }

    fn launch(&self, binary: &Path, dir: DataDir, port: u16) -> TestServer {
        let mut conf = self.conf.clone();
        conf.push_default("port", &[&port.to_string()]);
        let file = dir.path().join("test.conf");
        fs::write(&file, conf.text()).expect("writing the configuration file");
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(dir.path().join(LOG_FILE))
            .expect("opening the log file");
        let log_start = log.metadata().expect("the log file's size").len();
        let process = Process::spawn(binary, |command| {
            command.arg(&file).args(self.sentinel.then_some("--sentinel")).current_dir(dir.path());
            command.stdin(Stdio::null()).stdout(log.try_clone().expect("a second handle of the log file"));
            command.stderr(log);
            if self.clocks != Clocks::Real {
                let clock = dir.path().join(CLOCK_FILE);
                fs::write(&clock, "0").expect("writing the clock's file");
                command.env("RLOCK_CLOCK_FILE", clock).env("LD_PRELOAD", clock_path());
            }
            if self.clocks == Clocks::Stand {
                command.env("RLOCK_CLOCKS_STAND", "yes");
            }
        });
        let process =
            process.unwrap_or_else(|error| panic!("cannot run setpriv: {error}; install util-linux 2.33"));
        let password = conf.first_word("requirepass").filter(|word| !word.is_empty()).map(str::to_string);
        let (data, binary, end_expected) = (Some(dir), binary.into(), AtomicBool::new(false));
        TestServer { process, port, data, log_start, binary, password, end_expected }
    }
}

/// Waits until the server answers; returns why it never will.
fn await_ready(server: &TestServer) -> Option<StartFailure> {
    let outcome = poll(START_DEADLINE, || {
        if let Some(status) = server.process.exited() {
            return Some(Some(StartFailure { log: server.log_of_this_start(), status: Some(status) }));
        }
        is_ready(server).then_some(None)
    });
    outcome.unwrap_or_else(|| Some(StartFailure { log: server.log_of_this_start(), status: None }))
}

/// Whether this very server answers: another one may have taken the port in the meantime.
fn is_ready(server: &TestServer) -> bool {
    match ready(server.port()) {
        None => false,
        Some(Some(id)) => id == server.pid(),
        // Its process id is hidden behind a password; its log says that it listens.
        Some(None) => server.log_of_this_start().contains("eady to accept connections"),
    }
}
