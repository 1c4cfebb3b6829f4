//! The command, run as a process of its own.

#![forbid(unsafe_code)]

mod alerts;
mod diagnosis;
mod doctor;
mod errors;
mod exporter;
#[path = "../deployments/figures.rs"]
mod figures;
mod generate;
mod hindrance;
mod jobs_page;
mod lead;
mod look;
mod metrics;
mod ping;
mod readme;
mod run;
mod run_launch;
mod run_lost;
mod run_nested;
mod run_once;
mod run_session;
mod run_signals;
mod run_start;
mod support;
mod terminal;
mod terminal_gone;
mod terminal_run;
mod terminal_servers;
mod terminal_top;
mod terminal_wait;
mod terminal_watch;
mod top;
mod watch;
mod who_holds;
