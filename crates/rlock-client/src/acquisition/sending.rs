//! The commands of an acquisition, and what their answers say.

use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, Value, cmd};
use rlock_links::{Instant, Next, NoAnswer, Node, Order, Refusal, answer};
use rlock_machine::{Command, Failure, Input, MS, Nanos, Reply, State};

use super::{Acquisition, Last};
use crate::command::{self, Acquired, Ask};
use crate::config::Waiting;
use crate::error::Error;

/// A command that was sent.
struct Sent {
    n: u64,
    command: Command,
    denied: Denied,
    /// Whether it was sent to another server than that of the session, which may tie the session there.
    beside: bool,
    /// After a refusal as UNTIED.
    is_repeated: bool,
}

/// The meaning of null in the reply to a request for the lock.
#[derive(Clone)]
enum Denied {
    /// Another owner holds the lock.
    Final,
    /// The lock must be asked for again: the owner could not be queued.
    Again,
    /// The owner may not be queued, for this reason.
    Refused(Error),
}

impl Acquisition {
    /// Whether the acquisition waits in the server's queue.
    pub(super) fn queues(&self) -> bool {
        self.all.shared.config.waiting == Waiting::Queue && self.terms.wait.is_none_or(|wait| !wait.is_zero())
    }

    pub(super) fn send(self: &Arc<Self>, node: &Arc<Node>, n: u64, command: Command) {
        let polls = matches!(command, Command::Enqueue { .. }) && !self.queues();
        let mut commands = Vec::with_capacity(2);
        match command {
            Command::Enqueue { wait, look } if !polls => {
                let channel = node.listen();
                if channel.is_empty() {
                    // The connection has just ended, which its link reports.
                    return;
                }
                if look {
                    commands.push(command::about("PTTL", &self.claim.key, None));
                }
                commands.push(self.acquire(Ask::Enqueue(wait, &channel)));
            }
            _ => commands.push(self.words(command)),
        }
        let denied = if polls { Denied::Again } else { Denied::Final };
        node.order(self.order(
            commands,
            node.clone(),
            Sent { n, command, denied, beside: false, is_repeated: false },
        ));
    }

    /// Sends the command once to a server that is receiving the slot.
    fn send_asking(self: &Arc<Self>, node: &Arc<Node>, sent: Sent, at: Instant) {
        // That server sends no grants before it has the slot.
        let queues = matches!(sent.command, Command::Enqueue { .. });
        let denied = if queues { Denied::Again } else { sent.denied.clone() };
        let commands = vec![cmd("ASKING"), self.words(sent.command)];
        let n = sent.n;
        if !self.send_again(node, commands, Sent { denied, beside: true, ..sent }) {
            self.failed(n, at, Failure::Passing, node.fault().into());
        }
    }

    /// Sends a command in another form, unless the machine no longer waits for it: a request that followed the machine's CANCEL would
    /// leave a lock behind. `false` if there is no connection.
    fn send_again(self: &Arc<Self>, node: &Arc<Node>, commands: Vec<Cmd>, mut sent: Sent) -> bool {
        let mut state = self.state();
        if state.machine.pending() != Some(sent.n) {
            return true;
        }
        sent.beside &= self.terms.extras.session.is_some() && !Arc::ptr_eq(&state.servers.session, node);
        let beside = sent.beside;
        let is_sent = node.order(self.order(commands, node.clone(), sent));
        state.servers.beside = state.servers.beside.saturating_add(u32::from(is_sent && beside));
        is_sent
    }

    fn order(self: &Arc<Self>, commands: Vec<Cmd>, node: Arc<Node>, sent: Sent) -> Order {
        let response = self.all.shared.config.response_for(self.terms.lease);
        let acquisition = self.clone();
        let answered = Box::new(move |at, answers| acquisition.answered(&node, sent, at, answers));
        Order { commands, response, answered }
    }

    fn words(&self, command: Command) -> Cmd {
        match command {
            Command::Enqueue { .. } | Command::Acquire => self.acquire(Ask::Now),
            Command::Renew { lease } => self.renew(lease, self.terms.extras.session),
            Command::Keep { lease } => self.renew(Some(lease), None),
            Command::Cancel => command::about("RLOCK.CANCEL", &self.claim.key, Some(&self.claim.owner)),
            Command::Release => command::release(&self.claim, 0),
        }
    }

    /// The lease in ms; `None` for that of the terms.
    fn renew(&self, lease: Option<i64>, session: Option<Duration>) -> Cmd {
        let lease = lease.map(|ms| Duration::from_millis(u64::try_from(ms).unwrap_or_default()));
        command::renew(&self.claim, lease.unwrap_or(self.terms.lease), session)
    }

    fn acquire(&self, ask: Ask<'_>) -> Cmd {
        command::acquire(&self.claim, self.terms.lease, 1, self.terms.extras, ask)
    }

    /// The answers to a command arrived, or will not arrive.
    fn answered(
        self: &Arc<Self>,
        node: &Arc<Node>,
        sent: Sent,
        at: Instant,
        answers: Result<Vec<Value>, NoAnswer>,
    ) {
        let beside = sent.beside;
        let may_be_carried_out = self.read(node, sent, at, answers);
        if beside {
            self.leave_beside(node, may_be_carried_out);
        }
    }

    /// Reads the answers. Returns whether the server has carried out the command, as far as is known.
    fn read(
        self: &Arc<Self>,
        node: &Arc<Node>,
        sent: Sent,
        at: Instant,
        answers: Result<Vec<Value>, NoAnswer>,
    ) -> bool {
        let mut values = match answers {
            Ok(values) => values,
            Err(NoAnswer::Unsent(error)) => {
                self.failed(sent.n, at, Failure::Passing, error.into());
                return false;
            }
            Err(NoAnswer::Unanswered(error)) => {
                self.failed(sent.n, at, Failure::Unanswered, error.into());
                return true;
            }
        };
        let value = values.pop().unwrap_or(Value::Nil);
        match answer(value) {
            Ok(value) => match read(&sent, &value, values.first()) {
                Ok(reply) => self.replied(node, sent.n, at, reply),
                Err(error) => self.failed(sent.n, at, Failure::Final, error),
            },
            Err(refusal) => {
                self.refused(node, sent, at, &refusal);
                return false;
            }
        }
        true
    }

    fn refused(self: &Arc<Self>, node: &Arc<Node>, sent: Sent, at: Instant, refusal: &Refusal) {
        if command::is_of_channel(refusal) {
            node.listen_anew();
        }
        let error = command::refused(&self.claim.key, refusal);
        match self.all.shared.router.learn(node.main.live().as_deref(), refusal) {
            Next::Moved => self.follow(Some(sent.n)),
            Next::Ask(there) => self.send_asking(&there, sent, at),
            Next::Later => self.failed(sent.n, at, Failure::Passing, error),
            Next::Refused if sent.may_not_queue(&error) => {
                // A lock that is free needs no message.
                let words = self.words(sent.command);
                self.send_again(node, vec![words], Sent { denied: Denied::Refused(error), ..sent });
            }
            Next::Refused if refusal.is_untied() && !sent.is_repeated && self.is_under_way(node, sent.n) => {
                self.send_tying(node, sent);
            }
            Next::Refused => self.failed(sent.n, at, failure(refusal, &error), error),
        }
    }

    /// The owner has used a younger connection. RENEW without SESSION, and once that is answered the command again: a closed connection,
    /// against which the server protects the hold, receives no answer.
    fn send_tying(self: &Arc<Self>, node: &Arc<Node>, sent: Sent) {
        let lease = if let Command::Renew { lease } = sent.command { lease } else { None };
        let (acquisition, there) = (self.clone(), node.clone());
        let answered = Box::new(move |at, answers: Result<_, NoAnswer>| match answers {
            Ok(_) => acquisition.send_once_more(&there, sent, at),
            Err(no_answer) => drop(acquisition.read(&there, sent, at, Err(no_answer))),
        });
        let response = self.all.shared.config.response_for(self.terms.lease);
        node.order(Order { commands: vec![self.renew(lease, None)], response, answered });
    }

    fn send_once_more(self: &Arc<Self>, node: &Arc<Node>, sent: Sent, at: Instant) {
        let queues = matches!(sent.command, Command::Enqueue { .. });
        let denied = if queues { Denied::Again } else { sent.denied.clone() };
        let (n, commands) = (sent.n, vec![self.words(sent.command)]);
        if !self.send_again(node, commands, Sent { denied, is_repeated: true, ..sent }) {
            self.failed(n, at, Failure::Passing, node.fault().into());
        }
    }

    /// Whether the machine waits for this command, of this server.
    fn is_under_way(&self, node: &Arc<Node>, n: u64) -> bool {
        let state = self.state();
        state.machine.pending() == Some(n) && Arc::ptr_eq(&state.servers.lock, node)
    }

    fn replied(self: &Arc<Self>, node: &Arc<Node>, n: u64, at: Instant, reply: Reply) {
        if matches!(reply, Reply::Waits { .. })
            && let Some(error) = node.unheard()
        {
            // Queued, but without a subscription no grant would arrive.
            return self.cancel(error.into());
        }
        self.change(|state, now, out| {
            if state.machine.pending() == Some(n) {
                state.last = Last::Answered;
                state.servers.session = node.clone();
            }
            state.machine.input(now, Input::Reply { n, sent: at.nanos(), reply }, out);
        });
    }

    fn failed(self: &Arc<Self>, n: u64, at: Instant, failure: Failure, error: Error) {
        self.change(|state, now, out| {
            if state.machine.pending() == Some(n) {
                state.last = Last::Failed(error);
            }
            let reply = Reply::Failed(failure);
            state.machine.input(now, Input::Reply { n, sent: at.nanos(), reply }, out);
        });
    }

    /// The connection to this server is gone. If the server was the target of a moving slot, the session has ended with the connection:
    /// the machine ties the hold anew. A hold that is being released needs no session, and its release would be sent twice.
    pub(super) fn untie(self: &Arc<Self>, from: &Arc<Node>) {
        self.change(|state, now, out| {
            let is_tied =
                Arc::ptr_eq(&state.servers.session, from) && !Arc::ptr_eq(&state.servers.lock, from);
            if is_tied && state.machine.state() != State::Releasing {
                state.servers.session = state.servers.lock.clone();
                state.machine.input(now, Input::Down, out);
            }
        });
    }

    /// Switches to the server that has the lock now; for the machine that is another connection. Only if this command is under way, not
    /// carried out by that server, or if none is and the server is another one. Otherwise the answer to a command names the server.
    pub(super) fn follow(self: &Arc<Self>, under_way: Option<u64>) {
        let node = self.all.shared.router.node(&self.claim.key);
        self.change(|state, now, out| {
            let is_other = under_way.is_some() || !Arc::ptr_eq(&state.servers.lock, &node);
            if state.machine.pending() == under_way && is_other {
                state.machine.input(now, Input::Down, out);
                state.servers.session = node.clone();
                state.servers.lock = node;
            }
        });
    }
}

impl Sent {
    /// Whether the user lacks a permission that only waiting needs.
    fn may_not_queue(&self, error: &Error) -> bool {
        let queues = matches!((self.command, &self.denied), (Command::Enqueue { .. }, Denied::Final));
        queues && matches!(error, Error::Permission { .. })
    }
}

/// Reads an answer; `before` is that of the command before it.
fn read(sent: &Sent, value: &Value, before: Option<&Value>) -> Result<Reply, Error> {
    match sent.command {
        Command::Enqueue { .. } | Command::Acquire => Ok(match command::acquired(value)? {
            Acquired::Held(token) => Reply::Granted { token: i64::try_from(token).unwrap_or_default() },
            Acquired::Queued => Reply::Waits { holder_lease: before.and_then(lease) },
            Acquired::Denied => match &sent.denied {
                Denied::Final => Reply::Null,
                Denied::Again => Reply::Failed(Failure::Passing),
                Denied::Refused(error) => return Err(error.clone()),
            },
        }),
        Command::Renew { .. } | Command::Keep { .. } => integer("RLOCK.RENEW", value),
        Command::Cancel => integer("RLOCK.CANCEL", value),
        Command::Release => integer("RLOCK.RELEASE", value),
    }
}

fn integer(command: &str, value: &Value) -> Result<Reply, Error> {
    Ok(command::integer(command, value)?.map_or(Reply::Null, Reply::Integer))
}

/// Reads PTTL: the lease that is left, if it is known and ends.
fn lease(value: &Value) -> Option<Nanos> {
    match value {
        Value::Int(left @ 0..) => Some(left.saturating_mul(MS)),
        _ => None,
    }
}

fn failure(refusal: &Refusal, error: &Error) -> Failure {
    match error {
        Error::NotALock { .. } => Failure::Gone,
        _ if refusal.passes() || command::is_of_channel(refusal) => Failure::Passing,
        _ if command::is_draining(refusal) => Failure::Draining,
        _ => Failure::Final,
    }
}
