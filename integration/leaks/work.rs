//! The kinds of work that must leave nothing behind. Every step uses locks of new names, so that anything that is
//! kept for a lock shows, and names of one length, so that all take the same space.

use std::iter::repeat_n;
use std::mem::take;
use std::time::Duration;

use rlock_testkit::{Inline, TestServer, eventually};

use crate::wire::{ACQUIRED, Batch, DENIED, OK, ONE, QUEUED, ZERO, connect, news};

/// The number of blocked clients, and of enqueued owners.
pub(crate) const CLIENTS: usize = 20;

/// The time limit for the start of a wait, also under valgrind.
pub(crate) const SOON: Duration = Duration::from_secs(60);

const REPLACED: &str = "-UNBLOCKED the same owner waits by a later call\r\n";

/// A lock by its number.
pub(crate) fn lock(n: u64) -> String {
    format!("lock:{n:09}")
}

/// `RLOCK.ACQUIRE` with the lease that all have.
pub(crate) fn acquire(key: &str, owner: &str, wait: &str) -> String {
    format!("RLOCK.ACQUIRE {key} {owner} 30000 {wait}")
}

/// A server and its clients: one that sends most commands, some that block, and one that receives the messages.
pub(crate) struct Scene<'a> {
    pub(crate) server: &'a TestServer,
    pub(crate) driver: Inline,
    pub(crate) clients: Vec<Inline>,
    pub(crate) heard: Inline,
    used: &'a mut u64,
}

impl<'a> Scene<'a> {
    /// Connects all; `used` counts the locks that were used up to now.
    #[track_caller]
    pub(crate) fn new(server: &'a TestServer, used: &'a mut u64) -> Scene<'a> {
        let mut heard = connect(server);
        heard.say("SUBSCRIBE news", "*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n");
        let clients = (0..CLIENTS).map(|_| connect(server)).collect();
        Scene { server, driver: connect(server), clients, heard, used }
    }

    /// Reserves `count` locks that were never used; returns the number of the first.
    pub(crate) fn new_locks(&mut self, count: u64) -> u64 {
        *self.used += count;
        *self.used - count
    }

    #[track_caller]
    pub(crate) fn await_waiters(&mut self, count: usize) {
        let driver = &mut self.driver;
        eventually(&format!("{count} to wait"), SOON, || {
            (driver.info("rlock", "rlock_waiters") == count as i64).then_some(())
        });
    }

    /// Lets every client send the same lines as another owner; each waits before the next one sends.
    #[track_caller]
    fn all_wait(&mut self, lines: impl Fn(usize) -> String) {
        for n in 0..CLIENTS {
            self.clients[n].send(&lines(n));
            self.await_waiters(n + 1);
        }
    }

    #[track_caller]
    fn all_hear(&mut self, expected: &str) {
        self.clients.iter_mut().for_each(|client| client.hears(expected));
    }

    /// Contended cycles: in each round the lock passes from waiter to waiter, first the blocked ones, then the
    /// enqueued ones, until the last releases it. Returns how often an owner waited, got the lock and released it.
    #[track_caller]
    pub(crate) fn hand_offs(&mut self, rounds: u64) -> u64 {
        let first = self.new_locks(rounds + 1);
        self.driver.say(&acquire(&lock(first), "driver", ""), ACQUIRED);
        self.all_wait(|n| {
            let lines = (first..first + rounds).map(|round| {
                let (key, owner) = (lock(round), format!("client:{n:03}"));
                acquire(&key, &owner, "BLOCK 0") + "\r\n"
            });
            lines.collect()
        });
        for round in first..first + rounds {
            self.hand_off_round(&lock(round), &lock(round + 1));
        }
        self.all_hear(&ACQUIRED.repeat(rounds as usize));
        self.driver.say(&format!("RLOCK.RELEASE {} driver", lock(first + rounds)), ONE);
        rounds * 2 * CLIENTS as u64
    }

    /// Every blocked client waits for `key` already, and for the next lock as soon as it was granted this one.
    #[track_caller]
    fn hand_off_round(&mut self, key: &str, next: &str) {
        let (mut batch, mut messages) = (Batch::default(), String::new());
        batch.add(&acquire(next, "driver", ""), ACQUIRED);
        batch.add(&acquire(key, "late", ""), DENIED);
        let enqueued = || (0..CLIENTS).map(|n| format!("message:{n:03}"));
        for owner in enqueued() {
            batch.add(&acquire(key, &owner, "ENQUEUE 0 news"), QUEUED);
        }
        batch.add(&format!("RLOCK.RELEASE {key} driver"), ONE);
        for n in 0..CLIENTS {
            batch.add(&format!("RLOCK.RELEASE {key} client:{n:03}"), ONE);
        }
        for owner in enqueued() {
            messages += &news(&format!("granted 0 {owner} {key} 1 5000 0"));
            batch.add(&format!("RLOCK.RENEW {key} {owner} 30000"), ONE);
            batch.add(&format!("RLOCK.RELEASE {key} {owner}"), ONE);
        }
        batch.exchange(&mut self.driver);
        self.heard.hears(&messages);
    }

    /// The same with the server's own blocking commands, which shows what the server itself keeps.
    #[track_caller]
    pub(crate) fn plain_hand_offs(&mut self, rounds: u64) -> u64 {
        let first = self.new_locks(rounds);
        for (n, client) in self.clients.iter_mut().enumerate() {
            client.send(&format!("BLPOP list:{n:03} 0\r\n").repeat(rounds as usize));
        }
        for key in (first..first + rounds).map(lock) {
            let mut batch = Batch::default();
            for n in 0..CLIENTS {
                batch.add(&format!("SET {key} owner NX PX 30000"), OK);
                batch.add(&format!("LPUSH list:{n:03} owner"), ONE);
                batch.add(&format!("DEL {key}"), ONE);
            }
            batch.exchange(&mut self.driver);
        }
        for (n, client) in self.clients.iter_mut().enumerate() {
            let popped = format!("*2\r\n$8\r\nlist:{n:03}\r\n$5\r\nowner\r\n");
            client.hears(&popped.repeat(rounds as usize));
        }
        rounds * CLIENTS as u64
    }

    /// Waits that end without the lock: by CANCEL, in time, and by a later call of the same owner.
    #[track_caller]
    pub(crate) fn ended_waits(&mut self) -> u64 {
        let first = self.new_locks(CLIENTS as u64);
        let locks: Vec<_> = (first..first + CLIENTS as u64).map(lock).collect();
        let (mut batch, mut messages) = (Batch::default(), String::new());
        for key in &locks {
            batch.add(&acquire(key, "driver", ""), ACQUIRED);
            batch.add(&acquire(key, "cancels", "ENQUEUE 30000 news"), QUEUED);
            batch.add(&format!("RLOCK.CANCEL {key} cancels"), ONE);
            batch.add(&format!("RLOCK.CANCEL {key} cancels"), ZERO);
            batch.add(&acquire(key, "impatient", "ENQUEUE 1 news"), QUEUED);
            messages += &news(&format!("timeout 0 impatient {key}"));
        }
        batch.exchange(&mut self.driver);
        self.heard.hears(&messages);
        for (client, key) in self.clients.iter_mut().zip(&locks) {
            client.send(&(acquire(key, "blocked", "BLOCK 1") + "\r\n"));
        }
        self.all_hear(DENIED);
        self.all_wait(|n| acquire(&locks[n], "blocked", "BLOCK 0") + "\r\n");
        self.end_each(&locks, &|batch, key| batch.add(&format!("RLOCK.CANCEL {key} blocked"), ONE));
        self.all_hear(DENIED);
        self.all_wait(|n| acquire(&locks[n], "blocked", "BLOCK 30000") + "\r\n");
        self.end_each(&locks, &|batch, key| {
            batch.add(&acquire(key, "blocked", "ENQUEUE 0 news"), QUEUED);
            batch.add(&format!("RLOCK.CANCEL {key} blocked"), ONE);
            batch.add(&format!("RLOCK.RELEASE {key} driver"), ONE);
        });
        self.all_hear(REPLACED);
        5 * CLIENTS as u64
    }

    #[track_caller]
    fn end_each(&mut self, locks: &[String], add: &dyn Fn(&mut Batch, &str)) {
        let mut batch = Batch::default();
        locks.iter().for_each(|key| add(&mut batch, key));
        batch.exchange(&mut self.driver);
    }

    /// Clients that disconnect while they wait, or while a grant is in transit to them.
    #[track_caller]
    pub(crate) fn departures(&mut self) -> u64 {
        let key = lock(self.new_locks(1));
        self.driver.say(&acquire(&key, "driver", ""), ACQUIRED);
        let kept = take(&mut self.clients);
        self.clients = repeat_n((), CLIENTS).map(|()| connect(self.server)).collect();
        let ids: Vec<_> = self.clients.iter_mut().map(|client| client.number("CLIENT ID")).collect();
        self.all_wait(|n| acquire(&key, &format!("client:{n:03}"), "BLOCK 0") + "\r\n");
        // Every other is killed in the transaction that gives it the lock, and the lock goes to the next.
        for n in (0..CLIENTS / 2).step_by(2) {
            let mut batch = Batch::default();
            let holder = if n == 0 { "driver".to_owned() } else { format!("client:{:03}", n - 1) };
            batch.add("MULTI", OK);
            batch.add(&format!("RLOCK.RELEASE {key} {holder}"), "+QUEUED\r\n");
            batch.add(&format!("CLIENT KILL ID {}", ids[n]), "+QUEUED\r\n");
            batch.add("EXEC", "*2\r\n:1\r\n:1\r\n");
            batch.exchange(&mut self.driver);
            self.clients[n + 1].hears(ACQUIRED);
        }
        self.clients = kept;
        self.await_waiters(0);
        self.driver.say(&format!("RLOCK.FORCERELEASE {key}"), ONE);
        CLIENTS as u64
    }
}
