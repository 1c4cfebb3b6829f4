//! A connection that is up: its requests, and the channels it listens to.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::{Cmd, PushKind, Value, cmd};
use tokio::sync::OnceCell;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::life::Life;
use super::links::Pace;
use super::transport::{Connection, Dialled};
use crate::command::{Refusal, about, answer};
use crate::error::Error;

/// That a connection is of no use any more.
pub(super) struct Suspicion {
    pub(super) epoch: u64,
    pub(super) why: &'static str,
}

/// A connection that is up.
pub(crate) struct Live {
    /// Differs between any two connections of this process.
    pub(crate) epoch: u64,
    pub(crate) life: Arc<Life>,
    /// The server's address.
    pub(crate) server: String,
    connection: Box<dyn Connection>,
    channels: Mutex<BTreeMap<Vec<u8>, Arc<Subscription>>>,
    suspicions: UnboundedSender<Suspicion>,
    pace: Pace,
    identity: OnceCell<Option<String>>,
}

/// A channel that is being listened to.
#[derive(Default)]
pub(crate) struct Subscription {
    confirmed: OnceCell<()>,
    gone: CancellationToken,
}

impl Subscription {
    /// Waits until the server has ended it.
    pub(crate) async fn gone(&self) {
        self.gone.cancelled().await;
    }
}

/// Why a channel is not listened to.
#[derive(Debug)]
pub(crate) enum Unheard {
    Refused(Refusal),
    Unanswered(Error),
}

impl Live {
    /// Puts a connection to use. `suspicions` is notified if it turns out to be unusable.
    pub(super) fn new(dialled: Dialled, suspicions: UnboundedSender<Suspicion>, pace: Pace) -> Live {
        let Dialled { connection, server } = dialled;
        static EPOCHS: AtomicU64 = AtomicU64::new(1);
        let epoch = EPOCHS.fetch_add(1, Ordering::Relaxed);
        let (life, channels, identity) = (Arc::default(), Mutex::default(), OnceCell::new());
        Live { epoch, life, server, connection, channels, suspicions, pace, identity }
    }

    /// Sends commands in one piece. `Err`: they may or may not have been carried out.
    ///
    /// A connection that does not answer within the link's response time is given up.
    pub(crate) async fn request(&self, commands: &[Cmd]) -> Result<Vec<Value>, Error> {
        self.request_or_leave(commands, self.pace.response).await
    }

    /// As [`Live::request`], with a response time of its own.
    pub(crate) async fn request_or_leave(
        &self,
        commands: &[Cmd],
        time: Duration,
    ) -> Result<Vec<Value>, Error> {
        self.request_in(commands, time, time).await
    }

    /// As [`Live::request`], but waits for `time` at most. If that is less than the response time, the connection stays in use.
    pub(crate) async fn request_within(&self, commands: &[Cmd], time: Duration) -> Result<Vec<Value>, Error> {
        self.request_in(commands, time, self.pace.response).await
    }

    async fn request_in(
        &self,
        commands: &[Cmd],
        time: Duration,
        response: Duration,
    ) -> Result<Vec<Value>, Error> {
        let outcome = self.ask(commands, time, response).await;
        outcome.map_err(|why| Error::transport(self.server.as_str(), why))
    }

    /// As [`Live::request`], within this time. A connection that is silent for `response` is given up.
    pub(super) async fn ask(
        &self,
        commands: &[Cmd],
        time: Duration,
        response: Duration,
    ) -> Result<Vec<Value>, String> {
        if std::process::id() != self.pace.process {
            return Err("the connection is that of the process before a fork".into());
        }
        let expected = commands.len();
        let sent = self.pace.clock.now();
        let answers = tokio::select! {
            biased;
            answers = timeout(time, self.connection.send(commands)) => answers,
            // There will be no answers: the callers must not wait for them, but ask on the next connection.
            why = self.life.ended() => return Err(format!("the connection is no longer used: {why}")),
        };
        match answers {
            Ok(Ok(values)) if values.iter().any(is_unasked) => {
                Err(self.suspect("replies and requests are out of step").into())
            }
            Ok(Ok(values)) if values.len() == expected => {
                self.life.prove(sent);
                Ok(values)
            }
            Ok(Ok(values)) => Err(format!("{} replies to {expected} commands", values.len())),
            Ok(Err(error)) => Err(error),
            Err(_) => {
                if time >= response {
                    self.suspect("a request on it was not answered in time");
                }
                Err(format!("no reply within {time:?}"))
            }
        }
    }

    /// The error of a request that the caller waits for no longer.
    pub(crate) fn silent(&self) -> Error {
        Error::transport(self.server.as_str(), "no reply in time")
    }

    /// Asks for another connection in place of this one; returns why.
    fn suspect(&self, why: &'static str) -> &'static str {
        // Without a receiver the link has ended.
        let _ = self.suspicions.send(Suspicion { epoch: self.epoch, why });
        why
    }

    /// Which server this is, the same by whatever address it is reached; `None` where it does not say. It is asked once.
    pub(crate) async fn identity(&self) -> Option<&str> {
        let ask = || async {
            let mut question = cmd("INFO");
            question.arg("server");
            let answers = self.request(&[question]).await.ok()?;
            answers.into_iter().next().and_then(run_id)
        };
        self.identity.get_or_init(ask).await.as_deref()
    }

    /// Subscribes to a channel, unless that was done on this connection.
    ///
    /// The server may end the subscription by itself.
    pub(crate) async fn subscribe(&self, word: &str, channel: &[u8]) -> Result<Arc<Subscription>, Unheard> {
        if let Some(subscription) = self.subscribed(channel) {
            return Ok(subscription);
        }
        let subscription = self.channels().entry(channel.to_vec()).or_default().clone();
        let subscribe = || async {
            let command = about(word, channel, None);
            let values = self.request(&[command]).await.map_err(Unheard::Unanswered)?;
            for value in values {
                answer(channel, value).map_err(Unheard::Refused)?;
            }
            Ok(())
        };
        subscription.confirmed.get_or_try_init(subscribe).await?;
        Ok(subscription)
    }

    /// The subscription to a channel, where the server has confirmed it.
    pub(crate) fn subscribed(&self, channel: &[u8]) -> Option<Arc<Subscription>> {
        self.channels().get(channel).filter(|subscription| subscription.confirmed.initialized()).cloned()
    }

    /// The server has ended the subscription to a channel.
    pub(super) fn unsubscribed(&self, channel: &[u8]) {
        if let Some(subscription) = self.channels().remove(channel) {
            subscription.gone.cancel();
        }
    }

    fn channels(&self) -> MutexGuard<'_, BTreeMap<Vec<u8>, Arc<Subscription>>> {
        self.channels.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a server calls itself, from when it was started to its end.
fn run_id(info: Value) -> Option<String> {
    let info: String = redis::from_redis_value(info).ok()?;
    info.lines().find_map(|line| line.strip_prefix("run_id:")).map(str::to_string)
}

/// Whether a reply answers no request.
///
/// The driver takes the end of a subscription for the reply to whatever was asked first, since it is the reply to
/// SUNSUBSCRIBE. A server that gives a slot away says it unasked, and every later reply goes to the wrong request.
fn is_unasked(value: &Value) -> bool {
    matches!(value, Value::Push { kind: PushKind::SUnsubscribe, .. })
}
