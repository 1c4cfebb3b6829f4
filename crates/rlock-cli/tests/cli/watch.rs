//! `rlock watch`: a line for each change.

use crate::support::{Running, ask, start};
use rlock_testkit::{Subscriber, TestServer};
use serde_json::Value;

/// A watch that runs, and how many of its lines were read.
struct Watch {
    running: Running,
    read: usize,
}

impl Watch {
    #[track_caller]
    fn start(server: &TestServer, arguments: &[&str]) -> Watch {
        Watch { running: start(server, &[&["watch", "job"], arguments].concat()), read: 0 }
    }

    #[track_caller]
    fn line(&mut self) -> String {
        self.read += 1;
        self.running.prints(self.read - 1)
    }

    /// The next line without the time and what depends on it.
    #[track_caller]
    fn change(&mut self) -> String {
        let line = self.line();
        assert!(line.starts_with('+'), "{line}");
        line.split_whitespace().skip(1).collect::<Vec<_>>().join(" ")
    }
}

/// Sends each command, and shows that the change that it makes begins so.
#[track_caller]
fn shows(watch: &mut Watch, server: &TestServer, story: &[(&str, &str)]) {
    assert_eq!(watch.change(), "now free");
    for (command, expected) in story {
        ask::<redis::Value>(&mut server.connect(), command);
        let change = watch.change();
        assert!(change.starts_with(expected), "{command}: {change}");
    }
}

#[test]
fn every_change_is_a_line() {
    let server = TestServer::start();
    let _listener = Subscriber::channel(&server, "grants");
    let mut watch = Watch::start(&server, &[]);
    let story = [
        ("RLOCK.ACQUIRE job alice:1 100000 HOLDS 1", "acquired held by alice:1 1 hold, 1m"),
        ("RLOCK.ACQUIRE job alice:1 100000 HOLDS 2", "holds held by alice:1 2 holds, 1m"),
        ("RLOCK.RENEW job alice:1 10000000", "renewed held by alice:1 2 holds, 2h46m left"),
        (
            "RLOCK.ACQUIRE job bob:1 50000 ENQUEUE 0 grants",
            "queue held by alice:1 2 holds, 2h46m left, 1 waiting, first bob:1",
        ),
        ("RLOCK.RELEASE job alice:1 ALL", "handed on held by bob:1 1 hold, "),
        ("RLOCK.RELEASE job bob:1", "free free"),
    ];
    shows(&mut watch, &server, &story);
    let lines = story.len() + 1;
    ask::<i64>(&mut server.connect(), "DEL job");
    assert_eq!(watch.running.printed().lines().count(), lines, "nothing happened any more");
}

#[test]
fn permits_come_and_go_beside_others() {
    let server = TestServer::start();
    let story = [
        ("RLOCK.ACQUIRE job alice:1 10000000 PERMITS 2", "acquired held by alice:1 1 permit, 2h46m left"),
        ("RLOCK.ACQUIRE job bob:1 9000000 PERMITS 2", "acquired held by bob:1 1 permit, 2h"),
        ("RLOCK.RELEASE job bob:1", "released held by alice:1 1 permit, 2h46m left"),
        ("RLOCK.RELEASE job alice:1", "free free"),
    ];
    shows(&mut Watch::start(&server, &[]), &server, &story);
}

#[test]
fn in_json_each_line_is_an_object() {
    let server = TestServer::start();
    let mut watch = Watch::start(&server, &["--json"]);
    let mut object = || serde_json::from_str::<Value>(&watch.line()).expect("JSON");
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
    let mut watch = Watch::start(&server, &[]);
    assert_eq!(watch.change(), "now free");
    let data = server.kill9();
    let change = watch.change();
    assert!(change.starts_with("unreachable no answer from 127.0.0.1:"), "{change}");
    let server = TestServer::builder().port(port).dir(data).start();
    assert_eq!(watch.change(), "now free");
    ask::<redis::Value>(&mut server.connect(), "RLOCK.ACQUIRE job alice:1 100000");
    assert!(watch.change().starts_with("acquired held by alice:1"));
}
