//! The protocol that a server speaks in place of the one that its URL names.

use super::probe::{self, Heard};
use super::target::Target;
use crate::error::Error;

/// The server of a URL that speaks another protocol; `None` where it does not, or does not reveal it.
pub(super) fn wrong_protocol(target: &Target) -> Option<Error> {
    let address = target.address();
    match (probe::hear(target), target.is_encrypted()) {
        (Heard::Encrypted, false) => Some(Error::Mismatch {
            what: format!("{address} accepts TLS connections only"),
            advice: "write rediss:// in place of redis://".to_string(),
        }),
        (Heard::Server(_), true) => Some(Error::Mismatch {
            what: format!("{address} accepts no TLS connections"),
            advice: "write redis:// in place of rediss://, or the server's TLS port (tls-port)".to_string(),
        }),
        (Heard::Server(reply), false) if reply.starts_with("DENIED") => Some(protected(&address)),
        (Heard::Server(text), false) if text.contains("max number of clients") => {
            Some(Error::Refused { address, text })
        }
        (Heard::Web, _) => Some(not_a_server(&address, "is a web server, not a Redis or Valkey server")),
        (Heard::Other, _) => Some(not_a_server(&address, "is not a Redis or Valkey server")),
        (Heard::Server(_) | Heard::Encrypted | Heard::Nothing, _) => None,
    }
}

/// A server in protected mode.
pub(super) fn protected(address: &str) -> Error {
    Error::Mismatch {
        what: format!("{address} accepts no connections from other machines (protected mode)"),
        advice:
            "set a password for its users (requirepass, or ACL SETUSER), or run rlock on the server's machine"
                .to_string(),
    }
}

/// Something that should be a server.
pub(super) fn not_a_server(address: &str, what: &str) -> Error {
    Error::Mismatch {
        what: format!("{address} {what}"),
        advice: "correct the host and the port in --url or REDIS_URL; the usual port is 6379".to_string(),
    }
}
