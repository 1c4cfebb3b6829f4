//! The client, and the raw commands by the driver that it uses.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Value, cmd};

use super::by_client;
use super::worker::{Contender, serve};

const LEASE_MS: u64 = 30_000;

/// Runs one process of a round.
pub(super) fn work(contender: &str, url: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        match contender {
            "client" => by_client::work(url).await,
            "raw" => serve(Raw::connect(url).await).await,
            other => panic!("unknown contender: {other}"),
        }
    });
}

/// ACQUIRE with BLOCK and RELEASE, on one connection.
struct Raw {
    connection: MultiplexedConnection,
    uuid: String,
    number: u64,
}

impl Raw {
    async fn connect(url: &str) -> Raw {
        let client = redis::Client::open(url).expect("a URL");
        let config = AsyncConnectionConfig::new().set_response_timeout(None::<Duration>);
        let connection = client.get_multiplexed_async_connection_with_config(&config).await;
        let uuid = format!("285475da-9152-4c83-822a-{:012}", std::process::id());
        Raw { connection: connection.expect("a connection"), uuid, number: 0 }
    }
}

impl Contender for Raw {
    type Held = (String, String);

    async fn acquire(&mut self, key: &str) -> (String, String) {
        self.number += 1;
        let owner = format!("{}:{}", self.uuid, self.number);
        let mut acquire = cmd("RLOCK.ACQUIRE");
        acquire.arg(key).arg(&owner).arg(LEASE_MS).arg("HOLDS").arg(1).arg("BLOCK").arg(0);
        let reply: Value = acquire.query_async(&mut self.connection).await.expect("the lock");
        assert!(matches!(&reply, Value::Array(items) if items.first() == Some(&Value::Int(1))), "{reply:?}");
        (key.to_string(), owner)
    }

    async fn release(&mut self, (key, owner): (String, String)) {
        let mut release = cmd("RLOCK.RELEASE");
        release.arg(key).arg(owner).arg("HOLDS").arg(0);
        let reply: Value = release.query_async(&mut self.connection).await.expect("an answer");
        assert_eq!(reply, Value::Int(1), "it was held");
    }
}
