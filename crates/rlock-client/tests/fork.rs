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
