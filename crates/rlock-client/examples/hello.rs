//! The first lock.
//!
//! ```console
//! $ REDIS_URL=redis://127.0.0.1:6399 cargo run --example hello
//! ```

use rlock_client::{Client, Error};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let url = std::env::var("REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1:6399".into());
    let client = Client::connect(&url).await?;
    let guard = client.lock("invoice:7").await?;
    println!("working");
    guard.check()?;
    guard.release().await
}
