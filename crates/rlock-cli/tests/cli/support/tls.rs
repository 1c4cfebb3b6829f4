//! Servers with TLS.

use rlock_testkit::{TestServer, certificates, tls_server};

use super::Files;

/// A server with TLS on a port of its own, with a certificate for `localhost` of the authority in `ca.crt`; whether it
/// asks for certificates of clients is `auth_clients`.
#[track_caller]
pub(crate) fn server(files: &Files, auth_clients: &str) -> (TestServer, u16) {
    server_for("2", files, auth_clients)
}

/// As [`server`], with a certificate for this number of days: with 0 it expires at once.
#[track_caller]
pub(crate) fn server_for(days: &str, files: &Files, auth_clients: &str) -> (TestServer, u16) {
    certificates(files.dir(), &[("DAYS", days), ("NAMES", "DNS:localhost")]);
    tls_server(TestServer::builder().conf("tls-auth-clients", auth_clients), files.dir())
}
