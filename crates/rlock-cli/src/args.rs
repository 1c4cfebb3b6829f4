//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::ValueHint;
use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

use crate::duration;
use crate::run::{EndSignal, parse_signal};

const EXIT_CODES: &str = "\
Exit codes:
  0    done; `run`: the command's own code
  1    the answer is no: free, not held, nothing released, a server without the module
  123  `run`: the lock was lost, and the command was ended or may have run without it
  124  `run`: the lock was not acquired in time, or cannot be: a run around this one holds it
  125  rlock itself failed: a mistake in the call, no server, no module; `run`: without --wait or
       --no-wait, a run around this one holds the lock; `force-release`: probably no lock
  126  `run`: the command cannot be executed
  127  `run`: the command was not found
  128+n  `run`: the command was ended by signal n";

/// Run a command under a distributed lock, and look after locks, on a Redis or Valkey server with the
/// module rlock.
#[derive(Debug, Parser)]
#[command(name = "rlock", version, about, after_help = EXIT_CODES, disable_help_subcommand = true)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) shared: Shared,
    #[command(subcommand)]
    pub(crate) action: Action,
}

/// What every subcommand takes.
#[derive(Debug, Args)]
pub(crate) struct Shared {
    /// The server: redis://[user:password@]host[:port][/db], rediss:// for TLS, unix:///path,
    /// redis+sentinel://host:port,host:port/name, redis+cluster://host:port,host:port
    #[arg(
        long,
        global = true,
        env = "REDIS_URL",
        hide_env_values = true,
        default_value = "redis://127.0.0.1:6379"
    )]
    #[arg(value_hint = ValueHint::Url)]
    pub(crate) url: String,

    /// Print JSON: one object, or one a line where there are many; errors too, to standard error
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Run a command while holding a lock, and exit with its code
    ///
    /// The command runs in a process group of its own. TERM, INT, HUP, QUIT, USR1 and USR2 are forwarded to
    /// the whole group. The lock is renewed every third of the lease. Should it be lost, or not be renewed
    /// in time, the group is ended before the lease ends: by the signal, and after the grace by KILL. The
    /// lock is released when the whole group has ended, processes in its background included.
    ///
    /// On a terminal, after one second of waiting, a line shows who holds the lock and how many waiters are before this
    /// one; that needs the permission for RLOCK.INFO.
    ///
    /// A run inside a run of the same lock would wait for itself, and is refused at once. The variable RLOCK_HELD tells
    /// the command's own runs which locks are held, on which server and database. The holder that the server shows
    /// decides, so the variable may outlive its run. Readers share: a --read inside a --read is allowed, but waits for a
    /// writer that waits for the outer one. Limit it by --wait.
    ///
    /// What leaves the group (setsid) is not watched. Where rlock itself is ended by KILL, the command is killed
    /// too (on Linux), but not what the command has started.
    #[command(after_help = EXIT_CODES)]
    Run(RunArgs),
    /// Show who holds a lock, for how long, and who waits
    Status {
        /// The lock
        key: OsString,
    },
    /// Give back all holds of an owner
    Release {
        /// The lock
        key: OsString,
        /// Whose holds: as `rlock status` shows it
        #[arg(long)]
        owner: OsString,
    },
    /// Take a lock away from whoever holds it; asks first
    ///
    /// What is probably no lock, as `rlock ls` marks it, is left alone without --any.
    ForceRelease {
        /// The lock
        key: OsString,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
        /// Delete also what is probably no lock, as `rlock ls` marks it
        #[arg(long)]
        any: bool,
    },
    /// List the locks that are held
    ///
    /// The keys are scanned a few at a time, so that the server goes on serving others; a key may be shown
    /// twice while the server grows or shrinks its tables. A lock is known by its shape: any hash of one
    /// field with a whole number is taken for one. It is marked `(probably no lock)` where it has no expiry, no waiter,
    /// no fencing token and no owner that begins with a UUID, as those of Redisson and of the Rust client do.
    ///
    /// The user needs the permissions for INFO, SCAN, HLEN, HEXISTS and RLOCK.INFO; for --waiting INFO, RLOCK.LIST and
    /// RLOCK.INFO; in a cluster CLUSTER NODES too.
    Ls {
        /// Only keys that match, as in SCAN: invoice:*
        #[arg(default_value = "*")]
        pattern: OsString,
        /// Those that somebody waits for, held or just free: the servers know them, and scan no key
        #[arg(long, conflicts_with = "pattern")]
        waiting: bool,
    },
    /// Show what happens to a lock until Ctrl-C
    ///
    /// The server is asked four times a second; what begins and ends in between is not seen. On a terminal, owners are
    /// shortened so that everything fits.
    Watch {
        /// The lock
        key: OsString,
    },
    /// Check that the module is on every server that may become the primary
    ///
    /// Starts at the server of the URL, a Sentinel or any node of a cluster included, and asks all servers
    /// that it hears of, with the same user and password. The user needs the permission for INFO, in a cluster also for
    /// CLUSTER NODES.
    Ping,
    /// Print completions for a shell, to be put where it looks for them
    Completions {
        /// For which shell
        shell: Shell,
    },
    /// Print the manual page, or write one for every subcommand
    Man {
        /// Write rlock.1, rlock-run.1 and so on into this directory
        #[arg(long, value_hint = ValueHint::DirPath)]
        dir: Option<PathBuf>,
    },
}

/// What `rlock run` takes.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The lock
    pub(crate) key: OsString,

    /// How long the lock outlives this process if it cannot release it; renewed while the command runs
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = lease)]
    pub(crate) lease: Duration,

    /// Wait at most so long for the lock [default: for ever]
    #[arg(long, value_name = "TIME", value_parser = duration::parse, conflicts_with = "no_wait")]
    pub(crate) wait: Option<Duration>,

    /// Do not wait: exit at once with 124 if somebody holds the lock
    #[arg(long)]
    pub(crate) no_wait: bool,

    /// The signal that ends the command when the lock is lost
    #[arg(long, value_name = "SIGNAL", default_value = "TERM", value_parser = parse_signal)]
    pub(crate) signal: EndSignal,

    /// The time between that signal and KILL [default: a third of the lease, at most 10s]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) grace: Option<Duration>,

    /// Take a fencing token with the lock, larger than those of all holders before, and set this variable to it
    /// for the command
    #[arg(long, value_name = "VARIABLE", value_parser = variable)]
    pub(crate) fence_env: Option<OsString>,

    /// Hold a read/write lock together with others who only read
    #[arg(long, conflicts_with_all = ["write", "fair", "fence_env"])]
    pub(crate) read: bool,

    /// Hold a read/write lock alone
    #[arg(long, conflicts_with = "fair")]
    pub(crate) write: bool,

    /// Wait in one order with those who wait for Redisson's fair lock of that name
    #[arg(long)]
    pub(crate) fair: bool,

    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND", value_hint = ValueHint::CommandWithArguments)]
    pub(crate) command: Vec<OsString>,
}

/// A name that a variable of the environment can have.
fn variable(name: &str) -> Result<OsString, String> {
    if name.is_empty() || name.contains(['=', '\0']) {
        return Err("a variable has a name, without '='".to_string());
    }
    Ok(name.into())
}

/// A lease must leave time to notice that it cannot be renewed, and to end the command.
const SHORTEST_LEASE: Duration = Duration::from_secs(1);

fn lease(text: &str) -> Result<Duration, String> {
    match duration::parse(text)? {
        lease if lease < SHORTEST_LEASE => {
            Err("a lease below 1s leaves no time to end the command: take 1s or more".to_string())
        }
        lease => Ok(lease),
    }
}
