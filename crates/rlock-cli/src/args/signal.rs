//! The signal that ends a command.

use rustix::process::Signal;

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
