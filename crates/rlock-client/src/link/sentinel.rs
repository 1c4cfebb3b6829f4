//! Connections to the primary that the sentinels name.

use redis::{Cmd, Value, cmd};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::redis::{Multiplexed, RedisConnector};
use super::transport::{BoxFuture, Connection, Connector, Event};
use crate::error::Error;

/// Makes a connector for `host:port`.
pub(crate) type Template = Box<dyn Fn(&str) -> Result<RedisConnector, Error> + Send + Sync>;

/// Looks the primary up anew for every connection.
pub(crate) struct SentinelConnector {
    /// Asked in this order.
    pub(crate) sentinels: Vec<RedisConnector>,
    /// What the sentinels call the primary.
    pub(crate) service: String,
    /// With the user and the database of the primary.
    pub(crate) primary: Template,
}

impl SentinelConnector {
    async fn dial(&self, events: UnboundedSender<Event>) -> Result<Multiplexed, Error> {
        let mut trouble = Error::transport("no sentinel was named");
        for sentinel in &self.sentinels {
            match self.dial_by(sentinel, events.clone()).await {
                Ok(connection) => return Ok(connection),
                Err(error) => trouble = error,
            }
        }
        Err(trouble)
    }

    async fn dial_by(
        &self,
        sentinel: &RedisConnector,
        events: UnboundedSender<Event>,
    ) -> Result<Multiplexed, Error> {
        let (unheard, _) = unbounded_channel();
        let connection = sentinel.dial(unheard).await?;
        let mut question = cmd("SENTINEL");
        question.arg("GET-MASTER-ADDR-BY-NAME").arg(&self.service);
        let address = match ask(&connection, question).await? {
            Value::Array(words) => address(&words),
            _ => None,
        };
        let unknown = || Error::transport(format!("the sentinel knows no primary called {}", self.service));
        let address = address.ok_or_else(unknown)?;
        let primary = (self.primary)(&address)?.dial(events).await?;
        // Sentinels are late at times: what they name may have been demoted.
        match ask(&primary, cmd("ROLE")).await? {
            Value::Array(words) if words.first().is_some_and(|role| !is_text(role, "master")) => {
                Err(Error::transport(format!("{address} is no primary, though a sentinel says so")))
            }
            _ => Ok(primary),
        }
    }
}

impl Connector for SentinelConnector {
    fn connect(&self, events: UnboundedSender<Event>) -> BoxFuture<'_, Result<Box<dyn Connection>, Error>> {
        Box::pin(async move {
            let connection: Box<dyn Connection> = Box::new(self.dial(events).await?);
            Ok(connection)
        })
    }
}

async fn ask(connection: &Multiplexed, command: Cmd) -> Result<Value, Error> {
    let replies = connection.send(vec![command]).await.map_err(Error::transport)?;
    Ok(replies.into_iter().next().unwrap_or(Value::Nil))
}

fn address(words: &[Value]) -> Option<String> {
    match words {
        [Value::BulkString(host), Value::BulkString(port), ..] => Some(format!(
            "{}:{}",
            host_part(std::str::from_utf8(host).ok()?),
            std::str::from_utf8(port).ok()?
        )),
        _ => None,
    }
}

/// A host as it stands in a URL.
fn host_part(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_string() }
}

fn is_text(value: &Value, text: &str) -> bool {
    match value {
        Value::BulkString(bytes) => bytes == text.as_bytes(),
        Value::SimpleString(string) => string == text,
        _ => false,
    }
}
