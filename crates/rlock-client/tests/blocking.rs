//! The façade for code that is not async.

mod common;

use std::time::Duration;

use common::{SOON, holder, url};
use rlock_client::blocking::Client;
use rlock_client::{Error, Lost, State};
use rlock_testkit::{TestServer, eventually};

#[test]
fn locks_block_threads() {
    let server = TestServer::start();
    let (client, mut raw) = (Client::connect(&url(&server)).unwrap(), server.connect());
    let guard = client.lock("lock").lock().unwrap();
    assert!(client.lock("lock").try_lock().unwrap().is_none());
    let error = client.lock("lock").lock_timeout(Duration::from_millis(100)).unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }));
    let other = client.clone();
    let waiting = std::thread::spawn(move || other.lock("lock").lock().unwrap().unlock());
    eventually("a waiter", SOON, || (common::waiters(&server) == 1).then_some(()));
    guard.check().unwrap();
    guard.unlock().unwrap();
    waiting.join().unwrap().unwrap();
    let short = client.with(client.inner().lock("lock").lease(Duration::from_millis(200))).lock().unwrap();
    assert_eq!(short.lost(), Lost::Expired);
    drop(short);
    let guard = client.lock("lock").lock().unwrap();
    drop(guard);
    client.shutdown(SOON).unwrap();
    assert_eq!(holder(&mut raw, "lock"), None);
}

#[test]
fn the_last_handle_to_go_may_be_a_guard() {
    let server = TestServer::start();
    let mut raw = server.connect();
    let client = Client::connect(&url(&server)).unwrap();
    let guard = client.lock("lock").lock().unwrap();
    drop(client);
    guard.check().unwrap();
    guard.unlock().unwrap();
    assert_eq!(holder(&mut raw, "lock"), None);
}

/// Once the client's runtime ended with its last handle, and a release with it that was not sent yet.
#[test]
fn a_guard_that_goes_last_releases_its_lock_wherever_it_is_dropped() {
    let server = TestServer::start();
    let mut raw = server.connect();
    let mut free = || eventually("the release", SOON, || holder(&mut raw, "lock").is_none().then_some(()));
    let guard = Client::connect(&url(&server)).unwrap().lock("lock").lock().unwrap();
    drop(guard);
    free();
    let guard = Client::connect(&url(&server)).unwrap().lock("lock").lock().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async move { drop(guard) });
    free();
    // The threads end as well, and so do their connections.
    eventually("the end of the connections", SOON, || {
        let clients: String = common::run(&mut raw, "CLIENT LIST");
        (clients.lines().count() == 1).then_some(())
    });
}

#[test]
fn locks_are_looked_at_and_entered_again() {
    let server = TestServer::start();
    let client = Client::connect(&url(&server)).unwrap();
    let lock = client.with(client.inner().lock("lock").owner("job"));
    assert!(!lock.is_locked().unwrap());
    let guard = lock.lock().unwrap();
    let inner = guard.reenter().unwrap();
    assert_eq!((guard.state(), guard.owner()), (State::Held, &b"job"[..]));
    assert!(lock.is_locked().unwrap() && lock.is_held_by("job").unwrap());
    assert_eq!(lock.hold_count("job").unwrap(), 2);
    assert!(lock.remaining().unwrap().unwrap() > Duration::from_secs(20));
    inner.unlock().unwrap();
    assert_eq!(lock.hold_count("job").unwrap(), 1);
    assert!(lock.force_release().unwrap());
    assert!(matches!(guard.unlock(), Err(Error::NotHeld { .. })));
}
