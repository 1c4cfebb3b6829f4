//! Servers start, answer, end and leave nothing.

use std::path::Path;
use std::thread;
use std::time::Duration;

use rlock_testkit::{DataDir, TestServer, eventually};

fn plain() -> TestServer {
    TestServer::builder().without_module().start()
}

fn set(server: &TestServer, key: &str, value: &str) {
    redis::cmd("SET").arg(key).arg(value).query::<()>(&mut server.connect()).unwrap();
}

fn get(server: &TestServer, key: &str) -> Option<String> {
    redis::cmd("GET").arg(key).query(&mut server.connect()).unwrap()
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
    server.signal(libc::SIGSTOP);
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
fn many_start_at_once() {
    let starts: Vec<_> = (0..6).map(|_| thread::spawn(plain)).collect();
    let servers: Vec<TestServer> = starts.into_iter().map(|start| start.join().unwrap()).collect();
    for (index, server) in servers.iter().enumerate() {
        assert_eq!(get(server, "n"), None);
        set(server, "n", &index.to_string());
    }
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
fn data_survives_a_shutdown_and_a_crash() {
    let builder = || TestServer::builder().without_module().conf("appendonly", "yes");
    let server = builder().start();
    set(&server, "a", "1");
    let stopped = server.shutdown();
    assert!(stopped.status.success());
    let server = builder().dir(stopped).start();
    assert_eq!(get(&server, "a").as_deref(), Some("1"));
    set(&server, "b", "2");
    let data: DataDir = server.kill9().data;
    let server = builder().dir(data).start();
    assert_eq!(get(&server, "b").as_deref(), Some("2"));
    assert!(server.log().len() > server.log_of_this_start().len());
}

#[test]
fn a_snapshot_is_loaded_from_a_directory_that_is_kept() {
    let keep = DataDir::temporary();
    let builder = || TestServer::builder().without_module().dir(keep.path());
    let server = builder().start();
    set(&server, "a", "1");
    drop(server.shutdown_with(&["SAVE"]));
    assert!(keep.path().join("dump.rdb").exists());
    assert_eq!(get(&builder().start(), "a").as_deref(), Some("1"));
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
fn passwords_and_users() {
    let server = TestServer::builder()
        .without_module()
        .conf("requirepass", "secret")
        .conf("user", "alice on >pw ~* +@all")
        .start();
    set(&server, "a", "1");
    let whoami = |connection: &mut redis::Connection| -> String {
        redis::cmd("ACL").arg("WHOAMI").query(connection).unwrap()
    };
    assert_eq!(whoami(&mut server.connect_as("alice", "pw")), "alice");
    assert_eq!(whoami(&mut server.connect_resp3()), "default");
    assert_eq!(server.cli(&["GET", "a"]), "\"1\"\n");
}

#[test]
fn the_client_takes_any_bytes() {
    let server = plain();
    assert_eq!(server.cli(&[&b"SET"[..], b"\xff\n\"", b""]), "OK\n");
    assert_eq!(server.cli(&["KEYS", "*"]), "1) \"\\xff\\n\\\"\"\n");
    assert_eq!(server.cli(&["NONSENSE"]).lines().next().unwrap_or("").get(..11), Some("(error) ERR"));
}

#[test]
fn what_info_says() {
    let server = plain();
    assert_eq!(server.info("server")["process_id"], server.pid().to_string());
    assert_eq!(server.info("server")["tcp_port"], server.port().to_string());
    assert!(server.version().major >= 6);
}

#[test]
fn protocols() {
    let server = plain();
    let client = |mut connection: redis::Connection| -> String {
        redis::cmd("CLIENT").arg("LIST").query(&mut connection).unwrap()
    };
    let resp2 = client(server.connect());
    assert!(!resp2.contains("resp=3"), "{resp2}");
    let resp3 = client(server.connect_resp3());
    assert!(server.version().major == 6 || resp3.contains("resp=3"), "{resp3}");
}

#[test]
fn an_expected_end_is_awaited() {
    let server = plain();
    server.signal(libc::SIGKILL);
    assert!(!server.wait_exit(Duration::from_secs(10)).success());
    assert!(!server.is_alive());
}

#[test]
#[should_panic(expected = "crashed")]
fn an_unexpected_end_fails_the_test() {
    let server = plain();
    // SAFETY: kill takes plain numbers; the server is a child of this process, not yet reaped.
    unsafe { libc::kill(server.pid() as i32, libc::SIGKILL) };
    eventually("the end", Duration::from_secs(10), || (!server.is_alive()).then_some(()));
}
