//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::ValueHint;
use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

use crate::duration;
use crate::run::{EndSignal, parse_signal};
use crate::top::Sort;

const EXIT_CODES: &str = "\
Exit codes:
  0    done; `run`: the command's own code
  1    the answer is no: free, not held, nothing released, a server without the module
  123  `run`: the lock was lost, and the command was ended or may have run without the lock
  124  `run`: the lock was not acquired in time, or an outer run holds it
  125  rlock itself failed: wrong arguments, no server, no module; `run` without --wait or --no-wait:
       an outer run holds the lock; `force-release`: the key is probably not a lock
  126  `run`: the command cannot be executed
  127  `run`: the command was not found
  128+n  `run`: signal n ended the command";

/// The command line; its first line of help is the package's description.
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

    /// Print JSON, one object per line; errors too, on standard error
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Run a command while holding a lock, and exit with its code
    ///
    /// The command runs in its own process group. rlock forwards TERM, INT, HUP, QUIT, USR1 and USR2 to the
    /// whole group, and renews the lock every third of the lease. If the lock is lost or not renewed in
    /// time, rlock ends the group before lease end: with the signal, and after the grace with KILL. It
    /// releases the lock when the whole group has ended, including background processes.
    ///
    /// On a terminal, after one second of waiting, a line shows the holder of the lock and the number of waiters before
    /// this one. This needs the permission for RLOCK.INFO.
    ///
    /// A run inside a run of the same lock would wait for itself: rlock refuses it at once. The variable RLOCK_HELD names
    /// the held locks, their server and database for inner runs. The holder that the server shows decides, so the
    /// variable may outlive its run. Readers share: a --read inside a --read is allowed, but it waits behind a writer
    /// that waits for the outer run. Limit this wait with --wait.
    ///
    /// rlock does not watch processes that leave the group (setsid). If KILL ends rlock itself, Linux also kills the
    /// command, but not the processes that the command started; other systems do not even kill the command. These
    /// processes work on without the lock after lease end.
    ///
    /// With --session-grace they work on without it sooner: after this time, not after what is left of the lease. The
    /// lock is also lost if rlock cannot reach the server for this time. A machine that stops without closing its
    /// connections keeps the lock until lease end.
    #[command(after_help = EXIT_CODES)]
    Run(RunArgs),
    /// Show a lock's holders, lease and waiters
    Status {
        /// The lock
        key: OsString,
    },
    /// Release all holds of an owner
    Release {
        /// The lock
        key: OsString,
        /// The owner, as `rlock status` shows it
        #[arg(long)]
        owner: OsString,
    },
    /// Release a lock without its holder; asks first
    ///
    /// Without --any it refuses a key that `rlock ls` marks as `(probably no lock)`.
    ForceRelease {
        /// The lock
        key: OsString,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
        /// Also delete a key that `rlock ls` marks as `(probably no lock)`
        #[arg(long)]
        any: bool,
    },
    /// List the held locks
    ///
    /// rlock scans the keys in small steps, so the server stays responsive. A key may appear twice while the
    /// server resizes its tables. rlock recognises a lock by its shape: any hash of one field with a whole
    /// number counts, and a sorted set of lease ends that expires with the last one. The mark `(probably no lock)` means: no expiry, no waiter, no fencing token, and no owner that
    /// has the form of those of Redisson and the Rust client.
    ///
    /// The user needs permissions for INFO, SCAN, HLEN, HEXISTS, ZRANGE, PTTL and RLOCK.INFO; with --waiting for INFO, RLOCK.LIST and
    /// RLOCK.INFO; in a cluster also for CLUSTER NODES.
    Ls {
        /// Only keys that match this pattern of SCAN: invoice:*
        #[arg(default_value = "*")]
        pattern: OsString,
        /// List the locks with waiters, held or just free; the servers keep this list and scan no key
        #[arg(long, conflicts_with = "pattern")]
        waiting: bool,
    },
    /// Show the changes of a lock until Ctrl-C
    ///
    /// rlock asks the server four times a second; shorter changes do not appear. On a terminal, it shortens owners to
    /// fit the width.
    Watch {
        /// The lock
        key: OsString,
    },
    /// Show the locks that cost most waiting, on all primaries, as a live table
    ///
    /// rlock starts at the server of the URL (also a Sentinel or any node of a cluster) and asks all primaries for RLOCK.HOT,
    /// for the holders of these locks, and for the counters of `INFO rlock`, whose rates per second it shows. A new primary
    /// appears after a fail-over; a server that does not answer is a red line.
    ///
    /// WAITED is the time that all waiters of a lock have waited together, since the lock came into the server's table. `≤` marks a
    /// time that may contain the waiting for another lock. HOLDER is one of the holders, as name, host and process where the owner
    /// tells them.
    ///
    /// Keys: q quits, p pauses, s changes the order, / filters by lock and holder, Esc removes the filter, arrows scroll.
    ///
    /// With --once the exit code is 1 if a server did not answer. The user needs permissions for INFO, RLOCK.HOT and RLOCK.INFO, for
    /// locks in other databases also for SELECT, in a cluster also for CLUSTER NODES.
    Top(TopArgs),
    /// Check that every server that can become primary has the module
    ///
    /// rlock starts at the server of the URL (also a Sentinel or any node of a cluster) and asks all servers
    /// that it discovers, with the same user and password. The user needs the permission for INFO, in a cluster also for
    /// CLUSTER NODES.
    Ping,
    /// Print completions for a shell; save them in its completion directory
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the manual page, or write one page per subcommand
    Man {
        /// Write rlock.1, rlock-run.1 and so on into this directory
        #[arg(long, value_hint = ValueHint::DirPath)]
        dir: Option<PathBuf>,
    },
}

/// What `rlock top` takes.
#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    /// Print the table one time, after one interval
    #[arg(long)]
    pub(crate) once: bool,

    /// The time from one question to the next
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    pub(crate) interval: Duration,

    /// The order of the locks
    #[arg(long, value_enum, value_name = "ORDER", default_value_t)]
    pub(crate) sort: Sort,

    /// Only locks whose name or holder contains this text
    #[arg(long, value_name = "TEXT")]
    pub(crate) filter: Option<String>,
}

/// What `rlock run` takes.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The lock
    pub(crate) key: OsString,

    /// The lease: renewed while the command runs; the lock outlives a crash of rlock by this time at most
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = lease)]
    pub(crate) lease: Duration,

    /// Wait at most this time for the lock [default: for ever]
    #[arg(long, value_name = "TIME", value_parser = duration::parse, conflicts_with = "no_wait")]
    pub(crate) wait: Option<Duration>,

    /// Do not wait: exit at once with 124 if the lock is held
    #[arg(long)]
    pub(crate) no_wait: bool,

    /// The signal that ends the command when the lock is lost
    #[arg(long, value_name = "SIGNAL", default_value = "TERM", value_parser = parse_signal)]
    pub(crate) signal: EndSignal,

    /// The time between that signal and KILL [default: a third of the lease, or a sixth of the session grace; at most 10s]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) grace: Option<Duration>,

    /// Tie the lock to the connection of rlock: if rlock crashes, the lock is free after this time, not at lease end
    #[arg(long, value_name = "TIME", value_parser = session_grace)]
    pub(crate) session_grace: Option<Duration>,

    /// Acquire with a fencing token, larger than the tokens of all earlier holders, and pass it to the command in this
    /// variable
    #[arg(long, value_name = "VARIABLE", value_parser = variable)]
    pub(crate) fence_env: Option<OsString>,

    /// Hold a read/write lock together with other readers
    #[arg(long, conflicts_with_all = ["write", "fair", "fence_env"])]
    pub(crate) read: bool,

    /// Hold a read/write lock exclusively
    #[arg(long, conflicts_with = "fair")]
    pub(crate) write: bool,

    /// Wait in one queue with the waiters of Redisson's fair lock of this name
    #[arg(long)]
    pub(crate) fair: bool,

    /// Hold one of N permits: at most N holders run at once
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(i32::MAX)))]
    #[arg(conflicts_with_all = ["read", "write", "fair", "fence_env"])]
    pub(crate) permits: Option<u32>,

    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND", value_hint = ValueHint::CommandWithArguments)]
    pub(crate) command: Vec<OsString>,
}

/// A name that a variable of the environment can have.
fn variable(name: &str) -> Result<OsString, String> {
    if name.is_empty() || name.contains(['=', '\0']) {
        return Err("the name of a variable is not empty and has no '='".to_string());
    }
    Ok(name.into())
}

/// Questions that come too often cost the servers more than they tell.
fn interval(text: &str) -> Result<Duration, String> {
    match duration::parse(text)? {
        interval if interval < SHORTEST_INTERVAL => {
            Err("an interval below 100ms costs the servers too much: set 100ms or more".to_string())
        }
        interval => Ok(interval),
    }
}

const SHORTEST_INTERVAL: Duration = Duration::from_millis(100);

/// A session's grace must leave time to notice a broken connection, and to end the command.
fn session_grace(text: &str) -> Result<Duration, String> {
    match duration::parse(text)? {
        grace if grace < SHORTEST_LEASE => {
            Err("a session grace below 1s leaves no time to end the command: set 1s or more".to_string())
        }
        grace => Ok(grace),
    }
}

/// A lease must leave time to notice that it cannot be renewed, and to end the command.
const SHORTEST_LEASE: Duration = Duration::from_secs(1);

fn lease(text: &str) -> Result<Duration, String> {
    match duration::parse(text)? {
        lease if lease < SHORTEST_LEASE => {
            Err("a lease below 1s leaves no time to end the command: set 1s or more".to_string())
        }
        lease => Ok(lease),
    }
}
