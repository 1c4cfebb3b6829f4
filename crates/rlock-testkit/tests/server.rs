//! Servers start, answer, end and leave nothing.

use std::path::Path;
use std::thread;
use std::time::Duration;

use rlock_testkit::{TestServer, eventually};
use rustix::process::{Pid, Signal, kill_process};

fn plain() -> TestServer {
    TestServer::builder().without_module().start()
}

fn set(server: &TestServer, key: &str, value: &str) {
    redis::cmd("SET").arg(key).arg(value).query::<()>(&mut server.connect()).unwrap();
}

fn process_exists(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

#[test]
fn nothing_remains_after_drop() {
    let server = plain();
    assert!(server.is_alive());
    let (pid, dir) = (server.pid(), server.dir().to_path_buf());
    assert!(process_exists(pid) && dir.join("server.log").exists());
    drop(server);
    assert!(!process_exists(pid) && !dir.exists());
}

#[test]
fn a_stopped_process_is_removed_as_well() {
    let server = plain();
    server.signal(Signal::STOP.as_raw());
    assert!(server.is_alive());
    let pid = server.pid();
    drop(server);
    assert!(!process_exists(pid));
}

#[test]
fn a_server_outlives_the_thread_that_started_it() {
    let server = thread::spawn(plain).join().unwrap();
    thread::sleep(Duration::from_millis(50));
    assert!(server.is_alive());
    set(&server, "a", "b");
}

#[test]
fn a_refusal_to_start_gives_the_log() {
    let failure = TestServer::builder().module("/nowhere/none.so").try_start().unwrap_err();
    assert!(failure.log.contains("/nowhere/none.so"), "{failure}");
    assert!(!failure.status.unwrap().success());
    let failure =
        TestServer::builder().without_module().conf("no-such-directive", 1).try_start().unwrap_err();
    assert!(failure.log.contains("no-such-directive"), "{failure}");
}

#[test]
fn a_port_in_use_is_reported_when_it_was_asked_for() {
    let first = plain();
    let port = first.port();
    let failure = TestServer::builder().without_module().port(port).try_start().unwrap_err();
    assert!(failure.log.contains("already in use"), "{failure}");
    drop(first);
    assert_eq!(TestServer::builder().without_module().port(port).start().port(), port);
}

#[test]
fn configuration_survives_quoting() {
    let name = "it's \"quoted\" \\ {title}";
    let server = TestServer::builder()
        .without_module()
        .conf("save", "900 1")
        .conf("maxmemory", 100_000_000)
        .conf_words("slave-announce-ip", &[name])
        .start();
    let value = |directive: &str| -> String {
        let pair: Vec<String> =
            redis::cmd("CONFIG").arg("GET").arg(directive).query(&mut server.connect()).unwrap();
        pair[1].clone()
    };
    assert_eq!(value("save"), "900 1");
    assert_eq!(value("maxmemory"), "100000000");
    assert_eq!(value("slave-announce-ip"), name);
}

#[test]
fn an_expected_end_is_awaited() {
    let server = plain();
    server.signal(Signal::KILL.as_raw());
    assert!(!server.wait_exit(Duration::from_secs(10)).success());
    assert!(!server.is_alive());
}

#[test]
#[should_panic(expected = "crashed")]
fn an_unexpected_end_fails_the_test() {
    let server = plain();
    let pid = Pid::from_raw(server.pid().cast_signed()).unwrap();
    // The server is a child of this process, and not reaped yet.
    kill_process(pid, Signal::KILL).unwrap();
    eventually("the end", Duration::from_secs(10), || (!server.is_alive()).then_some(()));
}
