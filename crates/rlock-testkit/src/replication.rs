//! Primaries and replicas.

use std::collections::HashMap;
use std::time::Duration;

use crate::server::TestServer;
use crate::wait::eventually;

/// The time limit for a replica to connect and to catch up.
const SYNC_DEADLINE: Duration = Duration::from_secs(20);

impl TestServer {
    /// Makes this server a replica of `primary` and waits until it is in sync.
    #[track_caller]
    pub fn replicate_from(&self, primary: &TestServer) {
        let mut connection = self.connect();
        let mut run = |words: &[&str]| {
            let outcome = redis::cmd(words[0]).arg(&words[1..]).query::<()>(&mut connection);
            outcome.unwrap_or_else(|error| panic!("{words:?}: {error}"));
        };
        if let Some(password) = &primary.password {
            run(&["CONFIG", "SET", "masterauth", password]);
        }
        run(&["REPLICAOF", "127.0.0.1", &primary.port().to_string()]);
        wait_for_replicas_in_sync(primary, self);
    }
}

/// Waits until `replica` is linked to `primary` and has processed all it had written before, and `primary` knows.
#[track_caller]
pub fn wait_for_replicas_in_sync(primary: &TestServer, replica: &TestServer) {
    let what = "the replica to be linked and in sync";
    eventually(what, SYNC_DEADLINE, || is_in_sync(primary, replica).then_some(()));
}

fn is_in_sync(primary: &TestServer, replica: &TestServer) -> bool {
    // The primary first: its writes between the two queries do not matter.
    let sent = primary.info("replication");
    let received = replica.info("replication");
    let offset =
        |info: &HashMap<String, String>, field: &str| -> Option<i64> { info.get(field)?.parse().ok() };
    let linked = received.get("master_link_status").is_some_and(|status| status == "up")
        && received.get("master_port") == Some(&primary.port().to_string());
    let behind = match (offset(&sent, "master_repl_offset"), offset(&received, "slave_repl_offset")) {
        (Some(sent), Some(received)) => sent - received,
        _ => return false,
    };
    linked && behind <= 0 && is_counted(&sent, replica.port())
}

/// Whether the primary counts the replica: for up to a second after the replica reports its link as up, the primary
/// still takes it for a replica that waits for data, and WAIT does not count it.
fn is_counted(primary: &HashMap<String, String>, replica: u16) -> bool {
    let port = format!(",port={replica},");
    primary.values().any(|value| value.contains(&port) && value.contains(",state=online,"))
}
