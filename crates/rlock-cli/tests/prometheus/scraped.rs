//! The exporter, the alerts and the dashboard with a real Prometheus: `make exporter` runs these.

#[path = "../cli/support/mod.rs"]
mod support;

mod report;
mod server;
mod trial;

use std::io::Write;
use std::process::{Command, Stdio};

use rlock_testkit::TestServer;
use rlock_testkit::waiting::Waiting;
use support::ask;
use support::metrics::Exporter;

#[test]
fn promtool_finds_no_fault_in_the_metrics() {
    let (server, client) = &mut TestServer::builder().start_and_connect();
    ask::<redis::Value>(client, "RLOCK.ACQUIRE lock alice 60000");
    assert_eq!(
        Waiting::start(server, &["RLOCK.ACQUIRE", "lock", "bob", "60000", "BLOCK", "20"]).answer(),
        "null"
    );
    let metrics = Exporter::of(server).scrape();
    assert!(metrics.0.contains("rlock_hot_lock_waits_total"), "all metrics are there");
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool");
    promtool.stdin.take().unwrap().write_all(metrics.0.as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert_eq!((output.status.code(), said.as_str()), (Some(0), ""));
}
