//! Connections of the `redis` crate.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionAddr, ConnectionInfo, ErrorKind, IntoConnectionInfo,
    ProtocolVersion, PushInfo, PushKind, RedisError, RedisResult, Value, cmd,
};
use tokio::sync::Semaphore;
use tokio::sync::mpsc::UnboundedSender;

use super::role::{is_replica, pulse};
use super::transport::{BoxFuture, Connection, Connector, Dialled, Incoming, Reply};
use crate::connection_name::connection_name;
use crate::error::{Cause, Error};

/// The name by which servers list the library of a connection: that of the crate that users know.
const LIBRARY: &str = "rlock-client";

/// How many requests the driver keeps until they are written: all of them. A request that waited for room could be overtaken by a
/// later one, such as its own release.
const ROOM: usize = Semaphore::MAX_PERMITS;

/// What a connection needs beside the URL.
#[derive(Clone, Default)]
pub struct Login {
    /// The name that the user gave the client.
    pub name: Option<String>,
    #[cfg(feature = "tls")]
    roots: Option<Vec<u8>>,
    #[cfg(feature = "tls")]
    client: Option<redis::ClientTlsConfig>,
}

impl Login {
    /// Sets the authorities to trust in place of the platform's, in PEM.
    #[cfg(feature = "tls")]
    pub fn root_certificates(&mut self, pem: Vec<u8>) {
        self.roots = Some(pem);
    }

    /// Sets the certificate chain that connections show, and its key, in PEM.
    #[cfg(feature = "tls")]
    pub fn client_certificate(&mut self, client_cert: Vec<u8>, client_key: Vec<u8>) {
        self.client = Some(redis::ClientTlsConfig { client_cert, client_key });
    }

    #[cfg(feature = "tls")]
    fn open(&self, info: ConnectionInfo) -> RedisResult<Client> {
        if self.roots.is_none() && self.client.is_none() {
            return Client::open(info);
        }
        let certificates =
            redis::TlsCertificates { client_tls: self.client.clone(), root_cert: self.roots.clone() };
        Client::build_with_tls(info, certificates)
    }

    #[cfg(not(feature = "tls"))]
    fn open(&self, info: ConnectionInfo) -> RedisResult<Client> {
        Client::open(info)
    }
}

/// Connects to the server that a URL names, or the settings of the driver.
#[derive(Clone, Debug)]
pub(crate) struct RedisConnector {
    client: Client,
    /// The name of the connections.
    name: String,
    /// Whether a replica is refused. In a cluster it is not, since it names the primary itself.
    leads: bool,
}

impl RedisConnector {
    /// Reads a URL or the driver's settings, without connecting.
    pub(crate) fn open(target: impl IntoConnectionInfo, login: &Login) -> Result<RedisConnector, Error> {
        install_crypto();
        let info = target.into_connection_info().map_err(|error| bad_url(&error))?;
        let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
        let settings = settings.set_lib_name(LIBRARY, env!("CARGO_PKG_VERSION"));
        let client = login.open(info.set_redis_settings(settings)).map_err(|error| bad_url(&error))?;
        Ok(RedisConnector { client, name: connection_name(login.name.as_deref()), leads: false })
    }

    /// This connector, but for primaries: it refuses a server that reports to be a replica. The address may lead to the primary later.
    pub(crate) fn of_a_primary(self) -> RedisConnector {
        RedisConnector { leads: true, ..self }
    }

    /// The server that it connects to, and the user.
    pub(crate) fn info(&self) -> &ConnectionInfo {
        self.client.get_connection_info()
    }

    /// A URL that names the same server and database.
    pub(crate) fn url(&self) -> String {
        let address = match self.info().addr() {
            ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. }
                if host.contains(':') =>
            {
                format!("[{host}]:{port}")
            }
            address => address.to_string(),
        };
        format!("redis://{address}/{}", self.info().redis_settings().db())
    }

    /// Connects, with messages going to `events`.
    pub(crate) async fn dial(&self, events: UnboundedSender<Incoming>) -> Result<Multiplexed, Error> {
        let unused = events.clone();
        let forward = move |push: PushInfo| match push.kind {
            PushKind::Message | PushKind::SMessage => match push.data.into_iter().nth(1) {
                Some(Value::BulkString(payload)) => events.send(Incoming::Message(payload)),
                _ => Ok(()),
            },
            PushKind::SUnsubscribe => events.send(Incoming::Unsubscribed),
            PushKind::Disconnection => events.send(Incoming::Closed),
            _ => Ok(()),
        };
        // The link and its callers limit the time: the driver's own limits would come first.
        let config = AsyncConnectionConfig::new()
            .set_pipeline_buffer_size(ROOM)
            .set_connection_timeout(None)
            .set_response_timeout(None)
            .set_push_sender(forward);
        let connection = self.client.get_multiplexed_async_connection_with_config(&config).await;
        let connection = Multiplexed(connection.map_err(|error| connect_error(self.server(), error))?);
        let mut name = cmd("CLIENT");
        name.arg("SETNAME").arg(&self.name);
        // In parallel: the reply would add a round trip to the time that connecting may take, and nothing
        // depends on it. A user without the right to set a name has none.
        let named = connection.send(vec![name]);
        tokio::spawn(async move {
            tokio::select! {
                biased;
                _ = named => (),
                () = unused.closed() => (),
            }
        });
        Ok(connection)
    }
}

impl Connector for RedisConnector {
    fn server(&self) -> String {
        self.info().addr().to_string()
    }

    fn connect(
        &self,
        events: UnboundedSender<Incoming>,
        _within: Duration,
    ) -> BoxFuture<'_, Result<Dialled, Error>> {
        Box::pin(async move {
            let server = self.server();
            let connection = self.dial(events).await?;
            if self.leads {
                let answers = connection.send(vec![pulse()]).await;
                let answers = answers.map_err(|why| Error::transport(server.as_str(), why))?;
                if answers.iter().any(is_replica) {
                    return Err(Error::transport(server, "it is a replica, not a primary"));
                }
            }
            Ok(Dialled { connection: Box::new(connection), server })
        })
    }

    fn is_well(&self, answer: &Value) -> bool {
        !(self.leads && is_replica(answer))
    }
}

/// The driver's connection that many requests share.
pub(crate) struct Multiplexed(MultiplexedConnection);

impl Connection for Multiplexed {
    fn send(&self, mut commands: Vec<Cmd>) -> Reply {
        let mut connection = self.0.clone();
        // Two futures, as one that can do either is larger than what allocators are quick with.
        if commands.len() == 1
            && let Some(command) = commands.pop()
        {
            return Box::pin(async move {
                let outcome = connection.send_packed_command(&command).await;
                outcome.map(|value| vec![value]).map_err(|error| error.to_string())
            });
        }
        let count = commands.len();
        let mut pipeline = redis::Pipeline::with_capacity(count);
        commands.into_iter().for_each(|command| {
            pipeline.add_command(command);
        });
        Box::pin(async move {
            let outcome = connection.send_packed_commands(&pipeline, 0, count).await;
            outcome.map_err(|error| error.to_string())
        })
    }
}

fn bad_url(error: &RedisError) -> Error {
    let form = "redis://[user:password@]host[:port][/database], or rediss:// with the feature `tls`";
    Error::invalid(format!("not the URL of a server: {error}; write {form}"))
}

fn connect_error(server: String, error: RedisError) -> Error {
    // An error of the server as it says it itself, not as the driver quotes it.
    let message = match error.code() {
        Some(code) => format!("{code} {}", error.detail().unwrap_or_default()),
        None => error.to_string(),
    };
    let denied = matches!(error.code(), Some("NOAUTH" | "WRONGPASS" | "NOPERM"));
    if denied || error.kind() == ErrorKind::AuthenticationFailed {
        return Error::Permission { message };
    }
    if let Some(error) = about_database(&message) {
        return error;
    }
    if error.kind() == ErrorKind::RESP3NotSupported {
        return Error::Unsupported { message: format!("{message}; rlock needs Redis 7 or later") };
    }
    if is_of_tls(&message) {
        return Error::Tls { server, source: Cause::new(error) };
    }
    Error::transport(server, error)
}

/// The error of a server that does not have this database, or denies it to this user. The driver reports
/// every refusal of SELECT as `ERR` with the server's words.
fn about_database(message: &str) -> Option<Error> {
    let message = message.to_string();
    if message.contains("no permissions to run the 'select'") {
        return Some(Error::Permission { message });
    }
    ["DB index", "SELECT is not allowed"]
        .iter()
        .any(|words| message.contains(words))
        .then_some(Error::Refused { message })
}

/// Whether a connection failed because of TLS: the driver says it in words only, those of rustls.
fn is_of_tls(message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    ["certificate", "corrupt message", "fatal alert", "tls handshake"]
        .iter()
        .any(|word| message.contains(word))
}

/// Chooses a cryptography for rustls, unless the program has.
fn install_crypto() {
    #[cfg(feature = "tls")]
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // An error is another thread that was quicker.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}
