//! Waiters by Redisson's protocol, each a separate process: a connection for commands and one for messages.
//!
//! Try; if denied subscribe, try again, and sleep until a message comes; each message is one more try.
//! (Redisson also wakes at the lease end that its last denial reported, which never happens here.) The new
//! holder unsubscribes. A process that releases the lock deletes the latch and tries again.

use super::fleet::{Clients, Fleet};
use super::tally::{LOCK, Tally, owner};
use crate::redisson::{Imitation, channel, request};
use crate::resp::{Reply, command};

/// The state of a process.
#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    Trying,
    Subscribing,
    /// Subscribed and asleep.
    Waiting,
    Holding,
    Releasing,
    DeletingLatch,
}

struct Process {
    state: State,
    subscribed: bool,
    /// Messages that arrived during a try.
    calls: usize,
    number: usize,
}

/// The processes: connection 2n is for commands, 2n + 1 for messages.
pub(crate) struct Redisson<'a> {
    imitation: &'a Imitation,
    tally: Tally,
    processes: Vec<Process>,
    channel: String,
    begun: bool,
}

impl<'a> Redisson<'a> {
    /// Starts this many processes; the first takes the lock.
    pub(crate) fn start(clients: usize, imitation: &'a Imitation, fleet: &mut Fleet) -> Redisson<'a> {
        let process = |number| Process { state: State::Trying, subscribed: false, calls: 0, number };
        let processes = (0..clients).map(process).collect();
        let redisson = Redisson {
            imitation,
            tally: Tally::new(clients),
            processes,
            channel: channel(LOCK),
            begun: false,
        };
        redisson.try_acquire(0, fleet);
        redisson
    }

    fn try_acquire(&self, client: usize, fleet: &mut Fleet) {
        let owner = owner(self.processes[client].number);
        fleet.send(2 * client, &command(&self.imitation.acquire(LOCK, &owner)));
    }

    fn denied(&mut self, client: usize, fleet: &mut Fleet) {
        let process = &mut self.processes[client];
        if !process.subscribed {
            process.state = State::Subscribing;
            return fleet.send(2 * client + 1, &command(&["SUBSCRIBE", &self.channel]));
        }
        if process.calls > 0 {
            process.calls -= 1;
            return self.try_acquire(client, fleet);
        }
        process.state = State::Waiting;
        self.tally.waits();
    }

    fn acquired(&mut self, client: usize, fleet: &mut Fleet) {
        self.tally.granted(client, fleet.arrived(2 * client));
        let process = &mut self.processes[client];
        process.state = State::Holding;
        if process.subscribed {
            process.subscribed = false;
            fleet.send(2 * client + 1, &command(&["UNSUBSCRIBE", &self.channel]));
        }
        if self.begun {
            return fleet.after(self.tally.hold, client);
        }
        self.begun = true;
        for waiter in 1..self.processes.len() {
            self.try_acquire(waiter, fleet);
        }
    }

    fn on_message(&mut self, client: usize, kind: &Reply<'_>, fleet: &mut Fleet) {
        let process = &mut self.processes[client];
        match (kind, process.state) {
            (Reply::Text(b"subscribe"), State::Subscribing) => {
                (process.subscribed, process.calls, process.state) = (true, 0, State::Trying);
                self.try_acquire(client, fleet);
            }
            (Reply::Text(b"message"), State::Waiting) => {
                process.state = State::Trying;
                self.try_acquire(client, fleet);
            }
            (Reply::Text(b"message"), State::Trying) => process.calls += 1,
            // It was subscribed when the message was sent, and does not want the lock now.
            (Reply::Text(b"message" | b"unsubscribe"), _) => {}
            other => panic!("process {client} got {other:?}"),
        }
    }

    /// Deletes the latch if it exists, then tries again.
    fn released(&mut self, client: usize, fleet: &mut Fleet) {
        let Some(forget) = self.imitation.forget(LOCK, &request(client)) else {
            self.processes[client].state = State::Trying;
            return self.try_acquire(client, fleet);
        };
        self.processes[client].state = State::DeletingLatch;
        fleet.send(2 * client, &command(&forget));
    }
}

impl Clients for Redisson<'_> {
    fn on_reply(&mut self, connection: usize, reply: &Reply<'_>, fleet: &mut Fleet) {
        let client = connection / 2;
        if let (1, Reply::Array(items)) = (connection % 2, reply) {
            return self.on_message(client, &items[0], fleet);
        }
        match (self.processes[client].state, reply) {
            (State::Trying, Reply::Null) => self.acquired(client, fleet),
            (State::Trying, Reply::Int(_)) => self.denied(client, fleet),
            (State::Releasing, Reply::Int(1)) => self.released(client, fleet),
            (State::DeletingLatch, Reply::Int(1)) => {
                self.processes[client].state = State::Trying;
                self.try_acquire(client, fleet);
            }
            (state, other) => panic!("process {client} got {other:?} when {state:?}"),
        }
    }

    fn on_timer(&mut self, client: usize, fleet: &mut Fleet) {
        let owner = owner(self.processes[client].number);
        let release = command(&self.imitation.release(LOCK, &owner, &request(client)));
        self.processes[client].state = State::Releasing;
        self.tally.releases();
        fleet.send(2 * client, &release);
    }

    fn tally(&mut self) -> &mut Tally {
        &mut self.tally
    }
}
