//! Other crates that lock by Redis, run as processes by `make bench ONLY=client`.

#[path = "../../src/client/worker.rs"]
mod worker;

use std::time::Duration;

use rlock::AcquireOptions;
use rlock::async_lock::{RLock, RLockGuard};
use rslock::LockManager;
use worker::{Contender, serve};

const LEASE: Duration = Duration::from_secs(30);

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let (contender, url) = (arguments.next().expect("a contender"), arguments.next().expect("a URL"));
    match contender.as_str() {
        "rslock" => serve(Rslock::new(&url)).await,
        "rlock" => serve(Rlock(RLock::new(url.as_str()).await.expect("a connection"))).await,
        other => panic!("unknown contender: {other}"),
    }
}

struct Rslock(LockManager);

impl Rslock {
    fn new(url: &str) -> Rslock {
        let mut manager = LockManager::new(vec![url]);
        // As often as it takes, at its own pace.
        manager.set_retry(u32::MAX, Duration::from_millis(200));
        Rslock(manager)
    }
}

impl Contender for Rslock {
    type Held = rslock::Lock;

    async fn acquire(&mut self, key: &str) -> rslock::Lock {
        self.0.lock(key.as_bytes(), LEASE).await.expect("the lock")
    }

    async fn release(&mut self, held: rslock::Lock) {
        self.0.unlock(&held).await;
    }
}

struct Rlock(RLock);

impl Contender for Rlock {
    type Held = RLockGuard;

    async fn acquire(&mut self, key: &str) -> RLockGuard {
        let options = AcquireOptions::builder().ttl(LEASE).build().expect("options");
        self.0.acquire_mutex_with_options(key, options).await.expect("the lock")
    }

    async fn release(&mut self, mut held: RLockGuard) {
        held.release().await.expect("it was held");
    }
}
