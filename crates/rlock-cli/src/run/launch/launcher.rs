//! The launcher: rlock executes itself, and the launcher executes the command in its own place.
//!
//! Linux kills a process at the end of its parent only if the process asks for that, before it executes the command. In a process that
//! was forked, but has executed nothing yet, only `unsafe` code can ask. The launcher is a program of its own and asks in safe code.
//! It keeps its process, its group, its environment and its descriptors, so the command finds what it would find without a launcher.
//!
//! rlock must learn whether the command was started. The launcher's standard input is a socket. The command's standard input and a
//! pipe for the answer come over this socket. The command does not inherit the pipe, so an answer without an error is complete when
//! the command has started. Neither does a process that a library starts in the launcher before `main`, as LD_PRELOAD can.

use std::convert::Infallible;
use std::ffi::OsString;
use std::io::{self, IoSlice, IoSliceMut, PipeReader, PipeWriter, Read, Write, pipe, stderr, stdin};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitCode, id};

use rustix::cmsg_space;
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, getppid, set_parent_process_death_signal, waitid};
use rustix::stdio::dup2_stdin;

use super::Job;
use crate::error::FAILED;

/// The file of this program, also after it was replaced or deleted.
pub(super) const EXECUTABLE: &str = "/proc/self/exe";

/// The first argument of a launcher. Neither help nor completions show it.
const WORD: &str = "__launch";

/// The first byte of an answer: the command is tied. The number of an error follows if it was not started.
const TIED: u8 = b't';

/// Why the command was not started.
#[derive(Debug)]
pub(super) enum Failure {
    /// The launcher failed before it could start the command.
    Launcher(io::Error),
    /// The command cannot be executed.
    Command(io::Error),
}

/// Starts the command by a launcher, and returns when the command was executed or a signal has ended the launcher.
pub(super) fn start(executable: &str, job: Job<'_>) -> Result<Child, Failure> {
    let (mut pipe, mut child) = start_launcher(executable, job).map_err(Failure::Launcher)?;
    let mut answer = Vec::new();
    // An answer that cannot be read is incomplete.
    let _ = pipe.read_to_end(&mut answer);
    let failure = match answer[..] {
        [TIED] => return Ok(child),
        [TIED, a, b, c, d] => Failure::Command(error_of([a, b, c, d])),
        [a, b, c, d] => Failure::Launcher(error_of([a, b, c, d])),
        // It was the process of the command, which must not start once more.
        _ if signal_ended(&child) => return Ok(child),
        _ => Failure::Launcher(io::Error::other("the launcher ended early")),
    };
    let _ = child.wait();
    Err(failure)
}

fn start_launcher(executable: &str, job: Job<'_>) -> io::Result<(PipeReader, Child)> {
    let (reader, writer) = pipe()?;
    let (ours, theirs) = UnixStream::pair()?;
    send(&ours, [stdin().as_fd(), writer.as_fd()])?;
    drop((ours, writer));
    let mut command = Command::new(executable);
    command.arg0("rlock").args([WORD, &id().to_string()]).arg(job.program).args(job.arguments);
    command.envs(job.variables.iter().cloned()).process_group(0).stdin(OwnedFd::from(theirs));
    // The end of the command's builder closes its end of the socket.
    Ok((reader, command.spawn()?))
}

/// Waits for the end of a launcher, and returns whether a signal ended it. The launcher remains to be collected.
fn signal_ended(launcher: &Child) -> bool {
    let launcher = WaitId::Pid(Pid::from_child(launcher));
    let ended = retry_on_intr(|| waitid(launcher.clone(), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT));
    matches!(ended, Ok(Some(status)) if status.terminating_signal().is_some())
}

fn error_of(number: [u8; 4]) -> io::Error {
    io::Error::from_raw_os_error(i32::from_ne_bytes(number))
}

fn number_of(error: &io::Error) -> [u8; 4] {
    error.raw_os_error().unwrap_or(Errno::INVAL.raw_os_error()).to_ne_bytes()
}

/// In a launcher, executes the command, and returns only if that failed; `None` in every other process.
pub(crate) fn launch(mut arguments: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    let _own_name = arguments.next()?;
    if arguments.next()? != WORD {
        return None;
    }
    match receive() {
        Some((command_stdin, answer)) => {
            let mut answer = PipeWriter::from(answer);
            let Err(error) = execute(arguments, &mut answer, command_stdin);
            // It fails only if rlock has ended.
            let _ = answer.write_all(&number_of(&error));
        }
        None => _ = writeln!(stderr(), "rlock: only `rlock run` uses {WORD}"),
    }
    Some(ExitCode::from(FAILED))
}

fn execute(
    mut arguments: impl Iterator<Item = OsString>,
    answer: &mut PipeWriter,
    command_stdin: OwnedFd,
) -> io::Result<Infallible> {
    let parent = arguments.next().and_then(|parent| parent.to_str()?.parse().ok());
    tie(parent)?;
    dup2_stdin(&command_stdin)?;
    drop(command_stdin);
    let program = arguments.next().ok_or(Errno::INVAL)?;
    answer.write_all(&[TIED])?;
    Err(Command::new(program).args(arguments).exec())
}

/// Asks the kernel to kill this process, and what it executes, when the thread that started it ends.
fn tie(parent: Option<i32>) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // The parent may have ended before the request.
    let found = getppid().map(|parent| parent.as_raw_pid());
    if found.is_some() && found == parent { Ok(()) } else { Err(Errno::SRCH.into()) }
}

/// Sends descriptors to the launcher, which receives them later.
fn send(channel: &UnixStream, descriptors: [BorrowedFd<'_>; 2]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(2))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
    // Descriptors need a byte to go with.
    sendmsg(channel, &[IoSlice::new(b"0")], &mut ancillary, SendFlags::empty())?;
    Ok(())
}

/// In a launcher, receives the command's standard input and the pipe for the answer.
fn receive() -> Option<(OwnedFd, OwnedFd)> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(2))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let byte = &mut [0];
    recvmsg(stdin(), &mut [IoSliceMut::new(byte)], &mut ancillary, RecvFlags::CMSG_CLOEXEC).ok()?;
    ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next().zip(descriptors.next()),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reason why this launcher starts no command.
    fn failure(executable: &str) -> io::Error {
        let job = Job { program: &"true".into(), arguments: &[], variables: &[] };
        match start(executable, job) {
            Err(Failure::Launcher(cause)) => cause,
            other => panic!("{executable}: {other:?}"),
        }
    }

    /// As where /proc is not mounted, or shows an emulator.
    #[test]
    fn a_launcher_that_fails_is_not_the_command() {
        assert_eq!(failure("/no/such/launcher").kind(), io::ErrorKind::NotFound);
        for other in ["false", "true"] {
            assert_eq!(failure(other).to_string(), "the launcher ended early", "{other}");
        }
    }

    #[test]
    fn errors_keep_their_number() {
        for number in [Errno::NOENT, Errno::ACCESS, Errno::TOOBIG] {
            let error = io::Error::from(number);
            assert_eq!(error_of(number_of(&error)).raw_os_error(), error.raw_os_error());
        }
        assert_eq!(error_of(number_of(&io::Error::other("none"))).kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn only_the_word_makes_a_launcher() {
        for words in [&[][..], &["rlock"], &["rlock", "run"], &["rlock", "run", WORD]] {
            assert!(launch(words.iter().map(OsString::from)).is_none(), "{words:?}");
        }
    }
}
