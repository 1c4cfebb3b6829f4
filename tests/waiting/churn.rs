//! A thousand waiters on three locks in a random order, each step compared with a plain model of the queues. One lock is
//! plain, one they want to write, and one with FAIR.
//!
//! One thread does everything, so that the model is exact. `RLOCK_SEED` repeats a run that failed.

mod scene;

use std::env;
use std::time::{Duration, SystemTime};

use redis::Value;
use rlock_testkit::commands;
use rlock_testkit::commands::{SOON, counter, fields, transaction};
use scene::{CONFIRM, Churn, DEAF, KEYS, LEASE, MODES, Via, Waiter, answer, ask, told_as};

/// How many owners come.
const OWNERS: u64 = 1_000;

const REPLACED: &str = "!UNBLOCKED the same owner waits by a later call";

impl Churn {
    fn long_wait(&mut self) -> &'static str {
        self.one_of(&["0", "900000", "3600000"])
    }

    #[track_caller]
    fn come(&mut self, n: usize) {
        self.came += 1;
        let owner = format!("o{}", self.came);
        if self.locks[n].holder.is_none() {
            let how = self.one_of(&["", "BLOCK 0", "BLOCK 1", "ENQUEUE 0 one", "ENQUEUE 1 deaf"]);
            self.tell(&ask(n, &owner, how), "[1, 600000, 0]");
            self.locks[n].holder = Some((owner, 1));
        } else {
            let wait = self.long_wait();
            let via = self.wait(n, &owner, wait);
            self.locks[n].queue.push_back(Waiter { owner, via });
        }
    }

    /// Somebody who waits, if anybody does: the place in the queue.
    fn anybody(&mut self, n: usize) -> Option<usize> {
        let length = self.locks[n].queue.len();
        (length > 0).then(|| self.dice.usize(..length))
    }

    /// Waits anew: the place is kept, and whoever was blocked is told.
    #[track_caller]
    fn repeat(&mut self, n: usize, place: usize, wait: &str) {
        let owner = self.locks[n].queue[place].owner.clone();
        let via = self.wait(n, &owner, wait);
        let old = std::mem::replace(&mut self.locks[n].queue[place].via, via);
        if let Via::Block(mut connection, _) = old {
            assert_eq!(answer(&mut connection), REPLACED, "{owner}");
        }
    }

    #[track_caller]
    fn time_out(&mut self, n: usize, place: usize) {
        self.repeat(n, place, "1");
        let waiter = self.locks[n].queue.remove(place).unwrap();
        match waiter.via {
            Via::Channel(DEAF) => {}
            Via::Channel(channel) => {
                self.hear(channel, &format!("timeout 0 {} {}{}", waiter.owner, KEYS[n], told_as(n)));
            }
            Via::Block(mut connection, _) => assert_eq!(answer(&mut connection), "null"),
        }
        self.check(n, SOON);
    }

    #[track_caller]
    fn cancel(&mut self, n: usize, place: usize) {
        let waiter = self.locks[n].queue.remove(place).unwrap();
        self.tell(&format!("RLOCK.CANCEL {} {}", KEYS[n], waiter.owner), "1");
        if let Via::Block(mut connection, _) = waiter.via {
            assert_eq!(answer(&mut connection), "null", "{}", waiter.owner);
        }
    }

    /// A blocked client disconnects or is killed, the first from a place on.
    #[track_caller]
    fn depart(&mut self, n: usize, place: usize) {
        let mut places = self.locks[n].queue.iter().skip(place);
        let Some(offset) = places.position(|waiter| matches!(waiter.via, Via::Block(..))) else { return };
        let waiter = self.locks[n].queue.remove(place + offset).unwrap();
        let Via::Block(mut connection, id) = waiter.via else { unreachable!() };
        if self.dice.usize(..2) == 0 {
            self.tell(&format!("CLIENT KILL ID {id}"), "1");
            assert_eq!(answer(&mut connection), "the connection ended");
            if MODES[n] != "FAIR" {
                return;
            }
        } else {
            self.steps.push(format!("{} disconnects", waiter.owner));
            drop(connection);
        }
        // From the fair list it is the timer that takes a client that is killed.
        self.check(n, SOON);
    }

    /// The holder gives back; the lock is handed on by the same command.
    #[track_caller]
    fn release(&mut self, n: usize) {
        let Some((owner, holds)) = self.locks[n].holder.clone() else { return };
        let key = KEYS[n];
        match self.dice.usize(..4) {
            0 => self.tell(&format!("RLOCK.FORCERELEASE {key} {owner}"), "1"),
            1 => self.tell(&format!("RLOCK.RELEASE {key} {owner} ALL"), "1"),
            _ if holds > 1 => {
                self.tell(&format!("RLOCK.RELEASE {key} {owner}"), "0");
                self.locks[n].holder = Some((owner, holds - 1));
                return;
            }
            _ => self.tell(&format!("RLOCK.RELEASE {key} {owner}"), "1"),
        }
        self.handed_on(n);
    }

    /// The lock ends without a release: the timer hands it on.
    #[track_caller]
    fn vanish(&mut self, n: usize) {
        if self.locks[n].holder.is_none() {
            return;
        }
        let (key, word) = (KEYS[n], self.one_of(&["DEL", "UNLINK", "RENAME", "PEXPIRE"]));
        match word {
            "RENAME" => self.tell(&format!("RENAME {key} renamed"), "OK"),
            "PEXPIRE" => self.tell(&format!("PEXPIRE {key} 1"), "1"),
            _ => self.tell(&format!("{word} {key}"), "1"),
        }
        self.handed_on(n);
        self.check(n, SOON);
    }

    /// The client that gets the lock is killed before it is answered: the next has it.
    #[track_caller]
    fn grant_into_the_void(&mut self, n: usize) {
        let Some((owner, _)) = self.locks[n].holder.clone() else { return };
        let Some(Via::Block(_, id)) = self.locks[n].queue.front().map(|waiter| &waiter.via) else { return };
        let lines = [format!("RLOCK.RELEASE {} {owner} ALL", KEYS[n]), format!("CLIENT KILL ID {id}")];
        self.steps.push(format!("MULTI {} EXEC", lines.join(" ")));
        assert_eq!(transaction(&mut self.client, &[&lines[0], &lines[1]]), "[1, 1]");
        let Via::Block(mut connection, _) = self.locks[n].queue.pop_front().unwrap().via else {
            unreachable!()
        };
        assert_eq!(answer(&mut connection), "the connection ended");
        self.handed_on(n);
        self.check(n, SOON);
    }

    /// The first who can be told has the lock, and hears of it.
    #[track_caller]
    fn handed_on(&mut self, n: usize) {
        let (key, queue) = (KEYS[n], &mut self.locks[n].queue);
        if queue.front().is_some_and(|waiter| waiter.via.is_deaf()) {
            queue.retain(|waiter| !waiter.via.is_deaf());
        }
        self.locks[n].holder = None;
        let Some(Waiter { owner, via }) = self.locks[n].queue.pop_front() else { return };
        self.grants += 1;
        match via {
            Via::Block(mut connection, _) => assert_eq!(answer(&mut connection), "[1, 600000, 0]", "{owner}"),
            Via::Channel(channel) => {
                self.hear(channel, &format!("granted 0 {owner} {key} 1 {CONFIRM} 0{}", told_as(n)));
                match self.dice.usize(..2) {
                    0 => self.tell(&format!("RLOCK.RENEW {key} {owner} {LEASE}"), "1"),
                    _ => self.tell(&ask(n, &owner, "HOLDS 1"), "[1, 600000, 0]"),
                }
            }
        }
        self.locks[n].holder = Some((owner, 1));
    }

    /// The holder re-enters, and others ask in vain.
    #[track_caller]
    fn others(&mut self, n: usize) {
        let (key, Some((owner, holds))) = (KEYS[n], self.locks[n].holder.clone()) else { return };
        self.tell(&ask(n, &owner, "BLOCK 0"), &format!("[{}, 600000, 0]", holds + 1));
        self.locks[n].holder = Some((owner.clone(), holds + 1));
        self.tell(&ask(n, "stranger", ""), "null");
        self.tell(&format!("RLOCK.CANCEL {key} {owner}"), "0");
        if let Some(place) = self.anybody(n) {
            let waits = self.locks[n].queue[place].owner.clone();
            self.tell(&format!("RLOCK.RENEW {key} {waits} {LEASE}"), "0");
            self.tell(&format!("RLOCK.RELEASE {key} {waits}"), "null");
            self.tell(&ask(n, &waits, ""), "null");
        }
    }

    #[track_caller]
    fn step(&mut self) {
        let (n, grows) = (self.dice.usize(..KEYS.len()), self.came < OWNERS * 6 / 10);
        let come = if grows { 60 } else { 25 };
        let die = self.dice.usize(..100);
        match (die < come, self.anybody(n)) {
            (true, _) | (_, None) => self.come(n),
            (_, Some(place)) => match (die - come) * 100 / (100 - come) {
                0..15 => {
                    let wait = self.long_wait();
                    self.repeat(n, place, wait);
                }
                15..25 => self.time_out(n, place),
                25..35 => self.cancel(n, place),
                35..42 => self.depart(n, place),
                42..75 => self.release(n),
                75..85 => self.vanish(n),
                85..92 => self.grant_into_the_void(n),
                _ => self.others(n),
            },
        }
        self.check(n, Duration::ZERO);
    }
}

fn seed() -> u64 {
    let given = env::var("RLOCK_SEED").ok().map(|seed| seed.parse().expect("RLOCK_SEED is a number"));
    let clock = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_micros() as u64;
    given.unwrap_or_else(clock)
}

#[test]
fn a_thousand_waiters_come_and_go_as_the_model_says() {
    let mut churn = Churn::new(seed());
    while churn.came < OWNERS {
        churn.step();
    }
    for (n, key) in KEYS.iter().enumerate() {
        while churn.locks[n].holder.is_some() {
            churn.release(n);
            churn.check(n, Duration::ZERO);
        }
        let info = fields(commands::ask(&mut churn.client, &["RLOCK.INFO", key]));
        let count = info.into_iter().find(|(name, _)| name == "waiter-count").unwrap().1;
        assert_eq!(count, Value::Int(0));
    }
    assert!(churn.heard.drain().is_empty());
    let count = |name| counter(&churn.server, name);
    assert_eq!((count("waiters"), count("panics"), count("replication_failures")), (0, 0, 0));
    // One that was taken back is counted as well.
    assert_eq!(count("hand_offs"), churn.grants + count("revokes"));
    let done = ["timeouts", "cancelled", "waiters_gone", "revokes", "found_expired", "found_deleted"];
    assert!(done.iter().all(|name| count(name) > 0), "seed {}", churn.seed);
    churn.tell("MODULE UNLOAD rlock", "OK");
}
