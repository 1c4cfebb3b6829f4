//! The command line.

mod run;
mod signal;
mod sort;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::ValueHint;
use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

use crate::duration;

pub(crate) use run::{CommandArgs, LeadArgs, RunArgs};
pub(crate) use signal::EndSignal;
pub(crate) use sort::Sort;

const EXIT_CODES: &str = "\
Exit codes:
  0    done; `run`: the command's own code
  1    the answer is no: free, not held, nothing released, a server without the module or locks; `doctor`: warnings
  2    `doctor`: locks are refused or may be lost
  123  `run`: the lock was lost, and the command was ended or may have run without the lock
  124  `run`: the lock was not acquired in time, or an outer run holds it
  125  rlock itself failed: wrong arguments, no server, also until the end of --wait, no module; `run` without --wait or --no-wait:
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

    /// A file that contains the URL, in place of --url: for one with a password, which `ps` would show
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) url_file: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) tls: TlsArgs,

    /// Print JSON, one object per line; errors too, on standard error
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// Files in PEM for rediss://
#[derive(Debug, Args)]
pub(crate) struct TlsArgs {
    /// The authorities to trust in place of the platform's, in PEM
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) cacert: Option<PathBuf>,

    /// The certificate of this client, in PEM: servers ask for one unless `tls-auth-clients no`
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "key_file")]
    pub(crate) cert: Option<PathBuf>,

    /// The key of --cert, in PEM
    #[arg(id = "key_file", long = "key", global = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[arg(requires = "cert")]
    pub(crate) key: Option<PathBuf>,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Run a command while holding a lock, and exit with its code
    ///
    /// The command runs in its own process group. rlock forwards TERM, INT, HUP, QUIT, USR1 and USR2 to the
    /// whole group, and renews the lock every tenth of the lease. If the lock is lost or not renewed in
    /// time, rlock ends the group before lease end: with the signal, and after the grace with KILL. It
    /// releases the lock when the whole group has ended, including background processes.
    ///
    /// A job survives an outage of its server, such as a fail-over, that lasts for less than nine tenths of the lease less the
    /// grace: 42s by default. That is longer than a fail-over with the default time-outs of Cluster (15s, about 20s in all) and
    /// Sentinel (30s, about 31s). The price: after a crash of rlock the lock is held for up to a minute. With --session-grace
    /// it is free sooner, and the job survives only outages shorter than three quarters of that time less the grace.
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
    /// Run a command while this process leads: of all processes that call it with this name, one at a time
    ///
    /// It waits for the lock, runs the command while it holds it, and ends the command before the lock could be lost, as `rlock run` does.
    /// Then it waits again, for ever, also while no server answers: another process leads meanwhile. If the command ends by
    /// itself, the lead is given up, and sought again a second later.
    ///
    /// It exits by TERM, INT, HUP or QUIT, which the command gets too. The exit code is the command's, or 128 and the number of the signal
    /// if this process did not lead. It exits with an error if the command cannot be executed, or the server refuses the lock.
    ///
    /// After a crash of rlock another process leads once the session grace is over (--session-grace), and without a session at
    /// lease end. After the loss of a machine it is the lease end in both cases.
    Lead(LeadArgs),
    /// Show a lock's holders, lease and waiters
    ///
    /// The server does not store when a lock was acquired. Where the lock has fencing tokens (`rlock run --fence-env`), it shows how long ago the
    /// last one was given: a holder with a token acquired the lock, or re-entered it, at that time.
    Status {
        /// The lock
        key: OsString,
    },
    /// Release all holds of an owner of a lock, or of all owners that match a pattern
    ///
    /// `rlock release --holder 'shop@web-2:*'` releases what the program shop held on the machine web-2, after it died: it finds the locks on
    /// all primaries as `rlock ls` does, shows them, and asks first.
    Release {
        /// The lock
        #[arg(required_unless_present = "holder")]
        key: Option<OsString>,
        /// The owner, as `rlock status` shows it
        #[arg(long, requires = "key", required_unless_present = "holder")]
        owner: Option<OsString>,
        /// All owners that match this pattern, of all locks: `*` is any text, `?` any character
        #[arg(long, value_name = "PATTERN", conflicts_with_all = ["key", "owner"])]
        holder: Option<OsString>,
        /// Do not ask about the locks of --holder
        #[arg(long, short, conflicts_with = "key")]
        yes: bool,
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
        #[arg(long, conflicts_with_all = ["pattern", "holder"])]
        waiting: bool,
        /// Only locks with a holder whose owner matches this pattern, and only these holders: shop@web-2:*
        #[arg(long, value_name = "PATTERN")]
        holder: Option<OsString>,
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
    /// tells them. A server that gives no locks now says why in its line.
    ///
    /// Keys: q quits, p pauses, s changes the order, / filters by lock and holder, Esc removes the filter, arrows scroll.
    ///
    /// With --once the exit code is 1 if a server did not answer. The user needs permissions for INFO, RLOCK.HOT and RLOCK.INFO, for
    /// locks in other databases also for SELECT, in a cluster also for CLUSTER NODES.
    Top(TopArgs),
    /// Check that every server that can become primary has the module, and that every primary gives locks
    ///
    /// rlock starts at the server of the URL (also a Sentinel or any node of a cluster) and asks all servers
    /// that it discovers, with the same user and password. A primary that refuses writes (full disk, too few replicas), whose
    /// memory is full, or that is drained, is a NO. Nothing is written.
    ///
    /// The user needs the permission for INFO, in a cluster also for CLUSTER NODES, and to see refused writes for RLOCK.CANCEL
    /// on the keys rlock:probe*.
    Ping,
    /// Check the server of the URL alone, for the health check of a container or a probe
    ///
    /// A NO is a primary that refuses writes (full disk, too few replicas) or whose memory is full, a server that is loading its data, a
    /// replica that does not have its primary's data yet, and a server without the module. A drained server is well, and so is a
    /// replica that has lost its primary. Nothing is written.
    ///
    /// Use it for readiness. A liveness probe that fails would restart a server because its disk is full: use PING.
    ///
    /// The user needs the permission for INFO, and to see refused writes for RLOCK.CANCEL on the keys rlock:probe*; in a cluster also
    /// for CLUSTER NODES.
    Health,
    /// Show faults of the servers, and what may become one, each with what to do
    ///
    /// rlock starts at the server of the URL (also a Sentinel or any node of a cluster) and asks all servers that it discovers:
    /// the module and its options, refused writes, memory and eviction, AOF and snapshots, replicas and their lag, certificates, clocks,
    /// and what this user may do. Nothing is written.
    ///
    /// The exit code is 0, 1 with warnings, or 2 where locks are refused or may be lost. Questions that the user may not ask (CONFIG GET, TIME,
    /// ACL DRYRUN) are left out.
    Doctor,
    /// Serve metrics of all servers to Prometheus until TERM or INT
    ///
    /// rlock serves http://ADDRESS/metrics: all servers that it discovers from the URL, as `rlock ping` does. Each server gets a few
    /// questions for each scrape, on a connection that stays open. A server that does not answer within 2s is reported
    /// as `rlock_up 0`; a scrape takes at most 5s, or as long as Prometheus waits.
    ///
    /// --web-config names the web configuration file that Prometheus' exporters share. It can have the keys
    /// tls_server_config.cert_file, key_file, client_ca_file and client_auth_type (RequireAndVerifyClientCert, VerifyClientCertIfGiven or
    /// NoClientCert), and basic_auth_users, whose values are hashes of bcrypt (`htpasswd -nB USER` asks for the password and prints one).
    /// Another key is an error. Paths in the file begin at its directory. rlock reads the files anew for each connection: a new
    /// certificate or password needs no restart.
    ///
    /// The user needs permissions for INFO, for RLOCK.HOT (not with --hot-locks 0), in a cluster also for CLUSTER NODES; to show
    /// refused writes, for RLOCK.CANCEL on the keys rlock:probe*.
    Exporter {
        /// The address and the port to listen on; without --web-config there is no login and no encryption
        #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9821")]
        listen: String,
        /// TLS and logins: a web configuration file of Prometheus' exporters
        #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
        web_config: Option<PathBuf>,
        #[command(flatten)]
        metrics: MetricsArgs,
    },
    /// Print the metrics of all servers once, as `rlock exporter` serves them
    ///
    /// The exit code is 1 if a server does not answer a question.
    Metrics {
        #[command(flatten)]
        metrics: MetricsArgs,
    },
    /// Print the dashboard for Grafana, which shows the metrics of `rlock exporter`: import it there
    Dashboard,
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

/// What `rlock exporter` and `rlock metrics` take.
#[derive(Debug, Args)]
pub(crate) struct MetricsArgs {
    /// Show the N locks of each server that cost most waiting, with their names; 0 shows none
    #[arg(long, value_name = "N", default_value = "10", value_parser = clap::value_parser!(u32).range(..=100))]
    pub(crate) hot_locks: u32,
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
