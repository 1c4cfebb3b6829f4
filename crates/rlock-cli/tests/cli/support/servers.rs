//! Servers that belong together.

use rlock_testkit::{
    ServerBuilder, TestServer, certificates, eventually, tls_server, wait_for_replicas_in_sync,
};

use super::{Files, SOON, address, ask};

pub(crate) fn replica_of(primary: &TestServer) -> ServerBuilder {
    TestServer::builder().conf("replicaof", format!("127.0.0.1 {}", primary.port()))
}

/// A replica that has its primary's data.
#[track_caller]
pub(crate) fn replica(primary: &TestServer) -> TestServer {
    in_sync(primary, replica_of(primary))
}

/// As [`replica`], without the module.
#[track_caller]
pub(crate) fn replica_without_module(primary: &TestServer) -> TestServer {
    in_sync(primary, replica_of(primary).without_module())
}

/// As [`replica_without_module`], one that is never promoted.
#[track_caller]
pub(crate) fn replica_for_ever(primary: &TestServer) -> TestServer {
    in_sync(primary, replica_of(primary).without_module().conf("replica-priority", 0))
}

#[track_caller]
fn in_sync(primary: &TestServer, replica: ServerBuilder) -> TestServer {
    let replica = replica.start();
    wait_for_replicas_in_sync(primary, &replica);
    replica
}

/// A Sentinel that watches the primary as `app`, and takes it for dead after this time in ms.
#[track_caller]
pub(crate) fn sentinel(primary: &TestServer, quorum: u8, dead_after: u32) -> TestServer {
    TestServer::builder()
        .sentinel()
        .conf("sentinel", format!("monitor app 127.0.0.1 {} {quorum}", primary.port()))
        .conf("sentinel", format!("down-after-milliseconds app {dead_after}"))
        .start()
}

/// A Sentinel that does nothing.
#[track_caller]
pub(crate) fn quiet_sentinel(primary: &TestServer) -> TestServer {
    sentinel(primary, 1, 300_000)
}

/// Waits until a Sentinel knows the replica of `app`.
#[track_caller]
pub(crate) fn await_replica(sentinel: &TestServer) {
    eventually("the Sentinel to know the replica", SOON, || {
        let replicas: Vec<redis::Value> = ask(&mut sentinel.connect(), "SENTINEL REPLICAS app");
        (replicas.len() == 1).then_some(())
    });
}

/// The URL of what the Sentinels watch.
pub(crate) fn url_by(sentinels: &[&TestServer]) -> String {
    let hosts: Vec<_> = sentinels.iter().map(|sentinel| address(sentinel)).collect();
    format!("redis+sentinel://{}/app", hosts.join(","))
}

/// A server with TLS on a port of its own, with a certificate for `localhost` of the authority in `ca.crt`, which is valid for this
/// number of days: with 0 it expires at once. Whether it asks for certificates of clients is `auth_clients`.
#[track_caller]
pub(crate) fn with_tls(files: &Files, days: &str, auth_clients: &str) -> (TestServer, u16) {
    certificates(files.dir(), &[("DAYS", days), ("NAMES", "DNS:localhost")]);
    tls_server(TestServer::builder().conf("tls-auth-clients", auth_clients), files.dir())
}
