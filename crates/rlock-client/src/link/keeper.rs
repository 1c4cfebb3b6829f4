//! Keeping a connection up: connect, listen, PING, and connect again, for ever.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::{Cmd, PushKind, Value, cmd};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{OnceCell, watch};
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::transport::{Connection, Connector, Event};
use crate::command::{Refusal, answer};
use crate::error::Error;

/// The pause after the first failed attempt to connect; each next is twice as long …
const FIRST_PAUSE: Duration = Duration::from_millis(10);

/// … up to this.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// What is done with a message.
pub(crate) type Deliver = Arc<dyn Fn(&[u8]) + Send + Sync>;

/// The times a link goes by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// A connection that leaves a request unanswered for so long is given up; idle ones are asked as often.
    pub(crate) response: Duration,
}

/// Whether there is a connection.
#[derive(Clone)]
pub(crate) enum State {
    /// Not yet, and no attempt has failed.
    Connecting,
    /// The last attempt failed.
    Down(Error),
    /// There is.
    Up(Arc<Live>),
}

/// A connection that is up.
pub(crate) struct Live {
    /// Differs between any two connections of this process.
    pub(crate) epoch: u64,
    connection: Box<dyn Connection>,
    channels: Mutex<HashMap<Vec<u8>, Arc<Subscription>>>,
    suspicions: UnboundedSender<u64>,
    pace: Pace,
}

/// A channel that is being listened to.
#[derive(Default)]
struct Subscription {
    confirmed: OnceCell<()>,
    gone: CancellationToken,
}

/// Why a channel is not listened to.
#[derive(Debug)]
pub(crate) enum Unheard {
    Refused(Refusal),
    Unanswered(String),
}

/// A link to one server. Dropping it closes its connection.
pub(crate) struct Link {
    state: watch::Receiver<State>,
    suspicions: UnboundedSender<u64>,
    _ends: DropGuard,
}

impl Link {
    /// Starts to connect, on `runtime`; ends with `stop` at the latest.
    pub(crate) fn start(
        connector: Arc<dyn Connector>,
        pace: Pace,
        deliver: Deliver,
        runtime: &Handle,
        stop: &CancellationToken,
    ) -> Link {
        let stop = stop.child_token();
        let ends = stop.clone().drop_guard();
        let (publish, state) = watch::channel(State::Connecting);
        let (suspicions, doubts) = unbounded_channel();
        let keeper = Keeper { connector, pace, deliver, publish, suspicions: suspicions.clone(), doubts };
        runtime.spawn(async move {
            tokio::select! {
                () = stop.cancelled() => (),
                () = keeper.run() => (),
            }
        });
        Link { state, suspicions, _ends: ends }
    }

    /// The connection, if there is one now.
    pub(crate) fn live(&self) -> Option<Arc<Live>> {
        match &*self.state.borrow() {
            State::Up(live) => Some(live.clone()),
            State::Connecting | State::Down(_) => None,
        }
    }

    /// Waits until there is a connection.
    pub(crate) async fn up(&self) -> Result<Arc<Live>, Error> {
        if let Some(live) = self.live() {
            return Ok(live);
        }
        let mut state = self.state.clone();
        let state = state.wait_for(|state| matches!(state, State::Up(_))).await;
        match state.as_deref() {
            Ok(State::Up(live)) => Ok(live.clone()),
            _ => Err(Error::ShutDown),
        }
    }

    /// Waits until there is a connection, or an attempt to get one has failed.
    pub(crate) async fn settled(&self) -> Result<Arc<Live>, Error> {
        let mut state = self.state.clone();
        let state = state.wait_for(|state| !matches!(state, State::Connecting)).await;
        match state.as_deref() {
            Ok(State::Up(live)) => Ok(live.clone()),
            Ok(State::Down(error)) => Err(error.clone()),
            _ => Err(Error::ShutDown),
        }
    }

    /// Why there is no connection, as far as it is known.
    pub(crate) fn trouble(&self) -> Error {
        match &*self.state.borrow() {
            State::Down(error) => error.clone(),
            State::Connecting | State::Up(_) => Error::transport("no connection yet"),
        }
    }

    /// Waits until the connection of this epoch is no longer the one in use.
    pub(crate) async fn left(&self, epoch: u64) {
        let mut state = self.state.clone();
        let gone = |state: &State| !matches!(state, State::Up(live) if live.epoch == epoch);
        // An error is a link that has ended: gone as well.
        let _ = state.wait_for(gone).await;
    }

    /// Asks for another connection in place of the one of this epoch.
    pub(crate) fn suspect(&self, epoch: u64) {
        // Without a receiver the link has ended.
        let _ = self.suspicions.send(epoch);
    }
}

impl Live {
    /// Sends commands in one piece. `Err`: they may or may not have been carried out.
    ///
    /// A connection that does not answer within the link's response time is given up.
    pub(crate) async fn request(&self, commands: Vec<Cmd>) -> Result<Vec<Value>, String> {
        self.request_within(commands, self.pace.response).await
    }

    /// As [`Live::request`], with a time of its own.
    pub(crate) async fn request_within(
        &self,
        commands: Vec<Cmd>,
        time: Duration,
    ) -> Result<Vec<Value>, String> {
        let expected = commands.len();
        match timeout(time, self.connection.send(commands)).await {
            Ok(Ok(values)) if values.iter().any(is_unasked) => {
                let _ = self.suspicions.send(self.epoch);
                Err("replies and requests are out of step".into())
            }
            Ok(Ok(values)) if values.len() == expected => Ok(values),
            Ok(Ok(values)) => Err(format!("{} replies to {expected} commands", values.len())),
            Ok(Err(error)) => Err(error),
            Err(_) => {
                if time >= self.pace.response {
                    let _ = self.suspicions.send(self.epoch);
                }
                Err(format!("no reply within {time:?}"))
            }
        }
    }

    /// Subscribes to a channel, unless that was done on this connection.
    ///
    /// The token that is returned is cancelled when the server ends the subscription by itself.
    pub(crate) async fn subscribe(&self, word: &str, channel: &[u8]) -> Result<CancellationToken, Unheard> {
        let subscription = self.channels().entry(channel.to_vec()).or_default().clone();
        let subscribe = || async {
            let values =
                self.request(vec![cmd(word).arg(channel).clone()]).await.map_err(Unheard::Unanswered)?;
            for value in values {
                answer(channel, value).map_err(Unheard::Refused)?;
            }
            Ok(())
        };
        subscription.confirmed.get_or_try_init(subscribe).await?;
        Ok(subscription.gone.clone())
    }

    /// Whether a channel is subscribed to.
    pub(crate) fn hears(&self, channel: &[u8]) -> bool {
        self.channels().get(channel).is_some_and(|subscription| subscription.confirmed.initialized())
    }

    /// The server has ended the subscription to a channel.
    fn unsubscribed(&self, channel: &[u8]) {
        if let Some(subscription) = self.channels().remove(channel) {
            subscription.gone.cancel();
        }
    }

    fn channels(&self) -> MutexGuard<'_, HashMap<Vec<u8>, Arc<Subscription>>> {
        self.channels.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a reply is none.
///
/// The driver takes the end of a subscription for the reply to whatever was asked first, since it is the reply to
/// SUNSUBSCRIBE. A server that gives a slot away says it unasked, and every later reply goes to the wrong request.
fn is_unasked(value: &Value) -> bool {
    matches!(value, Value::Push { kind: PushKind::SUnsubscribe, .. })
}

struct Keeper {
    connector: Arc<dyn Connector>,
    pace: Pace,
    deliver: Deliver,
    publish: watch::Sender<State>,
    suspicions: UnboundedSender<u64>,
    doubts: UnboundedReceiver<u64>,
}

impl Keeper {
    async fn run(mut self) {
        let mut pause = FIRST_PAUSE;
        loop {
            let (sender, events) = unbounded_channel();
            let attempt =
                timeout(self.pace.response, self.connector.connect(sender, self.pace.response)).await;
            let no_answer = || Error::transport(format!("no connection within {:?}", self.pace.response));
            let reason = match attempt.unwrap_or_else(|_| Err(no_answer())) {
                Ok(connection) => {
                    pause = FIRST_PAUSE;
                    let reason = self.serve(connection, events).await;
                    tracing::warn!(reason, "the connection to the server was lost");
                    Error::transport(reason)
                }
                Err(error) => {
                    tracing::debug!(%error, "could not connect");
                    error
                }
            };
            self.publish.send_replace(State::Down(reason));
            // Clients that lost the same server should not come back in step.
            tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
            pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
        }
    }

    /// Listens until the connection is gone or given up; says why.
    async fn serve(
        &mut self,
        connection: Box<dyn Connection>,
        mut events: UnboundedReceiver<Event>,
    ) -> String {
        static EPOCHS: AtomicU64 = AtomicU64::new(1);
        let epoch = EPOCHS.fetch_add(1, Ordering::Relaxed);
        let live = Arc::new(Live {
            epoch,
            connection,
            channels: Mutex::default(),
            suspicions: self.suspicions.clone(),
            pace: self.pace,
        });
        self.publish.send_replace(State::Up(live.clone()));
        let alive = keep_asking(&live, self.connector.as_ref(), self.pace.response);
        tokio::pin!(alive);
        loop {
            tokio::select! {
                event = events.recv() => match event {
                    Some(Event::Message(message)) => (self.deliver)(&message),
                    Some(Event::Unsubscribed(channel)) => live.unsubscribed(&channel),
                    Some(Event::Closed) | None => return "it was closed".into(),
                },
                Some(suspected) = self.doubts.recv() => if suspected == epoch {
                    return "it was given up".into();
                },
                why = &mut alive => return why,
            }
        }
    }
}

/// Asks the server now and then whether it is there: a wait must not hang on a connection that is dead.
async fn keep_asking(live: &Live, connector: &dyn Connector, every: Duration) -> String {
    loop {
        tokio::time::sleep(every).await;
        match live.request(vec![connector.pulse()]).await {
            Ok(answers) if answers.iter().all(|answer| connector.is_well(answer)) => (),
            Ok(_) => return "the server is no primary any more".into(),
            Err(why) => return why,
        }
    }
}
