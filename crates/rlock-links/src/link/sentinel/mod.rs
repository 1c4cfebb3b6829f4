//! Connections to the primary that the Sentinels name.

mod answer;
mod watch;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch::Sender;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use self::answer::{Answer, Question, choose};
use super::links::Links;
use super::redis::RedisConnector;
use super::role::{is_replica, pulse};
use super::transport::{BoxFuture, Connection, Connector, Dialled, Incoming};
use crate::error::Error;

/// Makes a connector for `host:port`.
pub(crate) type Template = Box<dyn Fn(&str) -> Result<RedisConnector, Error> + Send + Sync>;

/// How long the other Sentinels may take to answer after the first one, or after one that named others.
const OTHERS: Duration = Duration::from_millis(250);

/// The most Sentinels of one service that are asked.
const MOST: usize = 32;

/// How many Sentinels an error names.
const NAMED: usize = 5;

/// A primary and its Sentinels, as a URL names them.
pub(crate) struct Service {
    /// The name that the Sentinels have for the primary.
    pub(crate) name: String,
    /// The Sentinels, each as a `host:port` that `sentinel` accepts.
    pub(crate) sentinels: Vec<String>,
    /// Makes connectors to Sentinels, with the user of the Sentinels.
    pub(crate) sentinel: Template,
    /// Makes connectors to primaries, with the user and the database of the primary.
    pub(crate) primary: Template,
}

/// A connector to the primary. It asks all Sentinels for every connection, and leaves a server as soon as a Sentinel names another.
pub(crate) struct SentinelConnector(Arc<Sentinels>);

/// The Sentinels that are known, and what they said last.
struct Sentinels {
    service: Service,
    /// The Sentinels of the URL, and behind them those that they listed.
    known: Mutex<Vec<Arc<Sentinel>>>,
    belief: Sender<Option<Belief>>,
    links: Links,
}

struct Sentinel {
    address: String,
    connector: RedisConnector,
}

/// Which server is the primary.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Belief {
    /// The configuration epoch by which it was chosen.
    epoch: u64,
    address: String,
}

impl SentinelConnector {
    /// Starts to watch the Sentinels, for as long as `links` last.
    pub(crate) fn start(service: Service, links: Links) -> SentinelConnector {
        let (known, belief) = (Mutex::default(), Sender::new(None));
        let sentinels = Arc::new(Sentinels { service, known, belief, links });
        let named = sentinels.service.sentinels.clone();
        sentinels.learn(&named);
        SentinelConnector(sentinels)
    }

    async fn dial(&self, events: UnboundedSender<Incoming>, within: Duration) -> Result<Dialled, Error> {
        let sentinels = &self.0;
        let before = sentinels.belief.borrow().clone();
        // The primary gets what is left of the time.
        let (belief, by) = sentinels.ask_all(after(within / 2)).await?;
        let Belief { address, .. } = &belief;
        let primary = (sentinels.service.primary)(address)?.dial(events).await?;
        let answers = primary.send(vec![pulse()]).await;
        let answers = answers.map_err(|why| Error::transport(address.as_str(), why))?;
        // A Sentinel may name a server that was demoted or that is not promoted yet.
        if answers.iter().any(is_replica) {
            let why = format!("it is a replica, but the Sentinel {by} names it as the primary");
            return Err(Error::transport(address.as_str(), why));
        }
        let server = address.clone();
        // News of a Sentinel that arrived meanwhile is newer.
        let news = sentinels.belief.borrow().clone().filter(|news| before.as_ref() != Some(news));
        if let Some(news) = news.filter(|news| news.address != server) {
            return Err(Error::transport(server, format!("{} is the primary now", news.address)));
        }
        sentinels.belief.send_replace(Some(belief));
        Ok(Dialled { connection: Box::new(primary), server })
    }
}

impl Sentinels {
    /// Asks all Sentinels at once, and then those that they name. Returns the primary, and the Sentinel that named it.
    async fn ask_all(self: &Arc<Self>, silence: Instant) -> Result<(Belief, String), Error> {
        let (mut asking, mut asked) = (JoinSet::new(), 0_usize);
        let (mut answers, mut failures) = (Vec::new(), Vec::new());
        let before = self.belief.borrow().as_ref().map(|belief| belief.epoch);
        let (mut by, mut has_current) = (silence, false);
        loop {
            for sentinel in self.known().get(asked..).unwrap_or_default() {
                asked = asked.saturating_add(1);
                asking.spawn(ask(sentinel.clone(), self.service.name.clone()));
            }
            let Ok(Some(outcome)) = timeout_at(by, asking.join_next()).await else { break };
            match outcome {
                Ok(Ok(answer)) => {
                    let is_current = before.is_none_or(|before| answer.epoch >= before);
                    // A Sentinel that hangs must not hold up the others, unless those are behind one that was heard.
                    if self.learn(&answer.others) || (is_current && !has_current) {
                        by = silence.min(after(OTHERS));
                    }
                    has_current |= is_current;
                    answers.push(answer);
                }
                Ok(Err(failure)) => failures.push(failure),
                Err(_) => (),
            }
        }
        if let Some(best) = choose(&answers, before, asked) {
            let belief = Belief { epoch: best.epoch, address: best.address.clone() };
            return Ok((belief, best.sentinel.clone()));
        }
        Err(self.silent(&answers, failures))
    }

    /// Why no primary is known.
    fn silent(&self, answers: &[Answer], failures: Vec<Failure>) -> Error {
        let mut texts: Vec<String> = answers.iter().map(Answer::outdated).collect();
        for failure in failures {
            match failure.error {
                Error::Transport { source, .. } => texts.push(format!("{}: {source}", failure.sentinel)),
                // All Sentinels admit the same users.
                error => return error,
            }
        }
        if texts.is_empty() {
            texts.push("no Sentinel answered in time".into());
        }
        texts.truncate(NAMED);
        Error::transport(self.server(), texts.join("; "))
    }

    /// Adds Sentinels to those that are known, and watches them; returns whether one was new.
    fn learn(self: &Arc<Self>, addresses: &[String]) -> bool {
        let mut known = self.known();
        let before = known.len();
        for address in addresses {
            if known.len() >= MOST || known.iter().any(|sentinel| sentinel.address == *address) {
                continue;
            }
            let Ok(connector) = (self.service.sentinel)(address) else { continue };
            let sentinel = Arc::new(Sentinel { address: address.clone(), connector });
            known.push(sentinel.clone());
            let (watching, stop) = (watch::watch(self.clone(), sentinel), self.links.stop.clone());
            self.links.runtime.spawn(async move {
                tokio::select! {
                    () = stop.cancelled() => (),
                    () = watching => (),
                }
            });
        }
        known.len() > before
    }

    /// A Sentinel says that the primary was replaced.
    fn heard(&self, address: String) {
        self.belief.send_if_modified(|belief| match belief {
            Some(belief) if belief.address != address => {
                belief.address = address;
                true
            }
            _ => false,
        });
    }

    /// A Sentinel was asked without need: only a newer configuration than the one in use counts.
    fn consider(self: &Arc<Self>, answer: Answer) {
        self.learn(&answer.others);
        self.belief.send_if_modified(|belief| match belief {
            Some(belief) if answer.epoch > belief.epoch && answer.address != belief.address => {
                *belief = Belief { epoch: answer.epoch, address: answer.address };
                true
            }
            _ => false,
        });
    }

    fn server(&self) -> String {
        format!("{} of the Sentinels {}", self.service.name, self.service.sentinels.join(", "))
    }

    fn known(&self) -> MutexGuard<'_, Vec<Arc<Sentinel>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The moment this much later, which is not long.
fn after(time: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(time).unwrap_or(now)
}

/// What a Sentinel did not say.
struct Failure {
    sentinel: String,
    error: Error,
}

/// Asks a Sentinel once, on a connection for this question.
async fn ask(sentinel: Arc<Sentinel>, service: String) -> Result<Answer, Failure> {
    let (unheard, _) = tokio::sync::mpsc::unbounded_channel();
    let asked = async {
        let connection = sentinel.connector.dial(unheard).await.map_err(answer::said_by_a_sentinel)?;
        Question::default().ask(&connection, &sentinel.address, &service).await
    };
    asked.await.map_err(|error| Failure { sentinel: sentinel.address.clone(), error })
}

impl Connector for SentinelConnector {
    fn connect(
        &self,
        events: UnboundedSender<Incoming>,
        within: Duration,
    ) -> BoxFuture<'_, Result<Dialled, Error>> {
        Box::pin(self.dial(events, within))
    }

    fn server(&self) -> String {
        self.0.server()
    }

    /// A server may be demoted without a word to its clients; from that time it answers reads with old data.
    fn is_well(&self, answer: &redis::Value) -> bool {
        !is_replica(answer)
    }

    /// A demoted server may accept writes for many seconds before it knows.
    fn moved<'a>(&'a self, server: &'a str) -> BoxFuture<'a, String> {
        let mut belief = self.0.belief.subscribe();
        Box::pin(async move {
            let elsewhere =
                |belief: &Option<Belief>| belief.as_ref().is_some_and(|belief| belief.address != server);
            let now = belief.wait_for(elsewhere).await.ok().and_then(|belief| belief.clone());
            match now {
                Some(belief) => format!("{} is the primary now", belief.address),
                // Cannot happen: this connector has the sender.
                None => std::future::pending().await,
            }
        })
    }
}

/// A host as it stands in a URL.
pub(crate) fn in_url(host: &str) -> String {
    if host.contains(':') && !host.starts_with('[') { format!("[{host}]") } else { host.to_string() }
}
