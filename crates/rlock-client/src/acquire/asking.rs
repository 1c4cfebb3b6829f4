//! The requests of an acquisition, and what their replies say.

use std::time::Duration;

use redis::Value;

use super::{Attempt, Step};
use crate::clock::Instant;
use crate::cluster::Redirection;
use crate::command::{self, Acquired, Ask, Refusal};
use crate::config::Waiting;
use crate::error::Error;
use crate::exchange::{Manner, Trouble, exchange};
use crate::node::{Line, Place};

/// The longest channel that the server takes.
const LONGEST_CHANNEL: usize = 512;

impl Attempt {
    /// Asks for the lock once, and takes no place in the queue.
    pub(crate) async fn ask_now(&mut self, by: Option<Instant>) -> Step {
        self.ask(None, false, by).await
    }

    /// Asks for the lock, with a place in the queue where that is possible; `look` asks for the holder's lease too.
    pub(crate) async fn ask_in_queue(&mut self, look: bool, by: Option<Instant>) -> Step {
        let shared = self.handle.shared.clone();
        let (_, channel) = shared.router.channel(&shared.channel, &self.order.party.key);
        if shared.config.waiting == Waiting::Polling || channel.len() > LONGEST_CHANNEL {
            return self.ask(None, true, by).await;
        }
        let expected = || shared.waits_expected() && shared.router.hears(&channel, &self.order.party.key);
        if !self.known && !expected() {
            // Most locks are free, and a place in the queue costs server and client more than a free lock does.
            match self.ask(None, false, by).await {
                Step::Denied(_) => (),
                step => return step,
            }
        }
        if self.mailbox.is_none() {
            self.mailbox = Some(shared.inbox.open(self.order.party.clone()));
        }
        match self.ask(Some(&channel), look, by).await {
            Step::Refused(refusal) if matches!(refusal.error, Error::Permission { .. }) => {
                self.ask_unheard(refusal, by).await
            }
            // The server that a slot moves to sends no grants yet: ask until the slot has arrived.
            Step::Refused(refusal) if Redirection::is_ask(&refusal) => self.ask(None, true, by).await,
            step => step,
        }
    }

    /// Asks for the lock as a user without the right to subscribe: an error only if the lock is not free.
    async fn ask_unheard(&mut self, denied: Refusal, by: Option<Instant>) -> Step {
        match self.ask(None, false, by).await {
            Step::Denied(_) => Step::Refused(denied),
            step => step,
        }
    }

    async fn ask(&mut self, channel: Option<&[u8]>, look: bool, by: Option<Instant>) -> Step {
        let shared = self.handle.shared.clone();
        let party = self.order.party.clone();
        let key = &party.key;
        let left = |by: Instant| by.since(shared.clock.now());
        let ask = channel.map_or(Ask::Now, |channel| Ask::Enqueue(by.map(left), channel));
        let mut commands = vec![command::acquire(&party, self.order.lease, 1, self.order.extras, ask)];
        if look {
            commands.push(command::about("PTTL", key, None));
        }
        let manner = Manner { subscribed: channel.is_some(), ..Manner::by(by) };
        // `sent` must not include the wait for a connection: the clock is read after it.
        let live_first = self.connected(by).await;
        if let Err(error) = live_first {
            return Step::Unsent(error);
        }
        let sent = shared.clock.now();
        self.lease_end = sent.after(self.order.lease);
        self.known = true;
        match exchange(&shared, key, &commands, manner, &mut self.sent_on).await {
            Ok(mut replies) => {
                self.sent_on = None;
                let reply = replies.take(0);
                let left =
                    if look { replies.take(1).ok().and_then(|value| lease_left(&value)) } else { None };
                self.tie_to(&replies.life);
                self.read(reply, sent, replies.place, left)
            }
            Err(Trouble::Unsent(error)) => Step::Unsent(error),
            Err(Trouble::Unanswered(error)) => {
                self.stray = true;
                Step::Unanswered(error)
            }
        }
    }

    /// Waits until there is a connection, or the user is refused one.
    async fn connected(&self, by: Option<Instant>) -> Result<(), Error> {
        let shared = &self.handle.shared;
        let key = &self.order.party.key;
        let node = shared.router.node(key);
        if node.main.live().is_some() {
            return Ok(());
        }
        let up = async {
            tokio::select! {
                up = shared.router.up(key, Line::Main) => up.map(|_| ()),
                denied = node.main.denied() => Err(denied),
            }
        };
        shared.clock.until(by, up).await.unwrap_or_else(|| Err(node.main.trouble()))
    }

    fn read(
        &mut self,
        reply: Result<Value, Refusal>,
        sent: Instant,
        place: Option<Place>,
        left: Option<Duration>,
    ) -> Step {
        let value = match reply {
            Ok(value) => value,
            Err(refusal) => return Step::Refused(refusal),
        };
        let acquired = command::acquired(&value);
        if matches!(acquired, Ok(Acquired::Queued | Acquired::Denied)) {
            self.handle.shared.expect_waits(true);
        }
        match acquired {
            Ok(Acquired::Held(_)) if self.is_over(sent) => {
                let server = self.handle.shared.router.node(&self.order.party.key).server();
                Step::Unanswered(Error::transport(server, "its reply came after the lease"))
            }
            Ok(Acquired::Held(token)) => {
                self.token = token;
                self.handle.shared.expect_waits(false);
                Step::Held(sent)
            }
            Ok(Acquired::Queued) => match place {
                Some(place) => Step::Queued(place, left),
                // Cannot happen: a request for a place in the queue has a subscription.
                None => Step::Denied(left),
            },
            Ok(Acquired::Denied) => {
                self.known = self.stray;
                Step::Denied(left)
            }
            Err(error) => Step::Refused(Refusal::of(error)),
        }
    }
}

/// Reads PTTL: the lease that is left, if it is known and ends.
fn lease_left(value: &Value) -> Option<Duration> {
    match value {
        Value::Int(left) => u64::try_from(*left).ok().map(Duration::from_millis),
        _ => None,
    }
}
