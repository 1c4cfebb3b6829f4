//! `rlock watch`: a line for each change.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use crate::support::{SOON, ask, bare, url};
use rlock_testkit::TestServer;
use serde_json::Value;

/// A watch that runs, and its lines.
struct Watch {
    child: Child,
    lines: Receiver<String>,
}

impl Watch {
    #[track_caller]
    fn start(server: &TestServer, arguments: &[&str]) -> Watch {
        let mut command = bare();
        command.args(["--url", &url(server), "watch", "job"]).args(arguments).stdout(Stdio::piped());
        let mut child = command.spawn().expect("rlock");
        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        let (sender, lines) = channel();
        thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Watch { child, lines }
    }

    #[track_caller]
    fn line(&self) -> String {
        self.lines.recv_timeout(SOON).expect("a line")
    }

    /// The next line without the time and what depends on it.
    #[track_caller]
    fn change(&self) -> String {
        let line = self.line();
        assert!(line.starts_with('+'), "{line}");
        line.split_whitespace().skip(1).collect::<Vec<_>>().join(" ")
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const STORY: [(&str, &str); 7] = [
    ("RLOCK.ACQUIRE job alice:1 100000 HOLDS 1", "acquired held by alice:1 1 hold, 1m"),
    ("RLOCK.ACQUIRE job alice:1 100000 HOLDS 2", "holds held by alice:1 2 holds, 1m"),
    ("RLOCK.RENEW job alice:1 10000000", "renewed held by alice:1 2 holds, 2h46m left"),
    ("SUBSCRIBE", "queue held by alice:1 2 holds, 2h46m left, 1 waiting, first bob:1"),
    ("RLOCK.RELEASE job alice:1 ALL", "handed on held by bob:1 1 hold, "),
    ("RLOCK.RELEASE job bob:1", "free free"),
    ("DEL job", ""),
];

#[test]
fn every_change_is_a_line() {
    let server = TestServer::start();
    let client = &mut server.connect();
    let _listener = rlock_testkit::Subscriber::channel(&server, "grants");
    let watch = Watch::start(&server, &[]);
    assert_eq!(watch.change(), "now free");
    for (command, expected) in STORY {
        let command =
            if command == "SUBSCRIBE" { "RLOCK.ACQUIRE job bob:1 50000 ENQUEUE 0 grants" } else { command };
        ask::<redis::Value>(client, command);
        if !expected.is_empty() {
            let change = watch.change();
            assert!(change.starts_with(expected), "{command}: {change}");
        }
    }
    assert!(watch.lines.try_recv().is_err(), "nothing happened any more");
}

#[test]
fn permits_come_and_go_beside_others() {
    let server = TestServer::start();
    let client = &mut server.connect();
    let watch = Watch::start(&server, &[]);
    assert_eq!(watch.change(), "now free");
    for (command, expected) in [
        ("RLOCK.ACQUIRE job alice:1 10000000 PERMITS 2", "acquired held by alice:1 1 permit, 2h46m left"),
        ("RLOCK.ACQUIRE job bob:1 9000000 PERMITS 2", "acquired held by bob:1 1 permit, 2h"),
        ("RLOCK.RELEASE job bob:1", "released held by alice:1 1 permit, 2h46m left"),
        ("RLOCK.RELEASE job alice:1", "free free"),
    ] {
        ask::<redis::Value>(client, command);
        let change = watch.change();
        assert!(change.starts_with(expected), "{command}: {change}");
    }
}

#[test]
fn in_json_each_line_is_an_object() {
    let server = TestServer::start();
    let watch = Watch::start(&server, &["--json"]);
    let object = || serde_json::from_str::<Value>(&watch.line()).expect("JSON");
    let now = object();
    assert_eq!((&now["what"], &now["held"], &now["key"]), (&"now".into(), &false.into(), &"job".into()));
    ask::<redis::Value>(&mut server.connect(), "RLOCK.ACQUIRE job alice:1 100000");
    let acquired = object();
    assert_eq!(
        (&acquired["what"], &acquired["holders"][0]["owner"]),
        (&"acquired".into(), &"alice:1".into())
    );
    assert!(acquired["at_ms"].as_u64() > now["at_ms"].as_u64());
}

#[test]
fn an_outage_is_reported_and_waited_out() {
    let server = TestServer::start();
    let port = server.port();
    let watch = Watch::start(&server, &[]);
    assert_eq!(watch.change(), "now free");
    let data = server.kill9();
    let change = watch.change();
    assert!(change.starts_with("unreachable no answer from 127.0.0.1:"), "{change}");
    let server = TestServer::builder().port(port).dir(data).start();
    assert_eq!(watch.change(), "now free");
    ask::<redis::Value>(&mut server.connect(), "RLOCK.ACQUIRE job alice:1 100000");
    assert!(watch.change().starts_with("acquired held by alice:1"));
}
