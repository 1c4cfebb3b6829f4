//! URLs of servers.

use std::sync::Arc;

use crate::cluster::Cluster;
use crate::error::Error;
use crate::link::{RedisConnector, SentinelConnector, Template, Tls};
use crate::router::{Links, Node, Router};

/// The forms of a URL.
const FORMS: &str = "write redis://[user:password@]host[:port][/database], rediss://… with the feature `tls`, \
                     redis+sentinel://[user:password@]host:port,host:port/service[/database], \
                     or redis+cluster://[user:password@]host:port,host:port";

/// The port of servers that name none.
const PORT: u16 = 6379;

/// The port of sentinels that name none.
const SENTINEL_PORT: u16 = 26379;

/// What a URL names.
pub(crate) enum Endpoint {
    /// One server.
    Server(RedisConnector),
    /// The primary that sentinels know.
    Sentinel(SentinelConnector),
    /// The servers of a cluster: some of their addresses, and how to connect to any.
    Cluster(Vec<String>, Template),
}

impl Endpoint {
    /// Reads a URL.
    pub(crate) fn parse(url: &str, tls: &Tls) -> Result<Endpoint, Error> {
        if let Some(parts) = Several::split(url, "sentinel")? {
            return parts.sentinel(tls).map(Endpoint::Sentinel);
        }
        match Several::split(url, "cluster")? {
            Some(parts) => parts.cluster(tls),
            None => RedisConnector::open(url, tls).map(Endpoint::Server),
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
            Self::Cluster(seeds, template) => Router::Cluster(Cluster::start(seeds, template, links)),
        }
    }
}

/// What a URL leads to: hosts and database, the same text however one connects and signs on there.
pub(crate) fn destination(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let hosts = authority.rsplit_once('@').map_or(authority, |(_, hosts)| hosts).to_ascii_lowercase();
    let port = if scheme.ends_with("sentinel") { SENTINEL_PORT } else { PORT };
    let mut hosts: Vec<String> = hosts.split(',').map(|host| with_port(host, port)).collect();
    hosts.sort_unstable();
    let path = path.trim_matches('/');
    // The database that is used where none is named.
    let path = path.strip_suffix("/0").unwrap_or(if path == "0" { "" } else { path });
    format!("{}/{path}", hosts.join(","))
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

    fn sentinel(self, tls: &Tls) -> Result<SentinelConnector, Error> {
        let mut path = self.path.into_iter();
        let service =
            path.next().ok_or_else(|| Error::invalid(format!("the service is missing: {FORMS}")))?;
        let database = path.next().map(|database| format!("/{database}")).unwrap_or_default();
        let open = |host: &String| {
            RedisConnector::open(&format!("{}://{}", self.scheme, with_port(host, SENTINEL_PORT)), tls)
        };
        let sentinels = self.hosts.iter().map(open).collect::<Result<Vec<_>, _>>()?;
        let primary = template(self.scheme, self.user, database, tls);
        // A bad user or database shows now, not at the first connection.
        primary("localhost:6379")?;
        Ok(SentinelConnector::new(sentinels, service, primary))
    }

    fn cluster(self, tls: &Tls) -> Result<Endpoint, Error> {
        let mut path = self.path.into_iter();
        let database = path.next().map(|database| format!("/{database}")).unwrap_or_default();
        let seeds: Vec<_> = self.hosts.iter().map(|host| with_port(host, PORT)).collect();
        let template = template(self.scheme, self.user, database, tls);
        seeds.iter().try_for_each(|seed| template(seed).map(|_| ()))?;
        Ok(Endpoint::Cluster(seeds, template))
    }
}

/// Connectors for servers that differ in their addresses only.
fn template(scheme: String, user: String, path: String, tls: &Tls) -> Template {
    let tls = tls.clone();
    Box::new(move |address| RedisConnector::open(&format!("{scheme}://{user}{address}{path}"), &tls))
}

/// `host:port`, with this port where none is given.
fn with_port(host: &str, port: u16) -> String {
    if has_port(host) { host.to_string() } else { format!("{host}:{port}") }
}

/// Whether a host, perhaps an IPv6 address in brackets, is followed by a port.
fn has_port(host: &str) -> bool {
    host.rsplit_once(']').map_or(host, |(_, rest)| rest).contains(':')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<Endpoint, Error> {
        Endpoint::parse(url, &Tls::default())
    }

    #[test]
    fn urls_name_servers_or_sentinels() {
        assert!(matches!(parse("redis://localhost"), Ok(Endpoint::Server(_))));
        let url = "redis+sentinel://app:se%40cret@one,two:5000,[::1]/mymaster/3";
        let Ok(Endpoint::Sentinel(connector)) = parse(url) else { panic!("not read: {url}") };
        let addresses: Vec<_> = connector.sentinels.iter().map(|one| one.info().addr().to_string()).collect();
        assert_eq!(addresses, ["one:26379", "two:5000", "::1:26379"]);
        assert_eq!(connector.service, "mymaster");
        let primary = (connector.primary)("10.0.0.1:6380").unwrap();
        let settings = primary.info().redis_settings();
        assert_eq!((settings.username(), settings.password()), (Some("app"), Some("se@cret")));
        assert_eq!((settings.db(), primary.info().addr().to_string()), (3, "10.0.0.1:6380".into()));
    }

    #[test]
    fn urls_name_clusters() {
        let Ok(Endpoint::Cluster(seeds, template)) = parse("redis+cluster://app:pw@one,two:7,[::1]") else {
            panic!("not read")
        };
        assert_eq!(seeds, ["one:6379", "two:7", "[::1]:6379"]);
        let settings = template("three:8").unwrap().info().redis_settings().clone();
        assert_eq!((settings.username(), settings.password(), settings.db()), (Some("app"), Some("pw"), 0));
    }

    #[test]
    fn destinations_are_hosts_and_databases() {
        let same = [
            ["redis://Localhost", "rediss://me:pw@localhost:6379/0"],
            ["redis://one:1/3", "redis://one:1/3?protocol=resp3"],
            ["redis+sentinel://one,two:1/name", "redis+sentinel://me:pw@two:1,one:26379/name/0"],
            ["redis+cluster://[::1],one:1", "redis+cluster://one:1,[::1]:6379/"],
        ];
        for [one, other] in same {
            assert_eq!(destination(one), destination(other));
        }
        let apart = [
            ["redis://one", "redis://two"],
            ["redis://one:1", "redis://one:2"],
            ["redis://one/1", "redis://one/2"],
            ["redis://one/1", "redis://one"],
            ["redis+sentinel://one/name", "redis+sentinel://one/other"],
        ];
        for [one, other] in apart {
            assert_ne!(destination(one), destination(other));
        }
    }

    #[test]
    fn bad_urls_are_told() {
        let sentinels = ["redis+sentinel://one", "redis+sentinel://one/name/x"];
        let clusters = ["redis+cluster://", "redis+cluster://one,", "redis+cluster://one:x"];
        for url in ["localhost", "http://localhost"].into_iter().chain(sentinels).chain(clusters) {
            assert!(matches!(parse(url), Err(Error::Invalid { .. })), "{url}");
        }
    }
}
