//! One acquisition: its requests, and what is left to do when it is dropped half-way.

mod asking;

use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, Value};
use tokio::sync::OwnedMutexGuard;

use crate::clock::Instant;
use crate::command::{self, Acquired, Ask, Extras, Refusal};
use crate::config::Durability;
use crate::error::Error;
use crate::events::Event;
use crate::exchange::{Manner, Trouble, exchange, exchange_one};
use crate::guard::Guard;
use crate::handle::Handle;
use crate::hold::{Hold, Origin};
use crate::kind::Any;
use crate::link::{Life, Tie};
use crate::message::{Mailbox, Notice, Party};
use crate::node::Place;
use crate::release::{Earlier, End, Ending, Job};

/// What is asked for.
#[derive(Clone)]
pub(crate) struct Order {
    pub(crate) party: Arc<Party>,
    pub(crate) lease: Duration,
    pub(crate) renewed: bool,
    /// What is asked for besides the lock.
    pub(crate) extras: Extras,
    pub(crate) durability: Durability,
}

/// What came of a request.
pub(crate) enum Step {
    /// The lock is held, by a request sent at this moment.
    Held(Instant),
    /// The owner waits in the server's queue and is notified there; with the holder's lease, if that was asked for.
    Queued(Place, Option<Duration>),
    /// Another owner holds the lock; with the longest time that its lease can still last, if known.
    Denied(Option<Duration>),
    Refused(Refusal),
    /// Nothing was sent.
    Unsent(Error),
    /// Whether it was carried out is unknown.
    Unanswered(Error),
}

/// An acquisition under way. Dropped, it leaves the queue and releases what it may have been granted.
pub(crate) struct Attempt {
    pub(crate) handle: Arc<Handle>,
    pub(crate) order: Order,
    pub(crate) began: Instant,
    mailbox: Option<Arc<Mailbox>>,
    turn: Option<OwnedMutexGuard<()>>,
    /// Whether the server may know of this owner.
    known: bool,
    stray: bool,
    sent_on: Option<u64>,
    /// The last fencing token received.
    token: u64,
    /// The tie to the connection on which the lock was acquired.
    tie: Option<Tie>,
    /// When the lease ends that was asked for last.
    lease_end: Instant,
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
            tie: None,
            lease_end: began,
            done: false,
        }
    }

    /// The request answered on this connection has tied the hold to it, if the hold has a session.
    fn tie_to(&mut self, life: &Arc<Life>) {
        self.tie = self.order.extras.session.map(|grace| Tie::new(life.clone(), grace));
    }

    fn is_over(&self, sent: Instant) -> bool {
        self.handle.shared.clock.now() >= sent.end_of(self.order.lease)
    }

    /// Confirms a grant: whether this owner still holds the lock, and from when its lease counts.
    ///
    /// The message may have lain in a buffer for any time, so only the server knows. For a fenced lock the
    /// server gives a new token: the one in the message may belong to an earlier grant.
    pub(crate) async fn confirm(&mut self, by: Option<Instant>) -> Result<Option<Instant>, Step> {
        if !self.order.extras.fenced {
            return self.renew(by).await;
        }
        let Order { party, lease, extras, .. } = &self.order;
        self.ask_whether_held(command::acquire(party, *lease, 1, *extras, Ask::Now), by).await
    }

    /// Renews what was acquired, and ties it to the connection if it has a session: whether this owner still
    /// holds the lock, and from when its lease counts.
    pub(crate) async fn renew(&mut self, by: Option<Instant>) -> Result<Option<Instant>, Step> {
        let Order { party, lease, extras, .. } = &self.order;
        self.ask_whether_held(command::renew(party, *lease, extras.session), by).await
    }

    async fn ask_whether_held(&mut self, command: Cmd, by: Option<Instant>) -> Result<Option<Instant>, Step> {
        let shared = self.handle.shared.clone();
        let party = self.order.party.clone();
        let sent = shared.clock.now();
        self.lease_end = sent.after(self.order.lease);
        match exchange(&shared, &party.key, &[command], Manner::by(by), &mut self.sent_on).await {
            Ok(mut replies) => {
                self.sent_on = None;
                let value = replies.take(0).map_err(Step::Refused)?;
                self.tie_to(&replies.life);
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
            Err(Trouble::Unanswered(error)) => {
                self.stray = true;
                Err(Step::Unanswered(error))
            }
        }
    }

    /// Releases what was acquired; if that fails, the drop of the attempt does it.
    pub(crate) async fn take_back(&mut self) {
        let shared = self.handle.shared.clone();
        let command = command::release(&self.order.party, 0);
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
    pub(crate) fn finish(mut self, sent: Instant) -> Guard<Any> {
        self.done = true;
        let shared = &self.handle.shared;
        let acquired = shared.clock.now();
        let origin = Origin {
            party: self.order.party.clone(),
            lease: self.order.lease,
            token: self.token,
            session: self.order.extras.session,
            tie: self.tie.take(),
            renewed: self.order.renewed,
            sent,
            acquired,
            stray: self.stray,
            mailbox: self.mailbox.is_some(),
            turn: self.turn.take(),
        };
        let named = origin.turn.is_some();
        let hold = Hold::new(shared, &self.handle.timetable, origin);
        if named {
            self.handle.turns.of(&hold.party).publish(&hold);
        }
        shared.tell(Event::Acquired { lock: &self.order.party.key, waited: acquired.since(self.began) });
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
        shared.owners.abandon();
        let earlier = match (self.stray, self.sent_on) {
            (true, _) => Earlier::Stray,
            (false, Some(epoch)) => Earlier::On(epoch),
            (false, None) => Earlier::Answered,
        };
        let (queued, turn) = (self.mailbox.is_some(), self.turn.take());
        let ending = Ending::Asker { party: self.order.party.clone(), queued, turn };
        let give_up = self.lease_end.after(Duration::from_secs(1));
        self.handle.send(Job::End(End::asked(ending, earlier, give_up)));
    }
}
