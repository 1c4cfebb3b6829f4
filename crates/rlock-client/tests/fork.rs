//! A process that forks: parent and child each took themselves for the holder, and the next acquisition of each had one
//! owner, so that both were granted one lock.

use std::time::Duration;

use fork::{Fork, fork};
use rlock_client::blocking::Client;
use rlock_client::{Error, Lost};
use rlock_testkit::clients::{SOON, holder, url};
use rlock_testkit::{TestServer, eventually};
use rustix::process::{Pid, Signal, WaitOptions, set_parent_process_death_signal, waitpid};
use signal_hook::low_level::exit;

/// How the child ends; no assertion in it, since a panic after a fork may hang.
const AS_EXPECTED: i32 = 7;

/// Forks. The parent gets the child's id.
///
/// The child calls only what takes no lock that another thread may hold for long, and ends by [`end`]. If it
/// hangs nevertheless, it is killed when the test fails.
fn forked() -> Option<Pid> {
    let Fork::Parent(child) = fork().unwrap() else {
        if set_parent_process_death_signal(Some(Signal::KILL)).is_err() {
            end(false);
        }
        return None;
    };
    Pid::from_raw(child)
}

/// Ends the child without the destructors of the parent's state.
fn end(as_expected: bool) -> ! {
    exit(if as_expected { AS_EXPECTED } else { 1 })
}

fn ends_as_expected(child: Pid) {
    let ended = || waitpid(Some(child), WaitOptions::NOHANG).expect("an own child");
    let (_, status) = eventually("the end of the child", SOON, ended);
    assert_eq!(status.exit_status(), Some(AS_EXPECTED), "{status:?}");
}

#[test]
fn a_child_holds_nothing_and_releases_nothing() {
    let server = TestServer::start();
    let mut raw = server.connect();
    let client = Client::connect(&url(&server)).unwrap();
    let guard = client.lock("lock").acquire().unwrap();
    let Some(child) = forked() else {
        let lost = matches!(guard.check(), Err(Error::LockLost { why: Lost::Forked, .. }));
        let refused = matches!(client.lock("other").try_acquire(), Err(Error::Unsupported { .. }));
        drop(guard);
        end(lost && refused);
    };
    ends_as_expected(child);
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
    // This test has one thread of its own.
    let Some(child) = forked() else {
        drop(guard);
        runtime.block_on(async { tokio::time::sleep(Duration::from_millis(300)).await });
        end(true);
    };
    ends_as_expected(child);
    assert_eq!(holder(&mut raw, "lock").unwrap().0.as_bytes(), owner);
    runtime.block_on(async {
        guard.release().await.unwrap();
        client.close(SOON).await.unwrap();
    });
}

/// In the child there is no thread that runs timers and connections: `close`, `downgrade` and `lost` waited for these for
/// ever.
#[test]
fn nothing_hangs_in_the_child() {
    let server = TestServer::start();
    let client = Client::connect(&url(&server)).unwrap();
    let writer = client.read_write_lock("rw").write().acquire().unwrap();
    let guard = client.lock("lock").acquire().unwrap();
    let lost = |error: &Error| matches!(error, Error::LockLost { why: Lost::Forked, .. });
    let Some(child) = forked() else {
        let as_expected = guard.lost() == Lost::Forked
            && writer.downgrade().is_err_and(|error| lost(&error))
            && guard.release().is_err_and(|error| lost(&error))
            && client.close(SOON).is_err_and(|error| matches!(error, Error::Unsupported { .. }));
        end(as_expected);
    };
    ends_as_expected(child);
    guard.release().unwrap();
    writer.downgrade().unwrap().release().unwrap();
}
