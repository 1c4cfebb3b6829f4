//! Ten thousand of everything.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rlock_client::{Client, State};
use rlock_testkit::TestServer;
use rlock_testkit::clients::{connect_with, counter, eventually, run, waiters};

const MANY: u64 = 10_000;

/// Longer than all else: thousands of hand-offs on a busy machine.
const LONG: Duration = Duration::from_secs(120);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_wait_in_order_on_one_connection() {
    let server = TestServer::start();
    let client = connect_with(&server, Client::builder()).await;
    let mut raw = server.connect();
    run::<Vec<u64>>(&mut raw, "RLOCK.ACQUIRE lock other 600000");
    let (inside, next) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..MANY {
        let (client, inside, next) = (client.clone(), inside.clone(), next.clone());
        tasks.spawn(async move {
            let guard = client.lock("lock").acquire().await.unwrap();
            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two hold the lock");
            let turn = next.fetch_add(1, Ordering::SeqCst);
            assert_eq!(inside.fetch_sub(1, Ordering::SeqCst), 1);
            guard.release().await.unwrap();
            (number, turn)
        });
        // In small groups, each asked for before the next: the order within a group is the runtime's.
        if number % 100 == 99 {
            eventually("the group in the queue", || (waiters(&server) == number + 1).then_some(())).await;
        }
    }
    let clients: String = run(&mut raw, "CLIENT LIST");
    let ours = clients.lines().filter(|line| !line.contains("cmd=client")).count();
    assert!(ours <= 3, "{clients}");
    run::<u64>(&mut raw, "RLOCK.RELEASE lock other");
    let all = async {
        while let Some(outcome) = tasks.join_next().await {
            let (number, turn) = outcome.unwrap();
            assert_eq!(number / 100, turn / 100, "the order of the groups");
        }
    };
    tokio::time::timeout(LONG, all).await.expect("all to have had their turns");
    // Each of them was granted the lock by a hand-off: none asked twice for long.
    assert_eq!(counter(&server, "hand_offs"), MANY);
}

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
