//! Starting the command.

#[cfg(target_os = "linux")]
pub(crate) mod launcher;

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use crate::output::Notes;

/// A command, and what is added to its environment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Job<'a> {
    pub(super) program: &'a OsString,
    pub(super) arguments: &'a [OsString],
    pub(super) variables: &'a [(OsString, OsString)],
}

/// Starts a command in a process group of its own, tied to the calling thread: when the thread ends, the system kills the
/// command.
///
/// Without /proc the command starts without the tie, and a note says so.
#[cfg(target_os = "linux")]
pub(super) fn start(job: Job<'_>, notes: Notes) -> io::Result<Child> {
    match launcher::start(launcher::EXECUTABLE, job) {
        Ok(child) => Ok(child),
        Err(launcher::Failure::Command(cause)) => Err(cause),
        Err(launcher::Failure::Launcher(cause)) => {
            let child = start_untied(job)?;
            notes.say(&format!(
                "if KILL ends rlock, the command will continue without the lock, because rlock cannot execute {}: {cause}",
                launcher::EXECUTABLE
            ));
            Ok(child)
        }
    }
}

/// Starts a command in a process group of its own; only on Linux it is tied.
#[cfg(not(target_os = "linux"))]
pub(super) fn start(job: Job<'_>, _notes: Notes) -> io::Result<Child> {
    start_untied(job)
}

fn start_untied(job: Job<'_>) -> io::Result<Child> {
    Command::new(job.program).args(job.arguments).envs(job.variables.iter().cloned()).process_group(0).spawn()
}
