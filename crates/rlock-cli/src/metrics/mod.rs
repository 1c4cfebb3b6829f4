//! The metrics of all servers as Prometheus reads them: printed once, or served.

mod dashboard;
mod fields;
mod http;
mod links;
mod page;
mod panels;
mod question;
mod scrape;
mod text;
mod web;

use std::time::{Duration, Instant};

use scrape::Scraper;

pub(crate) use http::serve;

use crate::command::{NO, YES};
use crate::error::Error;
use crate::output::{Notes, Output};
use crate::server::Place;

/// How long a scrape may take, unless Prometheus names another time.
const PATIENCE: Duration = Duration::from_secs(5);

/// Prints the metrics; [`NO`] if a question of the scrape failed.
pub(crate) fn print(place: Place, hot_locks: u32, output: Output) -> Result<u8, Error> {
    let scrape = Scraper::new(place, hot_locks, Notes::new(output.json)).scrape(after(PATIENCE));
    output.line(text::of(&scrape)?.trim_end())?;
    Ok(if scrape.is_complete() { YES } else { NO })
}

/// Prints the dashboard for Grafana.
pub(crate) fn print_dashboard(output: Output) -> Result<u8, Error> {
    output.line(&format!("{:#}", dashboard::dashboard()))?;
    Ok(YES)
}

fn after(time: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(time).unwrap_or(now)
}
