//! Sessions through the client: what a crash frees soon, what a broken connection does not lose, and every kind of lock.

use std::process::Command;
use std::time::{Duration, Instant};

use rlock_client::{Client, Durability, Error, Lost};
use rlock_testkit::TestServer;
use rlock_testkit::clients;
use rlock_testkit::clients::process::Process;
use rlock_testkit::clients::{connect, connect_with, denied, eventually, holder, run, waiters, within};

const GRACE: Duration = Duration::from_secs(1);

/// The connections that the holds of a lock are tied to.
async fn sessions(client: &Client, lock: &str) -> Vec<u64> {
    // Its own connection may just have been killed.
    let info = within("an answer", async {
        loop {
            match client.lock(lock).info().await {
                Ok(info) => return info,
                Err(Error::Transport { .. }) => tokio::time::sleep(Duration::from_millis(5)).await,
                Err(error) => panic!("{error}"),
            }
        }
    })
    .await;
    info.holders.iter().filter_map(|holder| holder.session).collect()
}

/// Run in a process of its own, by the test below.
#[tokio::test]
async fn holds_until_it_is_killed() {
    let Ok(url) = std::env::var("RLOCK_TEST_URL") else { return };
    let client = Client::builder().session_grace(GRACE).connect(&url).await.unwrap();
    let _mutex = client.lock("mutex").acquire().await.unwrap();
    let _write = client.read_write_lock("write").write().acquire().await.unwrap();
    let _read = client.read_write_lock("read").read().acquire().await.unwrap();
    let _permit = client.semaphore("permit", 1).acquire().await.unwrap();
    println!("\nholds all");
    std::future::pending::<()>().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_process_held_is_free_after_the_grace() {
    let server = TestServer::start();
    let client = connect(&server).await;
    let mut process = Process::start(
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "session::holds_until_it_is_killed", "--nocapture"])
            .env("RLOCK_TEST_URL", clients::url(&server)),
    );
    process.says("holds all");
    let locks = [
        client.lock("mutex").any(),
        client.read_write_lock("write").write().any(),
        client.read_write_lock("read").write().any(),
        client.semaphore("permit", 1).any(),
    ];
    let waiting: Vec<_> = locks.iter().map(|lock| tokio::spawn(lock.acquire())).collect();
    eventually("four waiters", || (waiters(&server) == 4).then_some(())).await;
    drop(process);
    let killed = Instant::now();
    for waiting in waiting {
        drop(within("the lock", waiting).await.unwrap().unwrap());
        let took = killed.elapsed();
        // The lease had 30 s.
        assert!(took > GRACE - Duration::from_millis(100) && took < 3 * GRACE, "{took:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_connection_loses_nothing_that_is_tied_to_the_next_in_time() {
    let server = TestServer::start();
    let client = connect_with(&server, Client::builder().session_grace(2 * GRACE)).await;
    let mut guards = Vec::new();
    for number in 0..200 {
        guards.push(client.lock(format!("lock:{number}")).acquire().await.unwrap().any());
    }
    guards.push(client.read_write_lock("rw").read().acquire().await.unwrap().any());
    guards.push(client.semaphore("permits", 2).lease(60 * GRACE).renew(false).acquire().await.unwrap().any());
    let before = sessions(&client, "lock:7").await;
    assert_eq!(before.len(), 1, "{before:?}");
    for _ in 0..3 {
        let old = sessions(&client, "lock:7").await;
        // The first connection is subscribed, since the locks would have waited; those after it are not.
        for kind in ["normal", "pubsub"] {
            let _: u64 = run(&mut server.connect(), &format!("CLIENT KILL TYPE {kind} SKIPME yes"));
        }
        for lock in ["lock:7", "lock:199", "rw", "permits"] {
            within("another connection to be tied to", async {
                while sessions(&client, lock).await.first() <= old.first() {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            })
            .await;
        }
    }
    tokio::time::sleep(3 * GRACE).await;
    for guard in guards {
        guard.check().unwrap();
        guard.release().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_out_of_reach_ends_a_hold_after_the_grace_and_not_at_lease_end() {
    let server = TestServer::start();
    let client = connect_with(&server, Client::builder().session_grace(GRACE)).await;
    let guard = client.lock("lock").acquire().await.unwrap();
    let begin = Instant::now();
    server.signal(libc::SIGSTOP);
    assert_eq!(within("the loss", guard.lost()).await, Lost::Unreachable);
    assert!(begin.elapsed() < 2 * GRACE, "{:?}", begin.elapsed());
    server.signal(libc::SIGCONT);
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_entering_again_and_downgrades_keep_the_session() {
    let server = TestServer::start();
    let client = connect_with(&server, Client::builder().session_grace(5 * GRACE)).await;
    let first = client.lock("lock").acquire().await.unwrap();
    let waiting = tokio::spawn(client.lock("lock").fenced().acquire());
    eventually("a waiter", || (waiters(&server) == 1).then_some(())).await;
    first.release().await.unwrap();
    let guard = within("the lock", waiting).await.unwrap().unwrap();
    assert_eq!(sessions(&client, "lock").await.len(), 1, "after a wait");
    let inner = guard.reenter().await.unwrap();
    assert_eq!(sessions(&client, "lock").await.len(), 1, "after entering it again");
    inner.release().await.unwrap();
    assert_eq!(sessions(&client, "lock").await.len(), 1, "after leaving it once");
    guard.release().await.unwrap();
    let writer = client.read_write_lock("rw").write().acquire().await.unwrap();
    let reader = writer.downgrade().await.unwrap();
    assert_eq!(sessions(&client, "rw").await.len(), 1, "after a downgrade");
    reader.release().await.unwrap();
    // Without a session there is no tie.
    let other = connect(&server).await;
    let plain = other.lock("plain").acquire().await.unwrap();
    assert!(sessions(&client, "plain").await.is_empty());
    plain.release().await.unwrap();
}

/// The renewals that wait for replicas use a connection of their own, which must not keep the tie.
#[tokio::test(flavor = "multi_thread")]
async fn a_durable_lock_is_tied_to_the_connection_of_the_heartbeat() {
    let (primary, replica) = (TestServer::start(), TestServer::start());
    replica.replicate_from(&primary);
    let client = connect_with(&primary, Client::builder().session_grace(GRACE)).await;
    let lock = client.lock("lock").durability(Durability::Replicas(1));
    let guard = within("the replica", lock.acquire()).await.unwrap();
    let tied = sessions(&client, "lock").await;
    let list: String = run(&mut primary.connect(), "CLIENT LIST");
    let tied = list.lines().find(|line| line.contains(&format!("id={} ", tied[0]))).expect("it is connected");
    assert!(!tied.contains("cmd=wait"), "{tied}");
    tokio::time::sleep(2 * GRACE).await;
    guard.check().unwrap();
    assert_eq!(holder(&mut primary.connect(), "lock").unwrap().0.as_bytes(), guard.owner());
    let other = connect(&primary).await;
    assert!(denied(other.lock("lock").try_acquire().await));
    guard.release().await.unwrap();
}

#[test]
fn the_blocking_interface_has_sessions_too() {
    let server = TestServer::start();
    let client = rlock_client::blocking::Client::connect(&clients::url(&server)).unwrap();
    let lock = client.lock("lock").session_grace(GRACE);
    let guard = lock.acquire().unwrap();
    assert!(lock.info().unwrap().holders[0].session.is_some());
    guard.release().unwrap();
}
