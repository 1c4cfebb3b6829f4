//! Servers with TLS.

use std::process::Command;

use rlock_testkit::{TestServer, free_port};

use super::Files;

/// A server with TLS on a port of its own, with a certificate for `localhost` of the authority in `ca.crt`; whether it
/// asks for certificates of clients is `auth_clients`.
#[track_caller]
pub(crate) fn server(files: &Files, auth_clients: &str) -> (TestServer, u16) {
    server_for(2, files, auth_clients)
}

/// As [`server`], with a certificate for this number of days: with 0 it expires at once.
#[track_caller]
pub(crate) fn server_for(days: u32, files: &Files, auth_clients: &str) -> (TestServer, u16) {
    let make = files.script(&format!(
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=authority -keyout ca.key -out ca.crt \
           -addext basicConstraints=critical,CA:TRUE &&
         openssl req -newkey rsa:2048 -nodes -subj /CN=localhost -keyout server.key -out server.csr &&
         printf 'subjectAltName=DNS:localhost' > names &&
         openssl x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days {days} -extfile names \
           -out server.crt",
    ));
    if !files.path("server.crt").exists() {
        let made = Command::new("sh").args(["-c", &make]).output().expect("sh");
        assert!(made.status.success(), "openssl: {}", String::from_utf8_lossy(&made.stderr));
    }
    let port = free_port();
    let server = TestServer::builder()
        .conf("tls-port", port)
        .conf("tls-cert-file", files.path("server.crt").display())
        .conf("tls-key-file", files.path("server.key").display())
        .conf("tls-ca-cert-file", files.path("ca.crt").display())
        .conf("tls-auth-clients", auth_clients)
        .start();
    (server, port)
}
