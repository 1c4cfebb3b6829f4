//! Why the module does not load.

use std::ffi::CStr;
use std::fmt;

/// Why the module does not load.
#[derive(Debug)]
pub(crate) enum LoadError {
    /// The server lacks a needed function.
    OldServer(&'static str),
    /// A command that sends effects has been renamed away.
    RenamedCommand(&'static CStr),
    /// The server refused a registration.
    Refused(&'static str, &'static CStr),
    /// An option in the configuration file has an invalid value.
    BadConfiguration,
    /// An unknown load-time argument.
    BadArgument(String),
    /// The load panicked.
    Panicked,
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OldServer(function) => {
                write!(f, "this server lacks {function}; use Redis 7.0.5, Valkey 7.2, Redict 7.3 or later")
            }
            Self::RenamedCommand(name) => write!(
                f,
                "rlock needs the command {0}; remove 'rename-command {0}' from the configuration",
                name.to_string_lossy()
            ),
            Self::Refused(what, name) => write!(f, "the server refused {what} {}", name.to_string_lossy()),
            Self::BadConfiguration => {
                f.write_str("an option rlock.* has an invalid value; correct it in the configuration")
            }
            Self::BadArgument(what) => {
                write!(f, "{what}; load-time arguments are pairs such as 'accept yes'")
            }
            Self::Panicked => {
                f.write_str("rlock panicked while loading, which is a bug; report it with the log")
            }
        }
    }
}
