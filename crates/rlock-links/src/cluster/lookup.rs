//! Asking the servers of a cluster which of them has which slots.

use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::{Cmd, Value, cmd};
use tokio::sync::mpsc::unbounded_channel;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::Inner;
use super::map::{Map, host_of};
use crate::LOG;
use crate::error::Error;
use crate::link::{Connection, RedisConnector};
use crate::node::Node;
use crate::refusal::answer;

/// The pause after the map was read. Each further pause is twice as long while the map is in doubt and brings no news …
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// … up to this.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// How often the map is read while it is not in doubt.
const AT_LEAST_EVERY: Duration = Duration::from_secs(60);

/// How many servers are asked at a time; the first answer counts. `MOVED` corrects its errors.
const ASKED: usize = 3;

/// A server to ask for the map.
enum Source {
    /// A server with a connection.
    Linked(Arc<Node>),
    /// A server to connect to for this.
    Dialled(Box<RedisConnector>),
}

impl Inner {
    /// Keeps the map up to date, for ever.
    pub(super) async fn keep_looking(self: Arc<Self>) {
        let mut pause = FIRST_PAUSE;
        loop {
            let known = match self.look().await {
                Ok(map) => {
                    if self.install(map) {
                        pause = FIRST_PAUSE;
                        if let Some(watch) = self.watch.upgrade() {
                            watch.moved();
                        }
                    }
                    self.progress.send_modify(|progress| {
                        let times = progress.as_ref().and_then(|outcome| outcome.as_ref().ok());
                        *progress = Some(Ok(times.map_or(0, |times| times.wrapping_add(1))));
                    });
                    true
                }
                Err(error) => {
                    tracing::debug!(target: LOG, %error, "no server answered with the slots");
                    self.progress.send_if_modified(|progress| match progress {
                        Some(Ok(_)) => false,
                        Some(Err(_)) | None => progress.replace(Err(error)).is_none(),
                    });
                    false
                }
            };
            // Clients that lost the same server should not come back in step.
            sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
            pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
            let quiet = Instant::now();
            if known {
                let _ = timeout(AT_LEAST_EVERY, self.doubts.notified()).await;
            }
            if quiet.elapsed() > LONGEST_PAUSE {
                pause = FIRST_PAUSE;
            }
        }
    }

    /// Asks a few servers at a time, until one has answered or all have failed.
    async fn look(&self) -> Result<Map, Error> {
        let mut sources = self.sources();
        let mut asking = JoinSet::new();
        let mut fault = Error::transport(self.seeds.join(", "), "no server of the cluster is known");
        loop {
            while asking.len() < ASKED
                && let Some((address, source)) = sources.pop()
            {
                let response = self.links.pace.response;
                asking.spawn(async move {
                    let outcome = timeout(response, source.ask(&address)).await;
                    let silent =
                        || Error::transport(address.as_str(), format!("no reply within {response:?}"));
                    let reply = outcome.unwrap_or_else(|_| Err(silent()))?;
                    Map::read(&reply, host_of(&address))
                });
            }
            match asking.join_next().await {
                None => return Err(fault),
                Some(Ok(Ok(map))) => return Ok(map),
                Some(Ok(Err(error))) => fault = error,
                Some(Err(_)) => (),
            }
        }
    }

    /// All servers that can be asked, in reverse order: those with a connection come last and are asked first.
    fn sources(&self) -> Vec<(String, Source)> {
        let known = self.known();
        let (mut linked, mut dialled) = (Vec::new(), Vec::new());
        for (address, entry) in &known.nodes {
            if entry.node.main.live().is_some() {
                linked.push((address.clone(), Source::Linked(entry.node.clone())));
            }
        }
        let named = self.seeds.iter().chain(known.map.addresses());
        for address in named {
            if let Ok(connector) = (self.template)(address) {
                dialled.push((address.clone(), Source::Dialled(Box::new(connector))));
            }
        }
        fastrand::shuffle(&mut linked);
        fastrand::shuffle(&mut dialled);
        dialled.append(&mut linked);
        dialled
    }
}

impl Source {
    async fn ask(self, address: &str) -> Result<Value, Error> {
        let mut question: Cmd = cmd("CLUSTER");
        question.arg("SLOTS");
        let replies = match self {
            Self::Linked(node) => match node.main.live() {
                Some(live) => live.request(vec![question]).await,
                None => Err(Error::transport(address, "the connection was lost")),
            },
            Self::Dialled(connector) => {
                let (unheard, _) = unbounded_channel();
                let replies = connector.dial(unheard).await?.send(vec![question]).await;
                replies.map_err(|why| Error::transport(address, why))
            }
        };
        let reply = replies?.into_iter().next().unwrap_or(Value::Nil);
        answer(reply).map_err(|refusal| match refusal.details.contains("cluster support disabled") {
            true => Error::invalid("this server is not one of a cluster: connect with redis:// or rediss://"),
            false => Error::from(&refusal),
        })
    }
}
