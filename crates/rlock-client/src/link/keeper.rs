//! Keeping a connection up: connect, listen, PING, and connect again, for ever.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::DropGuard;

use super::life::Life;
use super::links::{Links, Pace};
use super::live::{Live, Suspicion};
use super::role::pulse;
use super::transport::{Connector, Incoming};
use crate::error::Error;
use crate::events::Event;

/// The pause after the first failed attempt to connect; each next is twice as long …
const FIRST_PAUSE: Duration = Duration::from_millis(10);

/// … up to this.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Why the connection to a demoted server is left.
const DEMOTED: &str = "it is no longer a primary";

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

/// A link to one server. Dropping it closes its connection.
pub(crate) struct Link {
    connector: Arc<dyn Connector>,
    state: watch::Receiver<State>,
    was_up: Arc<AtomicBool>,
    suspicions: UnboundedSender<Suspicion>,
    _ends: DropGuard,
}

impl Link {
    /// Starts to connect, on the runtime of `links`; ends with their `stop` at the latest.
    pub(crate) fn start(connector: Arc<dyn Connector>, links: &Links) -> Link {
        let stop = links.stop.child_token();
        let ends = stop.clone().drop_guard();
        let (publish, state) = watch::channel(State::Connecting);
        let (suspicions, doubts) = unbounded_channel();
        let was_up = Arc::<AtomicBool>::default();
        let mut keeper = Keeper {
            connector: connector.clone(),
            pace: links.pace,
            links: links.clone(),
            publish,
            was_up: was_up.clone(),
            suspicions: suspicions.clone(),
            doubts,
        };
        links.runtime.spawn(async move {
            tokio::select! {
                () = stop.cancelled() => (),
                () = keeper.run() => (),
            }
            // Views of holds may outlive their client; its connection must not.
            keeper.publish.send_replace(State::Down(Error::Closed));
        });
        Link { connector, state, was_up, suspicions, _ends: ends }
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
            _ => Err(Error::Closed),
        }
    }

    /// Waits until there is a connection, or an attempt to get one has failed.
    pub(crate) async fn settled(&self) -> Result<Arc<Live>, Error> {
        let mut state = self.state.clone();
        let state = state.wait_for(|state| !matches!(state, State::Connecting)).await;
        match state.as_deref() {
            Ok(State::Up(live)) => Ok(live.clone()),
            Ok(State::Down(error)) => Err(error.clone()),
            _ => Err(Error::Closed),
        }
    }

    /// Why there is no connection, as far as it is known.
    pub(crate) fn trouble(&self) -> Error {
        match &*self.state.borrow() {
            State::Down(error) => error.clone(),
            State::Connecting | State::Up(_) => {
                Error::transport(self.connector.server(), "no connection yet")
            }
        }
    }

    /// Whether there was no connection yet, so that the first one may be under way.
    pub(crate) fn is_new(&self) -> bool {
        !self.was_up.load(Ordering::Relaxed)
    }

    /// Waits until an attempt to connect was refused for want of leave, which no further attempt will mend.
    pub(crate) async fn denied(&self) -> Error {
        let mut state = self.state.clone();
        let denied = |state: &State| matches!(state, State::Down(Error::Permission { .. }));
        match state.wait_for(denied).await.as_deref() {
            Ok(State::Down(error)) => error.clone(),
            _ => Error::Closed,
        }
    }

    /// Waits until the connection of this epoch is no longer the one in use.
    pub(crate) async fn left(&self, epoch: u64) {
        let mut state = self.state.clone();
        let gone = |state: &State| !matches!(state, State::Up(live) if live.epoch == epoch);
        // An error is a link that has ended: gone as well.
        let _ = state.wait_for(gone).await;
    }

    /// Asks for another connection in place of the one of this epoch, which is to a server that is no longer a primary.
    pub(crate) fn demoted(&self, epoch: u64) {
        // Without a receiver the link has ended.
        let _ = self.suspicions.send(Suspicion { epoch, why: DEMOTED });
    }
}

/// The longest pause between two attempts to connect, and how long one may take: holds that were tied to the last
/// connection must be tied to the next one within their grace.
fn haste(grace: Option<Duration>, response: Duration) -> (Duration, Duration) {
    let grace = grace.unwrap_or(Duration::MAX);
    (LONGEST_PAUSE.min(grace / 8), response.min(grace / 2))
}

/// How long to wait before a connection is asked, and then for its answer.
///
/// A session's grace has room for both and a quarter more, in which its holds are tied to another connection.
fn heartbeat(grace: Option<Duration>, response: Duration) -> (Duration, Duration) {
    let grace = grace.unwrap_or(Duration::MAX);
    (response.min(grace / 4), response.min(grace / 2))
}

struct Keeper {
    connector: Arc<dyn Connector>,
    pace: Pace,
    links: Links,
    publish: watch::Sender<State>,
    was_up: Arc<AtomicBool>,
    suspicions: UnboundedSender<Suspicion>,
    doubts: UnboundedReceiver<Suspicion>,
}

impl Keeper {
    async fn run(&mut self) {
        let mut pause = FIRST_PAUSE;
        let mut lost_at = None;
        // That of the last connection.
        let mut life = Arc::<Life>::default();
        // The child of a fork needs no connection: it may send nothing.
        while std::process::id() == self.pace.process {
            let (sender, events) = unbounded_channel();
            let was_up = self.was_up.load(Ordering::Relaxed);
            let usual = if was_up { self.pace.response } else { self.pace.first };
            let (longest_pause, patience) = haste(life.shortest_grace(), usual);
            let attempt = timeout(patience, self.connector.connect(sender, patience)).await;
            let no_answer =
                || Error::transport(self.connector.server(), format!("no connection within {patience:?}"));
            match attempt.unwrap_or_else(|_| Err(no_answer())) {
                Ok(dialled) => {
                    pause = FIRST_PAUSE;
                    let live = Arc::new(Live::new(dialled, self.suspicions.clone(), self.pace));
                    self.was_up.store(true, Ordering::Relaxed);
                    self.publish.send_replace(State::Up(live.clone()));
                    self.report_restored(&live, lost_at.take());
                    let why = self.serve(&live, events).await;
                    let error = Error::transport(live.server.as_str(), why.clone());
                    // Before it is published: a hold that sees the next connection must see that this one has ended.
                    live.life.end(why);
                    life = live.life.clone();
                    lost_at = Some(Instant::now());
                    self.publish.send_replace(State::Down(error.clone()));
                    let server = &live.server;
                    self.links.events.tell(Event::Disconnected { server, error: &error });
                }
                Err(error) => {
                    tracing::debug!(%error, "could not connect");
                    self.publish.send_replace(State::Down(error));
                }
            }
            // Clients that lost the same server should not come back in step.
            tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
            pause = pause.saturating_mul(2).min(longest_pause);
        }
    }

    /// Reports a connection where one was lost before, at `lost_at`. The receiver may ask for the state, which must have been
    /// published.
    fn report_restored(&self, live: &Live, lost_at: Option<Instant>) {
        let Some(lost_at) = lost_at else { return };
        self.links.restored.notify_one();
        let (server, after) = (&live.server, lost_at.elapsed());
        self.links.events.tell(Event::Reconnected { server, after });
    }

    /// Listens until the connection is gone or given up; says why.
    async fn serve(&mut self, live: &Live, mut events: UnboundedReceiver<Incoming>) -> String {
        let (epoch, connector) = (live.epoch, self.connector.clone());
        let alive = keep_asking(live, connector.as_ref(), self.pace);
        let moved = connector.moved(&live.server);
        tokio::pin!(alive, moved);
        loop {
            tokio::select! {
                event = events.recv() => match event {
                    Some(Incoming::Message(message)) => (self.links.deliver)(&message),
                    Some(Incoming::Unsubscribed(channel)) => live.unsubscribed(&channel),
                    Some(Incoming::Closed) | None => return "it was closed".into(),
                },
                Some(suspected) = self.doubts.recv() => if suspected.epoch == epoch {
                    return suspected.why.into();
                },
                why = &mut alive => return why,
                why = &mut moved => return why,
            }
        }
    }
}

/// Asks the server now and then whether it is there: a wait must not hang on a connection that is dead, and each answer is
/// the proof by which the holds live that are tied to it.
async fn keep_asking(live: &Live, connector: &dyn Connector, pace: Pace) -> String {
    loop {
        let (pause, patience) = heartbeat(live.life.shortest_grace(), pace.response);
        let patience = patience.saturating_add(pace.blocking);
        tokio::select! {
            () = tokio::time::sleep(pause) => (),
            () = live.life.quicker() => continue,
        }
        match live.ask(&[pulse()], patience, pace.response.saturating_add(pace.blocking)).await {
            Ok(answers) if answers.iter().all(|answer| connector.is_well(answer)) => (),
            Ok(_) => return DEMOTED.into(),
            Err(why) => return why,
        }
    }
}
