//! dflockd's own protocol on one connection: three lines ask, one line answers.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::atomic::AtomicBool;

use super::way::Way;

/// In seconds: a wait without end.
const WAIT: u32 = 86_400;

/// One connection, with which its locks end.
pub(in crate::systems) struct Dflockd {
    stream: BufReader<TcpStream>,
    lease_seconds: u64,
    token: String,
}

impl Dflockd {
    pub(in crate::systems) fn connect(port: u16, lease_ms: &str) -> Dflockd {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port));
        let stream = stream.unwrap_or_else(|error| panic!("port {port}: {error}"));
        stream.set_nodelay(true).expect("TCP_NODELAY");
        let lease: u64 = lease_ms.parse().expect("a lease");
        Dflockd { stream: BufReader::new(stream), lease_seconds: lease / 1_000, token: String::new() }
    }

    /// What follows `ok`.
    fn ask(&mut self, command: &str, key: &str, argument: &str) -> String {
        let request = format!("{command}\n{key}\n{argument}\n");
        self.stream.get_mut().write_all(request.as_bytes()).expect("sending to the server");
        let mut line = String::new();
        self.stream.read_line(&mut line).expect("the server's answer");
        let rest = line.trim_end().strip_prefix("ok");
        rest.unwrap_or_else(|| panic!("{command} {key}: {line:?}")).trim().to_string()
    }
}

impl Way for Dflockd {
    fn acquire(&mut self, key: &str, _leaving: &AtomicBool) -> bool {
        let answer = self.ask("l", key, &format!("{WAIT} {}", self.lease_seconds));
        self.token = answer.split(' ').next().unwrap_or_default().into();
        true
    }

    fn release(&mut self, key: &str) {
        let token = std::mem::take(&mut self.token);
        self.ask("r", key, &token);
    }

    fn waiting(&mut self, key: &str) -> usize {
        let stats = self.ask("stats", "_", "_");
        waiters(&stats, key).unwrap_or(0)
    }
}

/// Of a held lock.
fn waiters(stats: &str, key: &str) -> Option<usize> {
    let stats: serde_json::Value = serde_json::from_str(stats).expect("JSON");
    let lock = stats["locks"].as_array()?.iter().find(|lock| lock["key"] == key)?;
    lock["waiters"].as_u64()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_waiters_are_those_of_the_lock() {
        let stats =
            r#"{"locks":[{"key":"a","waiters":1},{"key":"b","waiters":7}],"idle_locks":[{"key":"c"}]}"#;
        assert_eq!(["a", "b", "c"].map(|key| waiters(stats, key)), [Some(1), Some(7), None]);
    }
}
