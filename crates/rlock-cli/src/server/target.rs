//! Which server, and as whom.

use std::time::Duration;

use redis::io::tcp::TcpSettings;
use redis::{Client, Connection, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisError};
use socket2::TcpKeepalive;

use crate::error::Error;

/// Port of a server whose URL names none.
const DEFAULT_PORT: u16 = 6379;

/// A silent connection is probed after this time, and as often: who waits for a lock may wait for hours,
/// and must notice when the machine of the server is gone.
const PROBE: Duration = Duration::from_secs(10);

/// A server's address with the user, the password and the database of the URL.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    info: ConnectionInfo,
}

impl Target {
    /// Reads a URL.
    pub(crate) fn parse(url: &str) -> Result<Target, Error> {
        // The driver's text may repeat the URL, and with it the password.
        let info = url.into_connection_info().map_err(|error| Error::Url(error.category().to_string()))?;
        let keepalive = TcpKeepalive::new().with_time(PROBE).with_interval(PROBE);
        let tcp = TcpSettings::default().set_nodelay(true).set_keepalive(keepalive);
        let settings = info.redis_settings().clone().set_skip_set_lib_name();
        Ok(Target { info: info.set_tcp_settings(tcp).set_redis_settings(settings) })
    }

    /// Another server, with the same user, password and encryption.
    pub(crate) fn at(&self, host: &str, port: u16) -> Target {
        let address = match self.info.addr() {
            ConnectionAddr::TcpTls { insecure, tls_params, .. } => ConnectionAddr::TcpTls {
                host: host.to_string(),
                port,
                insecure: *insecure,
                tls_params: tls_params.clone(),
            },
            _ => ConnectionAddr::Tcp(host.to_string(), port),
        };
        Target { info: self.info.clone().set_addr(address) }
    }

    /// Host and port, or the socket's path: never the password.
    pub(crate) fn address(&self) -> String {
        match self.info.addr() {
            ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
                joined(host, *port)
            }
            ConnectionAddr::Unix(path) => path.display().to_string(),
            _ => "the server".to_string(),
        }
    }

    /// The host of its address, where it has one.
    pub(crate) fn host(&self) -> &str {
        match self.info.addr() {
            ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } => host,
            _ => "",
        }
    }

    /// Connects and logs in.
    pub(crate) fn connect(&self, within: Duration) -> Result<Connection, RedisError> {
        Client::open(self.info.clone())?.get_connection_with_timeout(within)
    }
}

/// `host:port`, with brackets around an address that has colons itself.
pub(crate) fn joined(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// Takes `host:port` apart; a port that is missing is the usual one.
pub(crate) fn parted(address: &str) -> Option<(String, u16)> {
    match address.rsplit_once(':') {
        Some((host, port)) => Some((host.trim_matches(['[', ']']).to_string(), port.parse().ok()?)),
        None => Some((address.to_string(), DEFAULT_PORT)),
    }
}
