//! Keeping a connection up: connect, listen, PING, and connect again, for ever.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::DropGuard;

use super::links::Links;
use super::live::{Live, Suspicion};
use super::role::pulse;
use super::transport::{Connector, Dialled, Incoming};
use crate::LOG;
use crate::clock::Instant as Moment;
use crate::error::Error;

/// The pause after the first failed attempt to connect; each next is twice as long …
const FIRST_PAUSE: Duration = Duration::from_millis(10);

/// … up to this.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Why the connection to a demoted server is left.
pub(crate) const DEMOTED: &str = "it is no longer a primary";

/// Whether there is a connection.
#[derive(Clone)]
pub(crate) enum State {
    /// There is no connection yet, and no attempt has failed.
    Connecting,
    /// The last attempt failed.
    Down(Error),
    /// There is a connection.
    Up(Arc<Live>),
}

/// What happens on a link.
pub(crate) enum Report<'a> {
    /// There is a connection again, this long after the last one was lost.
    Restored(&'a Live, Duration),
    /// There is a connection.
    Up(&'a Arc<Live>),
    /// The connection is gone, for this reason. Each request on it has got its answer.
    Down(&'a Live, &'a Error),
    /// An attempt to connect failed.
    Failed(&'a Error),
    /// A message on a channel that was subscribed.
    Message(&'a Live, &'a [u8]),
    /// The server has answered a heartbeat that was sent at this moment.
    Alive(Moment),
}

/// The receiver of a link's reports.
pub(crate) type Reports = Box<dyn Fn(Report<'_>) + Send + Sync>;

/// A link to one server. Dropping it closes its connection.
pub struct Link {
    connector: Arc<dyn Connector>,
    state: watch::Receiver<State>,
    was_up: Arc<AtomicBool>,
    _ends: DropGuard,
}

impl Link {
    /// Starts to connect, on the runtime of `links`; ends with their `stop` at the latest.
    pub(crate) fn start(connector: Arc<dyn Connector>, links: &Links, reports: Reports) -> Link {
        let stop = links.stop.child_token();
        let ends = stop.clone().drop_guard();
        let (publish, state) = watch::channel(State::Connecting);
        let (suspicions, doubts) = unbounded_channel();
        let was_up = Arc::<AtomicBool>::default();
        let mut keeper = Keeper {
            connector: connector.clone(),
            links: links.clone(),
            reports,
            publish,
            was_up: was_up.clone(),
            suspicions,
            doubts,
        };
        links.runtime.spawn(async move {
            tokio::select! {
                () = stop.cancelled() => (),
                () = keeper.run() => (),
            }
            // Owners of this link may outlive their client; its connection must not.
            if let State::Up(live) = keeper.publish.send_replace(State::Down(Error::Closed)) {
                live.end.set("the client was closed".into());
            }
        });
        Link { connector, state, was_up, _ends: ends }
    }

    /// The connection, if there is one now.
    pub fn live(&self) -> Option<Arc<Live>> {
        match &*self.state.borrow() {
            State::Up(live) => Some(live.clone()),
            State::Connecting | State::Down(_) => None,
        }
    }

    /// Waits until there is a connection.
    ///
    /// # Errors
    ///
    /// [`Error::Closed`] after the end of the links.
    pub async fn up(&self) -> Result<Arc<Live>, Error> {
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
    pub(crate) fn fault(&self) -> Error {
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
}

/// The longest pause between two attempts to connect, and how long one may take: the sessions of the last connection
/// must reach the next one within their grace.
fn haste(grace: Option<Duration>, response: Duration) -> (Duration, Duration) {
    let grace = grace.unwrap_or(Duration::MAX);
    (LONGEST_PAUSE.min(grace / 8), response.min(grace / 2))
}

/// How long to wait before a connection is asked, and then for its answer.
///
/// A session's grace has room for both and a quarter more, in which the session moves to another connection.
fn heartbeat(grace: Option<Duration>, response: Duration) -> (Duration, Duration) {
    let grace = grace.unwrap_or(Duration::MAX);
    (response.min(grace / 4), response.min(grace / 2))
}

struct Keeper {
    connector: Arc<dyn Connector>,
    links: Links,
    reports: Reports,
    publish: watch::Sender<State>,
    was_up: Arc<AtomicBool>,
    suspicions: UnboundedSender<Suspicion>,
    doubts: UnboundedReceiver<Suspicion>,
}

impl Keeper {
    async fn run(&mut self) {
        let mut pause = FIRST_PAUSE;
        let mut lost_at = None;
        let pace = self.links.pace;
        // The child of a fork needs no connection: it may send nothing.
        while std::process::id() == pace.process {
            let (sender, events) = unbounded_channel();
            let usual = if self.was_up.load(Ordering::Relaxed) { pace.response } else { pace.first };
            let grace = *self.links.graces.shortest().borrow();
            let (longest_pause, patience) = haste(grace, usual);
            let attempt = timeout(patience, self.connector.connect(sender, patience)).await;
            let no_answer =
                || Error::transport(self.connector.server(), format!("no connection within {patience:?}"));
            match attempt.unwrap_or_else(|_| Err(no_answer())) {
                Ok(dialled) => {
                    pause = FIRST_PAUSE;
                    self.use_up(dialled, events, &mut lost_at).await;
                }
                Err(error) => {
                    tracing::debug!(target: LOG, %error, "could not connect");
                    self.publish.send_replace(State::Down(error.clone()));
                    (self.reports)(Report::Failed(&error));
                }
            }
            // Clients that lost the same server should not come back in step.
            tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
            pause = pause.saturating_mul(2).min(longest_pause);
        }
    }

    /// Serves a connection to its end.
    async fn use_up(
        &mut self,
        dialled: Dialled,
        mut events: UnboundedReceiver<Incoming>,
        lost_at: &mut Option<Instant>,
    ) {
        let live = Arc::new(Live::new(dialled, self.suspicions.clone(), self.links.clone()));
        self.was_up.store(true, Ordering::Relaxed);
        self.publish.send_replace(State::Up(live.clone()));
        if let Some(lost_at) = lost_at.take() {
            (self.reports)(Report::Restored(&live, lost_at.elapsed()));
        }
        (self.reports)(Report::Up(&live));
        let why = self.serve(&live, &mut events).await;
        let error = Error::transport(live.server.as_str(), why.clone());
        live.end.set(why);
        *lost_at = Some(Instant::now());
        self.publish.send_replace(State::Down(error.clone()));
        live.under_way.closed().await;
        (self.reports)(Report::Down(&live, &error));
    }

    /// Listens until the connection is gone or given up; says why.
    async fn serve(&mut self, live: &Arc<Live>, events: &mut UnboundedReceiver<Incoming>) -> String {
        let connector = self.connector.clone();
        let alive = keep_asking(live, connector.as_ref(), &self.links, &self.reports);
        let moved = connector.moved(&live.server);
        tokio::pin!(alive, moved);
        loop {
            tokio::select! {
                biased;
                Some(suspected) = self.doubts.recv() => if suspected.epoch == live.epoch {
                    return suspected.why.into();
                },
                event = events.recv() => match event {
                    Some(Incoming::Message(message)) => (self.reports)(Report::Message(live, &message)),
                    Some(Incoming::Unsubscribed) => return "its subscription was ended".into(),
                    Some(Incoming::Closed) | None => return "it was closed".into(),
                },
                why = &mut alive => return why,
                why = &mut moved => return why,
            }
        }
    }
}

/// Sends heartbeats: no caller may wait on a dead connection, and each answer proves that the sessions of this connection live.
async fn keep_asking(
    live: &Arc<Live>,
    connector: &dyn Connector,
    links: &Links,
    reports: &Reports,
) -> String {
    let pace = links.pace;
    let mut shortest = links.graces.shortest();
    loop {
        let (pause, patience) = heartbeat(*shortest.borrow_and_update(), pace.response);
        let patience = patience.saturating_add(pace.blocking);
        tokio::select! {
            () = tokio::time::sleep(pause) => (),
            Ok(()) = shortest.changed() => continue,
        }
        let sent = live.now();
        match live.ask(vec![pulse()], patience, pace.response.saturating_add(pace.blocking)).await {
            Ok(answers) if answers.iter().all(|answer| connector.is_well(answer)) => {
                reports(Report::Alive(sent))
            }
            Ok(_) => return DEMOTED.into(),
            Err(why) => return why,
        }
    }
}
