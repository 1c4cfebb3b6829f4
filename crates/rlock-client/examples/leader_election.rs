//! Leader election: of any number of processes one leads; when it ends, hangs or is cut off, another does.
//!
//! ```console
//! $ REDIS_URL=redis://127.0.0.1:6399 cargo run --example leader_election
//! ```

use std::time::Duration;

use rlock_client::{Client, Guard};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1:6399".into());
    // A crashed leader is replaced when its lease ends.
    let lease = Duration::from_millis(std::env::var("LEASE_MS").ok().map_or(Ok(10_000), |ms| ms.parse())?);
    let client = Client::builder().lease(lease).connect(&url).await?;
    println!("{} is ready", client.identity());
    let mut term = tokio::spawn(async { tokio::signal::ctrl_c().await });
    loop {
        let leadership = tokio::select! {
            guard = client.lock("leader").acquire() => guard?,
            _ = &mut term => break,
        };
        println!("leads");
        if lead(&leadership, &mut term).await {
            leadership.release().await?;
            break;
        }
        // Dropped, not unlocked: another process may hold it by now. The next round waits for it again.
    }
    client.close(lease).await?;
    println!("has stopped");
    Ok(())
}

/// Leads until told to end (`true`) or until the leadership is lost (`false`).
async fn lead(leadership: &Guard, end: &mut tokio::task::JoinHandle<std::io::Result<()>>) -> bool {
    let mut beat = tokio::time::interval(Duration::from_millis(50));
    loop {
        tokio::select! {
            biased;
            why = leadership.lost() => {
                println!("leads no more: {why}");
                return false;
            }
            _ = &mut *end => return true,
            _ = beat.tick() => {
                // The leader's work, in short steps. Each step checks the lock first: this process may have
                // been paused since the last one.
                if leadership.check().is_ok() {
                    std::hint::black_box("the work of a leader");
                }
            }
        }
    }
}
