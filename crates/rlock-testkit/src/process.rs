//! A child process that never outlives the test process.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use crate::wait::poll;

type Request = (Command, Sender<io::Result<Child>>);

/// A running child process; killed and waited for when dropped.
#[derive(Debug)]
pub(crate) struct Process {
    pid: u32,
    child: Mutex<Child>,
}

impl Process {
    /// Starts `command` in a process group of its own, to be killed if this process dies.
    pub(crate) fn spawn(mut command: Command) -> io::Result<Process> {
        command.process_group(0);
        die_with_parent(&mut command);
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

    /// Sends a signal, unless the process has ended (its id may belong to another by then).
    pub(crate) fn signal(&self, signal: i32) {
        self.send(self.pid as i32, signal);
    }

    /// Kills the whole process group, snapshot children included, and waits for the process.
    pub(crate) fn kill(&self) -> ExitStatus {
        self.send(-(self.pid as i32), libc::SIGKILL);
        self.lock().wait().expect("waiting for an own child")
    }

    fn send(&self, target: i32, signal: i32) {
        let mut child = self.lock();
        if let Ok(None) = child.try_wait() {
            // SAFETY: kill takes plain numbers; the child is not reaped while the lock is held,
            // so the target is still ours.
            unsafe { libc::kill(target, signal) };
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

/// Asks the kernel to kill the child when the thread that started it ends.
///
/// The signal is bound to the starting *thread*, not to the process: a server started by a test's
/// thread and kept for others would die with that test. Hence [`spawner`].
fn die_with_parent(command: &mut Command) {
    let parent = std::process::id();
    let before_exec = move || {
        // SAFETY: prctl with these arguments reads and writes no memory of ours.
        if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // The parent may have died before the request was in force.
        // SAFETY: getppid has no preconditions.
        if unsafe { libc::getppid() } as u32 != parent {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        Ok(())
    };
    // SAFETY: between fork and exec the closure makes two system calls and neither allocates nor
    // takes a lock.
    unsafe { command.pre_exec(before_exec) };
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
