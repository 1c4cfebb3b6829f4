//! The subcommands that look and change once; a file each.

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

/// The answer is no: nothing is wrong, but not as hoped.
pub(crate) const NO: u8 = 1;
