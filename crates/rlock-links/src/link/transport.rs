//! What a link needs of a driver.

use std::pin::Pin;
use std::time::Duration;

use redis::{Cmd, Value};
use tokio::sync::mpsc::UnboundedSender;

use crate::error::Error;

/// A future in a box.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The replies to commands, once they are there.
pub type Reply = BoxFuture<'static, Result<Vec<Value>, String>>;

/// What a connection delivers unasked.
#[derive(Debug)]
pub enum Incoming {
    /// A message on a channel that was subscribed.
    Message(Vec<u8>),
    /// The server has ended the subscription: its slot has moved to another node.
    Unsubscribed,
    /// The connection is gone. This event is the last.
    Closed,
}

/// A new connection, and the address of its server.
pub struct Dialled {
    /// The connection.
    pub connection: Box<dyn Connection>,
    /// The address.
    pub server: String,
}

/// Makes connections to one server, or to whichever is the primary at the time.
pub trait Connector: Send + Sync {
    /// Connects, signs on, and finds out whether the server is one to use. The caller gives up after `within`.
    fn connect(
        &self,
        events: UnboundedSender<Incoming>,
        within: Duration,
    ) -> BoxFuture<'_, Result<Dialled, Error>>;

    /// The server or servers that it connects to, for people.
    fn server(&self) -> String;

    /// Whether a server with this answer to the probe of a connection (HELLO) is still the one to use.
    ///
    /// Unless a connector overrides this, every answer will do, also a refusal.
    fn is_well(&self, _answer: &Value) -> bool {
        true
    }

    /// Waits until another server is the one to use instead of this one; returns why.
    fn moved<'a>(&'a self, _server: &'a str) -> BoxFuture<'a, String> {
        Box::pin(std::future::pending())
    }
}

/// A connection. Dropping it closes it.
pub trait Connection: Send + Sync {
    /// Sends commands in one piece and awaits a reply to each; errors of the server are replies.
    ///
    /// An `Err` says nothing about whether they were carried out. Requests are carried out in the order in
    /// which these futures were first polled. There is no limit of time.
    fn send(&self, commands: Vec<Cmd>) -> Reply;
}
