//! URLs of servers.

use std::sync::Arc;

use crate::error::Error;
use crate::link::{RedisConnector, SentinelConnector};
use crate::router::{Links, Node, Router};

/// The forms of a URL.
const FORMS: &str = "write redis://[user:password@]host[:port][/database], rediss://… with the feature `tls`, \
                     or redis+sentinel://[user:password@]host:port,host:port/service[/database]";

/// The port of sentinels that name none.
const SENTINEL_PORT: u16 = 26379;

/// What a URL names.
pub(crate) enum Endpoint {
    /// One server.
    Server(RedisConnector),
    /// The primary that sentinels know.
    Sentinel(SentinelConnector),
}

impl Endpoint {
    /// Reads a URL.
    pub(crate) fn parse(url: &str) -> Result<Endpoint, Error> {
        match Several::split(url, "sentinel")? {
            Some(parts) => parts.sentinel().map(Endpoint::Sentinel),
            None => RedisConnector::open(url).map(Endpoint::Server),
        }
    }

    /// Starts the links.
    pub(crate) fn route(self, links: Links) -> Router {
        match self {
            Self::Server(connector) => {
                Router::One { node: Arc::new(Node::new(Arc::new(connector), links)), follows: false }
            }
            Self::Sentinel(connector) => {
                Router::One { node: Arc::new(Node::new(Arc::new(connector), links)), follows: true }
            }
        }
    }
}

/// The parts of a URL that names several hosts.
struct Several {
    /// `redis` or `rediss`.
    scheme: String,
    /// `user:password@`, or nothing.
    user: String,
    hosts: Vec<String>,
    path: Vec<String>,
}

impl Several {
    /// Splits `redis+kind://…`; `None` for a URL of another kind.
    fn split(url: &str, kind: &str) -> Result<Option<Several>, Error> {
        let Some((scheme, rest)) = url.split_once("://") else {
            return Err(Error::invalid(format!("not the URL of a server: {FORMS}")));
        };
        let Some(scheme) = scheme.strip_suffix(kind).and_then(|scheme| scheme.strip_suffix('+')) else {
            return Ok(None);
        };
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, hosts) = match authority.rsplit_once('@') {
            Some((user, hosts)) => (format!("{user}@"), hosts),
            None => (String::new(), authority),
        };
        Ok(Some(Several {
            scheme: scheme.to_string(),
            user,
            hosts: hosts.split(',').map(str::to_string).collect(),
            path: path.split('/').filter(|part| !part.is_empty()).map(str::to_string).collect(),
        }))
    }

    fn sentinel(self) -> Result<SentinelConnector, Error> {
        let mut path = self.path.into_iter();
        let service =
            path.next().ok_or_else(|| Error::invalid(format!("the service is missing: {FORMS}")))?;
        let database = path.next().map(|database| format!("/{database}")).unwrap_or_default();
        let open = |host: &String| {
            let port = if has_port(host) { String::new() } else { format!(":{SENTINEL_PORT}") };
            RedisConnector::open(&format!("{}://{host}{port}", self.scheme))
        };
        let sentinels = self.hosts.iter().map(open).collect::<Result<Vec<_>, _>>()?;
        let (scheme, user) = (self.scheme, self.user);
        let primary =
            move |address: &str| RedisConnector::open(&format!("{scheme}://{user}{address}{database}"));
        // A bad user or database shows now, not at the first connection.
        primary("localhost:6379")?;
        Ok(SentinelConnector { sentinels, service, primary: Box::new(primary) })
    }
}

/// Whether a host, perhaps an IPv6 address in brackets, is followed by a port.
fn has_port(host: &str) -> bool {
    host.rsplit_once(']').map_or(host, |(_, rest)| rest).contains(':')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_servers_or_sentinels() {
        assert!(matches!(Endpoint::parse("redis://localhost"), Ok(Endpoint::Server(_))));
        let url = "redis+sentinel://app:se%40cret@one,two:5000,[::1]/mymaster/3";
        let Ok(Endpoint::Sentinel(connector)) = Endpoint::parse(url) else { panic!("not read: {url}") };
        let addresses: Vec<_> = connector.sentinels.iter().map(|one| one.info().addr().to_string()).collect();
        assert_eq!(addresses, ["one:26379", "two:5000", "::1:26379"]);
        assert_eq!(connector.service, "mymaster");
        let primary = (connector.primary)("10.0.0.1:6380").unwrap();
        let settings = primary.info().redis_settings();
        assert_eq!((settings.username(), settings.password()), (Some("app"), Some("se@cret")));
        assert_eq!((settings.db(), primary.info().addr().to_string()), (3, "10.0.0.1:6380".into()));
    }

    #[test]
    fn bad_urls_are_told() {
        for url in ["localhost", "http://localhost", "redis+sentinel://one", "redis+sentinel://one/name/x"] {
            assert!(matches!(Endpoint::parse(url), Err(Error::Invalid { .. })), "{url}");
        }
    }
}
