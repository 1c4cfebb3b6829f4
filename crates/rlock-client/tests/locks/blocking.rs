//! The façade for code that is not async.

use std::time::Duration;

use rlock_client::blocking::{Client, Guard};
use rlock_client::{Error, Lost, State};
use rlock_testkit::clients;
use rlock_testkit::clients::{SOON, denied, holder, url};
use rlock_testkit::{TestServer, eventually};

#[test]
fn locks_block_threads() {
    let server = TestServer::start();
    let (client, mut raw) = (Client::connect(&url(&server)).unwrap(), server.connect());
    let guard = client.lock("lock").acquire().unwrap();
    assert!(denied(client.lock("lock").try_acquire()));
    let error = client.lock("lock").acquire_timeout(Duration::from_millis(100)).unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }));
    let other = client.clone();
    let waiting = std::thread::spawn(move || other.lock("lock").acquire().unwrap().release());
    eventually("a waiter", SOON, || (clients::waiters(&server) == 1).then_some(()));
    guard.check().unwrap();
    guard.release().unwrap();
    waiting.join().unwrap().unwrap();
    let short = client.lock("lock").lease(Duration::from_millis(200)).renew(false).acquire().unwrap();
    assert_eq!(short.lost(), Lost::Expired);
    drop(short);
    let guard = client.lock("lock").acquire().unwrap();
    drop(guard);
    client.close(SOON).unwrap();
    assert_eq!(holder(&mut raw, "lock"), None);
}

#[test]
fn the_last_handle_to_go_may_be_a_guard() {
    let server = TestServer::start();
    let mut raw = server.connect();
    let client = Client::connect(&url(&server)).unwrap();
    let guard = client.lock("lock").acquire().unwrap();
    drop(client);
    guard.check().unwrap();
    guard.release().unwrap();
    assert_eq!(holder(&mut raw, "lock"), None);
}

/// Once the client's runtime ended with its last handle, and a release with it that was not sent yet.
#[test]
fn a_guard_that_goes_last_releases_its_lock_wherever_it_is_dropped() {
    let server = TestServer::start();
    let mut raw = server.connect();
    let mut free = || eventually("the release", SOON, || holder(&mut raw, "lock").is_none().then_some(()));
    let guard = Client::connect(&url(&server)).unwrap().lock("lock").acquire().unwrap();
    drop(guard);
    free();
    let guard = Client::connect(&url(&server)).unwrap().lock("lock").acquire().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async move { drop(guard) });
    free();
    // The threads end as well, and so do their connections.
    eventually("the end of the connections", SOON, || {
        let clients: String = clients::run(&mut raw, "CLIENT LIST");
        (clients.lines().count() == 1).then_some(())
    });
}

#[test]
fn locks_are_inspected_and_reentered() {
    let server = TestServer::start();
    let client = Client::connect(&url(&server)).unwrap();
    let lock = client.lock("lock").owner("job");
    assert!(!lock.locked().unwrap());
    let guard = lock.acquire().unwrap();
    let inner = guard.reenter().unwrap();
    assert_eq!((guard.state(), guard.owner()), (State::Held, &b"job"[..]));
    assert!(lock.locked().unwrap() && lock.hold_count("job").unwrap() > 0);
    assert_eq!(lock.hold_count("job").unwrap(), 2);
    assert!(lock.info().unwrap().remaining.unwrap() > Duration::from_secs(20));
    inner.release().unwrap();
    assert_eq!(lock.hold_count("job").unwrap(), 1);
    assert!(lock.force_release().unwrap());
    assert!(matches!(guard.release(), Err(Error::LockLost { why: Lost::Taken, .. })));
}

#[test]
fn work_is_run_under_a_lock() {
    let server = TestServer::start();
    let (client, mut raw) = (Client::connect(&url(&server)).unwrap(), server.connect());
    let lock = client.lock("lock");
    let value = lock.run(|guard| {
        assert_eq!(holder(&mut raw, "lock").unwrap().0.as_bytes(), guard.owner());
        assert!(denied(lock.try_acquire()));
        guard.check().map(|_| 42)
    });
    assert_eq!(value, Ok(Ok(42)));
    assert_eq!(holder(&mut raw, "lock"), None);
    // The result of the work is passed through.
    assert_eq!(lock.run(|_| Err::<(), _>("no paper")), Ok(Err("no paper")));
    assert_eq!(holder(&mut raw, "lock"), None);
    let panicked =
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| lock.run(|_| panic!("as wanted"))));
    assert!(panicked.is_err());
    eventually("the release", SOON, || holder(&mut raw, "lock").is_none().then_some(()));
    // The work does not run without the lock.
    let guard = lock.acquire().unwrap();
    let busy = client.lock("lock").wait(Duration::from_millis(50));
    let error = busy.run(|_| panic!("the lock is another's")).unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "{error}");
    guard.release().unwrap();
}

/// Works in steps until the lock is lost, and counts the steps.
fn work_until_lost(guard: &Guard) -> u64 {
    let token = guard.cancellation_token();
    let steps = eventually("the loss", SOON, || guard.check().is_err().then_some(1));
    assert!(token.is_cancelled());
    steps
}

#[test]
fn work_that_blocks_learns_a_loss_and_its_result_is_refused() {
    let server = TestServer::start();
    // Renewed every 200 ms: so soon it learns that the lock was taken away.
    let builder = rlock_client::Client::builder().lease(Duration::from_millis(600));
    let client = Client::connect_with(builder, &url(&server)).unwrap();
    let lost = |why| Err(Error::LockLost { lock: "lock".into(), why });
    let short = client.lock("lock").lease(Duration::from_millis(150)).renew(false);
    assert_eq!(short.run(work_until_lost), lost(Lost::Expired));
    let lock = client.lock("lock");
    let taken = lock.run(|guard| {
        lock.force_release().unwrap();
        work_until_lost(guard)
    });
    assert_eq!(taken, lost(Lost::Taken));
    // Also where the work does not look: the server tells it at the release.
    let client = Client::connect(&url(&server)).unwrap();
    let lock = client.lock("lock");
    assert_eq!(lock.run(|_| u64::from(lock.force_release().unwrap())), lost(Lost::Taken));
    let ended = client.clone().lock("lock").run(|guard| {
        client.clone().close(Duration::ZERO).unwrap_err();
        work_until_lost(guard)
    });
    assert_eq!(ended, lost(Lost::Closed));
}

#[test]
fn a_client_of_the_driver_lends_its_settings() {
    let server = TestServer::start();
    let driver = redis::Client::open(url(&server) + "/3").unwrap();
    let client = Client::connect_like_with(rlock_client::Client::builder(), &driver).unwrap();
    let guard = client.lock("lock").acquire().unwrap();
    let mut raw = server.connect();
    clients::run::<()>(&mut raw, "SELECT 3");
    assert_eq!(holder(&mut raw, "lock").unwrap().0.as_bytes(), guard.owner());
    guard.release().unwrap();
    client.close(SOON).unwrap();
}
