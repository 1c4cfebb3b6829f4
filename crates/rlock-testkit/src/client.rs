//! Connections to a server.

use std::collections::HashMap;
use std::time::Duration;

use redis::{Client, Connection, ConnectionAddr, IntoConnectionInfo, ProtocolVersion, RedisConnectionInfo};

use crate::frame::Frame;
use crate::server::TestServer;
use crate::wait::patient;
use crate::wire::Wire;

/// How long a connection waits for the server to take or to answer a command.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(10);

impl TestServer {
    /// Opens a connection (RESP2, timeouts of 10 seconds), with `requirepass` where configured.
    #[must_use]
    #[track_caller]
    pub fn connect(&self) -> Connection {
        self.connect_with(self.settings(ProtocolVersion::RESP2))
    }

    /// Like [`TestServer::connect`], in RESP3.
    #[must_use]
    #[track_caller]
    pub fn connect_resp3(&self) -> Connection {
        self.connect_with(self.settings(ProtocolVersion::RESP3))
    }

    /// Opens a RESP2 connection as an ACL user.
    #[must_use]
    #[track_caller]
    pub fn connect_as(&self, user: &str, password: &str) -> Connection {
        let settings = self.settings(ProtocolVersion::RESP2);
        self.connect_with(settings.set_username(user).set_password(password))
    }

    /// Opens a connection with the client library's own settings, for what the others lack.
    #[must_use]
    #[track_caller]
    pub fn connect_with(&self, settings: RedisConnectionInfo) -> Connection {
        let address = ConnectionAddr::Tcp("127.0.0.1".into(), self.port());
        let connection = address
            .into_connection_info()
            .and_then(|info| Client::open(info.set_redis_settings(settings)))
            .and_then(|client| client.get_connection_with_timeout(CLIENT_TIMEOUT))
            .and_then(|connection| {
                connection.set_read_timeout(Some(patient(CLIENT_TIMEOUT)))?;
                connection.set_write_timeout(Some(CLIENT_TIMEOUT))?;
                Ok(connection)
            });
        connection
            .unwrap_or_else(|error| panic!("cannot connect to the server on port {}: {error}", self.port()))
    }

    fn settings(&self, protocol: ProtocolVersion) -> RedisConnectionInfo {
        // Without CLIENT SETINFO a connection sends nothing but what the test asks for.
        let settings = RedisConnectionInfo::default().set_protocol(protocol).set_skip_set_lib_name();
        match &self.password {
            Some(password) => settings.set_password(password),
            None => settings,
        }
    }

    /// The fields of a section of `INFO`, values verbatim.
    #[must_use]
    #[track_caller]
    pub fn info(&self, section: &str) -> HashMap<String, String> {
        let text: String = redis::cmd("INFO")
            .arg(section)
            .query(&mut self.connect())
            .unwrap_or_else(|error| panic!("INFO {section}: {error}"));
        info_fields(&text)
    }

    /// A bare connection, authenticated with `requirepass` where configured.
    pub(crate) fn wire(&self) -> Wire {
        let mut wire = Wire::connect(self.port(), CLIENT_TIMEOUT)
            .unwrap_or_else(|error| panic!("cannot connect to port {}: {error}", self.port()));
        if let Some(password) = &self.password {
            wire.ask(&["AUTH", password], CLIENT_TIMEOUT);
        }
        wire
    }
}

/// Whether a server on a port answers and has loaded its data: its process id, if it tells it without a password.
pub(crate) fn ready(port: u16) -> Option<Option<u32>> {
    let within = Duration::from_secs(1);
    let mut wire = Wire::connect(port, within).ok()?;
    wire.send(&["INFO"]).ok()?;
    let Frame::Text(text) = wire.frame(within).ok()?? else {
        // A refusal comes from a server that is ready to refuse.
        return Some(None);
    };
    let fields = info_fields(&String::from_utf8_lossy(&text));
    let is_loading = fields.get("loading").is_some_and(|loading| loading != "0");
    (!is_loading).then(|| fields.get("process_id").and_then(|id| id.parse().ok()))
}

fn info_fields(text: &str) -> HashMap<String, String> {
    let fields = text.lines().filter(|line| !line.starts_with('#'));
    let fields = fields.filter_map(|line| line.split_once(':'));
    fields.map(|(name, value)| (name.to_string(), value.to_string())).collect()
}
