//! A child process that never outlives the test process.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, getpid, kill_process, kill_process_group};

use crate::wait::poll;

/// Runs the words after the first if the first is the parent's id: the parent can die before the kernel knows the
/// signal to send at its death. The program takes the place of this shell, and keeps its id.
const GUARD: &str = r#"[ "$PPID" = "$0" ] && exec "$@""#;

type Request = (Command, Sender<io::Result<Child>>);

/// A running child process; killed and waited for when dropped.
#[derive(Debug)]
pub(crate) struct Process {
    pid: u32,
    child: Mutex<Child>,
}

impl Process {
    /// Starts `program` in a process group of its own, to be killed if this process dies.
    ///
    /// Environment and output that `set` gives are those of setpriv and the shell too.
    pub(crate) fn spawn(program: &Path, set: impl FnOnce(&mut Command)) -> io::Result<Process> {
        let mut command = dying_with(getpid(), program);
        set(command.process_group(0));
        let (reply, answer) = channel();
        let gone = || io::Error::other("the thread that starts servers is gone");
        spawner().send((command, reply)).map_err(|_| gone())?;
        let child = answer.recv().map_err(|_| gone())??;
        Ok(Process { pid: child.id(), child: Mutex::new(child) })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// The exit status, if the process has ended.
    pub(crate) fn exited(&self) -> Option<ExitStatus> {
        self.lock().try_wait().expect("waiting for an own child")
    }

    /// Waits until the process has ended by itself; `None` when it still runs after `within`.
    pub(crate) fn wait(&self, within: Duration) -> Option<ExitStatus> {
        poll(within, || self.exited())
    }

    /// Sends a signal, unless the process has ended: its id may belong to another process by that time.
    pub(crate) fn signal(&self, signal: i32) {
        self.send(|pid| {
            Signal::from_named_raw(signal).map_or(Err(Errno::INVAL), |signal| kill_process(pid, signal))
        });
    }

    /// Kills the whole process group, snapshot children included, and waits for the process.
    pub(crate) fn kill(&self) -> ExitStatus {
        self.send(|pid| kill_process_group(pid, Signal::KILL));
        self.lock().wait().expect("waiting for an own child")
    }

    fn send(&self, signal: impl FnOnce(Pid) -> Result<(), Errno>) {
        let mut child = self.lock();
        if let Ok(None) = child.try_wait() {
            // The child is not reaped while the lock is held, so the id is still its own. Only an unknown signal fails.
            let _ = signal(Pid::from_child(&child));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Child> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The command that starts `program` as a child of `parent`, to be killed when the thread that starts it ends.
///
/// The kernel binds this signal to the starting *thread*, not to the process: a server started by a test's
/// thread and kept for others would die with that test. Hence [`spawner`].
fn dying_with(parent: Pid, program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--", "sh", "-c", GUARD, &parent.to_string()]).arg(program);
    command
}

/// The thread that starts all children: it lives as long as the process.
fn spawner() -> &'static Sender<Request> {
    static SPAWNER: OnceLock<Sender<Request>> = OnceLock::new();
    SPAWNER.get_or_init(|| {
        let (requests, inbox) = channel::<Request>();
        let serve = move || {
            for (mut command, reply) in inbox {
                // The requester waits for the answer; it can only be gone in a dying process.
                let _ = reply.send(command.spawn());
            }
        };
        thread::Builder::new()
            .name("rlock-testkit-spawner".into())
            .spawn(serve)
            .expect("starting the thread that starts servers");
        requests
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The output of a program that is started as a child of `parent`.
    fn printed_as_child_of(parent: Pid) -> Vec<u8> {
        dying_with(parent, Path::new("echo")).arg("$runs").output().unwrap().stdout
    }

    #[test]
    fn a_program_runs_only_while_its_parent_lives() {
        assert_eq!(printed_as_child_of(getpid()), b"$runs\n");
        assert_eq!(printed_as_child_of(Pid::INIT), b"");
    }
}
