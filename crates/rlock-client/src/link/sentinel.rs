//! Connections to the primary that the sentinels name.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use redis::{Cmd, Value, cmd};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::time::timeout;

use super::redis::{Multiplexed, RedisConnector};
use super::transport::{BoxFuture, Connection, Connector, Incoming};
use crate::command::answer;
use crate::error::Error;

/// Makes a connector for `host:port`.
pub(crate) type Template = Box<dyn Fn(&str) -> Result<RedisConnector, Error> + Send + Sync>;

/// Looks the primary up anew for every connection.
pub(crate) struct SentinelConnector {
    pub(crate) sentinels: Vec<RedisConnector>,
    /// What the sentinels call the primary.
    pub(crate) service: String,
    /// With the user and the database of the primary.
    pub(crate) primary: Template,
    /// Which of the sentinels is asked first: the last one that led to a primary.
    first: AtomicUsize,
}

impl SentinelConnector {
    pub(crate) fn new(sentinels: Vec<RedisConnector>, service: String, primary: Template) -> Self {
        SentinelConnector { sentinels, service, primary, first: AtomicUsize::new(0) }
    }

    async fn dial(&self, events: UnboundedSender<Incoming>, within: Duration) -> Result<Multiplexed, Error> {
        let mut trouble = Error::transport("no sentinel was named");
        let count = self.sentinels.len();
        // One that says nothing leaves time for the others.
        let share = within / u32::try_from(count.saturating_add(1)).unwrap_or(u32::MAX);
        let first = self.first.load(Ordering::Relaxed);
        for index in (0..count).filter_map(|number| number.wrapping_add(first).checked_rem(count)) {
            let Some(sentinel) = self.sentinels.get(index) else { continue };
            let silent =
                || Error::transport(format!("a sentinel or its primary did not answer in {share:?}"));
            let dialled = timeout(share, self.dial_by(sentinel, events.clone())).await;
            match dialled.unwrap_or_else(|_| Err(silent())) {
                Ok(connection) => {
                    self.first.store(index, Ordering::Relaxed);
                    return Ok(connection);
                }
                Err(error) => trouble = error,
            }
        }
        Err(trouble)
    }

    async fn dial_by(
        &self,
        sentinel: &RedisConnector,
        events: UnboundedSender<Incoming>,
    ) -> Result<Multiplexed, Error> {
        let (unheard, _) = unbounded_channel();
        let connection = sentinel.dial(unheard).await.map_err(said_by_a_sentinel)?;
        let mut question = cmd("SENTINEL");
        question.arg("GET-MASTER-ADDR-BY-NAME").arg(&self.service);
        let reply = answer(b"", ask(&connection, question).await?);
        let address = match reply.map_err(|refusal| said_by_a_sentinel(refusal.error))? {
            Value::Array(words) => address(&words),
            _ => None,
        };
        let unknown = || Error::transport(format!("the sentinel knows no primary called {}", self.service));
        let address = address.ok_or_else(unknown)?;
        let primary = (self.primary)(&address)?.dial(events).await?;
        // Sentinels are late at times: the server that they name may have been demoted.
        if is_demoted(&ask(&primary, cmd("ROLE")).await?) {
            return Err(Error::transport(format!("{address} is not a primary, but a sentinel names it")));
        }
        Ok(primary)
    }
}

impl Connector for SentinelConnector {
    fn server(&self) -> String {
        self.service.clone()
    }

    fn connect(
        &self,
        events: UnboundedSender<Incoming>,
        within: Duration,
    ) -> BoxFuture<'_, Result<Box<dyn Connection>, Error>> {
        Box::pin(async move {
            let connection: Box<dyn Connection> = Box::new(self.dial(events, within).await?);
            Ok(connection)
        })
    }

    fn pulse(&self) -> Cmd {
        cmd("ROLE")
    }

    /// A server may be demoted without a word to its clients; from that time it answers reads with old data.
    fn is_well(&self, answer: &Value) -> bool {
        !is_demoted(answer)
    }
}

/// Whether the reply to ROLE is that of a replica. A user without the right to ask keeps the connection.
fn is_demoted(role: &Value) -> bool {
    match role {
        Value::Array(words) => words.first().is_some_and(|role| !is_text(role, "master")),
        _ => false,
    }
}

async fn ask(connection: &Multiplexed, command: Cmd) -> Result<Value, Error> {
    let replies = connection.send(&[command]).await.map_err(Error::transport)?;
    Ok(replies.into_iter().next().unwrap_or(Value::Nil))
}

/// Adds that a sentinel refused the user, so that it is clear which user is meant.
fn said_by_a_sentinel(error: Error) -> Error {
    match error {
        Error::Permission { message } => Error::Permission {
            message: format!(
                "{message} (said by a sentinel: write its user and password at the end of the URL: \
                 ?sentinel_username=…&sentinel_password=…)"
            ),
        },
        error => error,
    }
}

fn address(words: &[Value]) -> Option<String> {
    match words {
        [Value::BulkString(host), Value::BulkString(port), ..] => {
            Some(format!("{}:{}", in_url(std::str::from_utf8(host).ok()?), std::str::from_utf8(port).ok()?))
        }
        _ => None,
    }
}

/// A host as it stands in a URL.
pub(crate) fn in_url(host: &str) -> String {
    if host.contains(':') && !host.starts_with('[') { format!("[{host}]") } else { host.to_string() }
}

fn is_text(value: &Value, text: &str) -> bool {
    match value {
        Value::BulkString(bytes) => bytes == text.as_bytes(),
        Value::SimpleString(string) => string == text,
        _ => false,
    }
}
