//! Signals that reach rlock.

use std::sync::atomic::AtomicBool;
use std::sync::mpsc::Sender;
use std::sync::{Arc, OnceLock};
use std::thread;

use rustix::process::Signal;
use signal_hook::consts::{
    SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGTTIN, SIGTTOU, SIGUSR1, SIGUSR2,
};

use super::event::Event;
use super::system::IgnoredSignals;
use crate::error::Error;
use crate::output::Notes;

/// Signals that are passed on to the command. Each would otherwise end rlock and leave the command alone.
const FORWARDED: [i32; 6] = [SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2];

/// From now on signals are sent to `events` and do nothing else.
///
/// Those that the parent process ignores, as nohup does with HUP, stay ignored, for the command too.
pub(super) fn listen(events: Sender<Event>) -> Result<(), Error> {
    let failed = |cause| Error::System { what: "signals cannot be handled", cause };
    let ignored = IgnoredSignals::of_this_process();
    let wanted = FORWARDED.into_iter().filter(|signal| !ignored.contains(*signal));
    let mut signals = signal_hook::iterator::Signals::new(wanted.chain([SIGCHLD])).map_err(failed)?;
    let listen = move || {
        for signal in signals.forever() {
            let event = match Signal::from_named_raw(signal) {
                Some(Signal::CHILD) => Event::ChildChanged,
                Some(signal) => Event::Signal(signal),
                None => continue,
            };
            if events.send(event).is_err() {
                return;
            }
        }
    };
    thread::Builder::new().name("signals".to_string()).spawn(listen).map_err(failed)?;
    Ok(())
}

/// From now on the terminal cannot suspend rlock: the command is in a group of its own and would continue without renewals of
/// its lock. The flag tells that Ctrl-Z was typed. The command has the usual actions.
///
/// In a pipeline, another program that uses the terminal, such as a pager, causes TTIN and TTOU for the whole group of rlock.
/// Threads of rlock that write to the terminal block TTOU: the system repeats a signal that has a handler until the write succeeds.
pub(super) fn refuse_suspension(notes: Notes) -> Result<Arc<AtomicBool>, Error> {
    // Once for all terms of a leader: handlers are never taken away.
    static TRIED: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    notes.continue_in_background();
    if let Some(tried) = TRIED.get() {
        return Ok(tried.clone());
    }
    let tried = TRIED.get_or_init(Arc::default).clone();
    let ignored = IgnoredSignals::of_this_process();
    for (signal, flag) in [(SIGTSTP, &tried), (SIGTTIN, &Arc::default()), (SIGTTOU, &Arc::default())] {
        if !ignored.contains(signal) {
            signal_hook::flag::register(signal, flag.clone())
                .map_err(|cause| Error::System { what: "signals cannot be handled", cause })?;
        }
    }
    Ok(tried)
}
