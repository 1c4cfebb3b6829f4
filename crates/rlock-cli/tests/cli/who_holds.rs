//! From a stuck lock to the process that holds it, for every kind of client: what docs/OPERATIONS.md tells operators.

use rlock_testkit::commands::{SOON, say};
use rlock_testkit::waiting::Waiting;
use rlock_testkit::{Inline, TestServer, eventually, redisson};
use serde_json::Value;

use crate::support::{ask, rlock, start};

/// What `rlock status --json` shows.
#[track_caller]
fn status(server: &TestServer, key: &str) -> Value {
    rlock(server, &["status", key, "--json"]).json().swap_remove(0)
}

/// A field of a connection's line in CLIENT LIST.
fn field(line: &str, name: &str) -> String {
    let words = line.split_whitespace().filter_map(|word| word.split_once('='));
    words.into_iter().find(|(word, _)| *word == name).map(|(_, value)| value.to_string()).expect("a field")
}

#[test]
fn a_client_of_rlock_names_its_process() {
    let (server, client) = &mut TestServer::builder().start_and_connect();
    let run = start(server, &["run", "job", "--", "sleep", "60"]);
    let holder = eventually("the run to hold it", SOON, || {
        let status = status(server, "job");
        status["held"].as_bool().filter(|held| *held).map(|_| status["holders"][0].clone())
    });
    let process = &holder["process"];
    assert_eq!((&process["pid"], &process["name"]), (&run.pid().into(), &"rlock".into()), "{holder}");
    // Its connections have the same name, so that the address of a container can be found, too.
    let name = format!("rlock@{}:{}", process["host"].as_str().expect("a host"), run.pid());
    let lines: String = ask(client, "CLIENT LIST");
    let line = lines.lines().find(|line| field(line, "name") == name).expect("its connection");
    assert!(field(line, "addr").starts_with("127.0.0.1:"), "{line}");
    let shown = rlock(server, &["status", "job"]).stdout;
    assert!(shown.contains(&format!(", process {})", run.pid())), "{shown}");
    let listed = rlock(server, &["ls"]).stdout;
    assert!(listed.contains(&format!(", process {})", run.pid())), "{listed}");
    assert!(!listed.contains("probably no lock"), "{listed}");
}

/// Owners of other clients may be any words: the connection leads on, where there is one.
#[test]
fn waiters_and_tied_holders_lead_to_their_connections() {
    let server = TestServer::start();
    let (client, mut holder) = (&mut server.connect(), server.connect());
    say(&mut holder, "CLIENT SETNAME nightly");
    assert_eq!(say(&mut holder, "RLOCK.ACQUIRE job alice 1000000 SESSION 5000"), "[1, 1000000, 0]");
    let waiting = Waiting::start(&server, &["RLOCK.ACQUIRE", "job", "bob", "1000", "BLOCK", "0"]);
    let status = status(&server, "job");
    let (session, waits) = (&status["holders"][0]["session"], waiting.client_id());
    let line: String = ask(client, &format!("CLIENT LIST ID {session}"));
    assert_eq!(field(&line, "name"), "nightly");
    assert_eq!(status["queue"][0]["client_id"], waits);
    let line: String = ask(client, &format!("CLIENT LIST ID {waits}"));
    assert!(field(&line, "cmd").starts_with("rlock") && field(&line, "flags").contains('b'), "{line}");
    let shown = rlock(&server, &["status", "job"]).stdout;
    let [tied, waits] = [format!("tied to client {session}"), format!("client {waits}")];
    assert!(shown.contains(&tied) && shown.contains(&waits), "{shown}");
}

/// No command tells which connection a Redisson client uses. Its renewals do: every ten seconds by default.
#[test]
fn a_redisson_client_is_found_by_its_next_renewal() {
    let (server, client) = &mut TestServer::builder().start_and_connect();
    let owner = "0f8fad5b-d9cb-469f-a165-70867728950e:42";
    let mut java = server.connect();
    say(client, &format!("HSET job {owner} 1"));
    say(client, "PEXPIRE job 30000");
    let shown = rlock(server, &["status", "job"]).stdout;
    assert!(shown.contains("(thread 42 of a Redisson client)"), "{shown}");
    let mut monitor = Inline::connect(server, SOON);
    monitor.say("MONITOR", "+OK");
    assert_eq!(redisson::run(&mut java, redisson::RENEW, "job", owner, 30_000), "1");
    let shown = monitor.read_to(owner);
    let renewal = shown.lines().last().expect("a renewal");
    // +1700000000.123456 [0 127.0.0.1:51234] "EVAL" …
    let address =
        renewal.split(['[', ']']).nth(1).and_then(|from| from.split(' ').nth(1)).expect("an address");
    let id = say(&mut java, "CLIENT ID");
    let line: String = ask(client, &format!("CLIENT LIST ID {id}"));
    assert_eq!(field(&line, "addr"), address);
}
