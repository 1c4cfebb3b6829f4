//! The options `rlock.*`: in the configuration file, by CONFIG SET, and as arguments at load.

use rlock_core::Admission;

use crate::ffi::{Args, BoolOption, LoadError};

/// `rlock.accept`: whether those who hold nothing yet may acquire. `no` drains a server: holders can
/// still re-enter, renew and release.
pub(crate) static ACCEPT: BoolOption = BoolOption::new(c"accept", true);

/// Who may acquire now.
pub(crate) fn admission() -> Admission {
    if ACCEPT.get() { Admission::Open } else { Admission::HoldersOnly }
}

/// What the arguments after the module's path say: `loadmodule librlock.so accept no`.
#[derive(Default)]
pub(crate) struct AtLoad {
    /// `accept yes` or `accept no`.
    pub(crate) accept: Option<bool>,
}

impl AtLoad {
    /// Reads the pairs of name and value; the whole vector is arguments, without a command's name.
    pub(crate) fn parse(args: Args<'_>) -> Result<Self, LoadError> {
        let mut at_load = Self::default();
        let mut words = args.all();
        while let Some(name) = words.next() {
            let known = name.eq_ignore_ascii_case(ACCEPT.name().to_bytes());
            let value = words.next();
            if !known {
                return Err(LoadError::BadArgument(format!("unknown argument '{}'", name.escape_ascii())));
            }
            let Some(value) = value.and_then(yes_or_no) else {
                return Err(LoadError::BadArgument("'accept' must be followed by yes or no".to_owned()));
            };
            if at_load.accept.replace(value).is_some() {
                return Err(LoadError::BadArgument("'accept' may be given only once".to_owned()));
            }
        }
        Ok(at_load)
    }
}

fn yes_or_no(word: &[u8]) -> Option<bool> {
    match word {
        word if word.eq_ignore_ascii_case(b"yes") => Some(true),
        word if word.eq_ignore_ascii_case(b"no") => Some(false),
        _ => None,
    }
}
