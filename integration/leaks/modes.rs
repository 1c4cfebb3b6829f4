//! Readers, writers and FAIR waiters.

use crate::wire::{ACQUIRED, Batch, DENIED, ONE, QUEUED, ZERO, news};
use crate::work::{Scene, acquire, lock};

/// The number of readers that wait for a message.
const READERS: usize = 5;

impl Scene<'_> {
    /// The lives of a read/write lock and of a fair one; returns how often one was acquired.
    #[track_caller]
    pub(crate) fn modes(&mut self) -> u64 {
        let first = self.new_locks(3);
        self.readers_and_writers(&lock(first));
        self.readers_that_go(&lock(first + 1));
        self.fair(&lock(first + 2));
        (READERS + 9) as u64
    }

    /// Readers are granted together and a writer after them, which stays as a reader.
    #[track_caller]
    fn readers_and_writers(&mut self, key: &str) {
        let (mut batch, mut messages) = (Batch::default(), String::new());
        batch.add(&acquire(key, "driver", "WRITE"), ACQUIRED);
        for n in 0..READERS {
            batch.add(&acquire(key, &format!("reader:{n}"), "READ ENQUEUE 0 news"), QUEUED);
            messages += &news(&format!("granted 0 reader:{n} {key} 1 5000 0 read"));
        }
        batch.exchange(&mut self.driver);
        self.clients[0].send(&(acquire(key, "writer", "WRITE BLOCK 0") + "\r\n"));
        self.await_waiters(READERS + 1);
        let mut batch = Batch::default();
        batch.add(&format!("RLOCK.RELEASE {key} driver"), ONE);
        batch.add(&acquire(key, "late", "READ"), DENIED);
        for n in 0..READERS {
            batch.add(&format!("RLOCK.RENEW {key} reader:{n} 30000 READ"), ONE);
            batch.add(&format!("RLOCK.RELEASE {key} reader:{n}"), ONE);
        }
        batch.add(&acquire(key, "writer", "READ"), ACQUIRED);
        batch.add(&format!("RLOCK.RELEASE {key} writer WRITE"), ONE);
        batch.add(&acquire(key, "other", "READ"), ACQUIRED);
        batch.add(&format!("RLOCK.RELEASE {key} writer READ"), ONE);
        batch.add(&format!("RLOCK.RELEASE {key} other"), ONE);
        batch.add(&format!("EXISTS {key}"), ZERO);
        batch.exchange(&mut self.driver);
        self.heard.hears(&messages);
        self.clients[0].hears(ACQUIRED);
    }

    /// Readers that die, and a lock whose end is set too early, or which is deleted, while a writer waits.
    #[track_caller]
    fn readers_that_go(&mut self, key: &str) {
        let mut batch = Batch::default();
        batch.add(&acquire(key, "driver", "READ"), ACQUIRED);
        batch.add(&acquire(key, "dead", "READ"), ACQUIRED);
        batch.add(&acquire(key, "waits", "WRITE ENQUEUE 0 news"), QUEUED);
        batch.add(&format!("RLOCK.RENEW {key} dead 1 READ"), ONE);
        batch.add(&format!("PEXPIRE {key} 20000"), ONE);
        batch.add(&format!("RLOCK.FORCERELEASE {key} driver"), ONE);
        batch.exchange(&mut self.driver);
        self.heard.hears(&news(&format!("granted 0 waits {key} 1 5000 0 write")));
        let mut batch = Batch::default();
        batch.add(&format!("RLOCK.RELEASE {key} waits"), ONE);
        batch.add(&acquire(key, "driver", "READ"), ACQUIRED);
        batch.add(&acquire(key, "waits", "WRITE ENQUEUE 0 news"), QUEUED);
        batch.add(&format!("DEL {key} {{{key}}}:driver:rwlock_timeout:1"), ":2\r\n");
        batch.exchange(&mut self.driver);
        self.heard.hears(&news(&format!("granted 0 waits {key} 1 5000 0 write")));
        self.driver.say(&format!("RLOCK.RELEASE {key} waits"), ONE);
    }

    /// Waiters are granted in the order of the fair list; one cancels, and a Redisson waiter is dead.
    #[track_caller]
    fn fair(&mut self, key: &str) {
        let (list, deadlines) =
            (format!("redisson_lock_queue:{{{key}}}"), format!("redisson_lock_timeout:{{{key}}}"));
        let mut batch = Batch::default();
        batch.add(&acquire(key, "driver", "FAIR"), ACQUIRED);
        batch.add(&format!("RPUSH {list} dead"), ONE);
        batch.add(&format!("ZADD {deadlines} 1 dead"), ONE);
        batch.add(&acquire(key, "first", "FAIR ENQUEUE 0 news"), QUEUED);
        batch.add(&acquire(key, "cancels", "FAIR ENQUEUE 0 news"), QUEUED);
        batch.exchange(&mut self.driver);
        self.clients[0].send(&(acquire(key, "second", "FAIR BLOCK 0") + "\r\n"));
        self.await_waiters(3);
        let mut batch = Batch::default();
        batch.add(&format!("RLOCK.CANCEL {key} cancels"), ONE);
        batch.add(&format!("RLOCK.RELEASE {key} driver"), ONE);
        batch.add(&acquire(key, "late", "FAIR"), DENIED);
        batch.add(&format!("RLOCK.RELEASE {key} first"), ONE);
        batch.add(&format!("RLOCK.RELEASE {key} second"), ONE);
        batch.add(&format!("EXISTS {key} {list} {deadlines}"), ZERO);
        batch.exchange(&mut self.driver);
        self.heard.hears(&news(&format!("granted 0 first {key} 1 5000 0")));
        self.clients[0].hears(ACQUIRED);
    }
}
