//! Waiters by RLOCK.ACQUIRE … ENQUEUE: a connection for commands and one for messages, for each client or
//! for all of them together.

use std::collections::VecDeque;

use super::fleet::{Clients, Fleet};
use super::tally::{LEASE, LOCK, Tally, number_of, owner};
use crate::resp::{Reply, command};

/// The answer that a client waits for.
#[derive(Clone, Copy)]
enum Asked {
    Acquire,
    Renew,
    Release,
}

/// The clients: connection 2n is for commands, 2n + 1 for messages.
pub(crate) struct Enqueue {
    tally: Tally,
    processes: usize,
    numbers: Vec<usize>,
    /// For each process its unanswered requests in order, each with its client.
    asked: Vec<VecDeque<(usize, Asked)>>,
    subscribed: usize,
    begun: bool,
}

impl Enqueue {
    /// Starts `clients` clients in `processes` processes; the first client takes the lock.
    pub(crate) fn start(clients: usize, processes: usize, fleet: &mut Fleet) -> Enqueue {
        for process in 0..processes {
            fleet.send(2 * process + 1, &command(&["SUBSCRIBE", &channel(process)]));
        }
        Enqueue {
            tally: Tally::new(clients),
            processes,
            numbers: (0..clients).collect(),
            asked: vec![VecDeque::new(); processes],
            subscribed: 0,
            begun: false,
        }
    }

    fn ask(&mut self, client: usize, asked: Asked, fleet: &mut Fleet) {
        if let Asked::Acquire = asked {
            self.numbers[client] += self.numbers.len();
        }
        let (process, owner) = (client % self.processes, owner(self.numbers[client]));
        let words = match asked {
            Asked::Acquire => {
                let channel = channel(process);
                let words = ["RLOCK.ACQUIRE", LOCK, &owner, LEASE, "HOLDS", "1", "ENQUEUE", "0", &channel];
                command(&words)
            }
            Asked::Renew => command(&["RLOCK.RENEW", LOCK, &owner, LEASE]),
            Asked::Release => command(&["RLOCK.RELEASE", LOCK, &owner, "HOLDS", "0"]),
        };
        self.asked[process].push_back((client, asked));
        if let Asked::Release = asked {
            self.tally.releases();
        }
        fleet.send(2 * process, &words);
    }

    fn on_message(&mut self, items: &[Reply<'_>], fleet: &mut Fleet) {
        match items {
            [Reply::Text(b"subscribe"), ..] => {
                self.subscribed += 1;
                if self.subscribed == self.processes {
                    self.ask(0, Asked::Acquire, fleet);
                }
            }
            [Reply::Text(b"message"), _, Reply::Text(text)] => {
                let mut fields = text.split(|byte| *byte == b' ');
                let (word, owner) = (fields.next(), fields.nth(1).unwrap_or_default());
                assert_eq!(word, Some(b"granted".as_slice()), "{}", String::from_utf8_lossy(text));
                let client = number_of(owner) % self.numbers.len();
                self.tally.granted(client, fleet.arrived(2 * (client % self.processes) + 1));
                self.ask(client, Asked::Renew, fleet);
            }
            other => panic!("an unexpected message: {other:?}"),
        }
    }
}

impl Clients for Enqueue {
    fn on_reply(&mut self, connection: usize, reply: &Reply<'_>, fleet: &mut Fleet) {
        if let (1, Reply::Array(items)) = (connection % 2, reply) {
            return self.on_message(items, fleet);
        }
        let (client, asked) = self.asked[connection / 2].pop_front().expect("a question to the answer");
        match (asked, reply) {
            (Asked::Acquire, Reply::Array(items)) if items.first() == Some(&Reply::Int(0)) => {
                self.tally.waits();
            }
            (Asked::Acquire, Reply::Array(_)) if !self.begun => {
                self.begun = true;
                for waiter in 1..self.numbers.len() {
                    self.ask(waiter, Asked::Acquire, fleet);
                }
            }
            (Asked::Acquire, Reply::Array(_)) => {
                self.tally.granted(client, fleet.arrived(connection));
                fleet.after(self.tally.hold, client);
            }
            (Asked::Renew, Reply::Int(1)) => fleet.after(self.tally.hold, client),
            (Asked::Release, Reply::Int(1)) => self.ask(client, Asked::Acquire, fleet),
            (_, other) => panic!("client {client} got {other:?}"),
        }
    }

    fn on_timer(&mut self, client: usize, fleet: &mut Fleet) {
        self.ask(client, Asked::Release, fleet);
    }

    fn tally(&mut self) -> &mut Tally {
        &mut self.tally
    }
}

fn channel(process: usize) -> String {
    format!("locks:{process:05}")
}
