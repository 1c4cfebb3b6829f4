//! One acquisition: its requests, and what is left to do when it is dropped half-way.

use std::sync::Arc;
use std::time::Duration;

use redis::Value;
use tokio::sync::OwnedMutexGuard;

use crate::client::Handle;
use crate::clock::Moment;
use crate::cluster::Redirection;
use crate::command::{self, Acquired, Ask, Refusal};
use crate::config::{Durability, Waiting};
use crate::error::Error;
use crate::exchange::{Manner, Trouble, exchange, exchange_one};
use crate::guard::Guard;
use crate::hold::{Hold, Origin};
use crate::message::{Mailbox, Notice, Party};
use crate::release::Job;
use crate::router::{Line, Place};

/// The longest channel that the server takes.
const LONGEST_CHANNEL: usize = 512;

/// What is asked for.
#[derive(Clone)]
pub(crate) struct Order {
    pub(crate) party: Arc<Party>,
    pub(crate) lease: Duration,
    pub(crate) renewed: bool,
    /// Whether a fencing token is asked for.
    pub(crate) fenced: bool,
    pub(crate) durability: Durability,
}

/// What came of a request.
pub(crate) enum Step {
    /// The lock is held, by a request sent at this moment.
    Held(Moment),
    /// The owner waits in the server's queue, and is heard of there; the holder's lease as far as it was asked
    /// for.
    Queued(Place, Option<Duration>),
    /// Somebody else has it, and for so long at most as far as that is known.
    Denied(Option<Duration>),
    Refused(Refusal),
    /// Nothing was sent.
    Unsent(Error),
    /// Whether it was carried out is unknown.
    Unanswered(String),
}

/// An acquisition under way. Dropped, it leaves the queue and gives back what it may have been granted.
pub(crate) struct Attempt {
    pub(crate) handle: Arc<Handle>,
    pub(crate) order: Order,
    pub(crate) began: Moment,
    mailbox: Option<Arc<Mailbox>>,
    turn: Option<OwnedMutexGuard<()>>,
    /// Whether the server may know of this owner.
    known: bool,
    stray: bool,
    sent_on: Option<u64>,
    /// The last fencing token that was heard of.
    token: u64,
    /// When the lease ends that was asked for last.
    lease_end: Moment,
    done: bool,
}

impl Attempt {
    pub(crate) fn new(handle: Arc<Handle>, order: Order, turn: Option<OwnedMutexGuard<()>>) -> Attempt {
        let began = handle.shared.clock.now();
        handle.shared.owners.enter();
        Attempt {
            handle,
            order,
            began,
            mailbox: None,
            turn,
            known: false,
            stray: false,
            sent_on: None,
            token: 0,
            lease_end: began,
            done: false,
        }
    }

    /// Asks for the lock once, and takes no place in the queue.
    pub(crate) async fn ask_now(&mut self, by: Option<Moment>) -> Step {
        self.ask(None, false, by).await
    }

    /// Asks for the lock, waiting in the queue if there may be waited; `look` asks for the holder's lease too.
    pub(crate) async fn ask_in_queue(&mut self, look: bool, by: Option<Moment>) -> Step {
        let shared = self.handle.shared.clone();
        let (_, channel) = shared.router.channel(&shared.channel, &self.order.party.key);
        if shared.config.waiting == Waiting::Polling || channel.len() > LONGEST_CHANNEL {
            return self.ask(None, true, by).await;
        }
        let expected = || shared.waits_expected() && shared.router.hears(&channel, &self.order.party.key);
        if !self.known && !expected() {
            // Most locks are free, and a place in the queue costs the server and us more than such a lock does.
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
            // Where the slot is being moved to, nobody hears of a grant yet: ask until it has arrived.
            Step::Refused(refusal) if Redirection::is_ask(&refusal) => self.ask(None, true, by).await,
            step => step,
        }
    }

    /// Asks for the lock as a user who may not subscribe: that is an error only where it has to be waited for.
    async fn ask_unheard(&mut self, denied: Refusal, by: Option<Moment>) -> Step {
        match self.ask(None, false, by).await {
            Step::Denied(_) => Step::Refused(denied),
            step => step,
        }
    }

    async fn ask(&mut self, channel: Option<&[u8]>, look: bool, by: Option<Moment>) -> Step {
        let shared = self.handle.shared.clone();
        let party = self.order.party.clone();
        let Party { key, owner } = party.as_ref();
        let left = |by: Moment| by.since(shared.clock.now());
        let ask = channel.map_or(Ask::Now, |channel| Ask::Enqueue(by.map(left), channel));
        let mut commands = vec![command::acquire(key, owner, self.order.lease, 1, self.order.fenced, ask)];
        if look {
            commands.push(command::about("PTTL", key, None));
        }
        let manner = Manner { subscribed: channel.is_some(), ..Manner::by(by) };
        // Waiting for a connection is no sending: see the moment once more when there is one.
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
                self.read(reply, sent, replies.place, left)
            }
            Err(Trouble::Unsent(error)) => Step::Unsent(error),
            Err(Trouble::Unanswered(why)) => {
                self.stray = true;
                Step::Unanswered(why)
            }
        }
    }

    /// Waits until there is a connection.
    async fn connected(&self, by: Option<Moment>) -> Result<(), Error> {
        let shared = &self.handle.shared;
        let key = &self.order.party.key;
        let node = shared.router.node(key);
        if node.main.live().is_some() {
            return Ok(());
        }
        let up = shared.clock.until(by, shared.router.up(key, Line::Main)).await;
        up.unwrap_or_else(|| Err(node.main.trouble())).map(|_| ())
    }

    fn read(
        &mut self,
        reply: Result<Value, Refusal>,
        sent: Moment,
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
                Step::Unanswered("the reply came after the lease".into())
            }
            Ok(Acquired::Held(token)) => {
                self.token = token;
                self.handle.shared.expect_waits(false);
                Step::Held(sent)
            }
            Ok(Acquired::Queued) => match place {
                Some(place) => Step::Queued(place, left),
                // Nobody asks for a place in the queue without listening.
                None => Step::Denied(left),
            },
            Ok(Acquired::Denied) => {
                self.known = self.stray;
                Step::Denied(left)
            }
            Err(error) => Step::Refused(Refusal::of(error)),
        }
    }

    fn is_over(&self, sent: Moment) -> bool {
        self.handle.shared.clock.now() >= sent.end_of(self.order.lease)
    }

    /// Confirms a grant: whether the lock is still ours, and from when its lease counts.
    ///
    /// The message may have lain in a buffer for any time, so only the server can tell. Where a token is wanted
    /// it is asked for another: that of the message may be one of an earlier grant.
    pub(crate) async fn confirm(&mut self) -> Result<Option<Moment>, Step> {
        let shared = self.handle.shared.clone();
        let Party { key, owner } = self.order.party.as_ref();
        let lease = self.order.lease;
        let command = if self.order.fenced {
            command::acquire(key, owner, lease, 1, true, Ask::Now)
        } else {
            command::renew(key, owner, lease)
        };
        let sent = shared.clock.now();
        self.lease_end = sent.after(self.order.lease);
        match exchange(&shared, key, &[command], Manner::by(None), &mut self.sent_on).await {
            Ok(mut replies) => {
                self.sent_on = None;
                let value = replies.take(0).map_err(Step::Refused)?;
                let held = match command::acquired(&value) {
                    Ok(Acquired::Held(token)) => {
                        self.token = token;
                        true
                    }
                    _ => matches!(value, Value::Int(1)),
                };
                Ok((held && !self.is_over(sent)).then_some(sent))
            }
            Err(Trouble::Unsent(error)) => Err(Step::Unsent(error)),
            Err(Trouble::Unanswered(why)) => {
                self.stray = true;
                Err(Step::Unanswered(why))
            }
        }
    }

    /// Gives back what was acquired; where that fails, dropping the attempt sees to it.
    pub(crate) async fn take_back(&mut self) {
        let shared = self.handle.shared.clone();
        let command = command::release(&self.order.party.key, &self.order.party.owner, 0);
        let by = shared.clock.now().after(shared.config.response());
        if let Ok(Ok(_)) = exchange_one(&shared, &self.order.party.key, command, Manner::by(Some(by))).await {
            self.known = self.stray;
        }
    }

    /// The next notice from the server.
    pub(crate) async fn notice(&self) -> Notice {
        match &self.mailbox {
            Some(mailbox) => mailbox.next().await,
            None => std::future::pending().await,
        }
    }

    /// Hands out the guard of a lock that is held by a request sent at `sent`.
    pub(crate) fn finish(mut self, sent: Moment) -> Guard {
        self.done = true;
        let shared = &self.handle.shared;
        let acquired = shared.clock.now();
        let origin = Origin {
            party: self.order.party.clone(),
            lease: self.order.lease,
            token: self.token,
            renewed: self.order.renewed,
            sent,
            acquired,
            stray: self.stray,
            mailbox: self.mailbox.is_some(),
            turn: self.turn.take(),
        };
        let named = origin.turn.is_some();
        let hold = Hold::new(shared, origin);
        if named {
            shared.turns.of(&hold.party).publish(&hold);
        }
        let waited = || acquired.since(self.began);
        shared.metrics(|metrics| metrics.acquired(&self.order.party.key, waited()));
        Guard::new(self.handle.clone(), hold)
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        let shared = &self.handle.shared;
        if !self.known {
            if self.mailbox.is_some() {
                shared.inbox.close(&self.order.party);
            }
            shared.owners.leave();
            return;
        }
        self.handle.send(Job {
            party: self.order.party.clone(),
            hold: None,
            queued: self.mailbox.is_some(),
            stray: self.stray,
            sent_on: self.sent_on,
            give_up: self.lease_end.after(Duration::from_secs(1)),
            mailbox: self.mailbox.is_some(),
            named: self.turn.is_some(),
            turn: self.turn.take(),
            settled: false,
        });
    }
}

/// Reads PTTL: the lease that is left, if it is known and ends.
fn lease_left(value: &Value) -> Option<Duration> {
    match value {
        Value::Int(left) => u64::try_from(*left).ok().map(Duration::from_millis),
        _ => None,
    }
}
