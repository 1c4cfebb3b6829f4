//! The subcommands that read or change something once; a file for each.

pub(crate) mod doctor;
mod frame;
pub(crate) mod generate;
pub(crate) mod health;
pub(crate) mod holders;
pub(crate) mod ls;
pub(crate) mod ping;
pub(crate) mod release;
pub(crate) mod status;
pub(crate) mod watch;

/// The answer is yes.
pub(crate) const YES: u8 = 0;

/// The answer is no. This is not a failure of rlock.
pub(crate) const NO: u8 = 1;
