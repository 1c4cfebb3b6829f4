//! The exporter, the alerts and the dashboard with a real Prometheus: `make exporter` runs these.

#[path = "../cli/support/mod.rs"]
mod support;

use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rlock_testkit::waiting::Waiting;
use rlock_testkit::{DataDir, TestServer, eventually, free_port};
use serde_json::Value;
use support::metrics::{Exporter, address, read, send};
use support::{SOON, ask};

const PACKAGING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging");

/// A Prometheus that scrapes an exporter each second, with the alerts.
struct Prometheus {
    child: Child,
    address: String,
    _data: DataDir,
}

impl Prometheus {
    fn of(exporter: &Exporter) -> Prometheus {
        let data = DataDir::temporary();
        let configuration = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\n\
             rule_files: [{PACKAGING}/prometheus/rlock.rules.yml]\n\
             scrape_configs: [{{job_name: rlock, static_configs: [{{targets: ['{}']}}]}}]\n",
            exporter.address()
        );
        fs::write(data.path().join("prometheus.yml"), configuration).unwrap();
        let address = format!("127.0.0.1:{}", free_port());
        let child = Command::new("prometheus")
            .current_dir(data.path())
            .args(["--config.file=prometheus.yml", "--storage.tsdb.path=data"])
            .arg(format!("--web.listen-address={address}"))
            .stdout(Stdio::null())
            .stderr(fs::File::create(data.path().join("log")).unwrap())
            .spawn()
            .expect("prometheus");
        let prometheus = Prometheus { child, address, _data: data };
        eventually("Prometheus to be ready", SOON, || {
            TcpStream::connect(&prometheus.address).ok()?;
            (read(send(&prometheus.address, "GET", "/-/ready", "")).status == 200).then_some(())
        });
        prometheus
    }

    /// An answer of its API.
    #[track_caller]
    fn api(&self, path: &str) -> Value {
        let page = read(send(&self.address, "GET", &format!("/api/v1/{path}"), ""));
        let answer: Value =
            serde_json::from_str(&page.body).unwrap_or_else(|error| panic!("{error}: {page:?}"));
        assert_eq!(answer["status"], "success", "{path}: {answer}");
        answer["data"].clone()
    }

    /// The samples that a query finds: their labels and their values.
    #[track_caller]
    fn query(&self, query: &str) -> Vec<(Value, f64)> {
        let encoded: String = query.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let data = self.api(&format!("query?query={encoded}"));
        let samples = data["result"].as_array().unwrap_or_else(|| panic!("{query}: {data}"));
        let value = |sample: &Value| sample["value"][1].as_str().unwrap().parse().unwrap();
        samples.iter().map(|sample| (sample["metric"].clone(), value(sample))).collect()
    }

    /// The alerts that fire, or will if what they watch stays so.
    #[track_caller]
    fn alerts(&self) -> Vec<(String, String)> {
        let data = self.api("alerts");
        let word =
            |alert: &Value, label: &str| alert["labels"][label].as_str().unwrap_or_default().to_string();
        let alerts = data["alerts"].as_array().unwrap().iter();
        alerts.map(|alert| (word(alert, "alertname"), word(alert, "server"))).collect()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The queries of the dashboard with the titles of their panels, for a Prometheus that scrapes each second.
fn queries() -> Vec<(String, String)> {
    let text = fs::read_to_string(Path::new(PACKAGING).join("grafana/rlock.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let mut queries = Vec::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let query = target["expr"].as_str().unwrap().replace("$__rate_interval", "5s");
            let query = query.replace("$instance", ".*").replace("$server", ".*");
            queries.push((panel["title"].as_str().unwrap().to_string(), query));
        }
    }
    queries
}

/// The first query of a panel.
#[track_caller]
fn panel(title: &str) -> String {
    let query = queries().into_iter().find(|(panel, _)| panel == title);
    query.unwrap_or_else(|| panic!("no panel {title:?}")).1
}

/// Three primaries, each with a third of the slots.
fn cluster() -> [TestServer; 3] {
    let node = || TestServer::builder().conf("cluster-enabled", "yes").conf("cluster-node-timeout", 2_000);
    let nodes = [node().start(), node().start(), node().start()];
    for (node, slots) in nodes.iter().zip(["0 5460", "5461 10922", "10923 16383"]) {
        let client = &mut node.connect();
        ask::<String>(client, "CONFIG SET cluster-require-full-coverage no");
        ask::<String>(client, &format!("CLUSTER ADDSLOTSRANGE {slots}"));
        ask::<String>(client, &format!("CLUSTER MEET 127.0.0.1 {}", nodes[0].port()));
    }
    for node in &nodes {
        eventually("the nodes to agree", SOON, || {
            let info: String = ask(&mut node.connect(), "CLUSTER INFO");
            let agreed = ["state:ok", "known_nodes:3", "slots_assigned:16384"];
            agreed.iter().all(|line| info.contains(&format!("cluster_{line}\r"))).then_some(())
        });
    }
    nodes
}

/// A lock, held by `owner:0`, for which others wait.
fn herd(server: &TestServer, lock: &str) -> Vec<Waiting> {
    ask::<redis::Value>(&mut server.connect(), &format!("RLOCK.ACQUIRE {lock} owner:0 600000"));
    let wait = |n| {
        let owner = format!("owner:{n}");
        Waiting::start(server, &["RLOCK.ACQUIRE", lock, &owner, "600000", "BLOCK", "0"])
    };
    (1..=5).map(wait).collect()
}

#[test]
fn promtool_finds_no_fault_in_the_metrics() {
    let server = TestServer::start();
    let client = &mut server.connect();
    ask::<redis::Value>(client, "RLOCK.ACQUIRE lock alice 60000");
    assert_eq!(
        Waiting::start(&server, &["RLOCK.ACQUIRE", "lock", "bob", "60000", "BLOCK", "20"]).answer(),
        "null"
    );
    let metrics = Exporter::of(&server).scrape();
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

/// A cluster of three with a lock that is stuck and a primary that dies: an operator finds both on the dashboard, and the
/// alerts begin, for these servers alone.
#[test]
fn an_operator_finds_what_is_wrong() {
    let [one, two, three] = cluster();
    let exporter = Exporter::start(&format!("redis+cluster://{}", address(&one)));
    let prometheus = Prometheus::of(&exporter);
    let found = |title: &str| prometheus.query(&panel(title));
    let waiters = herd(&one, "stuck");
    let served = herd(&two, "export");
    for n in 0..=served.len() {
        ask::<i64>(&mut two.connect(), &format!("RLOCK.RELEASE export owner:{n}"));
    }

    eventually("the lock that is stuck among the hot locks", SOON, || {
        let hot = found("Waiters by hot lock");
        let (labels, value) = hot.first()?;
        let seen = (labels["key"].as_str()?, labels["server"].as_str()?, *value);
        (seen == ("stuck", &address(&one), waiters.len() as f64)).then_some(())
    });
    let mut empty = Vec::new();
    eventually("an answer to each query of the dashboard", SOON, || {
        empty = queries().into_iter().filter(|(_, query)| prometheus.query(query).is_empty()).collect();
        // Limits are shown once they are near.
        empty.retain(|(_, query)| !query.contains("> 0.5 *") && !query.contains("max_memory"));
        empty.is_empty().then_some(())
    });
    assert_eq!(found("Servers down")[0].1, 0.0);
    let stuck = ("RlockLockStuck".to_string(), address(&one));
    eventually("an alert for the lock that is stuck", SOON, || {
        (prometheus.alerts() == [stuck.clone()]).then_some(())
    });

    let down = ("RlockServerDown".to_string(), address(&three));
    three.kill9();
    eventually("an alert for the primary that is dead", SOON, || {
        let alerts = prometheus.alerts();
        (alerts.contains(&down) && alerts.contains(&stuck) && alerts.len() == 2).then_some(())
    });
    assert_eq!(found("Servers down")[0].1, 1.0);
}
