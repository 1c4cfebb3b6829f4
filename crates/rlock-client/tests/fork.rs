//! A process that forks: parent and child each took themselves for the holder, and the next acquisition of each had one
//! owner, so that both were granted one lock.

mod common;

use std::time::Duration;

use common::{SOON, holder, url};
use rlock_client::blocking::Client;
use rlock_client::{Error, Lost};
use rlock_testkit::{TestServer, eventually};

/// How the child ends; no assertion in it, since a panic after a fork may hang.
const AS_EXPECTED: i32 = 7;

#[test]
fn a_child_holds_nothing_and_releases_nothing() {
    let server = TestServer::start();
    let mut raw = server.connect();
    let client = Client::connect(&url(&server)).unwrap();
    let guard = client.lock("lock").acquire().unwrap();
    // SAFETY: the child calls what takes no lock that another thread may hold for long, and ends by `_exit`; an alarm ends
    // it should it hang all the same.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: no handler is set, so the signal ends the process.
        unsafe { libc::alarm(10) };
        let lost = matches!(guard.check(), Err(Error::LockLost { why: Lost::Forked, .. }));
        let refused = matches!(client.lock("other").try_acquire(), Err(Error::Unsupported { .. }));
        drop(guard);
        // SAFETY: ends the child without the destructors of the parent's state.
        unsafe { libc::_exit(if lost && refused { AS_EXPECTED } else { 1 }) };
    }
    assert!(child > 0, "a child");
    let mut status = 0;
    let ended = || {
        // SAFETY: the pointer is to a local.
        (unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) } == child).then_some(())
    };
    eventually("the end of the child", SOON, ended);
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == AS_EXPECTED, "{status}");
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(holder(&mut raw, "lock").unwrap().0.as_bytes(), guard.owner());
    guard.check().unwrap();
    guard.release().unwrap();
    client.close(SOON).unwrap();
}

/// The child of a program with one thread has a runtime that works: the release of the parent's lock, which a dropped guard
/// asks for, went out on the parent's connection as soon as the child awaited something.
#[test]
fn the_childs_own_runtime_sends_nothing_for_the_parent() {
    let server = TestServer::start();
    let mut raw = server.connect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (client, guard) = runtime.block_on(async {
        let client = rlock_client::Client::connect(&url(&server)).await.unwrap();
        let guard = client.lock("lock").await.unwrap();
        (client, guard)
    });
    let owner = guard.owner().to_vec();
    // SAFETY: this test has one thread of its own, and the child ends by `_exit`; an alarm ends it should it hang.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: no handler is set, so the signal ends the process.
        unsafe { libc::alarm(10) };
        drop(guard);
        runtime.block_on(async { tokio::time::sleep(Duration::from_millis(300)).await });
        // SAFETY: ends the child without the destructors of the parent's state.
        unsafe { libc::_exit(AS_EXPECTED) };
    }
    assert!(child > 0, "a child");
    let mut status = 0;
    let ended = || {
        // SAFETY: the pointer is to a local.
        (unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) } == child).then_some(())
    };
    eventually("the end of the child", SOON, ended);
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == AS_EXPECTED, "{status}");
    assert_eq!(holder(&mut raw, "lock").unwrap().0.as_bytes(), owner);
    runtime.block_on(async {
        guard.release().await.unwrap();
        client.close(SOON).await.unwrap();
    });
}
