//! What only the operating system's own calls can do, and the command's only `unsafe`: no crate offers a safe way to ask
//! whether a signal is ignored, to ignore one, or to run something between fork and exec.

#![expect(unsafe_code, reason = "see above; each block says why it is sound")]

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Whether the process was started with this signal ignored.
pub(super) fn is_ignored(signal: i32) -> bool {
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: without a new action sigaction only writes the present one, into memory made for it.
    let known = unsafe { libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) } == 0;
    // SAFETY: sigaction succeeded, so it has filled the action in.
    known && unsafe { action.assume_init() }.sa_sigaction == libc::SIG_IGN
}

/// Lets us use the terminal although another group has it in the foreground: to take it back.
pub(super) fn ignore_background_terminal_use() {
    // SAFETY: ignoring a signal installs no handler that could run.
    unsafe { libc::signal(libc::SIGTTOU, libc::SIG_IGN) };
}

/// The command is killed should we be killed: nobody would end it when the lease ends.
///
/// The kernel does it when the *thread* that starts the command ends; so the main thread starts it.
#[cfg(target_os = "linux")]
pub(super) fn die_with_us(command: &mut Command) {
    use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};

    let parent = getpid();
    let before_exec = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // We may have been killed before that was in force.
        if getppid() == Some(parent) { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::ESRCH)) }
    };
    // SAFETY: between fork and exec the closure makes two system calls; it neither allocates nor takes
    // a lock.
    unsafe { command.pre_exec(before_exec) };
}

/// No other system has the means.
#[cfg(not(target_os = "linux"))]
pub(super) fn die_with_us(_command: &mut Command) {}

/// Makes us the parent of orphans below us, so that we see the end of every process of the group even
/// where nobody else collects it, as in a container without an init.
pub(super) fn adopt_orphans() {
    // Where this cannot be had, the group is still asked for by its number.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
}
