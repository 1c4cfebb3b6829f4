//! The command's process group.

use std::ffi::OsString;
use std::io::{self, IsTerminal, stdin};

use nix::unistd::getpgrp;
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, kill_process_group, test_kill_process_group, wait,
};
use rustix::termios::{tcgetpgrp, tcsetpgrp};

use super::launch::{self, Job};
use super::{NO_SUSPENSION, system};
use crate::error::Error;
use crate::output::Notes;
use crate::terminal;

/// How a command ended, as a shell says it: its code, or 128 and the signal's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ExitCode(pub(super) u8);

/// A process group whose leader rlock started.
#[derive(Debug)]
pub(super) struct Group {
    id: Pid,
    leader: Option<ExitCode>,
    gone: bool,
    /// The group that had the terminal before, if the command got it.
    terminal: Option<Pid>,
    notes: Notes,
}

impl Group {
    /// Starts a command, with these variables in its environment. It gets the terminal, if rlock has it, so that it
    /// can read what is typed.
    pub(super) fn start(
        words: &[OsString],
        variables: &[(OsString, OsString)],
        notes: Notes,
    ) -> Result<Group, Error> {
        let Some((program, arguments)) = words.split_first() else {
            return Err(Error::Usage("the command is missing".to_string(), "write it after --"));
        };
        system::adopt_orphans();
        // Collected below, together with the orphans, not by its own wait.
        let started = launch::start(Job { program, arguments, variables }, notes);
        // Later, this thread returns the terminal to its own group, or reports an error.
        terminal::allow_background_use();
        let child = started.map_err(|error| start_failure(program, &error))?;
        let id = Pid::from_child(&child);
        Ok(Group { id, leader: None, gone: false, terminal: give_terminal(id), notes })
    }

    /// Sends a signal to every process of the group.
    pub(super) fn signal(&self, signal: Signal) {
        if !self.gone {
            // The call fails if no process is left to receive the signal.
            let _ = kill_process_group(self.id, signal);
        }
    }

    /// How the command itself ended, once it has.
    pub(super) fn leader(&self) -> Option<ExitCode> {
        self.leader
    }

    /// Collects what has ended, and returns whether no process of the group is left.
    ///
    /// Once none is left, the number may belong to another group: no more signals are sent.
    pub(super) fn is_gone(&mut self) -> bool {
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG | WaitOptions::UNTRACED) {
            if pid == self.id {
                self.leader_changed(status);
            }
        }
        // The leader, until it is collected, keeps the number of the group from being used again.
        if self.leader.is_some() && !self.gone {
            self.gone = test_kill_process_group(self.id) == Err(rustix::io::Errno::SRCH);
        }
        self.gone
    }

    fn leader_changed(&mut self, status: WaitStatus) {
        if let Some(code) = status.exit_status() {
            self.leader = Some(ExitCode(u8::try_from(code).unwrap_or(u8::MAX)));
        } else if let Some(signal) = status.terminating_signal() {
            self.leader = Some(ended_by(signal));
        } else if status.stopping_signal() == Some(Signal::TSTP.as_raw()) && self.terminal.is_some() {
            self.notes.say(NO_SUSPENSION);
            self.signal(Signal::CONT);
        }
    }
}

impl Drop for Group {
    /// Returns the terminal to the group that had it.
    fn drop(&mut self) {
        if let Some(before) = self.terminal {
            let _ = tcsetpgrp(stdin(), before);
        }
    }
}

/// The code of a command that a signal ended.
pub(super) fn ended_by(signal: i32) -> ExitCode {
    ExitCode(u8::try_from(signal.saturating_add(128)).unwrap_or(u8::MAX))
}

/// Puts the group into the foreground of the terminal, in place of rlock's group, which it returns.
fn give_terminal(id: Pid) -> Option<Pid> {
    // In a PID namespace, a group outside has no number.
    let ours = Pid::from_raw(getpgrp().as_raw())?;
    if !stdin().is_terminal() || tcgetpgrp(stdin()).ok() != Some(ours) {
        return None;
    }
    tcsetpgrp(stdin(), id).ok()?;
    // It may have been stopped for using the terminal too early.
    let _ = kill_process_group(id, Signal::CONT);
    Some(ours)
}

fn start_failure(program: &OsString, error: &io::Error) -> Error {
    let name = program.display().to_string();
    match error.kind() {
        io::ErrorKind::NotFound => Error::NotFound { program: name },
        _ => Error::NotExecutable { program: name, cause: error.to_string() },
    }
}
