//! Running the command as a process of its own.

#![allow(dead_code, reason = "each file of tests uses its own part")]

pub(crate) mod metrics;
pub(crate) mod servers;
pub(crate) mod terminal;

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use redis::Connection;
pub(crate) use rlock_testkit::clients::run as ask;
use rlock_testkit::waiting::queue;
use rlock_testkit::{DataDir, TestServer, eventually};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
pub(crate) use rustix::process::Signal;
use rustix::process::{Pid, PidfdFlags, kill_process, pidfd_open};

/// How long anything may take that needs no particular time.
pub(crate) const SOON: Duration = Duration::from_secs(60);

/// The program under test.
pub(crate) const RLOCK: &str = env!("CARGO_BIN_EXE_rlock");

/// What a process left.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    /// Shows that it exited with `code` and printed exactly this.
    #[track_caller]
    pub(crate) fn is(&self, code: i32, stdout: &str) {
        assert_eq!((self.code, self.stdout.as_str()), (Some(code), stdout), "{self:#?}");
    }

    /// Shows that it exited with `code` and that its errors contain each of the texts.
    #[track_caller]
    pub(crate) fn fails(&self, code: i32, texts: &[&str]) {
        assert_eq!(self.code, Some(code), "{self:#?}");
        for text in texts {
            assert!(self.stderr.contains(text), "no {text:?} in {self:#?}");
        }
    }

    /// The lines of its output as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Vec<serde_json::Value> {
        let read = |line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e} in {line:?}"));
        self.stdout.lines().map(read).collect()
    }
}

/// A process that runs; killed when dropped.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    stdout: Stream,
    stderr: Stream,
}

/// What a process writes, as it writes it.
#[derive(Debug)]
struct Stream {
    text: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

/// The program without anything of the tests' own environment.
pub(crate) fn bare() -> Command {
    program(&[RLOCK])
}

/// As [`bare`], for another program, or for the program below others that execute it.
///
/// Without what the tests themselves inherited: in the background of a script INT and QUIT are ignored, and HUP
/// under nohup; and so are they by all that they start. Then the tests of signals waited in vain.
pub(crate) fn program(words: &[&str]) -> Command {
    let mut command = Command::new("env");
    command.arg("--default-signal=HUP,INT,QUIT,TSTP,TTIN,TTOU").args(words);
    for name in ["REDIS_URL", "NO_COLOR", "TERM", "RLOCK_HELD"] {
        command.env_remove(name);
    }
    command.stdin(Stdio::null());
    command
}

/// The text of a file of this repository.
#[track_caller]
pub(crate) fn file(path: &str) -> String {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

pub(crate) fn address(server: &TestServer) -> String {
    format!("127.0.0.1:{}", server.port())
}

pub(crate) fn url(server: &TestServer) -> String {
    format!("redis://{}", address(server))
}

/// The URL with a login: `user:password`.
pub(crate) fn url_of(login: &str, server: &TestServer) -> String {
    format!("redis://{login}@{}", address(server))
}

/// Runs the program against a server.
#[track_caller]
pub(crate) fn rlock<A: AsRef<OsStr>>(server: &TestServer, arguments: &[A]) -> Ended {
    at(&url(server), arguments)
}

/// Starts the program against a server.
#[track_caller]
pub(crate) fn start<A: AsRef<OsStr>>(server: &TestServer, arguments: &[A]) -> Running {
    start_at(&url(server), arguments)
}

/// Runs the program with a URL.
#[track_caller]
pub(crate) fn at<A: AsRef<OsStr>>(url: &str, arguments: &[A]) -> Ended {
    start_at(url, arguments).ended()
}

/// Starts the program with a URL.
#[track_caller]
pub(crate) fn start_at<A: AsRef<OsStr>>(url: &str, arguments: &[A]) -> Running {
    let mut command = bare();
    command.env("REDIS_URL", url).args(arguments);
    Running::start(command)
}

/// Starts `rlock run job` with these options, and a script in the directory of these files.
#[track_caller]
pub(crate) fn run(server: &TestServer, files: &Files, options: &[&str], script: &str) -> Running {
    start(server, &[&["run", "job"], options, &["--", "sh", "-c", &files.script(script)]].concat())
}

impl Running {
    #[track_caller]
    pub(crate) fn start(mut command: Command) -> Running {
        command.stderr(Stdio::piped());
        Running::start_with_stderr(command)
    }

    /// Starts it with the standard error that was set, which is read only if it is piped.
    #[track_caller]
    pub(crate) fn start_with_stderr(mut command: Command) -> Running {
        command.stdout(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let stdout = Stream::of(child.stdout.take().expect("piped"));
        let stderr = match child.stderr.take() {
            Some(stderr) => Stream::of(stderr),
            None => Stream::of(std::io::empty()),
        };
        Running { child, stdout, stderr }
    }

    pub(crate) fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    #[track_caller]
    pub(crate) fn signal(&self, signal: Signal) {
        // The child is not collected while it is borrowed.
        kill_process(Pid::from_child(&self.child), signal).expect("it takes signals");
    }

    /// Stops it, and waits until all its threads have.
    #[track_caller]
    pub(crate) fn stop(&self) {
        self.signal(Signal::STOP);
        eventually("all threads to stop", SOON, || {
            let threads = fs::read_dir(format!("/proc/{}/task", self.pid())).expect("it runs");
            let mut states = threads.map(|thread| state(&thread.expect("a thread").path()));
            states.all(|state| state == Some('T')).then_some(())
        });
    }

    #[track_caller]
    pub(crate) fn still_runs(&mut self) {
        assert_eq!(self.child.try_wait().unwrap(), None, "ended too early");
    }

    /// Waits for its end.
    #[track_caller]
    pub(crate) fn ended(self) -> Ended {
        self.ended_within(SOON)
    }

    #[track_caller]
    pub(crate) fn ended_within(mut self, within: Duration) -> Ended {
        await_end(Pid::from_child(&self.child), within);
        let status = self.child.wait().expect("an own child");
        for stream in [&self.stdout, &self.stderr] {
            eventually("the end of its output", SOON, || stream.reader.is_finished().then_some(()));
        }
        let (stdout, stderr) = (self.stdout.so_far(), self.stderr.so_far());
        Ended { code: status.code(), signal: status.signal(), stdout, stderr }
    }

    /// The line of this number of its output, once it is whole.
    #[track_caller]
    pub(crate) fn prints(&self, number: usize) -> String {
        eventually("a line of its output", SOON, || {
            let text = self.printed();
            let line = text.split_inclusive('\n').nth(number)?;
            line.strip_suffix('\n').map(str::to_string)
        })
    }

    /// Its output so far.
    pub(crate) fn printed(&self) -> String {
        self.stdout.so_far()
    }

    /// Its standard error so far.
    pub(crate) fn told(&self) -> String {
        self.stderr.so_far()
    }

    /// Waits until it has told this on standard error.
    #[track_caller]
    pub(crate) fn tells(&self, text: &str) {
        eventually(&format!("the words {text:?}"), SOON, || {
            self.stderr.so_far().contains(text).then_some(())
        });
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Its command dies with it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Stream {
    fn of(mut source: impl Read + Send + 'static) -> Stream {
        let text = Arc::new(Mutex::new(Vec::new()));
        let into = text.clone();
        let reader = thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(length @ 1..) = source.read(&mut buffer) {
                into.lock().unwrap().extend_from_slice(&buffer[..length]);
            }
        });
        Stream { text, reader }
    }

    fn so_far(&self) -> String {
        String::from_utf8_lossy(&self.text.lock().unwrap()).into_owned()
    }
}

/// A script that notes its process id, and works until [`Files::go`], for a minute at most. It counts without `seq`: on a busy machine
/// a slow `seq` sometimes got the signal of a test and ended, and the command ended as if it were done.
pub(crate) const UNTIL_GO: &str =
    "echo $$ > pid; n=0; until [ -e go ] || [ $((n+=1)) -gt 1200 ]; do sleep 0.05; done";

/// A directory for the files that commands leave for tests.
pub(crate) struct Files(DataDir);

impl Files {
    pub(crate) fn new() -> Files {
        Files(DataDir::temporary())
    }

    pub(crate) fn dir(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Lets [`UNTIL_GO`] end.
    pub(crate) fn go(&self) {
        fs::write(self.path("go"), "").expect("a file");
    }

    /// Writes a program, which is a script.
    pub(crate) fn program(&self, name: impl AsRef<Path>, script: &str) {
        let path = self.0.path().join(name);
        fs::write(&path, script).expect("a file");
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("permissions");
    }

    /// A script for `sh -c`, run in this directory.
    pub(crate) fn script(&self, text: &str) -> String {
        format!("cd '{}' && {text}", self.0.path().display())
    }

    /// What a command wrote as its last line, once it has.
    #[track_caller]
    pub(crate) fn line(&self, name: &str) -> String {
        eventually(&format!("a line in {name}"), SOON, || {
            let text = fs::read_to_string(self.path(name)).ok()?;
            text.ends_with('\n').then(|| text.lines().last().unwrap_or_default().to_string())
        })
    }

    #[track_caller]
    pub(crate) fn pid(&self, name: &str) -> i32 {
        self.line(name).parse().expect("a process id")
    }
}

/// Whether a process still runs; one that has ended and was not collected does not.
pub(crate) fn runs(pid: i32) -> bool {
    state(Path::new(&format!("/proc/{pid}"))).is_some_and(|state| !['Z', 'X'].contains(&state))
}

#[track_caller]
pub(crate) fn send_signal(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).expect("a process id"), signal).expect("it takes signals");
}

/// The letter for the state of a process or thread; `None` when it is gone.
pub(crate) fn state(directory: &Path) -> Option<char> {
    let stat = fs::read_to_string(directory.join("stat")).ok()?;
    stat.rsplit(')').next()?.trim_start().chars().next()
}

#[track_caller]
pub(crate) fn await_end_of(pids: &[i32], within: Duration) {
    pids.iter().for_each(|pid| await_end(Pid::from_raw(*pid).expect("a process id"), within));
}

/// Waits until a process has ended, collected or not; the system reports it, so that nothing polls.
#[track_caller]
fn await_end(pid: Pid, within: Duration) {
    // It may be gone.
    let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { return };
    let within = Timespec::try_from(within).expect("a short time");
    let ended = poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&within)).expect("a process");
    assert!(ended == 1, "waited {within:?} in vain for the end of the process {pid:?}");
}

/// The owner of a lock, once it is held.
#[track_caller]
pub(crate) fn await_owner(client: &mut Connection, key: &str) -> String {
    eventually("an owner", SOON, || ask::<Vec<String>>(client, &format!("HKEYS {key}")).pop())
}

/// Waits until a lock has `count` waiters.
#[track_caller]
pub(crate) fn await_waiters(client: &mut Connection, key: &str, count: usize) {
    eventually("the waiters", SOON, || (queue(client, key).len() == count).then_some(()));
}

/// How many renewals the server has counted; `None` if it cuts the connection, as Sentinels make a server do that they promote.
pub(crate) fn renewed(server: &TestServer) -> Option<u64> {
    let client = redis::Client::open(url(server)).ok()?;
    let info: String = redis::cmd("INFO").arg("rlock").query(&mut client.get_connection().ok()?).ok()?;
    info.lines().find_map(|line| line.strip_prefix("rlock_renewed:")?.trim().parse().ok())
}
