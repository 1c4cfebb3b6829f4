//! Servers that cannot be reached or do not do: every error says what to do next.

use std::time::{Duration, Instant};

use crate::diagnosis::{ALL, EVERY, all_fail};
use crate::support::servers::with_tls;
use crate::support::{
    Ended, Files, Running, Signal, ask, at, await_waiters, bare, rlock, start, start_at, url, url_of,
};
use rlock_testkit::TestServer;
use serde_json::Value;

#[test]
fn a_server_without_the_module() {
    let server = TestServer::builder().without_module().start();
    let client = &mut server.connect();
    ask::<i64>(client, "HSET job alice:1 1");
    for arguments in EVERY {
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
    let begun = Instant::now();
    let ended: Vec<Running> = EVERY.iter().map(|arguments| start(&server, arguments)).collect();
    for ended in ended {
        ended.ended().fails(125, &["no reply within 5.0s", "overloaded"]);
    }
    // Not once for each thing that it asks.
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    server.signal(Signal::CONT.as_raw());
}

#[test]
fn refusals_of_the_server() {
    let (server, client) = &mut TestServer::builder().start_and_connect();
    ask::<redis::Value>(client, "SET text a");
    ask::<redis::Value>(client, "HSET data a b");
    let run = |key| rlock(server, &["run", key, "--", "echo", "ran"]);
    run("text").fails(125, &["WRONGTYPE", "choose another key"]);
    run("data").fails(125, &["WRONGLOCK", "nothing was changed"]);
    ask::<redis::Value>(client, "CONFIG SET rlock.max-waiters 1");
    ask::<redis::Value>(client, "RLOCK.ACQUIRE job other 100000");
    let _waits = start(server, &["run", "job", "--", "true"]);
    await_waiters(client, "job", 1);
    run("job").fails(125, &["QUEUEFULL", "rlock.max-waiters"]);
}

#[test]
fn users_and_passwords() {
    let server = TestServer::start();
    let admin = &mut server.connect();
    let locks = "+rlock.acquire +rlock.release +rlock.renew +rlock.cancel +rlock.info";
    ask::<redis::Value>(admin, &format!("ACL SETUSER app on >pass ~job* -@all {locks}"));
    let ended = at(&url_of("app:not-it-7", &server), &["status", "job"]);
    ended.fails(125, &["REDIS_URL"]);
    assert!(!ended.stderr.contains("not-it-7"), "no passwords in messages: {ended:?}");
    let app = url_of("app:pass", &server);
    at(&app, &["run", "job", "--", "echo", "ran"]).is(0, "ran\n");
    // This user cannot hear that the lock is free.
    ask::<redis::Value>(admin, "RLOCK.ACQUIRE job other 100000");
    let run = start_at(&app, &["run", "job", "--", "echo", "ran"]);
    run.tells("may not subscribe to rlock:grants:*");
    assert_eq!(ask::<i64>(admin, "RLOCK.RELEASE job other"), 1);
    run.ended().is(0, "ran\n");
}

/// `ps` shows the arguments of all processes: a URL with a password comes from a file.
#[test]
fn the_server_is_that_of_the_option_or_of_a_file_or_of_redis_url() {
    let files = Files::new();
    let path = |name: &str| files.path(name).display().to_string();
    let server = TestServer::builder().conf("unixsocket", path("socket")).start();
    let other = TestServer::builder().conf("requirepass", "se@cret").start();
    ask::<redis::Value>(&mut server.connect(), "RLOCK.ACQUIRE job alice:1 100000");
    assert_eq!(rlock(&server, &["status", "job"]).code, Some(0));
    let other = url_of(":se%40cret", &other);
    rlock(&server, &["--url", &other, "status", "job"]).is(1, "job  free\n");
    at(&format!("{}/5", url(&server)), &["status", "job"]).is(1, "job  free\n");
    at("nonsense", &["status", "job"])
        .fails(125, &["has no scheme; write redis://", "correct --url or REDIS_URL"]);
    let ended = at(&format!("unix://{}", path("socket")), &["ls"]);
    assert!(ended.code == Some(0) && ended.stdout.starts_with("job  alice:1"), "{ended:?}");
    std::fs::write(files.path("url"), format!("{other}\n")).unwrap();
    let by_file = |path: &str| {
        let mut command = bare();
        command.args(["--url-file", path, "status", "job"]);
        Running::start(command).ended()
    };
    by_file(&path("url")).is(1, "job  free\n");
    by_file("/no/such/file").fails(125, &["/no/such/file cannot be read"]);
}

/// Calls the program with authorities in SSL_CERT_FILE.
#[track_caller]
fn trusting(files: &Files, url: &str, arguments: &[&str]) -> Ended {
    let mut command = bare();
    command.env("SSL_CERT_FILE", files.path("ca.crt")).env("REDIS_URL", url).args(arguments);
    Running::start(command).ended()
}

/// The server's certificate is checked against the authorities of the system, or of SSL_CERT_FILE.
#[test]
fn servers_with_tls() {
    let files = Files::new();
    let (server, port) = with_tls(&files, "2", "no");
    ask::<redis::Value>(&mut server.connect(), "RLOCK.ACQUIRE job alice:1 100000");
    let words = [&format!("localhost:{port} accepts TLS connections only")[..], "write rediss://"];
    all_fail(&ALL, &format!("redis://localhost:{port}"), &words);
    let url = format!("rediss://localhost:{port}");
    all_fail(&ALL, &url, &["no encrypted connection to localhost:", "UnknownIssuer", "SSL_CERT_FILE"]);
    at(&format!("{url}/#insecure"), &["status", "free"]).fails(125, &[]);
    let ended = trusting(&files, &url, &["ls"]);
    assert!(ended.code == Some(0) && ended.stdout.starts_with("job  alice:1"), "{ended:?}");
    trusting(&files, &url, &["run", "free", "--", "echo", "ran"]).is(0, "ran\n");
    let words = ["not valid for name", "use a host name of the server's certificate in the URL"];
    for arguments in ALL {
        trusting(&files, &format!("rediss://127.0.0.1:{port}"), arguments).fails(125, &words);
    }
}

/// Servers ask for certificates of clients unless `tls-auth-clients no`; the advice was to turn that off.
#[test]
fn client_certificates() {
    let files = Files::new();
    let (server, port) = with_tls(&files, "2", "yes");
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
    for arguments in ALL {
        trusting(&files, &url, arguments).fails(125, &["CertificateRequired", "--cert and --key"]);
    }
    with(&own[..2], &["status", "job"]).fails(125, &["CertificateRequired", "--cert and --key"]);
    with(&own[2..], &["status", "job"]).fails(125, &["UnknownIssuer", "--cacert"]);
    with(&own[..4], &["status", "job"]).fails(125, &["--key"]);
    with(&["--cert", &cert, "--key", &cert], &["status", "job"]).fails(125, &["cannot be used", "PEM"]);
    with(&["--cacert", "/no/such/file"], &["status", "job"]).fails(125, &["/no/such/file cannot be read"]);
    at("redis://127.0.0.1:1", &["--cacert", &ca, "ls"]).fails(125, &["the URL has none", "rediss://"]);
}

/// Programs that read JSON got clap's text.
#[test]
fn errors_and_wrong_arguments_are_json_where_that_is_asked_for() {
    let failed = |words: &[&str]| {
        let ended = at("redis://127.0.0.1:1", words);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(125), ""), "{ended:?}");
        ended.stderr
    };
    for (words, text, advice) in [
        (&["--json", "status", "job"][..], "no answer from 127.0.0.1:1", "check that a server runs"),
        (&["--json", "status"], "<KEY>", "--help"),
        (&["run", "job", "--json", "--lease", "1parsec", "--", "true"], "1parsec", "--help"),
    ] {
        let error: Value = serde_json::from_str(&failed(words)).unwrap();
        assert!(error["error"].as_str().unwrap().contains(text), "{error}");
        assert!(error["advice"].as_str().unwrap().contains(advice) && error["code"] == 125, "{error}");
    }
    assert!(failed(&["run", "job", "--lease", "1parsec", "--", "sh", "--json"]).starts_with("error: "));
}
