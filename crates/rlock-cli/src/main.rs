//! `rlock`: runs a command under a distributed lock, and inspects and releases locks.
//!
//! # Layout
//!
//! * `args`: the command line; `command`: a file for each subcommand but `run`.
//! * `run`: the client crate keeps the lock (`keeper`), `launch` starts the command, the main thread (`supervisor`)
//!   watches its process group (`group`), and `timing` derives the deadlines from the lease.
//! * `server`: asking for one lock by the client crate, and finding all servers.
//! * `top`: the live table: threads ask the servers (`poll`, `sample`), `table` sorts their locks, `screen` draws them.
//! * `metrics`: what Prometheus reads: each scrape (`scrape`) asks all servers (`links`, `question`), `http` serves its text,
//!   to those that `web` admits.
//! * `error`: what can go wrong; `advice`: what to do next; `output`, `names`, `owners`, `duration`: text in and out.

// A server's reply or a user's argument reaches these lines: a panic would leave the lock behind.
#![cfg_attr(
    not(test),
    warn(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing),
    warn(clippy::arithmetic_side_effects, clippy::panic)
)]

mod advice;
mod args;
mod clock;
mod command;
mod duration;
mod error;
mod metrics;
mod names;
mod output;
mod owners;
mod run;
mod server;
mod terminal;
mod top;

use std::env::args_os;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::process::ExitCode;

use clap::Parser;

use args::{Action, Cli};
use command::release::Doubts;
use command::{doctor, generate, health, holders, ls, ping, release, status, watch};
use error::{Error, FAILED};
use names::bytes;
use output::{Notes, Output};
use owners::Owners;
use server::{Certificates, Place, content, explain};

fn main() -> ExitCode {
    // Before the command line is read: the launcher has no help.
    #[cfg(target_os = "linux")]
    if let Some(code) = run::launcher::launch(args_os()) {
        return code;
    }
    let cli = match Cli::try_parse_from(args_os()) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and the version are not failures. Without a reader they are lost.
            if !error.use_stderr() {
                let _ = error.print();
                return ExitCode::from(command::YES);
            }
            if args_os().take_while(|word| word != "--").any(|word| word == "--json") {
                output::tell(&wrong_arguments(&error), true);
            } else {
                let _ = error.print();
            }
            return ExitCode::from(FAILED);
        }
    };
    // Only the first call can fail, and there is one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let outcome = perform(&cli);
    output::finish_notes();
    match outcome {
        Ok(code) => ExitCode::from(code),
        // The reader has seen enough and closed the pipe, as `head` does.
        Err(Error::Output(cause)) if cause.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            let error = match place(&cli) {
                Ok(place) => explain(&place, error),
                Err(_) => error,
            };
            output::tell(&error, cli.shared.json);
            ExitCode::from(error.code())
        }
    }
}

/// What is wrong with the arguments, in one line.
fn wrong_arguments(error: &clap::Error) -> Error {
    let text = error.render().to_string();
    let words =
        text.split("\n\n").next().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
    let what = words.strip_prefix("error: ").unwrap_or(&words).to_string();
    Error::Usage(what, "`rlock --help` and `rlock COMMAND --help` show the arguments")
}

/// The servers that the arguments name.
fn place(cli: &Cli) -> Result<Place, Error> {
    let certificates = Certificates::read(&cli.shared.tls)?;
    let Some(file) = &cli.shared.url_file else { return Place::parse(&cli.shared.url, certificates) };
    let url = content(file)?;
    Place::parse(String::from_utf8_lossy(&url).trim(), certificates)
}

fn perform(cli: &Cli) -> Result<u8, Error> {
    let output = Output::new(cli.shared.json);
    let place = || place(cli);
    match &cli.action {
        Action::Run(arguments) => run::run(place()?, arguments, Notes::new(cli.shared.json)),
        Action::Lead(arguments) => run::lead(place()?, arguments, Notes::new(cli.shared.json)),
        Action::Status { key } => status::status(&place()?, &bytes(key), output),
        Action::Release { key, owner, holder: None, .. } => {
            // Without a pattern both are required.
            let name = |name: &Option<OsString>| name.as_ref().map(bytes).unwrap_or_default();
            release::release(&place()?, &name(key), &name(owner), output)
        }
        Action::Release { holder: Some(holder), yes, .. } => {
            holders::release(&place()?, &Owners::matching(&bytes(holder)), *yes, output)
        }
        Action::ForceRelease { key, yes, any } => {
            let doubts = Doubts { ask: !yes, locks_only: !any };
            release::force_release(&place()?, &bytes(key), doubts, output)
        }
        Action::Ls { waiting: true, .. } => ls::waiting(&place()?, output),
        Action::Ls { pattern, holder, .. } => {
            let holders = holder.as_ref().map(|holder| Owners::matching(&bytes(holder)));
            ls::ls(&place()?, &bytes(pattern), holders.as_ref(), output)
        }
        Action::Watch { key } => watch::watch(&place()?, &bytes(key), output),
        Action::Top(arguments) => top::top(&place()?, arguments, output),
        Action::Ping => ping::ping(&place()?, output),
        Action::Health => health::health(&place()?, output),
        Action::Doctor => doctor::doctor(&place()?, output),
        Action::Exporter { listen, web_config, metrics } => {
            metrics::serve(place()?, metrics.hot_locks, (listen, web_config.as_deref()), output)
        }
        Action::Metrics { metrics } => metrics::print(place()?, metrics.hot_locks, output),
        Action::Dashboard => metrics::print_dashboard(output),
        Action::Completions { shell } => generate::completions(*shell),
        Action::Man { dir } => generate::man(dir.as_deref()),
    }
}
