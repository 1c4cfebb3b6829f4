//! The first lock, without async.
//!
//! ```console
//! $ REDIS_URL=redis://127.0.0.1:6399 cargo run --example hello_blocking
//! ```

use rlock_client::Error;
use rlock_client::blocking::Client;

fn main() -> Result<(), Error> {
    let url = std::env::var("REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1:6399".into());
    let client = Client::connect(&url)?;
    let guard = client.lock("invoice:7").acquire()?;
    println!("working");
    guard.check()?;
    guard.release()
}
