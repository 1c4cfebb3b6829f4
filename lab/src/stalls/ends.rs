//! The events that end the waits, and the signs that a wait has ended.

use std::thread::sleep;
use std::time::Instant;

use crate::resp::{Reply, append, command};
use crate::wire::Wire;

use super::Scenario;
use super::bed::{Bed, FAR, LEASE, Place};

/// The event that ends the waits.
pub(super) enum Trigger {
    /// This moment.
    Moment(Instant),
    /// Commands, with their replies.
    Commands(Commands),
}

/// Commands on a separate connection.
pub(super) struct Commands {
    wire: Wire,
    request: Vec<u8>,
    answer: Vec<u8>,
}

impl Trigger {
    /// The event that ends all waits on this server.
    pub(super) fn of(bed: &mut Bed) -> Trigger {
        if bed.scenario.times_out() {
            return Trigger::Moment(bed.until);
        }
        let mut wire = Wire::connect(bed.port()).expect("a connection");
        if bed.scenario == Scenario::FlushOther {
            wire.exchange(&command(&["SELECT", "1"]), b"+OK\r\n");
            wire.exchange(&command(&["SET", "x", "y"]), b"+OK\r\n");
        }
        let (request, answer) = match bed.scenario {
            Scenario::TiedHolds | Scenario::TiedWaiters => {
                let id = bed.leave_connection().to_string();
                (command(&["CLIENT", "KILL", "ID", &id]), b":1\r\n".to_vec())
            }
            scenario => commands(scenario, &bed.place, bed.waiters),
        };
        Trigger::Commands(Commands { wire, request, answer })
    }

    /// Returns the moment at which everything was due to end: the given one, or the one before the first command.
    pub(super) fn pull(&mut self) -> Instant {
        match self {
            Trigger::Moment(moment) => {
                sleep(moment.saturating_duration_since(Instant::now()));
                *moment
            }
            Trigger::Commands(Commands { wire, request, answer }) => {
                let begin = Instant::now();
                wire.exchange(request, answer);
                begin
            }
        }
    }
}

/// The commands, and the replies to wait for.
fn commands(scenario: Scenario, place: &Place, waiters: usize) -> (Vec<u8>, Vec<u8>) {
    let Place { lock, list, deadlines, channel, .. } = place;
    let (alice, bob, alone) = (place.owner("alice"), place.owner("bob"), place.owner("alone"));
    let one = |words: &[&str], answer: &str| (command(words), answer.into());
    match scenario {
        Scenario::FairDrain | Scenario::PlainDrain => {
            one(&["CONFIG", "SET", "rlock.accept", "no"], "+OK\r\n")
        }
        Scenario::FairCancel => {
            let mut request = Vec::new();
            for index in 0..waiters {
                append(&mut request, &["RLOCK.CANCEL", lock, &place.waiter(index)]);
            }
            (request, ":1\r\n".repeat(waiters).into())
        }
        // Nothing listens there.
        Scenario::Demotion => one(&["REPLICAOF", "127.0.0.1", "1"], "+OK\r\n"),
        Scenario::FlushOther => one(&["FLUSHDB"], "+OK\r\n"),
        // The server's own time to free many keys is not measured.
        Scenario::FlushOwn => one(&["FLUSHDB", "ASYNC"], "+OK\r\n"),
        // The first command that meets the list.
        Scenario::FairLoad => one(&["RLOCK.ACQUIRE", lock, &bob, LEASE, "FAIR"], "*-1\r\n"),
        Scenario::FairRemoved => one(&["LREM", list, "1", &place.waiter(0)], ":1\r\n"),
        Scenario::FairDeleted => one(&["DEL", list, deadlines], ":2\r\n"),
        // It may get the lock at once, or wait for it.
        Scenario::FairExpired => {
            one(&["RLOCK.ACQUIRE", lock, &alice, LEASE, "FAIR", "ENQUEUE", "0", channel], "")
        }
        Scenario::Channel | Scenario::Readers => one(&["RLOCK.RELEASE", lock, &alice], ":1\r\n"),
        Scenario::Permits => one(&["RLOCK.CANCEL", lock, &alone], ":1\r\n"),
        Scenario::FairTimeout
        | Scenario::PlainTimeout
        | Scenario::BlockTimeout
        | Scenario::TiedHolds
        | Scenario::TiedWaiters => (Vec::new(), Vec::new()),
    }
}

impl Bed {
    /// Whether everything has ended.
    pub(super) fn is_over(&mut self) -> bool {
        match self.scenario {
            // No waiters, and none of their entries.
            Scenario::FairTimeout | Scenario::FairCancel => self.waiting() == 0 && self.are_listed(0),
            Scenario::FairDrain => self.waiting() == 0 && self.are_listed(1),
            // The reply is the only sign; PINGs are sent for a while after it.
            Scenario::FlushOther => true,
            // Each has a shorter lease.
            Scenario::TiedHolds => self.wire.info("rlock", "rlock_ties") == 0,
            // No deadline is as it was before.
            Scenario::FairLoad => {
                let far = (self.now() + FAR / 2).to_string();
                let deadlines = self.place.deadlines.clone();
                self.number(&["ZCOUNT", &deadlines, &far, "+inf"]) == 0
            }
            // The first waiters have their entries again. Entries that the module puts back later keep their turns.
            Scenario::FairRemoved | Scenario::FairDeleted => self.is_first(0),
            // The caller has the lock, and no entry is left.
            Scenario::FairExpired => {
                let (lock, alice) = (self.place.lock.clone(), self.place.owner("alice"));
                self.number(&["HEXISTS", &lock, &alice]) == 1 && self.are_listed(0)
            }
            // The clients have their replies, too.
            Scenario::BlockTimeout => {
                self.waiting() == 0 && self.wire.info("clients", "blocked_clients") == 0
            }
            Scenario::PlainTimeout
            | Scenario::PlainDrain
            | Scenario::Demotion
            | Scenario::Channel
            | Scenario::Readers
            | Scenario::Permits
            | Scenario::TiedWaiters
            | Scenario::FlushOwn => self.waiting() == 0,
        }
    }

    /// Panics if they did not end in the way that is measured.
    pub(super) fn check(&mut self) {
        if let Some(counter) = self.scenario.counter() {
            let count = self.wire.info("rlock", counter);
            assert_eq!(count, self.waiters as i64, "{}: {counter}", self.scenario.name());
        }
    }

    fn waiting(&mut self) -> i64 {
        self.wire.info("rlock", "rlock_waiters")
    }

    /// Whether this waiter is at the head of the fair list.
    fn is_first(&mut self, waiter: usize) -> bool {
        let owner = self.place.waiter(waiter);
        self.wire
            .ask(&["LPOS", &self.place.list, &owner, "MAXLEN", "1"], |reply| matches!(reply, Reply::Int(0)))
    }

    /// Whether the fair list has `count` entries, and as many deadlines.
    fn are_listed(&mut self, count: usize) -> bool {
        let (list, deadlines) = (self.place.list.clone(), self.place.deadlines.clone());
        self.number(&["LLEN", &list]) == count as i64 && self.number(&["ZCARD", &deadlines]) == count as i64
    }
}
