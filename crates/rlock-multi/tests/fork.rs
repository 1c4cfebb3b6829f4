//! A process that forks while it holds locks: its child holds nothing and waits for nothing.

use fork::{Fork, fork};
use rlock_client::blocking::Client;
use rlock_client::{Error, Lost};
use rlock_multi::{LockAll, RedLock};
use rlock_testkit::clients::{SOON, url};
use rlock_testkit::{TestServer, eventually};
use rustix::process::{Pid, Signal, WaitOptions, set_parent_process_death_signal, waitpid};
use signal_hook::low_level::exit;

/// In the child there is no thread that runs timers and connections: the acquisition of a red lock waited for these for ever.
#[test]
fn nothing_hangs_in_the_child() {
    let servers = [TestServer::start(), TestServer::start(), TestServer::start()];
    let clients = servers.each_ref().map(|server| Client::connect(&url(server)).unwrap());
    let red = Client::combine(&clients, |clients| RedLock::new(clients.iter().copied(), "red")).unwrap();
    let all =
        Client::combine(&clients, |clients| LockAll::new(clients.iter().map(|client| client.lock("all"))));
    let all = all.unwrap();
    let (red_guard, all_guard) = (red.acquire().unwrap(), all.acquire().unwrap());
    let lost = |error: &Error| matches!(error, Error::LockLost { why: Lost::Forked, .. });
    let refused = |error: &Error| matches!(error, Error::Unsupported { .. });
    // The child has no other thread: no assertion in it, since a panic after a fork may hang.
    let Fork::Parent(child) = fork().unwrap() else {
        let as_expected = set_parent_process_death_signal(Some(Signal::KILL)).is_ok()
            && red_guard.lost() == Lost::Forked
            && all_guard.lost() == Lost::Forked
            && red.acquire().is_err_and(|error| refused(&error))
            && red.try_acquire().is_err_and(|error| refused(&error))
            && all.acquire().is_err_and(|error| refused(&error))
            && all.try_acquire().is_err_and(|error| refused(&error))
            && red_guard.release().is_err_and(|error| lost(&error))
            && all_guard.release().is_err_and(|error| lost(&error));
        // Without the destructors of the parent's state.
        exit(if as_expected { 7 } else { 1 })
    };
    let ended = || waitpid(Pid::from_raw(child), WaitOptions::NOHANG).expect("an own child");
    let (_, status) = eventually("the end of the child", SOON, ended);
    assert_eq!(status.exit_status(), Some(7), "{status:?}");
    red_guard.release().unwrap();
    all_guard.release().unwrap();
}
