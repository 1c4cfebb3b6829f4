//! Reading metrics, and an exporter that runs.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;

use rlock_testkit::{TestServer, eventually};
use serde_json::Value;

use super::{Ended, Running, SOON, address, at, start_at, url};

/// Metrics in Prometheus' text format.
#[derive(Debug)]
pub(crate) struct Metrics(pub(crate) String);

impl Metrics {
    /// The value of the sample with exactly this name and these labels, as the text has them.
    pub(crate) fn get(&self, sample: &str) -> Option<f64> {
        let mut values = self.0.lines().filter_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
        values.next().map(|value| value.parse().expect("a number"))
    }

    /// The values of these metrics of a server that have no other label.
    #[track_caller]
    pub(crate) fn of<const N: usize>(&self, server: &TestServer, names: [&str; N]) -> [f64; N] {
        let address = address(server);
        names.map(|name| {
            let sample = format!("{name}{{server=\"{address}\"}}");
            self.get(&sample).unwrap_or_else(|| panic!("no {sample} in {}", self.0))
        })
    }

    /// The servers that have this metric, with its value.
    pub(crate) fn servers(&self, name: &str) -> BTreeSet<(String, String)> {
        let start = format!("{name}{{server=\"");
        let rest = self.0.lines().filter_map(|line| line.strip_prefix(&start));
        rest.filter_map(|rest| rest.split_once("\"} "))
            .map(|(server, value)| (server.to_string(), value.to_string()))
            .collect()
    }

    /// The names of all samples.
    pub(crate) fn names(&self) -> BTreeSet<&str> {
        let samples = self.0.lines().filter(|line| !line.starts_with('#'));
        samples.filter_map(|line| line.split(['{', ' ']).next()).collect()
    }
}

/// What [`Metrics::servers`] is for these.
pub(crate) fn each(servers: &[(&TestServer, &str)]) -> BTreeSet<(String, String)> {
    servers.iter().map(|(server, value)| (address(server), (*value).to_string())).collect()
}

/// What `rlock dashboard` prints.
#[track_caller]
pub(crate) fn dashboard() -> Value {
    let ended = at("", &["dashboard"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{ended:?}");
    serde_json::from_str(&ended.stdout).expect("JSON")
}

/// Runs `rlock metrics` with a URL.
#[track_caller]
pub(crate) fn printed(url: &str, arguments: &[&str]) -> (Ended, Metrics) {
    let ended = at(url, &[&["metrics"], arguments].concat());
    let metrics = Metrics(ended.stdout.clone());
    (ended, metrics)
}

/// `rlock exporter`.
pub(crate) struct Exporter {
    pub(crate) running: Running,
    address: String,
}

/// An answer over HTTP.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Exporter {
    /// Starts one for the servers of this one.
    #[track_caller]
    pub(crate) fn of(server: &TestServer) -> Exporter {
        Exporter::start(&url(server), &[])
    }

    #[track_caller]
    pub(crate) fn start(url: &str, arguments: &[&str]) -> Exporter {
        let running = start_at(url, &[&["exporter", "--listen", "127.0.0.1:0"], arguments].concat());
        let address = eventually("the exporter's address", SOON, || {
            let told = running.told();
            let (_, rest) = told.split_once("serves http")?.1.split_once("://")?;
            Some(rest.split_once("/metrics\n")?.0.to_string())
        });
        Exporter { running, address }
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    #[track_caller]
    pub(crate) fn scrape(&self) -> Metrics {
        let page = self.request("GET", "/metrics", "");
        assert_eq!(page.status, 200, "{page:?}");
        Metrics(page.body)
    }

    /// Sends a request on a connection of its own, with these lines of the header.
    #[track_caller]
    pub(crate) fn request(&self, method: &str, path: &str, lines: &str) -> Page {
        read(send(&self.address, method, path, lines))
    }
}

/// Sends a request of HTTP 1.0: the answer ends with its connection.
#[track_caller]
pub(crate) fn send(address: &str, method: &str, path: &str, lines: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("the server listens");
    stream.set_read_timeout(Some(SOON)).unwrap();
    write!(stream, "{method} {path} HTTP/1.0\r\nHost: {address}\r\n{lines}\r\n").unwrap();
    stream
}

/// Reads an answer to its end.
#[track_caller]
pub(crate) fn read(mut stream: TcpStream) -> Page {
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no header in {text:?}"));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    Page { status, head: head.to_ascii_lowercase(), body: body.to_string() }
}
