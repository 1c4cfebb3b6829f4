//! A real Prometheus, with the alerts, and the queries of the dashboard.

use std::fs;
use std::net::TcpStream;

use rlock_testkit::{DataDir, eventually, free_port};
use serde_json::Value;

use crate::support::metrics::{Exporter, dashboard, read, send};
use crate::support::{Running, SOON, file, program};

/// A Prometheus that scrapes an exporter each second, with the alerts: a minute of theirs is a second here.
pub(crate) struct Prometheus {
    _running: Running,
    address: String,
    _data: DataDir,
}

/// An alert that fires.
pub(crate) struct Alert {
    /// Its name, the lock if it names one, and the server.
    pub(crate) about: [String; 3],
    /// What the operator reads.
    pub(crate) summary: String,
}

/// A query of the dashboard.
pub(crate) struct Query {
    /// The title of its panel.
    pub(crate) panel: String,
    pub(crate) expression: String,
    /// What names the samples in the panel: `{{key}} on {{server}}`.
    legend: String,
}

impl Prometheus {
    pub(crate) fn of(exporter: &Exporter) -> Prometheus {
        let data = DataDir::temporary();
        let configuration = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\n\
             rule_files: [rlock.rules.yml]\n\
             scrape_configs: [{{job_name: rlock, static_configs: [{{targets: ['{}']}}]}}]\n",
            exporter.address()
        );
        fs::write(data.path().join("prometheus.yml"), configuration).unwrap();
        let rules = sixty_times_faster(&file("packaging/prometheus/rlock.rules.yml"));
        fs::write(data.path().join("rlock.rules.yml"), rules).unwrap();
        let address = format!("127.0.0.1:{}", free_port());
        let mut command =
            program(&["prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=data"]);
        command.current_dir(data.path()).arg(format!("--web.listen-address={address}"));
        let running = Running::start(command);
        let prometheus = Prometheus { _running: running, address, _data: data };
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

    /// The samples that an expression finds: their labels and their values.
    #[track_caller]
    pub(crate) fn ask(&self, expression: &str) -> Vec<(Value, f64)> {
        let encoded: String = expression.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let data = self.api(&format!("query?query={encoded}"));
        let samples = data["result"].as_array().unwrap_or_else(|| panic!("{expression}: {data}"));
        let value = |sample: &Value| sample["value"][1].as_str().unwrap().parse().unwrap();
        samples.iter().map(|sample| (sample["metric"].clone(), value(sample))).collect()
    }

    /// What a panel of the dashboard shows: names and values.
    #[track_caller]
    pub(crate) fn panel(&self, title: &str) -> Vec<(String, f64)> {
        let queries = queries();
        let shown: Vec<_> = queries.iter().filter(|query| query.panel == title).collect();
        assert!(!shown.is_empty(), "no panel {title:?}");
        let samples = |query: &&Query| -> Vec<(String, f64)> {
            let samples = self.ask(&query.expression).into_iter();
            samples.map(|(labels, value)| (query.named(&labels), value)).collect()
        };
        shown.iter().flat_map(samples).collect()
    }

    /// The alerts that fire.
    #[track_caller]
    pub(crate) fn alerts(&self) -> Vec<Alert> {
        let data = self.api("alerts");
        let firing = data["alerts"].as_array().unwrap().iter().filter(|alert| alert["state"] == "firing");
        let alert = |alert: &Value| {
            let label = |name: &str| alert["labels"][name].as_str().unwrap_or_default().to_string();
            Alert {
                about: ["alertname", "key", "server"].map(label),
                summary: alert["annotations"]["summary"].as_str().unwrap_or_default().to_string(),
            }
        };
        firing.map(alert).collect()
    }

    /// The rules that Prometheus could not evaluate.
    pub(crate) fn broken_rules(&self) -> Vec<Value> {
        let data = self.api("rules");
        let groups = data["groups"].as_array().unwrap().iter();
        let rules = groups.flat_map(|group| group["rules"].as_array().unwrap());
        rules.filter(|rule| rule["health"] != "ok").cloned().collect()
    }
}

/// The rules with seconds in place of minutes, so that a test lives to see the alerts fire.
fn sixty_times_faster(rules: &str) -> String {
    let times = [("1m", "1s"), ("5m", "5s"), ("10m", "10s"), ("15m", "15s"), ("1h", "60s"), ("1d", "1440s")];
    let mut faster = rules.replace("longest_wait_seconds > 300", "longest_wait_seconds > 5");
    for (slow, fast) in times {
        for (before, after) in
            [("[", "]"), ("for: ", "\n"), ("offset ", "]"), ("offset ", ")"), ("offset ", "\n")]
        {
            faster = faster.replace(&format!("{before}{slow}{after}"), &format!("{before}{fast}{after}"));
        }
    }
    for line in faster.lines() {
        let slow = ["m]", "h]", "d]", "m)"].iter().any(|end| line.contains(end)) || line.ends_with("0m");
        assert!(!slow, "a time that this test does not know: {line}");
    }
    faster
}

/// The queries of the dashboard, for a Prometheus that scrapes each second.
pub(crate) fn queries() -> Vec<Query> {
    let dashboard = dashboard();
    let mut queries = Vec::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let word = |value: &Value| value.as_str().unwrap().to_string();
            let expression = word(&target["expr"]).replace("$__rate_interval", "5s");
            let expression = expression.replace("$instance", ".*").replace("$server", ".*");
            let (panel, legend) = (word(&panel["title"]), word(&target["legendFormat"]));
            queries.push(Query { panel, expression, legend });
        }
    }
    queries
}

impl Query {
    /// The name of a sample in the panel; a table shows all labels but the exporter's.
    #[track_caller]
    fn named(&self, labels: &Value) -> String {
        let labels = labels.as_object().unwrap();
        if self.legend.is_empty() {
            let shown = labels.iter().filter(|(name, _)| !["instance", "job"].contains(&name.as_str()));
            return shown.map(|(_, value)| value.as_str().unwrap()).collect::<Vec<_>>().join(" ");
        }
        let mut name = self.legend.clone();
        for (label, value) in labels {
            name = name.replace(&format!("{{{{{label}}}}}"), value.as_str().unwrap());
        }
        assert!(!name.contains("{{"), "{}: {} for {labels:?}", self.panel, self.legend);
        name
    }
}
