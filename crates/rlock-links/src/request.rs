//! Requests about one key, wherever it is.

use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, Value, cmd};

use crate::clock::Instant;
use crate::cluster::Next;
use crate::error::Error;
use crate::link::{Live, NoAnswer};
use crate::node::{Line, Node};
use crate::refusal::{Refusal, answer};
use crate::router::Router;

/// The pause before a request is repeated in a cluster that is changing; each next is twice as long …
const FIRST_PAUSE: Duration = Duration::from_millis(10);

/// … up to this.
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// Why a request has no replies.
#[derive(Debug)]
pub enum Failed {
    /// The server refused a command.
    Refused(Refusal),
    /// There are no answers.
    NoAnswer(NoAnswer),
}

impl Router {
    /// Sends a command about `key` to the server that has it, and returns its reply; see [`Router::request_all`].
    ///
    /// # Errors
    ///
    /// Why there is no reply.
    pub async fn request(&self, key: &[u8], command: Cmd) -> Result<Value, Failed> {
        self.request_noting(key, command, |_| ()).await
    }

    /// As [`Router::request`]. Before the command is sent to a server, `goes_to` is called with this server.
    ///
    /// # Errors
    ///
    /// Why there is no reply.
    pub async fn request_noting(
        &self,
        key: &[u8],
        command: Cmd,
        goes_to: impl FnMut(&Arc<Node>),
    ) -> Result<Value, Failed> {
        let replies = self.send_all(key, &[command], Line::Main, self.answer_by(key), goes_to).await?;
        Ok(replies.into_iter().next().unwrap_or(Value::Nil))
    }

    /// Sends commands about `key` in one piece, and returns their replies. Repeats them until `by` where the slot moves meanwhile, so
    /// they must be safe to repeat.
    ///
    /// # Errors
    ///
    /// Why there are no replies.
    pub async fn request_all(
        &self,
        key: &[u8],
        commands: &[Cmd],
        line: Line,
        by: Instant,
    ) -> Result<Vec<Value>, Failed> {
        self.send_all(key, commands, line, by, |_| ()).await
    }

    async fn send_all(
        &self,
        key: &[u8],
        commands: &[Cmd],
        line: Line,
        by: Instant,
        mut goes_to: impl FnMut(&Arc<Node>),
    ) -> Result<Vec<Value>, Failed> {
        let clock = self.clock;
        let mut pause = FIRST_PAUSE;
        let mut next = None;
        loop {
            let asks = next.is_some();
            let connected = self.connect(key, line, next.take(), by).await;
            let (node, live) = connected.map_err(|error| Failed::NoAnswer(NoAnswer::Unsent(error)))?;
            goes_to(&node);
            let left = by.since(clock.now()).max(Duration::from_millis(1));
            let values = if asks {
                let asking = commands.iter().flat_map(|command| [cmd("ASKING"), command.clone()]);
                let values = live.request_within(asking.collect(), left).await;
                values.map(|values| values.into_iter().skip(1).step_by(2).collect())
            } else {
                live.request_within(commands.to_vec(), left).await
            };
            let values: Vec<Value> = values.map_err(|error| Failed::NoAnswer(NoAnswer::Unanswered(error)))?;
            let answers: Result<Vec<Value>, Refusal> = values.into_iter().map(answer).collect();
            let refusal = match answers {
                Ok(replies) => return Ok(replies),
                Err(refusal) => refusal,
            };
            match self.learn(Some(&live), &refusal) {
                Next::Ask(node) => next = Some(node),
                Next::Moved => (),
                Next::Later if clock.now().after(pause) < by => {
                    tokio::time::sleep(pause).await;
                    pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
                }
                Next::Later | Next::Refused => return Err(Failed::Refused(refusal)),
            }
        }
    }

    /// The server that has `key`, or the one that was named, and the connection to it.
    async fn connect(
        &self,
        key: &[u8],
        line: Line,
        named: Option<Arc<Node>>,
        by: Instant,
    ) -> Result<(Arc<Node>, Arc<Live>), Error> {
        loop {
            let node = named.clone().unwrap_or_else(|| self.node(key));
            if let Some(live) = node.line(line).live() {
                return Ok((node, live));
            }
            let link = node.line(line);
            let up = async { if named.is_some() { link.up().await } else { self.up(key, line).await } };
            // Another server may have the key meanwhile.
            self.clock.until(Some(by), up).await.unwrap_or_else(|| Err(link.fault()))?;
        }
    }
}
