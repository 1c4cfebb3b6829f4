//! Servers that are killed, restarted or stopped, and a client that is stopped.

use std::process::Command;
use std::time::{Duration, Instant};

use rlock_client::{Client, Error, Lost, State};
use rlock_testkit::TestServer;
use rlock_testkit::clients;
use rlock_testkit::clients::process::Process;
use rlock_testkit::clients::{
    SOON, connect, connect_with, counter, eventually, holder, run, waiters, within,
};

fn quick() -> rlock_client::Builder {
    Client::builder().response_timeout(Duration::from_millis(500))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_forgot_everything_is_a_loss_for_holders_and_a_new_start_for_waiters() {
    let server = TestServer::start();
    let client = connect_with(&server, quick().lease(Duration::from_secs(12))).await;
    let held = client.lock("lock").acquire().await.unwrap();
    let lock = client.lock("lock");
    let waiting = tokio::spawn(async move { lock.acquire().await });
    eventually("a waiter", || (waiters(&server) == 1).then_some(())).await;
    let port = server.port();
    drop(server.kill9());
    let server = TestServer::builder().port(port).start();
    let guard = within("the lock", waiting).await.unwrap().unwrap();
    assert_eq!(within("the loss", held.lost()).await, Lost::Taken);
    drop(held);
    guard.check().unwrap();
    assert_eq!(holder(&mut server.connect(), "lock").unwrap().0.as_bytes(), guard.owner());
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_restarts_with_its_data_loses_no_lock() {
    let server = TestServer::builder().conf("appendonly", "yes").start();
    let client = connect(&server).await;
    let held = client.lock("lock").acquire().await.unwrap();
    let port = server.port();
    let stopped = server.kill9();
    let begin = Instant::now();
    // An answer even while the server is down.
    let error = client.lock("other").acquire_timeout(Duration::from_millis(300)).await.unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "{error}");
    assert!(begin.elapsed() < Duration::from_secs(5));
    let server = TestServer::builder().conf("appendonly", "yes").port(port).dir(stopped).start();
    held.check().unwrap();
    within("the release", held.release()).await.unwrap();
    assert_eq!(holder(&mut server.connect(), "lock"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_was_stopped_and_continues() {
    let server = TestServer::start();
    let client = connect_with(&server, quick()).await;
    let held = client.lock("held").acquire().await.unwrap();
    server.signal(libc::SIGSTOP);
    // Requests that time out here are carried out when the server continues.
    let trying = client.clone();
    let error = within("an error", trying.lock("tried").try_acquire()).await.unwrap_err();
    assert!(matches!(error, Error::Transport { .. }), "{error}");
    let lock = client.lock("lock");
    let waiting = tokio::spawn(async move { lock.acquire().await });
    let releasing = tokio::spawn(held.release());
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    server.signal(libc::SIGCONT);
    let guard = within("the lock", waiting).await.unwrap().unwrap();
    let released = within("the release", releasing).await.unwrap();
    assert!(matches!(released, Ok(()) | Err(Error::OutcomeUnknown { .. })), "{released:?}");
    let mut raw = server.connect();
    for lock in ["held", "tried"] {
        eventually("a free lock", || holder(&mut raw, lock).is_none().then_some(())).await;
    }
    assert_eq!(holder(&mut raw, "lock").unwrap().0.as_bytes(), guard.owner());
    guard.release().await.unwrap();
}

/// The lease of the client that is stopped.
const LEASE: Duration = Duration::from_millis(1_500);

/// A stopped server carries out earlier requests when it continues, however late: a lock that no client knew
/// about was held for as long as its lease.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_a_stopped_server_carries_out_after_its_lease_leaves_no_lock() {
    let server = TestServer::start();
    let lease = Duration::from_secs(2);
    let client = connect_with(&server, quick().lease(lease)).await;
    server.signal(libc::SIGSTOP);
    let error = client.lock("lock").acquire_timeout(Duration::from_millis(700)).await.unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "{error}");
    // The client knows by its own clock that the lease of this request has ended.
    tokio::time::sleep(lease * 2).await;
    server.signal(libc::SIGCONT);
    eventually("the request", || (counter(&server, "acquired") == 1).then_some(())).await;
    let mut raw = server.connect();
    eventually("a free lock", || holder(&mut raw, "lock").is_none().then_some(())).await;
    assert_eq!(counter(&server, "released"), 1, "it was free at the end of its lease only");
    client.close(SOON).await.unwrap();
}

/// The role of a process of its own, and the server's URL; `None` in the test's own process.
fn role() -> Option<(String, String)> {
    let role = std::env::var("RLOCK_TEST_ROLE").ok()?;
    Some((role, std::env::var("RLOCK_TEST_URL").expect("the server's URL")))
}

/// Not a test: the other process of the tests below.
#[tokio::test]
async fn in_a_process_of_its_own() {
    let Some((role, url)) = role() else { return };
    // With ample time for answers: the connection must not be given up after the stop, with what lies in its buffer.
    let builder = Client::builder().lease(LEASE).response_timeout(SOON);
    let client = within("a client to connect", builder.connect(&url)).await.unwrap();
    let guard = within("the lock", client.lock("lock").acquire()).await.unwrap();
    // Before the test can know, and stop this process.
    let begin = Instant::now();
    println!("has {}", String::from_utf8_lossy(guard.owner()));
    match role.as_str() {
        "holder" => {
            wait_to_be_stopped_and_continued(begin);
            // The first thing after the stop, before any other task has had a turn.
            println!("lost {}", guard.check().unwrap_err());
        }
        "waiter" => {
            guard.release().await.unwrap();
        }
        other => panic!("unknown role: {other}"),
    }
}

/// Returns when the process did not run for longer than its lease, at any time after `begin`.
///
/// The clock is read once in each turn: between two readings that belong to different turns a stop went unseen,
/// and the process waited for ever for another one.
fn wait_to_be_stopped_and_continued(begin: Instant) {
    let mut last = begin;
    loop {
        std::thread::sleep(Duration::from_millis(1));
        let now = Instant::now();
        if now - last > LEASE {
            return;
        }
        assert!(now - begin < SOON, "this process was not stopped");
        last = now;
    }
}

/// Starts that process, which the test stops and continues.
fn other(role: &str, server: &TestServer) -> Process {
    Process::start(
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "outage::in_a_process_of_its_own", "--nocapture"])
            .env("RLOCK_TEST_ROLE", role)
            .env("RLOCK_TEST_URL", clients::url(server)),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_was_stopped_beyond_its_lease_learns_it_from_its_first_check() {
    let server = TestServer::start();
    let mut other = other("holder", &server);
    other.says("has ");
    other.stop();
    let mut raw = server.connect();
    eventually("the end of the lease", || holder(&mut raw, "lock").is_none().then_some(())).await;
    // The stop itself lasts longer than the lease, whenever that began.
    tokio::time::sleep(LEASE).await;
    let guard = connect(&server).await.lock("lock").try_acquire().await.expect("a free lock");
    other.go_on();
    assert!(other.says("lost ").contains("was lost"));
    assert!(other.ends().success());
    // Its end took nothing from the new holder.
    assert_eq!(holder(&mut raw, "lock").unwrap().0.as_bytes(), guard.owner());
    assert_eq!(guard.state(), State::Held);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_was_stopped_while_waiting_refuses_the_grant_in_its_buffer() {
    let server = TestServer::builder().module_args(&["grant-confirm-ms", "2000"]).start();
    let (client, mut raw) = (connect(&server).await, server.connect());
    let guard = client.lock("lock").acquire().await.unwrap();
    let mut other = other("waiter", &server);
    eventually("a waiter", || (waiters(&server) == 1).then_some(())).await;
    other.stop();
    guard.release().await.unwrap();
    let granted = holder(&mut raw, "lock").expect("the grant").0;
    let guard = within("the next turn", client.lock("lock").acquire()).await.unwrap();
    other.go_on();
    // It asks again and waits; had it taken the old grant for good there would be two holders.
    eventually("a waiter", || (waiters(&server) == 1).then_some(())).await;
    assert_eq!(holder(&mut raw, "lock").unwrap().0.as_bytes(), guard.owner());
    guard.release().await.unwrap();
    assert_eq!(other.says("has "), granted);
    assert!(other.ends().success());
}

#[tokio::test]
async fn a_module_that_is_gone_is_reported() {
    let server = TestServer::start();
    let client = connect_with(&server, quick()).await;
    let port = server.port();
    let stopped = server.kill9();
    let _server = TestServer::builder().without_module().port(port).dir(stopped).start();
    for error in [
        client.lock("lock").try_acquire().await.unwrap_err(),
        client.lock("lock").acquire_timeout(SOON).await.unwrap_err(),
        client.lock("lock").locked().await.unwrap_err(),
    ] {
        assert!(matches!(error, Error::ModuleMissing { .. }), "{error}");
    }
}

/// Before a planned fail-over a server is drained: it refuses acquisitions and dismisses its waiters. A
/// client with time left waits and acquires the lock after the drain; one without gets an error.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_drained_is_waited_for() {
    let server = TestServer::start();
    let mut raw = server.connect();
    let client = connect(&server).await;
    let held = client.lock("lock").acquire().await.unwrap();
    let lock = client.lock("lock");
    let waiting = tokio::spawn(async move { lock.acquire().await });
    eventually("a waiter", || (waiters(&server) == 1).then_some(())).await;
    run::<()>(&mut raw, "CONFIG SET rlock.accept no");
    eventually("an empty queue", || (waiters(&server) == 0).then_some(())).await;
    let lock = client.lock("free");
    let later = tokio::spawn(async move { lock.acquire().await });
    let error = client.lock("other").try_acquire().await.unwrap_err();
    assert!(
        matches!(error, Error::Refused { .. }) && error.to_string().contains("rlock.accept is no"),
        "{error}"
    );
    let error = client.lock("other").acquire_timeout(Duration::from_millis(300)).await.unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "{error}");
    within("the release", held.release()).await.unwrap();
    assert!(!waiting.is_finished() && !later.is_finished());
    run::<()>(&mut raw, "CONFIG SET rlock.accept yes");
    for waiting in [waiting, later] {
        within("the lock", waiting).await.unwrap().unwrap().release().await.unwrap();
    }
}
