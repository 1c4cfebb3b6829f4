//! The arguments of `rlock run` and `rlock lead`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser, ValueHint};

use super::signal::{self, EndSignal};
use crate::duration;

/// A command and the lock that it runs under.
#[derive(Debug, Args)]
pub(crate) struct CommandArgs {
    /// The lock
    #[arg(value_parser = OsStringValueParser::new().try_map(lock))]
    pub(crate) key: OsString,

    /// The lease: renewed while the command runs. Without contact to the server the command lasts for nine tenths of it less
    /// the grace (60s: 42s). After a crash of rlock, or of its machine, the lock is free at lease end
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = lease)]
    pub(crate) lease: Duration,

    /// The signal that ends the command when the lock is lost
    #[arg(long, value_name = "SIGNAL", default_value = "TERM", value_parser = signal::parse)]
    pub(crate) signal: EndSignal,

    /// The time between that signal and KILL [default: a third of the lease or of --max-hold, or a sixth of the session grace; at most
    /// 10s]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) grace: Option<Duration>,

    /// Tie the lock to the connection of rlock: if rlock crashes, the lock is free after this time, not at lease end
    #[arg(long, value_name = "TIME", value_parser = session_grace)]
    pub(crate) session_grace: Option<Duration>,

    /// Acquire with a fencing token, larger than the tokens of all earlier holders, and pass it to the command in this
    /// variable
    #[arg(long, value_name = "VARIABLE", value_parser = variable)]
    pub(crate) fence_env: Option<OsString>,

    /// Write no notes: only errors of rlock itself
    #[arg(long, short)]
    pub(crate) quiet: bool,

    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND", value_hint = ValueHint::CommandWithArguments)]
    pub(crate) command: Vec<OsString>,
}

/// What `rlock run` takes.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) under: CommandArgs,

    /// Wait at most this time for the lock, also for a server that is out of reach [default: for ever; for a first contact
    /// to the server 60s]
    #[arg(long, value_name = "TIME", value_parser = duration::parse, conflicts_with = "no_wait")]
    pub(crate) wait: Option<Duration>,

    /// Do not wait: exit at once with 124 if the lock is held
    #[arg(long)]
    pub(crate) no_wait: bool,

    /// Exit with this code instead of 124 if another holder kept the lock: 0 where that is a success
    #[arg(long, value_name = "N", default_value = "124", hide_default_value = true)]
    pub(crate) conflict_exit_code: u8,

    /// Keep the lock for this time at least, counted from its acquisition, also if the command ends or fails sooner: of several
    /// machines that start a job at about the same time, one runs it. rlock itself does not wait for that
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) at_least: Option<Duration>,

    /// End the command in time to release the lock after this time at most
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) max_hold: Option<Duration>,

    /// Hold a read/write lock together with other readers
    #[arg(long, conflicts_with_all = ["write", "fair", "fence_env"])]
    pub(crate) read: bool,

    /// Hold a read/write lock exclusively
    #[arg(long, conflicts_with = "fair")]
    pub(crate) write: bool,

    /// Wait in one queue with Redisson fair waiters of this name
    #[arg(long)]
    pub(crate) fair: bool,

    /// Hold one of N permits: at most N holders run at once
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(i32::MAX)))]
    #[arg(conflicts_with_all = ["read", "write", "fair", "fence_env"])]
    pub(crate) permits: Option<u32>,
}

/// What `rlock lead` takes.
#[derive(Debug, Args)]
pub(crate) struct LeadArgs {
    #[command(flatten)]
    pub(crate) under: CommandArgs,

    /// A file that exists while this process leads, and contains the owner of the lock: for probes. It is removed before the lock is
    /// released
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) lead_file: Option<PathBuf>,
}

/// The longest name of a lock in bytes.
const LONGEST_NAME: usize = 1_024;

/// A lock's name: an unset variable must not become the lock of all jobs that lack theirs.
fn lock(name: OsString) -> Result<OsString, String> {
    match name.len() {
        0 => Err("the lock's name is empty: is a variable unset? Use 1 to 1024 bytes".to_string()),
        1..=LONGEST_NAME => Ok(name),
        length => Err(format!("the lock's name has {length} bytes: use 1 to {LONGEST_NAME}")),
    }
}

/// A name that a variable of the environment can have.
fn variable(name: &str) -> Result<OsString, String> {
    if name.is_empty() || name.contains(['=', '\0']) {
        return Err("the name of a variable is not empty and has no '='".to_string());
    }
    Ok(name.into())
}

/// A lease must leave time to notice that it cannot be renewed, a session's grace to notice a broken connection, and both to end the
/// command.
const SHORTEST: Duration = Duration::from_secs(1);

fn lease(text: &str) -> Result<Duration, String> {
    long_enough("a lease", text)
}

fn session_grace(text: &str) -> Result<Duration, String> {
    long_enough("a session grace", text)
}

fn long_enough(what: &str, text: &str) -> Result<Duration, String> {
    match duration::parse(text)? {
        time if time < SHORTEST => {
            Err(format!("{what} below 1s leaves no time to end the command: set 1s or more"))
        }
        time => Ok(time),
    }
}
