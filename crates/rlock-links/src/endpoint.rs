//! Servers to connect to.

use std::sync::{Arc, Weak};

use redis::{ConnectionAddr, ConnectionInfo};

use crate::error::Error;
use crate::link::{Links, Login, RedisConnector, SentinelConnector, Service, Template};
use crate::node::Watch;
use crate::router::Router;
use crate::server_url::{Pattern, ServerKind, ServerUrl, Several};

/// The servers that a URL names.
pub struct Endpoint(Servers);

enum Servers {
    /// One server.
    Server(RedisConnector),
    /// The primary that sentinels know.
    Sentinel(Service),
    /// The servers of a cluster: some of their addresses, and how to connect to any.
    Cluster(Vec<String>, Template),
}

impl Endpoint {
    /// Reads a URL.
    ///
    /// # Errors
    ///
    /// Those of [`ServerUrl::parse`], and [`Error::Invalid`] for a bad login.
    pub fn parse(url: &str, login: &Login) -> Result<Endpoint, Error> {
        let url = ServerUrl::parse(url)?;
        let Some(Several { kind, addresses, hosts, servers }) = url.several else {
            return Endpoint::of_server(url.servers(), login);
        };
        Ok(Endpoint(match kind {
            ServerKind::Sentinel(name) => Servers::Sentinel(Service {
                name,
                sentinels: addresses,
                sentinel: template(hosts, login),
                primary: template(servers, login),
            }),
            ServerKind::Server | ServerKind::Cluster => Servers::Cluster(addresses, template(servers, login)),
        }))
    }

    /// One server by the settings of the driver. The server must be a primary.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for settings or a login that the driver does not take.
    pub fn of_server(info: &ConnectionInfo, login: &Login) -> Result<Endpoint, Error> {
        let connector = RedisConnector::open(info.clone(), login)?;
        Ok(Endpoint(Servers::Server(connector.of_a_primary())))
    }

    /// The hosts, the service and the database, as errors show them. The text is the same for all users, with and without TLS.
    pub fn destination(&self) -> String {
        let of_several = |hosts: &[String], template: &Template, service: String| {
            let mut hosts: Vec<_> = hosts.iter().map(|host| host.to_ascii_lowercase()).collect();
            hosts.sort_unstable();
            let database = template("localhost:6379").map_or(0, |server| server.info().redis_settings().db());
            format!("{}{service}/{database}", hosts.join(","))
        };
        let text = match &self.0 {
            Servers::Server(server) if matches!(server.info().addr(), ConnectionAddr::Unix(_)) => {
                server.url()
            }
            Servers::Server(server) => server.url().to_ascii_lowercase(),
            Servers::Sentinel(service) => {
                of_several(&service.sentinels, &service.primary, format!("/{}", service.name))
            }
            Servers::Cluster(seeds, template) => of_several(seeds, template, String::new()),
        };
        let text = text.strip_prefix("redis://").unwrap_or(&text);
        // The database that is used where none is named.
        text.strip_suffix("/0").unwrap_or(text).to_string()
    }

    /// Starts the links.
    pub fn route(self, links: Links, watch: Weak<dyn Watch>) -> Router {
        match self.0 {
            Servers::Server(connector) => Router::to_one(Arc::new(connector), links, watch),
            Servers::Sentinel(service) => {
                let connector = SentinelConnector::start(service, links.clone());
                Router::to_one(Arc::new(connector), links, watch)
            }
            Servers::Cluster(seeds, template) => Router::to_cluster(seeds, template, links, watch),
        }
    }
}

/// Connectors for servers that differ in their addresses only.
fn template(pattern: Pattern, login: &Login) -> Template {
    let login = login.clone();
    Box::new(move |address| RedisConnector::open(pattern.at(address)?, &login))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<Endpoint, Error> {
        Endpoint::parse(url, &Login::default())
    }

    #[test]
    fn urls_name_servers_or_sentinels() {
        assert!(matches!(parse("redis://localhost"), Ok(Endpoint(Servers::Server(_)))));
        let url = "redis+sentinel://app:se%40cret@one,two:5000,[::1]/mymaster/3";
        let Ok(Endpoint(Servers::Sentinel(service))) = parse(url) else { panic!("not read: {url}") };
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
            let Ok(Endpoint(Servers::Sentinel(service))) = parse(&url) else { panic!("not read: {url}") };
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
        let Ok(Endpoint(Servers::Cluster(seeds, template))) = parse("redis+cluster://app:pw@one,two:7,[::1]")
        else {
            panic!("not read")
        };
        assert_eq!(seeds, ["one:6379", "two:7", "[::1]:6379"]);
        let settings = template("three:8").unwrap().info().redis_settings().clone();
        assert_eq!((settings.username(), settings.password(), settings.db()), (Some("app"), Some("pw"), 0));
    }

    fn destination(url: &str) -> String {
        parse(url).unwrap_or_else(|error| panic!("{url}: {error}")).destination()
    }

    #[test]
    fn destinations_are_hosts_and_databases() {
        let same = [
            ["redis://Localhost", "valkey://me:pw@localhost:6379/0"],
            ["redis://one:1/3", "redis://one:1/3?protocol=resp3"],
            ["redis+sentinel://one,two:1/name", "redis+sentinel://me:pw@Two:1,one:26379/name/0"],
            ["redis+cluster://[::1],one:1", "redis+cluster://one:1,[::1]:6379/"],
            ["unix:///run/redis", "unix:///run/redis?db=0&user=me&pass=pw"],
        ];
        for [one, other] in same {
            assert_eq!(destination(one), destination(other));
        }
        assert_eq!(destination("redis://me:pw@One"), "one:6379");
        assert_eq!(destination("redis+sentinel://two,one:1/Main/3"), "one:1,two:26379/Main/3");
        assert_eq!(destination("unix:///run/redis?db=2"), "/run/redis/2");
        let apart = [
            ["redis://one", "redis://two"],
            ["redis://one:1", "redis://one:2"],
            ["redis://one/1", "redis://one/2"],
            ["redis://one/1", "redis://one"],
            ["redis+sentinel://one/name", "redis+sentinel://one/other"],
            ["redis+sentinel://one/name", "redis+sentinel://one/name/1"],
            ["unix:///run/redis", "unix:///run/Redis"],
            // The database of a socket was not compared.
            ["unix:///run/redis?db=1", "unix:///run/redis?db=2"],
        ];
        for [one, other] in apart {
            assert_ne!(destination(one), destination(other));
        }
    }

    #[cfg(feature = "tls")]
    #[test]
    fn destinations_are_the_same_with_tls() {
        assert_eq!(destination("rediss://me:pw@one"), destination("redis://one:6379/0"));
        assert_eq!(destination("rediss+cluster://one"), destination("redis+cluster://one"));
    }

    /// The driver's settings name IPv6 addresses without brackets, and hosts as they were typed: one server had two names.
    #[test]
    fn the_drivers_settings_lead_to_the_same_destination() {
        for url in ["redis://LocalHost", "redis://[::1]:7/2", "redis://[FE80::1]", "redis://u:p@one:8/0"] {
            let driver = redis::Client::open(url).unwrap();
            let endpoint = Endpoint::of_server(driver.get_connection_info(), &Login::default()).unwrap();
            assert_eq!(endpoint.destination(), destination(url));
        }
    }
}
