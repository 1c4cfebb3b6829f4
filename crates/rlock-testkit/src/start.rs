//! The ways to start a server.

use redis::Connection;

use crate::builder::ServerBuilder;
use crate::server::TestServer;
use crate::subscriber::Subscriber;

impl TestServer {
    /// Starts a server with the module and the kit's defaults.
    ///
    /// These are: bound to 127.0.0.1 on a free port, no snapshots, no append only file, DEBUG and
    /// MODULE allowed for local clients.
    #[must_use]
    #[track_caller]
    pub fn start() -> TestServer {
        TestServer::builder().start()
    }

    /// Starts a server with the kit's defaults, and a connection to it.
    #[must_use]
    #[track_caller]
    pub fn start_and_connect() -> (TestServer, Connection) {
        TestServer::builder().start_and_connect()
    }

    /// The same, and a subscriber of this channel.
    #[must_use]
    #[track_caller]
    pub fn start_and_listen(channel: &str) -> (TestServer, Connection, Subscriber) {
        let (server, client) = TestServer::start_and_connect();
        let listener = Subscriber::channel(&server, channel);
        (server, client, listener)
    }

    /// A server to be configured first.
    #[must_use]
    pub fn builder() -> ServerBuilder {
        ServerBuilder::default()
    }
}
