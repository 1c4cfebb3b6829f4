//! Servers do not outlive a test process that is killed.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rlock_testkit::{TestServer, eventually};

/// Makes [`the_process_to_be_killed`] start a server and wait.
const VARIABLE: &str = "RLOCK_TESTKIT_WAIT_TO_BE_KILLED";

#[test]
fn the_process_to_be_killed() {
    if std::env::var_os(VARIABLE).is_some() {
        let server = TestServer::builder().without_module().start();
        println!("\nserver {} {}", server.pid(), server.dir().display());
        std::thread::sleep(Duration::from_secs(60));
    }
}

#[test]
fn a_server_ends_with_its_killed_test_process() {
    let mut tests = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_process_to_be_killed", "--nocapture"])
        .env(VARIABLE, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(tests.stdout.take().unwrap()).lines().map(Result::unwrap);
    let line = lines.find(|line| line.starts_with("server ")).unwrap();
    let mut words = line.split(' ').skip(1);
    let process = Path::new("/proc").join(words.next().unwrap());
    let dir = PathBuf::from(words.next().unwrap());
    assert!(process.exists());
    tests.kill().unwrap();
    tests.wait().unwrap();
    // If no process waits for the orphan, a zombie remains of it.
    let gone = || std::fs::read_link(process.join("exe")).is_err();
    eventually("the server to end", Duration::from_secs(10), || gone().then_some(()));
    std::fs::remove_dir_all(dir).unwrap();
}
