//! Signals: those that reach us, and the one that ends a command.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::Sender;
use std::thread;

use rustix::process::Signal;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2};

use super::Event;
use crate::error::Error;

/// Signals that are passed on to the command. Each would else end us and leave the command alone.
const FORWARDED: [i32; 6] = [SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2];

/// Names as `kill -l` shows them.
const NAMES: [(&str, Signal); 8] = [
    ("HUP", Signal::HUP),
    ("INT", Signal::INT),
    ("QUIT", Signal::QUIT),
    ("KILL", Signal::KILL),
    ("USR1", Signal::USR1),
    ("USR2", Signal::USR2),
    ("ALRM", Signal::ALARM),
    ("TERM", Signal::TERM),
];

/// A signal that ends commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EndSignal(pub(crate) Signal);

/// Reads `TERM`, `SIGTERM` or `15`.
pub(crate) fn parse(text: &str) -> Result<EndSignal, String> {
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    let found = NAMES.iter().find(|(known, signal)| *known == name || name.parse() == Ok(signal.as_raw()));
    found.map(|(_, signal)| EndSignal(*signal)).ok_or_else(|| {
        let known: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
        format!("'{text}' is not a signal that ends a command: choose one of {}", known.join(", "))
    })
}

/// From now on signals are told to `events` and do nothing else.
///
/// Those that our parent ignores, as nohup does with HUP, stay ignored, for the command too.
pub(super) fn listen(events: Sender<Event>) -> Result<(), Error> {
    let failed = |cause| Error::System { what: "signals cannot be handled", cause };
    let wanted = FORWARDED.into_iter().filter(|signal| !super::system::is_ignored(*signal));
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

/// From now on we cannot be suspended by Ctrl-Z: the command is in a group of its own and would go on, while
/// nobody renewed its lock. The flag tells that it was tried. The command has the usual action.
pub(super) fn refuse_suspension() -> Result<Arc<AtomicBool>, Error> {
    let tried = Arc::new(AtomicBool::new(false));
    if !super::system::is_ignored(SIGTSTP) {
        signal_hook::flag::register(SIGTSTP, tried.clone())
            .map_err(|cause| Error::System { what: "signals cannot be handled", cause })?;
    }
    Ok(tried)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_read() {
        for (text, signal) in [("TERM", 15), ("sigint", 2), ("9", 9), ("SIGUSR1", Signal::USR1.as_raw())] {
            assert_eq!(parse(text).map(|EndSignal(signal)| signal.as_raw()), Ok(signal), "{text}");
        }
        for text in ["", "0", "STOP", "WINCH", "SIG", "999"] {
            assert!(parse(text).unwrap_err().contains("TERM"), "{text}");
        }
    }
}
