//! One request about one lock and its replies, wherever the lock is.

use std::time::Duration;

use redis::{Cmd, Value};

use crate::clock::Moment;
use crate::command::{Refusal, answer};
use crate::error::Error;
use crate::shared::Shared;

/// How often a request follows the lock to another server before it is refused.
const REDIRECTIONS: usize = 5;

/// Why there are no replies.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// Nothing was sent: there was no connection in time, or no leave to subscribe.
    Unsent(Error),
    /// Something was sent, and whether it was carried out is unknown.
    Unanswered(String),
}

/// How a request is to be sent.
#[derive(Clone, Copy)]
pub(crate) struct Manner {
    /// On a connection that hears the grants.
    pub(crate) subscribed: bool,
    /// On the connection for WAIT, and allowing so much more time for the replies.
    pub(crate) durable: Option<Duration>,
    /// How long to try to get a connection, and to wait for the replies if that is sooner than usual.
    pub(crate) by: Option<Moment>,
}

impl Manner {
    /// On the usual connection, until then.
    pub(crate) fn by(by: Option<Moment>) -> Manner {
        Manner { subscribed: false, durable: None, by }
    }
}

/// What was answered, and on which connection.
#[derive(Debug)]
pub(crate) struct Replies {
    pub(crate) values: Vec<Result<Value, Refusal>>,
    pub(crate) epoch: u64,
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
/// `sent_on` is set to the connection's epoch before anything is sent. A command that was redirected was not
/// carried out, so it is safe to send it elsewhere.
pub(crate) async fn exchange(
    shared: &Shared,
    key: &[u8],
    commands: &[Cmd],
    manner: Manner,
    sent_on: &mut Option<u64>,
) -> Result<Replies, Trouble> {
    let mut redirections = 0;
    loop {
        let replies = exchange_once(shared, key, commands.to_vec(), manner, sent_on).await?;
        let refused = replies.values.iter().find_map(|value| value.as_ref().err());
        let elsewhere = refused.is_some_and(|refusal| shared.router.learn(key, refusal));
        if !elsewhere || redirections >= REDIRECTIONS {
            return Ok(replies);
        }
        redirections += 1;
    }
}

async fn exchange_once(
    shared: &Shared,
    key: &[u8],
    commands: Vec<Cmd>,
    manner: Manner,
    sent_on: &mut Option<u64>,
) -> Result<Replies, Trouble> {
    let node = shared.router.node(key);
    let link = if manner.durable.is_some() { node.durable() } else { &node.main };
    let live = match link.live() {
        Some(live) => live,
        None => shared
            .clock
            .until(manner.by, link.up())
            .await
            .unwrap_or_else(|| Err(link.trouble()))
            .map_err(Trouble::Unsent)?,
    };
    if manner.subscribed {
        let (word, channel) = shared.router.channel(&shared.uuid, key);
        live.subscribe(word, &channel).await.map_err(Trouble::Unsent)?;
    }
    let usual = shared.config.response().saturating_add(manner.durable.unwrap_or_default());
    let time =
        manner.by.map_or(usual, |by| by.since(shared.clock.now()).clamp(Duration::from_millis(1), usual));
    *sent_on = Some(live.epoch);
    let values = live.request_within(commands, time).await.map_err(Trouble::Unanswered)?;
    let values = values.into_iter().map(|value| answer(key, value)).collect();
    Ok(Replies { values, epoch: live.epoch })
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
