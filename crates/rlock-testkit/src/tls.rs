//! Certificates, and servers with TLS.

use std::path::Path;
use std::process::Command;

use crate::{ServerBuilder, TestServer, free_port};

/// Makes ca.crt, and certificates with their keys of a server and a client; the variables are those of scripts/certificates.sh.
#[track_caller]
pub fn certificates(folder: &Path, variables: &[(&str, &str)]) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/certificates.sh");
    let made = Command::new("sh").arg(script).arg(folder).envs(variables.iter().copied()).output();
    let made = made.expect("sh");
    assert!(made.status.success(), "{script}: {}", String::from_utf8_lossy(&made.stderr));
}

/// Starts a server with the certificates of this folder; with its port for TLS.
#[track_caller]
pub fn tls_server(builder: ServerBuilder, folder: &Path) -> (TestServer, u16) {
    let file = |name: &str| folder.join(name).to_str().expect("a path in UTF-8").to_string();
    let port = free_port();
    let builder = builder
        .conf_words("tls-ca-cert-file", &[&file("ca.crt")])
        .conf_words("tls-cert-file", &[&file("server.crt")])
        .conf_words("tls-key-file", &[&file("server.key")]);
    (builder.conf("tls-port", port).start(), port)
}
