//! URLs of servers.

use std::sync::{Arc, Weak};

use crate::cluster::Cluster;
use crate::error::Error;
use crate::link::{Links, Login, RedisConnector, SentinelConnector, Service, Template};
use crate::node::{Node, Watch};
use crate::router::Router;

/// The forms of a URL.
const FORMS: &str = "write redis://[user:password@]host[:port][/database], rediss://… with the feature `tls`, \
                     redis+sentinel://[user:password@]host:port,host:port/service[/database][?sentinel_password=…], \
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
    Sentinel(Service),
    /// The servers of a cluster: some of their addresses, and how to connect to any.
    Cluster(Vec<String>, Template),
}

impl Endpoint {
    /// Reads a URL.
    pub(crate) fn parse(url: &str, login: &Login) -> Result<Endpoint, Error> {
        if cfg!(not(feature = "tls")) && url.starts_with("rediss") {
            let message = "this build has no TLS: enable the feature `tls` of rlock-client".into();
            return Err(Error::Unsupported { message });
        }
        if let Some(parts) = Several::split(url, "sentinel")? {
            return parts.sentinel(login).map(Endpoint::Sentinel);
        }
        match Several::split(url, "cluster")? {
            Some(parts) => parts.cluster(login),
            None => RedisConnector::open(url, login).map(Endpoint::of_server),
        }
    }

    /// One server, which must be a primary.
    pub(crate) fn of_server(connector: RedisConnector) -> Endpoint {
        Endpoint::Server(connector.of_a_primary())
    }

    /// Starts the links.
    pub(crate) fn route(self, links: Links, watch: Weak<dyn Watch>) -> Router {
        match self {
            Self::Server(connector) => Router::One(Node::new(Arc::new(connector), links, watch)),
            Self::Sentinel(service) => {
                let connector = SentinelConnector::start(service, links.clone());
                Router::One(Node::new(Arc::new(connector), links, watch))
            }
            Self::Cluster(seeds, template) => Router::Cluster(Cluster::start(seeds, template, links, watch)),
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
    /// What follows a question mark, without it.
    query: Vec<String>,
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
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let parts = |text: &str, by: char| {
            text.split(by).filter(|part| !part.is_empty()).map(str::to_string).collect()
        };
        let (user, hosts) = match authority.rsplit_once('@') {
            Some((user, hosts)) => (format!("{user}@"), hosts),
            None => (String::new(), authority),
        };
        Ok(Some(Several {
            scheme: scheme.to_string(),
            user,
            hosts: hosts.split(',').map(str::to_string).collect(),
            path: parts(path, '/'),
            query: parts(query, '&'),
        }))
    }

    fn sentinel(mut self, login: &Login) -> Result<Service, Error> {
        let user = self.sentinels_login();
        let settings = self.settings();
        let mut path = self.path.into_iter();
        let name = path.next().ok_or_else(|| Error::invalid(format!("the service is missing: {FORMS}")))?;
        let database = path.next().map(|database| format!("/{database}")).unwrap_or_default() + &settings;
        let sentinel = template(self.scheme.clone(), user, String::new(), login);
        let sentinels: Vec<_> = self.hosts.iter().map(|host| with_port(host, SENTINEL_PORT)).collect();
        sentinels.iter().try_for_each(|host| sentinel(host).map(|_| ()))?;
        let primary = template(self.scheme, self.user, database, login);
        // A bad user or database shows now, not at the first connection.
        primary("localhost:6379")?;
        Ok(Service { name, sentinels, sentinel, primary })
    }

    /// Takes the user and the password of the sentinels out: `user:password@`, or nothing.
    fn sentinels_login(&mut self) -> String {
        let mut take = |name: &str| {
            let is_it = |part: &mut String| part.split_once('=').is_some_and(|(word, _)| word == name);
            let taken: Vec<String> = self.query.extract_if(.., is_it).collect();
            taken.last().and_then(|part| part.split_once('=')).map(|(_, value)| encoded(value))
        };
        match (take("sentinel_username"), take("sentinel_password")) {
            (None, None) => String::new(),
            (user, password) => format!("{}:{}@", user.unwrap_or_default(), password.unwrap_or_default()),
        }
    }

    /// The other settings of the driver, as the end of a URL.
    fn settings(&self) -> String {
        if self.query.is_empty() { String::new() } else { format!("?{}", self.query.join("&")) }
    }

    fn cluster(self, login: &Login) -> Result<Endpoint, Error> {
        let settings = self.settings();
        let mut path = self.path.into_iter();
        let database = path.next().map(|database| format!("/{database}")).unwrap_or_default() + &settings;
        let seeds: Vec<_> = self.hosts.iter().map(|host| with_port(host, PORT)).collect();
        let template = template(self.scheme, self.user, database, login);
        seeds.iter().try_for_each(|seed| template(seed).map(|_| ()))?;
        Ok(Endpoint::Cluster(seeds, template))
    }
}

/// What stood behind a question mark, to stand before an at sign: some characters mean something there.
fn encoded(value: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~%".contains(&byte);
    let encode = |byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    value.bytes().map(encode).collect()
}

/// Connectors for servers that differ in their addresses only.
fn template(scheme: String, user: String, path: String, login: &Login) -> Template {
    let login = login.clone();
    Box::new(move |address| RedisConnector::open(format!("{scheme}://{user}{address}{path}"), &login))
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
        Endpoint::parse(url, &Login::default())
    }

    #[test]
    fn urls_name_servers_or_sentinels() {
        assert!(matches!(parse("redis://localhost"), Ok(Endpoint::Server(_))));
        let url = "redis+sentinel://app:se%40cret@one,two:5000,[::1]/mymaster/3";
        let Ok(Endpoint::Sentinel(service)) = parse(url) else { panic!("not read: {url}") };
        assert_eq!(service.sentinels, ["one:26379", "two:5000", "[::1]:26379"]);
        assert_eq!(service.name, "mymaster");
        let primary = (service.primary)("10.0.0.1:6380").unwrap();
        let settings = primary.info().redis_settings();
        assert_eq!((settings.username(), settings.password()), (Some("app"), Some("se@cret")));
        assert_eq!((settings.db(), primary.info().addr().to_string()), (3, "10.0.0.1:6380".into()));
    }

    #[test]
    fn sentinels_have_a_user_and_a_password_of_their_own() {
        let cases = [
            ("/main", None, None),
            ("/main?sentinel_password=p%40/s:", None, Some("p@/s:")),
            (
                "/main/3?sentinel_username=asker&protocol=resp3&sentinel_password=pw",
                Some("asker"),
                Some("pw"),
            ),
        ];
        for (path, user, password) in cases {
            let url = format!("redis+sentinel://app:secret@one,two{path}");
            let Ok(Endpoint::Sentinel(service)) = parse(&url) else { panic!("not read: {url}") };
            for sentinel in &service.sentinels {
                let sentinel = (service.sentinel)(sentinel).unwrap();
                let settings = sentinel.info().redis_settings();
                assert_eq!((settings.username(), settings.password()), (user, password), "{url}");
            }
            let primary = (service.primary)("three:1").unwrap();
            let settings = primary.info().redis_settings();
            assert_eq!((settings.username(), settings.password()), (Some("app"), Some("secret")), "{url}");
            assert_eq!(service.name, "main");
        }
    }

    #[test]
    fn tls_needs_its_feature() {
        for url in ["rediss://one", "rediss+sentinel://one/main", "rediss+cluster://one"] {
            let outcome = parse(url).map(|_| ());
            assert_eq!(
                matches!(outcome, Err(Error::Unsupported { .. })),
                cfg!(not(feature = "tls")),
                "{url}"
            );
        }
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

    /// The driver's settings name IPv6 addresses without brackets, and hosts as they were typed: one server had two names.
    #[test]
    fn the_drivers_settings_lead_to_the_same_destination() {
        for url in ["redis://LocalHost", "redis://[::1]:7/2", "redis://[FE80::1]", "rediss://u:p@one:8/0"] {
            let connector = RedisConnector::open(url.replace("rediss", "redis"), &Login::default()).unwrap();
            assert_eq!(destination(&connector.url()), destination(url));
        }
    }

    #[test]
    fn bad_urls_are_refused() {
        let sentinels = ["redis+sentinel://one", "redis+sentinel://one/name/x"];
        let clusters = ["redis+cluster://", "redis+cluster://one,", "redis+cluster://one:x"];
        for url in ["localhost", "http://localhost"].into_iter().chain(sentinels).chain(clusters) {
            assert!(matches!(parse(url), Err(Error::Invalid { .. })), "{url}");
        }
    }
}
