//! A job that every machine starts at the same time, and that must be done once.
//!
//! Under the lock, checking whether the job is done and doing it are one step. A mark next to the result
//! records that it is done. The lock cannot: a lock ends.
//!
//! ```console
//! 0 3 * * * REDIS_URL=redis://127.0.0.1:6399 cron_once /srv/reports "$(date +%F)"
//! ```

use std::path::Path;
use std::time::Duration;

use rlock_client::{Client, Error, Held};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1:6399".into());
    let mut arguments = std::env::args().skip(1);
    let (Some(directory), Some(day)) = (arguments.next(), arguments.next()) else {
        return Err("usage: cron_once DIRECTORY DAY".into());
    };
    let report = Path::new(&directory).join(format!("report-{day}"));
    let client = Client::connect(&url).await?;
    // The other machines wait: if the first one crashes, the next does the job.
    let lock = client.lock(format!("report:{day}")).wait(Duration::from_secs(3600));
    let done = lock.run(|held| write_unless_done(&report, held)).await??;
    println!("{}", if done { "done" } else { "was done already" });
    client.close(Duration::from_secs(5)).await?;
    Ok(())
}

/// Writes the report; `false` where it is there already.
async fn write_unless_done(report: &Path, held: Held) -> Result<bool, Box<dyn std::error::Error>> {
    if report.exists() {
        return Ok(false);
    }
    let unfinished = report.with_extension("unfinished");
    std::fs::write(&unfinished, "all is well\n")?;
    tokio::time::sleep(Duration::from_millis(100)).await;
    // The last moment to stop. Renaming is one step: the report is there and whole, or not there.
    held.check().map_err(|error: Error| format!("nothing was published: {error}"))?;
    std::fs::rename(&unfinished, report)?;
    Ok(true)
}
