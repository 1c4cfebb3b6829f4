//! One request about one lock and its replies, wherever the lock is.

use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, Value, cmd};

use crate::clock::Instant;
use crate::command::{Refusal, answer};
use crate::error::Error;
use crate::link::{Life, Live, Unheard};
use crate::node::{Elsewhere, Line, Node, Place};
use crate::shared::Shared;

/// How often a request follows the lock to another server at once: after that the servers disagree, and need a
/// moment to settle it.
const AT_ONCE: usize = 2;

/// That moment; each next is twice as long …
const FIRST_PAUSE: Duration = Duration::from_millis(10);

/// … up to this.
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// Why there are no replies.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// Nothing was sent: there was no connection in time, or no leave to subscribe.
    Unsent(Error),
    /// Something was sent, and whether it was carried out is unknown.
    Unanswered(Error),
}

/// How to send a request.
#[derive(Clone, Copy)]
pub(crate) struct Manner {
    /// On a connection that receives grants.
    pub(crate) subscribed: bool,
    /// On the connection for WAIT, with this much more time for the replies.
    pub(crate) durable: Option<Duration>,
    /// How long to try to get a connection, and to wait for the replies if that is sooner than usual.
    pub(crate) by: Option<Instant>,
}

impl Manner {
    /// On the usual connection, until `by`.
    pub(crate) fn by(by: Option<Instant>) -> Manner {
        Manner { subscribed: false, durable: None, by }
    }

    fn line(&self) -> Line {
        if self.durable.is_some() { Line::Durable } else { Line::Main }
    }
}

/// What was answered.
pub(crate) struct Replies {
    pub(crate) values: Vec<Result<Value, Refusal>>,
    /// Where the outcome of a wait will arrive, if that was wanted.
    pub(crate) place: Option<Place>,
    /// The life of the connection that carried the commands: holds with a session are tied to it.
    pub(crate) life: Arc<Life>,
}

impl Replies {
    /// The reply to the command at `index`.
    pub(crate) fn take(&mut self, index: usize) -> Result<Value, Refusal> {
        // As many replies as commands came: Live sees to that.
        self.values.get_mut(index).map_or(Ok(Value::Nil), |slot| std::mem::replace(slot, Ok(Value::Nil)))
    }
}

/// Sends commands about `key` in one piece to the server that has it.
///
/// `sent_on` is set to the connection's epoch before anything is sent. If one command is redirected, or the
/// cluster is not ready for it, all are sent again, for the time of one reply at most: those that were
/// carried out are safe to repeat.
pub(crate) async fn exchange(
    shared: &Shared,
    key: &[u8],
    commands: &[Cmd],
    manner: Manner,
    sent_on: &mut Option<u64>,
) -> Result<Replies, Trouble> {
    let replies = exchange_once(shared, key, commands, manner, None, sent_on).await?;
    match elsewhere(shared, key, manner, &replies) {
        Elsewhere::No => Ok(replies),
        // Seldom: so this future is not made as large as that one.
        first => Box::pin(follow(shared, key, commands, manner, sent_on, (replies, first))).await,
    }
}

/// Follows the lock from server to server until one of them does not point to another.
async fn follow(
    shared: &Shared,
    key: &[u8],
    commands: &[Cmd],
    manner: Manner,
    sent_on: &mut Option<u64>,
    (mut replies, mut elsewhere): (Replies, Elsewhere),
) -> Result<Replies, Trouble> {
    let patience = soon(shared, manner.by);
    let mut pause = FIRST_PAUSE;
    let mut times: usize = 0;
    loop {
        let later = matches!(elsewhere, Elsewhere::Later);
        let next = match elsewhere {
            Elsewhere::No => return Ok(replies),
            // Grants are heard only from a server that has the slot for good.
            Elsewhere::Ask(_) if manner.subscribed => return Ok(replies),
            Elsewhere::Again | Elsewhere::Later => None,
            Elsewhere::Ask(node) => Some(node),
        };
        if times >= AT_ONCE || later {
            if shared.clock.now() >= patience {
                return Ok(replies);
            }
            tokio::time::sleep(pause).await;
            pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
        }
        replies = exchange_once(shared, key, commands, manner, next, sent_on).await?;
        elsewhere = self::elsewhere(shared, key, manner, &replies);
        times = times.saturating_add(1);
    }
}

/// What the first refusal says about where to go.
fn elsewhere(shared: &Shared, key: &[u8], manner: Manner, replies: &Replies) -> Elsewhere {
    let refused = replies.values.iter().find_map(|value| value.as_ref().err());
    refused.map_or(Elsewhere::No, |refusal| shared.router.learn(key, manner.line(), refusal))
}

async fn exchange_once(
    shared: &Shared,
    key: &[u8],
    commands: &[Cmd],
    manner: Manner,
    asked: Option<Arc<Node>>,
    sent_on: &mut Option<u64>,
) -> Result<Replies, Trouble> {
    let by_asking = asked.is_some();
    let (node, live) =
        connect(shared, key, manner.line(), asked, manner.by).await.map_err(Trouble::Unsent)?;
    let place = match manner.subscribed {
        true => match listen(shared, key, node, manner.by).await.map_err(Trouble::Unsent)? {
            Ok(place) => Some(place),
            Err(refusal) => {
                let (values, life) = (vec![Err(refusal)], live.life.clone());
                return Ok(Replies { values, place: None, life });
            }
        },
        false => None,
    };
    let usual = shared.config.response().saturating_add(manner.durable.unwrap_or_default());
    let time =
        manner.by.map_or(usual, |by| by.since(shared.clock.now()).clamp(Duration::from_millis(1), usual));
    *sent_on = Some(live.epoch);
    let values = if by_asking {
        let mut values = live.request_within(&with_asking(commands), time).await;
        let mut odd = [false, true].into_iter().cycle();
        values.iter_mut().for_each(|values| values.retain(|_| odd.next().unwrap_or_default()));
        values
    } else {
        live.request_within(commands, time).await
    };
    let values = values.map_err(Trouble::Unanswered)?;
    let values = values.into_iter().map(|value| answer(key, value)).collect();
    Ok(Replies { values, place, life: live.life.clone() })
}

/// The connection to the server that has `key`, or to the one that was named.
async fn connect(
    shared: &Shared,
    key: &[u8],
    line: Line,
    asked: Option<Arc<Node>>,
    by: Option<Instant>,
) -> Result<(Arc<Node>, Arc<Live>), Error> {
    let named = asked.is_some();
    let node = asked.unwrap_or_else(|| shared.router.node(key));
    let link = node.line(line);
    if let Some(live) = link.live() {
        return Ok((node, live));
    }
    let connected = if named {
        // Not longer than a request: the slot may have gone to another server by the time this one is back.
        let up = shared.clock.until(Some(soon(shared, by)), link.up()).await;
        up.map(|live| live.map(|live| (node.clone(), live)))
    } else {
        shared.clock.until(by, shared.router.up(key, line)).await
    };
    connected.unwrap_or_else(|| Err(link.trouble()))
}

/// Subscribes to the channel for `key` at this server. The inner error is its refusal.
async fn listen(
    shared: &Shared,
    key: &[u8],
    node: Arc<Node>,
    by: Option<Instant>,
) -> Result<Result<Place, Refusal>, Error> {
    let (word, channel) = shared.router.channel(&shared.channel, key);
    if let Some((epoch, subscription)) = node.heard(&channel) {
        return Ok(Ok(Place::new(node, epoch, subscription)));
    }
    // Not longer than a request: the slot may be elsewhere by the time this server is back.
    let none = || Err(node.ears_trouble());
    let up = shared.clock.until(Some(soon(shared, by)), node.listening()).await;
    let live = up.unwrap_or_else(none)?;
    match shared.clock.until(by, live.subscribe(word, &channel)).await {
        Some(Ok(subscription)) => Ok(Ok(Place::new(node, live.epoch, subscription))),
        Some(Err(Unheard::Refused(refusal))) => Ok(Err(refusal)),
        Some(Err(Unheard::Unanswered(error))) => Err(error),
        None => Err(live.silent()),
    }
}

/// In the time of one reply, or by then if that is sooner.
fn soon(shared: &Shared, by: Option<Instant>) -> Instant {
    let soon = shared.clock.now().after(shared.config.response());
    by.map_or(soon, |by| by.min(soon))
}

/// Each command by leave of the server that has the slot.
fn with_asking(commands: &[Cmd]) -> Vec<Cmd> {
    commands.iter().flat_map(|command| [cmd("ASKING"), command.clone()]).collect()
}

/// Sends one command, as [`exchange`] does.
pub(crate) async fn exchange_one(
    shared: &Shared,
    key: &[u8],
    command: Cmd,
    manner: Manner,
) -> Result<Result<Value, Refusal>, Trouble> {
    let mut replies = exchange(shared, key, &[command], manner, &mut None).await?;
    Ok(replies.take(0))
}
