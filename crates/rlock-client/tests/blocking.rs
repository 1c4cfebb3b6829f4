//! The façade for code that is not async.

mod common;

use std::time::Duration;

use common::{SOON, holder, url};
use rlock_client::blocking::Client;
use rlock_client::{Error, Lost};
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
