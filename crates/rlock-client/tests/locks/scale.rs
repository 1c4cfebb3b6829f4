//! Ten thousand locks.

use std::time::Duration;

use rlock_client::{Client, State};
use rlock_testkit::TestServer;
use rlock_testkit::clients::{connect_with, counter, run};

const MANY: u64 = 10_000;

/// Longer than all else: thousands of renewals on a busy machine.
const LONG: Duration = Duration::from_secs(120);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_locks_are_renewed() {
    let server = TestServer::start();
    let client = connect_with(&server, Client::builder().lease(Duration::from_secs(8))).await;
    let mut guards = Vec::new();
    for number in 0..MANY {
        guards.push(client.lock(format!("lock{number}")).acquire().await.unwrap());
    }
    let enough = counter(&server, "renewed") + 4 * MANY;
    let renewals = async {
        while counter(&server, "renewed") < enough {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(LONG, renewals).await.expect("four renewals of each");
    for guard in &guards {
        assert!(matches!(guard.state(), State::Held | State::Renewing), "{guard:?}");
    }
    drop(guards);
    client.close(LONG).await.unwrap();
    assert_eq!(run::<u64>(&mut server.connect(), "DBSIZE"), 0);
}
