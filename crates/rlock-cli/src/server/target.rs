//! The servers of a URL, and the login for them.

use std::sync::Arc;
use std::time::Duration;

use redis::{Client, Connection, ConnectionAddr, ConnectionInfo, ProtocolVersion, RedisError};
use rlock_links::{ServerKind, ServerUrl};

use super::certificates::Certificates;
use crate::error::Error;
use crate::names::encoded;

/// Port of a server whose URL names none.
const DEFAULT_PORT: u16 = 6379;

/// What a URL names: a server, Sentinels and what they watch, or a cluster.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// The URL, as the client crate takes it.
    pub(crate) url: String,
    /// Where to begin to look for servers: the first that answers will do.
    pub(crate) starts: Vec<Target>,
    /// What these servers are, by the URL.
    pub(crate) kind: ServerKind,
    pub(super) certificates: Arc<Certificates>,
}

/// Host and port.
pub(super) type Address = (String, u16);

/// One server, with the user, the password and the database of the URL.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    info: ConnectionInfo,
    /// With the user, the password and the database of the servers that it names.
    peers: ConnectionInfo,
    certificates: Arc<Certificates>,
}

impl Place {
    /// Reads a URL; connections show and check these certificates.
    pub(crate) fn parse(url: &str, certificates: Certificates) -> Result<Place, Error> {
        let read = ServerUrl::parse(url).map_err(|error| Error::Url(error.to_string()))?;
        let certificates = Arc::new(certificates);
        let peers = certificates.on(ready(read.servers()))?;
        let start = |host: &ConnectionInfo| {
            let info = certificates.on(ready(host))?;
            Ok(Target { info, peers: peers.clone(), certificates: certificates.clone() })
        };
        let starts = read.hosts().iter().map(start).collect::<Result<_, Error>>()?;
        Ok(Place { url: url.to_string(), starts, kind: read.kind().clone(), certificates })
    }

    /// One of the servers, as a place of its own.
    pub(crate) fn only(target: Target) -> Place {
        let certificates = target.certificates.clone();
        Place { url: target.url(), starts: vec![target], kind: ServerKind::Server, certificates }
    }

    /// The cluster of which this is a node, by another node.
    pub(crate) fn cluster_by(&self, host: &str, port: u16) -> Option<Place> {
        let start = self.starts.first()?;
        let host = if host.is_empty() { start.host() } else { host };
        Place::only(start.at(host, port)).as_cluster()
    }

    /// The cluster of which this is a node; `None` where that is said already, or cannot be said.
    pub(crate) fn as_cluster(&self) -> Option<Place> {
        let (scheme, _) = self.url.split_once("://")?;
        let url = self.url.replacen("://", "+cluster://", 1);
        ["redis", "rediss", "valkey", "valkeys"].contains(&scheme).then(|| Place {
            url,
            kind: ServerKind::Cluster,
            ..self.clone()
        })
    }

    /// The Sentinels' name for the wanted servers, if the URL names Sentinels.
    pub(crate) fn service(&self) -> Option<&str> {
        self.kind.service()
    }

    /// Whether the URL names one server, and not Sentinels or a cluster.
    pub(crate) fn is_one_server(&self) -> bool {
        self.kind == ServerKind::Server
    }

    /// The servers and the database, the same text for every user.
    pub(crate) fn identity(&self) -> String {
        let mut addresses: Vec<String> = self.starts.iter().map(Target::address).collect();
        addresses.sort_unstable();
        let database = self.starts.first().map_or(0, Target::database);
        format!("{}/{}/{database}", addresses.join(","), self.service().unwrap_or_default())
    }

    /// Hosts and ports, or the socket's path: never the password.
    pub(crate) fn address(&self) -> String {
        self.starts.iter().map(Target::address).collect::<Vec<_>>().join(", ")
    }
}

impl Target {
    /// Another server, with the same user, password and encryption.
    pub(crate) fn at(&self, host: &str, port: u16) -> Target {
        let address = match self.peers.addr() {
            ConnectionAddr::TcpTls { insecure, tls_params, .. } => ConnectionAddr::TcpTls {
                host: host.to_string(),
                port,
                insecure: *insecure,
                tls_params: tls_params.clone(),
            },
            _ => ConnectionAddr::Tcp(host.to_string(), port),
        };
        let info = self.peers.clone().set_addr(address);
        Target { peers: info.clone(), info, certificates: self.certificates.clone() }
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

    /// The address that connections are made to.
    pub(crate) fn connection_address(&self) -> &ConnectionAddr {
        self.info.addr()
    }

    /// Whether connections are encrypted.
    pub(crate) fn is_encrypted(&self) -> bool {
        matches!(self.info.addr(), ConnectionAddr::TcpTls { .. })
    }

    /// Whether it logs in with a password.
    pub(crate) fn has_password(&self) -> bool {
        self.info.redis_settings().password().is_some()
    }

    /// The database of the servers.
    pub(crate) fn database(&self) -> i64 {
        self.peers.redis_settings().db()
    }

    /// The scheme of URLs with this server's encryption.
    pub(crate) fn scheme(&self) -> &'static str {
        if self.is_encrypted() { "rediss" } else { "redis" }
    }

    /// Connects and logs in.
    pub(crate) fn connect(&self, within: Duration) -> Result<Connection, RedisError> {
        Client::open(self.info.clone())?.get_connection_with_timeout(within)
    }

    /// A URL that names this server.
    fn url(&self) -> String {
        let settings = self.info.redis_settings();
        let login = match (settings.username(), settings.password()) {
            (None, None) => String::new(),
            (user, password) => {
                format!(
                    "{}:{}@",
                    encoded(user.unwrap_or_default().as_bytes()),
                    encoded(password.unwrap_or_default().as_bytes())
                )
            }
        };
        let database = settings.db();
        match self.info.addr() {
            ConnectionAddr::TcpTls { host, port, insecure, .. } => {
                let insecure = if *insecure { "#insecure" } else { "" };
                format!("rediss://{login}{}/{database}{insecure}", joined(host, *port))
            }
            ConnectionAddr::Unix(path) => {
                let login = [("user", settings.username()), ("pass", settings.password())];
                let login = login.map(|(name, value)| {
                    value.map(|value| format!("&{name}={}", encoded(value.as_bytes()))).unwrap_or_default()
                });
                format!("unix://{}?db={database}{}", path.display(), login.concat())
            }
            _ => format!("redis://{login}{}/{database}", self.address()),
        }
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

/// As the client crate connects: the server takes a login by HELLO and one by AUTH differently.
fn ready(info: &ConnectionInfo) -> ConnectionInfo {
    let settings = info.redis_settings().clone().set_skip_set_lib_name().set_protocol(ProtocolVersion::RESP3);
    info.clone().set_redis_settings(settings)
}

#[cfg(test)]
mod tests;
