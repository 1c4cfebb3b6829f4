//! The Rust client. This file is part of two programs: the benchmarks, and ../../before, which has the client of another commit.

use rlock_client::{Client, Guard};

use super::worker::{Contender, serve};

/// Does the work that the input asks for.
pub(super) async fn work(url: &str) {
    serve(ByClient(Client::connect(url).await.expect("a client"))).await;
}

struct ByClient(Client);

impl Contender for ByClient {
    type Held = Guard;

    async fn acquire(&mut self, key: &str) -> Guard {
        self.0.lock(key).await.expect("the lock")
    }

    async fn release(&mut self, guard: Guard) {
        guard.release().await.expect("it was held");
    }
}
