//! `rlock run` while its server is out of reach: at the start, and at the end of its wait.

use std::time::{Duration, Instant};

use rlock_testkit::{TestServer, free_port};

use crate::support::servers::url_by;
use crate::support::{address, ask, at, await_owner, await_waiters, rlock, start, start_at, url};

/// An outage at the very start was an error at once, whatever the limit of the wait.
#[test]
fn a_server_that_is_down_at_the_start_is_waited_for() {
    for wait in [&["--wait", "1m"][..], &[]] {
        let port = free_port();
        let words = [&["run", "job"], wait, &["--", "echo", "ran"]].concat();
        let run = start_at(&format!("redis://127.0.0.1:{port}"), &words);
        run.tells(&format!("no answer from 127.0.0.1:{port}: Connection refused"));
        run.tells("still waiting");
        let _server = TestServer::builder().port(port).start();
        run.ended().is(0, "ran\n");
    }
}

/// A wrong protocol is an error at once: it stays wrong.
#[test]
fn a_server_of_another_protocol_is_not_waited_for() {
    let server = TestServer::start();
    let begun = Instant::now();
    let tls = url(&server).replace("redis", "rediss");
    at(&tls, &["run", "job", "--", "echo", "ran"]).fails(125, &["accepts no TLS connections"]);
    at(&url_by(&[&server]), &["run", "job", "--", "echo", "ran"]).fails(125, &["is not a Sentinel"]);
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

#[test]
fn the_limit_of_the_wait_holds_for_the_server_too() {
    let port = free_port();
    let begun = Instant::now();
    let url = format!("redis://127.0.0.1:{port}");
    let ended = at(&url, &["run", "job", "--wait", "700ms", "--", "echo", "ran"]);
    // Not 124: no other owner holds it, as far as is known.
    ended.fails(125, &["no answer from 127.0.0.1:", "Connection refused"]);
    assert_eq!(ended.stdout, "");
    assert!((Duration::from_millis(500)..Duration::from_secs(4)).contains(&begun.elapsed()));
    at(&url, &["run", "job", "--no-wait", "--", "echo", "ran"]).fails(125, &["Connection refused"]);
}

/// A wait that only an outage explains ended as if another owner held the lock.
#[test]
fn a_wait_that_ends_in_an_outage_names_the_server_that_is_down() {
    let server = TestServer::start();
    let client = &mut server.connect();
    ask::<redis::Value>(client, "RLOCK.ACQUIRE job other 100000");
    let run = start(&server, &["run", "job", "--wait", "4s", "--", "echo", "ran"]);
    await_waiters(client, "job", 1);
    let address = address(&server);
    server.kill9();
    let ended = run.ended();
    ended.fails(125, &["still waiting", &format!("no answer from {address}: ")]);
    assert!(!ended.stderr.contains("shows its holder"), "{ended:?}");
}

/// The note said that the server had not answered.
#[test]
fn a_server_that_refuses_renewals_is_quoted() {
    let (server, client) = &mut TestServer::builder().start_and_connect();
    let run = start(server, &["run", "job", "--lease", "4s", "--", "sleep", "600"]);
    await_owner(client, "job");
    ask::<redis::Value>(client, "CONFIG SET min-replicas-to-write 1");
    let ended = run.ended();
    ended.fails(123, &["could not be renewed yet: ", "refused: NOREPLICAS", "could not be renewed before"]);
    assert!(!ended.stderr.contains("has not answered"), "{ended:?}");
}

/// With a lease of 30 s, renewed every third of it, a fail-over of a cluster ended every job.
#[test]
fn the_default_lease_is_renewed_every_tenth() {
    let (server, client) = &mut TestServer::builder().start_and_connect();
    let mut run = start(server, &["run", "job", "--", "sleep", "600"]);
    await_owner(client, "job");
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(8) {
        let left: i64 = ask(client, "PTTL job");
        // A tenth of it, and what a busy machine needs.
        assert!((50_000..=60_000).contains(&left), "{left}");
        std::thread::sleep(Duration::from_millis(100));
    }
    run.still_runs();
    let help = rlock(server, &["run", "--help"]).stdout;
    for words in ["42s by default", "three quarters of that time"] {
        assert!(help.replace("\n          ", " ").contains(words), "{help}");
    }
}
