//! Servers that cannot be reached or do not do: every error says what to do next.

use std::time::{Duration, Instant};

use crate::support::{Ended, Files, Running, Signal, ask, bare, rlock, url};
use rlock_testkit::TestServer;

/// Every subcommand that asks a server, and must not do anything without it.
const ALL: [&[&str]; 7] = [
    &["run", "job", "--no-wait", "--", "echo", "ran"],
    &["status", "job"],
    &["release", "job", "--owner", "alice:1"],
    &["force-release", "job", "--yes"],
    &["ls"],
    &["watch", "job"],
    &["ping"],
];

#[track_caller]
fn at(url: &str, arguments: &[&str]) -> Ended {
    let mut command = bare();
    command.arg("--url").arg(url).args(arguments);
    Running::start(command).ended()
}

#[test]
fn a_server_that_is_not_there() {
    for arguments in ALL {
        let ended = at("redis://127.0.0.1:1", arguments);
        ended.is(125, "");
        ended.fails(125, &["no answer from 127.0.0.1:1: Connection refused", "--url or REDIS_URL"]);
    }
    let mut command = bare();
    command.args(["--json", "status", "job"]).env("REDIS_URL", "redis://127.0.0.1:1");
    let ended = Running::start(command).ended();
    let error: serde_json::Value = serde_json::from_str(&ended.stderr).expect("JSON");
    assert_eq!((ended.code, &error["code"]), (Some(125), &125.into()));
    assert!(error["error"].as_str().unwrap().starts_with("no answer from 127.0.0.1:1"), "{error}");
    assert!(error["advice"].as_str().unwrap().contains("check that a server runs"), "{error}");
}

#[test]
fn a_server_without_the_module() {
    let server = TestServer::builder().without_module().start();
    let client = &mut server.connect();
    ask::<i64>(client, "HSET job alice:1 1");
    for arguments in ALL {
        let ended = rlock(&server, arguments);
        if arguments == ["ping"] {
            ended.fails(1, &[]);
            assert!(ended.stdout.contains("the module is not loaded"), "{ended:?}");
        } else {
            ended.fails(125, &["the module rlock is not loaded on 127.0.0.1:", "loadmodule"]);
            assert_eq!(ended.stdout, "");
        }
    }
    assert_eq!(ask::<i64>(client, "EXISTS job"), 1);
}

#[test]
fn a_server_that_hangs() {
    let server = TestServer::start();
    server.signal(Signal::STOP.as_raw());
    let start = Instant::now();
    let ended: Vec<Running> = ALL.iter().map(|arguments| crate::support::start(&server, arguments)).collect();
    for ended in ended {
        ended.ended().fails(125, &["no reply within 5.0s", "overloaded"]);
    }
    // Not once for each thing that it asks.
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    server.signal(Signal::CONT.as_raw());
}

#[test]
fn refusals_of_the_server() {
    let server = TestServer::start();
    let client = &mut server.connect();
    ask::<redis::Value>(client, "SET text a");
    ask::<redis::Value>(client, "HSET data a b");
    let run = |key| rlock(&server, &["run", key, "--", "echo", "ran"]);
    run("text").fails(125, &["WRONGTYPE", "choose another key"]);
    run("data").fails(125, &["WRONGLOCK", "nothing was changed"]);
    ask::<redis::Value>(client, "CONFIG SET rlock.max-waiters 1");
    ask::<redis::Value>(client, "RLOCK.ACQUIRE job other 100000");
    let _waits = crate::support::start(&server, &["run", "job", "--", "true"]);
    crate::support::await_waiters(client, "job", 1);
    run("job").fails(125, &["QUEUEFULL", "rlock.max-waiters"]);
    let replica = TestServer::builder().conf("replicaof", format!("127.0.0.1 {}", server.port())).start();
    rlock(&replica, &["run", "job", "--no-wait", "--", "echo", "ran"])
        .fails(125, &["is a replica", "the URL of the primary"]);
}

#[test]
fn users_and_passwords() {
    let server = TestServer::builder().conf("requirepass", "top-secret").start();
    let address = format!("127.0.0.1:{}", server.port());
    rlock(&server, &["status", "job"]).fails(125, &["NOAUTH", "redis://user:password@host"]);
    let ended = at(&format!("redis://:not-it-7@{address}"), &["status", "job"]);
    ended.fails(125, &["REDIS_URL"]);
    assert!(!ended.stderr.contains("not-it-7"), "no passwords in messages: {ended:?}");
    at(&format!("redis://:top-secret@{address}"), &["status", "job"]).is(1, "job  free\n");
    let admin = &mut server.connect();
    let user = "ACL SETUSER app on >pass ~job* -@all \
        +rlock.acquire +rlock.release +rlock.renew +rlock.cancel +rlock.info";
    ask::<redis::Value>(admin, &user.split_whitespace().collect::<Vec<_>>().join(" "));
    let app = format!("redis://app:pass@{address}");
    at(&app, &["run", "job", "--", "echo", "ran"]).is(0, "ran\n");
    at(&app, &["run", "other", "--", "echo", "ran"]).fails(125, &["NOPERM", "ACL SETUSER"]);
    // This user cannot hear that the lock is free.
    ask::<redis::Value>(admin, "RLOCK.ACQUIRE job other 100000");
    let mut command = bare();
    command.args(["--url", &app, "run", "job", "--", "echo", "ran"]);
    let run = Running::start(command);
    run.tells("may not subscribe to rlock:grants:*");
    assert_eq!(ask::<i64>(admin, "RLOCK.RELEASE job other"), 1);
    run.ended().is(0, "ran\n");
}

#[test]
fn the_server_is_that_of_the_option_or_else_of_redis_url() {
    let (server, other) = (TestServer::start(), TestServer::start());
    ask::<redis::Value>(&mut server.connect(), "RLOCK.ACQUIRE job alice:1 100000");
    assert_eq!(rlock(&server, &["status", "job"]).code, Some(0));
    rlock(&server, &["--url", &url(&other), "status", "job"]).is(1, "job  free\n");
    let mut command = bare();
    command.args(["status", "job"]).env("REDIS_URL", format!("{}/5", url(&server)));
    Running::start(command).ended().is(1, "job  free\n");
    at("nonsense", &["status", "job"])
        .fails(125, &["has no scheme; write redis://", "correct --url or REDIS_URL"]);
}

#[test]
fn unix_sockets() {
    let files = Files::new();
    let socket = files.path("socket");
    let server = TestServer::builder().conf("unixsocket", socket.display()).start();
    ask::<redis::Value>(&mut server.connect(), "RLOCK.ACQUIRE job alice:1 100000");
    let ended = at(&format!("unix://{}", socket.display()), &["ls"]);
    assert!(ended.code == Some(0) && ended.stdout.starts_with("job  alice:1"), "{ended:?}");
}

/// The server's certificate is checked against the authorities of the system, or of SSL_CERT_FILE.
#[test]
fn tls() {
    let files = Files::new();
    let (server, port) = crate::support::tls::server(&files, "no");
    ask::<redis::Value>(&mut server.connect(), "RLOCK.ACQUIRE job alice:1 100000");
    let url = format!("rediss://localhost:{port}");
    let mut command = bare();
    command.args(["--url", &url, "ls"]).env("SSL_CERT_FILE", files.path("ca.crt"));
    let ended = Running::start(command).ended();
    assert!(ended.code == Some(0) && ended.stdout.starts_with("job  alice:1"), "{ended:?}");
    let mut command = bare();
    command
        .args(["--url", &url, "run", "free", "--", "echo", "ran"])
        .env("SSL_CERT_FILE", files.path("ca.crt"));
    Running::start(command).ended().is(0, "ran\n");
    for arguments in [&["ls"][..], &["ping"], &["status", "free"], &["run", "free", "--", "echo", "ran"]] {
        at(&url, arguments).fails(125, &["no encrypted connection to localhost:", "SSL_CERT_FILE"]);
    }
    at(&format!("{url}/#insecure"), &["status", "free"]).fails(125, &[]);
}

/// Servers ask for certificates of clients unless `tls-auth-clients no`; the advice was to turn that off.
#[test]
fn client_certificates() {
    let files = Files::new();
    let (server, port) = crate::support::tls::server(&files, "yes");
    ask::<redis::Value>(&mut server.connect(), "RLOCK.ACQUIRE job alice:1 100000");
    let path = |name: &str| files.path(name).display().to_string();
    let (ca, cert, key) = (path("ca.crt"), path("client.crt"), path("client.key"));
    let own = ["--cacert", &ca, "--cert", &cert, "--key", &key];
    let url = format!("rediss://localhost:{port}");
    let with = |files: &[&str], words: &[&str]| at(&url, &[files, words].concat());
    let ls = with(&own, &["ls"]);
    assert!(ls.stdout.starts_with("job  alice:1"), "{ls:?}");
    with(&own, &["run", "free", "--", "echo", "ran"]).is(0, "ran\n");
    assert_eq!(with(&own, &["ping"]).code, Some(0));
    assert!(with(&own, &["status", "job"]).stdout.contains("alice:1"));
    with(&own[..2], &["status", "job"]).fails(125, &["CertificateRequired", "--cert and --key"]);
    with(&own[2..], &["status", "job"]).fails(125, &["UnknownIssuer", "--cacert"]);
    with(&own[..4], &["status", "job"]).fails(125, &["--key"]);
    with(&["--cert", &cert, "--key", &cert], &["status", "job"]).fails(125, &["cannot be used", "PEM"]);
    with(&["--cacert", "/no/such/file"], &["status", "job"]).fails(125, &["/no/such/file cannot be read"]);
    at("redis://127.0.0.1:1", &["--cacert", &ca, "ls"]).fails(125, &["the URL has none", "rediss://"]);
}

/// `ps` shows the arguments of all processes.
#[test]
fn a_url_with_a_password_comes_from_a_file() {
    let server = TestServer::builder().conf("requirepass", "se@cret").start();
    let files = Files::new();
    std::fs::write(files.path("url"), format!("redis://:se%40cret@127.0.0.1:{}\n", server.port())).unwrap();
    let mut command = bare();
    command.args(["--url-file", &files.path("url").display().to_string(), "status", "job"]);
    Running::start(command).ended().is(1, "job  free\n");
    let mut command = bare();
    command.args(["--url-file", "/no/such/file", "status", "job"]);
    Running::start(command).ended().fails(125, &["/no/such/file cannot be read"]);
}

/// Programs that read JSON got clap's text.
#[test]
fn wrong_arguments_are_json_too_where_that_is_asked_for() {
    let failed = |words: &[&str]| {
        let mut command = bare();
        command.args(words);
        let ended = Running::start(command).ended();
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(125), ""), "{ended:?}");
        ended.stderr
    };
    for words in [&["--json", "status"][..], &["run", "job", "--json", "--lease", "1parsec", "--", "true"]] {
        let error: serde_json::Value = serde_json::from_str(&failed(words)).unwrap();
        let text = error["error"].as_str().unwrap();
        assert!(text.contains("<KEY>") || text.contains("1parsec"), "{error}");
        assert!(error["advice"].as_str().unwrap().contains("--help") && error["code"] == 125, "{error}");
    }
    assert!(failed(&["run", "job", "--lease", "1parsec", "--", "sh", "--json"]).starts_with("error: "));
}
