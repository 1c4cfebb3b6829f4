//! URLs of servers, as the clients and the command `rlock` read them.

use std::fmt;

use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo};

use crate::error::Error;

/// The forms of a URL.
const FORMS: &str = "write redis://[user:password@]host[:port][/database], rediss://… for TLS, unix:///path, \
                     redis+sentinel://[user:password@]host:port,host:port/service[/database][?sentinel_password=…], \
                     or redis+cluster://[user:password@]host:port,host:port";

/// What a URL of Sentinels ends with.
const SERVICE_MISSING: &str = "the URL lacks the name that the Sentinels have for the primary; \
                               write redis+sentinel://host:port,host:port/name";

/// The schemes that the driver knows for one server.
const PLAIN: [&str; 2] = ["redis", "valkey"];
const ENCRYPTED: [&str; 2] = ["rediss", "valkeys"];
const SOCKET: [&str; 3] = ["unix", "redis+unix", "valkey+unix"];

/// The port of servers that name none.
const PORT: u16 = 6379;

/// The port of Sentinels that name none.
const SENTINEL_PORT: u16 = 26379;

/// What the hosts of a URL are.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerKind {
    /// One server.
    Server,
    /// Sentinels, with the name that they have for the primary.
    Sentinel(String),
    /// Nodes of a cluster.
    Cluster,
}

impl ServerKind {
    /// The name that Sentinels have for the primary.
    pub fn service(&self) -> Option<&str> {
        match self {
            ServerKind::Sentinel(service) => Some(service),
            ServerKind::Server | ServerKind::Cluster => None,
        }
    }
}

/// The servers that a URL names, as the `Client::connect` of rlock-client reads it.
///
/// For programs that ask the same servers by the driver.
///
/// ```
/// use rlock_links::{ServerKind, ServerUrl};
///
/// let url = ServerUrl::parse("redis+sentinel://app:secret@one,two:5000/main/3")?;
/// assert_eq!(url.kind(), &ServerKind::Sentinel("main".to_string()));
/// assert_eq!(url.hosts()[0].addr().to_string(), "one:26379");
/// assert_eq!(url.servers().redis_settings().username(), Some("app"));
/// # Ok::<(), rlock_links::Error>(())
/// ```
#[derive(Clone)]
pub struct ServerUrl {
    kind: ServerKind,
    hosts: Vec<ConnectionInfo>,
    servers: ConnectionInfo,
    /// How to reach several hosts and their servers.
    pub(crate) several: Option<Several>,
}

impl ServerUrl {
    /// Reads a URL; see `Client::connect` of rlock-client for its forms.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] if the text is not a URL of servers, with the form to write; [`Error::Unsupported`] for TLS without the feature `tls`.
    /// The text shows neither the URL nor its password.
    pub fn parse(url: &str) -> Result<ServerUrl, Error> {
        if url.is_empty() {
            return Err(Error::invalid(format!("the server's URL is empty: is a variable unset? {FORMS}")));
        }
        let no_scheme = || Error::invalid(format!("the server's URL has no scheme; {FORMS}"));
        let (scheme, rest) = url.split_once("://").ok_or_else(no_scheme)?;
        let scheme = scheme.to_ascii_lowercase();
        // Anything else may be a password.
        if scheme.contains(|c: char| !c.is_ascii_alphanumeric() && !"+-.".contains(c)) {
            return Err(no_scheme());
        }
        let (base, kind) = match scheme.rsplit_once('+') {
            Some((base, kind @ ("sentinel" | "cluster"))) => (base, kind),
            _ => (scheme.as_str(), ""),
        };
        let is_encrypted = ENCRYPTED.contains(&base);
        let is_socket = kind.is_empty() && SOCKET.contains(&base);
        if !(is_encrypted || is_socket || PLAIN.contains(&base)) {
            return Err(Error::invalid(unknown(&scheme)));
        }
        if is_encrypted && cfg!(not(feature = "tls")) {
            let message = "this build has no TLS: enable the feature `tls` of rlock-client".into();
            return Err(Error::Unsupported { message });
        }
        match kind {
            "" => info(url).map(ServerUrl::of_one),
            "sentinel" => Several::sentinel(base, rest).and_then(ServerUrl::of_several),
            _ => Several::cluster(base, rest).and_then(ServerUrl::of_several),
        }
    }

    /// What the hosts are.
    pub fn kind(&self) -> &ServerKind {
        &self.kind
    }

    /// How to connect to each host that the URL names, at least one. Sentinels have their own user and password.
    pub fn hosts(&self) -> &[ConnectionInfo] {
        &self.hosts
    }

    /// How to connect to the servers: user, password, database and TLS. The address is that of one
    /// host, or a placeholder if only Sentinels know it.
    pub fn servers(&self) -> &ConnectionInfo {
        &self.servers
    }

    fn of_one(server: ConnectionInfo) -> ServerUrl {
        let hosts = vec![server.clone()];
        ServerUrl { kind: ServerKind::Server, hosts, servers: server, several: None }
    }

    fn of_several(several: Several) -> Result<ServerUrl, Error> {
        let hosts: Vec<_> =
            several.addresses.iter().map(|address| several.hosts.at(address)).collect::<Result<_, _>>()?;
        let servers = match (&several.kind, hosts.first()) {
            (ServerKind::Cluster, Some(host)) => host.clone(),
            _ => several.servers.at("localhost:6379")?,
        };
        Ok(ServerUrl { kind: several.kind.clone(), hosts, servers, several: Some(several) })
    }
}

/// Without the password.
impl fmt::Debug for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts: Vec<String> = self.hosts.iter().map(|host| host.addr().to_string()).collect();
        f.debug_struct("ServerUrl").field("kind", &self.kind).field("hosts", &hosts).finish_non_exhaustive()
    }
}

/// How to reach servers that differ in their addresses only: what stands before and after an address in a URL.
#[derive(Clone)]
pub(crate) struct Pattern {
    before: String,
    after: String,
}

impl Pattern {
    /// How to reach the server at this `host:port`.
    pub(crate) fn at(&self, address: &str) -> Result<ConnectionInfo, Error> {
        info(&format!("{}{address}{}", self.before, self.after))
    }
}

/// The parts of a URL that names several hosts.
#[derive(Clone)]
pub(crate) struct Several {
    pub(crate) kind: ServerKind,
    /// `host:port` each.
    pub(crate) addresses: Vec<String>,
    /// How to reach these.
    pub(crate) hosts: Pattern,
    /// How to reach the servers.
    pub(crate) servers: Pattern,
}

/// What follows the scheme of a URL, in parts.
struct Parts<'a> {
    /// `user:password@`, or nothing.
    user: String,
    hosts: Vec<&'a str>,
    path: Vec<&'a str>,
    query: Vec<&'a str>,
    /// With its `#`, or nothing.
    fragment: String,
}

impl Parts<'_> {
    fn of(rest: &str) -> Parts<'_> {
        let (rest, fragment) = match rest.split_once('#') {
            Some((rest, fragment)) => (rest, format!("#{fragment}")),
            None => (rest, String::new()),
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, hosts) = match authority.rsplit_once('@') {
            Some((user, hosts)) => (format!("{user}@"), hosts),
            None => (String::new(), authority),
        };
        let parts = |text, by| str::split(text, by).filter(|part: &&str| !part.is_empty()).collect();
        Parts {
            user,
            hosts: hosts.split(',').collect(),
            path: parts(path, '/'),
            query: parts(query, '&'),
            fragment,
        }
    }

    /// Takes a setting out of the query.
    fn take(&mut self, name: &str) -> Option<String> {
        let is_it = |part: &mut &str| part.split_once('=').is_some_and(|(word, _)| word == name);
        let taken: Vec<&str> = self.query.extract_if(.., is_it).collect();
        taken.last().and_then(|part| part.split_once('=')).map(|(_, value)| encoded(value))
    }

    /// What stands after the address of a server: the database, the settings of the driver, and the fragment.
    fn end(&self, database: &[&str]) -> String {
        let query = if self.query.is_empty() { String::new() } else { format!("?{}", self.query.join("&")) };
        format!("/{}{query}{}", database.join("/"), self.fragment)
    }
}

impl Several {
    fn sentinel(base: &str, rest: &str) -> Result<Several, Error> {
        let mut parts = Parts::of(rest);
        let sentinels_user = match (parts.take("sentinel_username"), parts.take("sentinel_password")) {
            (None, None) => String::new(),
            (user, password) => format!("{}:{}@", user.unwrap_or_default(), password.unwrap_or_default()),
        };
        let (service, database) = parts.path.split_first().ok_or_else(|| Error::invalid(SERVICE_MISSING))?;
        let servers = Pattern { before: format!("{base}://{}", parts.user), after: parts.end(database) };
        let hosts =
            Pattern { before: format!("{base}://{sentinels_user}"), after: format!("/{}", parts.fragment) };
        let kind = ServerKind::Sentinel((*service).to_string());
        let addresses = parts.hosts.iter().map(|host| with_port(host, SENTINEL_PORT)).collect();
        Ok(Several { kind, addresses, hosts, servers })
    }

    fn cluster(base: &str, rest: &str) -> Result<Several, Error> {
        let parts = Parts::of(rest);
        let servers = Pattern { before: format!("{base}://{}", parts.user), after: parts.end(&parts.path) };
        let addresses = parts.hosts.iter().map(|host| with_port(host, PORT)).collect();
        Ok(Several { kind: ServerKind::Cluster, addresses, hosts: servers.clone(), servers })
    }
}

/// Reads a URL of one server.
fn info(url: &str) -> Result<ConnectionInfo, Error> {
    let info = url.into_connection_info().map_err(|error| {
        // The text has the driver's kind of error after it.
        let text = error.to_string();
        let (reason, _) = text.split_once(" - ").unwrap_or((&text, ""));
        Error::invalid(format!("not the URL of a server ({reason}); {FORMS}"))
    })?;
    match info.addr() {
        ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } if host.is_empty() => {
            Err(Error::invalid(format!("the URL names no host; {FORMS}")))
        }
        _ => Ok(info),
    }
}

/// What to write in place of an unknown scheme.
fn unknown(scheme: &str) -> String {
    let has = |words: &[&str]| words.iter().any(|word| scheme.contains(word));
    let encrypted = has(&["rediss", "valkeys", "tls", "ssl", "sentinels", "clusters"]);
    let base = if encrypted { "rediss" } else { "redis" };
    let better = match () {
        () if has(&["sentinel"]) => format!("{base}+sentinel://host:port,host:port/service"),
        () if has(&["cluster"]) => format!("{base}+cluster://host:port,host:port"),
        () if has(&["unix", "socket"]) => "unix:///path".to_string(),
        () if has(&["redis", "valkey", "tcp", "tls", "ssl"]) => format!("{base}://host:port"),
        () => return format!("{scheme}:// names no server of locks; {FORMS}"),
    };
    format!("{scheme}:// is not a scheme of rlock; write {better}")
}

/// A value that stood behind a question mark, encoded to stand before an at sign, where some characters have a meaning.
fn encoded(value: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~%".contains(&byte);
    let encode = |byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    value.bytes().map(encode).collect()
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

    fn invalid(url: &str) -> String {
        match ServerUrl::parse(url) {
            Err(Error::Invalid { message }) => message,
            other => panic!("{url}: {other:?}"),
        }
    }

    #[test]
    fn the_schemes_of_both_servers_are_understood() {
        let kinds = [
            ("", "", ServerKind::Server),
            ("+sentinel", "/main", ServerKind::Sentinel("main".to_string())),
            ("+cluster", "", ServerKind::Cluster),
        ];
        for (kind, end, wanted) in kinds {
            for base in ["redis", "valkey", "Redis"] {
                let url = ServerUrl::parse(&format!("{base}{kind}://app:pw@one:7{end}")).unwrap();
                assert_eq!((url.kind(), url.hosts().len()), (&wanted, 1));
                assert_eq!(url.hosts()[0].addr().to_string(), "one:7");
                assert_eq!(url.servers().redis_settings().password(), Some("pw"));
            }
            for base in ["rediss", "valkeys"] {
                let url = ServerUrl::parse(&format!("{base}{kind}://one:7{end}"));
                if cfg!(feature = "tls") {
                    let url = url.unwrap();
                    let all = url.hosts().iter().chain([url.servers()]);
                    assert!(all.into_iter().all(|info| matches!(info.addr(), ConnectionAddr::TcpTls { .. })));
                } else {
                    assert!(matches!(url, Err(Error::Unsupported { .. })), "{url:?}");
                }
            }
        }
        for scheme in SOCKET {
            let url = ServerUrl::parse(&format!("{scheme}:///run/redis?db=2")).unwrap();
            let info = url.servers();
            assert_eq!((info.addr().to_string(), info.redis_settings().db()), ("/run/redis".to_string(), 2));
        }
    }

    #[test]
    fn a_wrong_scheme_names_the_right_one() {
        let cases = [
            ("redis-sentinel://one,two/2#main", "write redis+sentinel://host:port,host:port/service"),
            ("rediss-sentinel://one", "write rediss+sentinel://"),
            ("sentinel://one/main", "write redis+sentinel://"),
            ("redis+sentinels://one/main", "write rediss+sentinel://"),
            ("valkey-sentinel://one/main", "write redis+sentinel://"),
            ("redis-cluster://one", "write redis+cluster://"),
            ("cluster://one", "write redis+cluster://"),
            ("rediss-cluster://one", "write rediss+cluster://"),
            ("redis+tls://one", "write rediss://"),
            ("redis+ssl://one", "write rediss://"),
            ("redis-socket:///run/redis", "write unix:///path"),
            ("unix+cluster:///run/redis", "write redis+cluster://"),
            ("tcp://one", "write redis://host:port"),
            ("redis+other://one", "write redis://host:port"),
            ("http://one", "write redis://[user:password@]host"),
        ];
        for (url, advice) in cases {
            let message = invalid(url);
            let (scheme, _) = url.split_once("://").unwrap();
            assert!(message.starts_with(&format!("{scheme}://")) && message.contains(advice), "{message}");
        }
    }

    #[test]
    fn a_bad_url_is_refused_without_its_password() {
        let cases = [
            ("", "empty: is a variable unset?"),
            ("secret", "no scheme"),
            ("app:secret@one", "no scheme"),
            ("app:secret@one://x", "no scheme"),
            ("redis://app:secret@one:x", "not the URL of a server"),
            ("redis://app:secret@", "not the URL of a server"),
            ("redis://app:secret@one/x", "Invalid database number"),
            ("redis://app:secret@0.0.0.0", "wildcard"),
            ("redis+sentinel://app:secret@one", "lacks the name"),
            ("redis+sentinel://app:secret@one/main/x", "Invalid database number"),
            ("redis+sentinel://app:secret@one,/main", "not the URL of a server"),
            ("redis+cluster://app:secret@", "not the URL of a server"),
            ("redis+cluster://one,", "not the URL of a server"),
            ("redis+cluster://app:secret@one:x", "not the URL of a server"),
            ("unix://app:secret", "not the URL of a server"),
        ];
        for (url, reason) in cases {
            let message = invalid(url);
            assert!(message.contains(reason), "{url}: {message}");
            assert!(message.contains("write redis") && !message.contains("secret"), "{message}");
        }
    }

    #[test]
    fn the_debug_output_has_no_password() {
        let url = ServerUrl::parse("redis+sentinel://app:secret@one/main?sentinel_password=other").unwrap();
        let shown = format!("{url:?}");
        assert!(shown.contains("one:26379") && shown.contains("main"), "{shown}");
        assert!(!shown.contains("secret") && !shown.contains("other"), "{shown}");
    }

    /// A fragment was taken for the end of the service's name, and its slash for a database.
    #[cfg(feature = "tls")]
    #[test]
    fn a_fragment_and_the_drivers_settings_are_for_all_hosts() {
        for url in [
            "rediss+sentinel://one,two/main#insecure",
            "rediss+sentinel://one,two/main/0?protocol=resp3#insecure",
            "rediss+cluster://one,two#insecure",
            "rediss+cluster://one,two?protocol=resp3#insecure",
        ] {
            let url = ServerUrl::parse(url).unwrap();
            assert_eq!(url.hosts().len(), 2);
            for info in url.hosts().iter().chain([url.servers()]) {
                assert!(matches!(info.addr(), ConnectionAddr::TcpTls { insecure: true, .. }), "{url:?}");
            }
            assert!(matches!(url.kind(), ServerKind::Cluster | ServerKind::Sentinel(_)));
        }
    }
}
