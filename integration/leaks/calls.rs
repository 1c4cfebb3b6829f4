//! Every command in every way that is not in [`crate::work`], and changes of locks from outside.

use crate::wire::{ACQUIRED, Batch, DENIED, NOT_HELD, OK, ONE, QUEUED, TWO_HOLDS, ZERO, connect, news};
use crate::work::{Scene, acquire, lock};

const SCRIPT: &str = "redis.call('RLOCK.INFO', KEYS[1]) redis.pcall('RLOCK.ACQUIRE', KEYS[1]) \
    redis.call('RLOCK.ACQUIRE', KEYS[1], 'x', 1, 'BLOCK', 0) return 1";

impl Scene<'_> {
    /// One lock's life with all calls; returns how many there were.
    #[track_caller]
    pub(crate) fn calls(&mut self) -> u64 {
        let key = lock(self.new_locks(1));
        let mut batch = Batch::default();
        holder_calls(&mut batch, &key);
        refused_calls(&mut batch, &key);
        batch.exchange(&mut self.driver);
        self.forced(&key);
        self.nobody_hears(&key);
        self.foreign_turn(&key);
        for end in ["DEL", "PEXPIRE", "RENAME", "SWAPDB", "FLUSHALL"] {
            self.ended_from_outside(&key, end);
        }
        1
    }

    #[track_caller]
    fn forced(&mut self, key: &str) {
        let mut batch = Batch::default();
        batch.add(&acquire(key, "driver", ""), ACQUIRED);
        batch.add(&acquire(key, "waits", "ENQUEUE 30000 news"), QUEUED);
        batch.add(&acquire(key, "waits", "HOLDS 1 ENQUEUE 0 news"), QUEUED);
        batch.add(&format!("RLOCK.FORCERELEASE {key} waits"), ZERO);
        batch.add(&format!("RLOCK.FORCERELEASE {key}"), ONE);
        batch.add(&format!("RLOCK.FORCERELEASE {key} waits"), ONE);
        batch.add(&format!("RLOCK.FORCERELEASE {key}"), ZERO);
        batch.exchange(&mut self.driver);
        self.heard.hears(&news(&format!("granted 0 waits {key} 1 5000 0")));
    }

    #[track_caller]
    fn nobody_hears(&mut self, key: &str) {
        let mut batch = Batch::default();
        batch.add(&acquire(key, "driver", ""), ACQUIRED);
        batch.add(&acquire(key, "one", "ENQUEUE 0 deaf"), QUEUED);
        batch.add(&acquire(key, "two", "ENQUEUE 0 deaf"), QUEUED);
        batch.add(&format!("RLOCK.RELEASE {key} driver ALL"), ONE);
        batch.add(&format!("EXISTS {key}"), ZERO);
        batch.exchange(&mut self.driver);
    }

    /// A Redisson client waits, and the module yields to it before it grants the second native waiter.
    #[track_caller]
    fn foreign_turn(&mut self, key: &str) {
        let (mut listener, mut batch) = (connect(self.server), Batch::default());
        let channel = format!("redisson_lock__channel:{{{key}}}");
        let subscribed = format!("*3\r\n$9\r\nsubscribe\r\n${}\r\n{channel}\r\n:1\r\n", channel.len());
        listener.say(&format!("SUBSCRIBE {channel}"), &subscribed);
        batch.add("CONFIG SET rlock.foreign-turn-grants 1 rlock.foreign-window-ms 1", OK);
        batch.add(&acquire(key, "driver", ""), ACQUIRED);
        batch.add(&acquire(key, "first", "ENQUEUE 0 news"), QUEUED);
        batch.add(&acquire(key, "second", "ENQUEUE 0 news"), QUEUED);
        batch.add(&format!("RLOCK.RELEASE {key} driver"), ONE);
        batch.add(&format!("RLOCK.RELEASE {key} first"), ONE);
        batch.add(&format!("EXISTS {key}"), ZERO);
        batch.exchange(&mut self.driver);
        let granted = |owner| news(&format!("granted 0 {owner} {key} 1 5000 0"));
        self.heard.hears(&(granted("first") + &granted("second")));
        self.driver.say(&format!("RLOCK.RELEASE {key} second"), ONE);
        self.driver.say("CONFIG SET rlock.foreign-turn-grants 100", OK);
    }

    /// A lock ends without an RLOCK command, and the next waiter gets it.
    #[track_caller]
    fn ended_from_outside(&mut self, key: &str, end: &str) {
        let (line, answer) = match end {
            "PEXPIRE" => (format!("PEXPIRE {key} 1"), ONE),
            "RENAME" => (format!("RENAME {key} away"), OK),
            "SWAPDB" => ("SWAPDB 0 1".to_owned(), OK),
            "FLUSHALL" => ("FLUSHALL".to_owned(), OK),
            _ => (format!("{end} {key}"), ONE),
        };
        let mut batch = Batch::default();
        batch.add(&acquire(key, "driver", ""), ACQUIRED);
        batch.add(&acquire(key, "waits", "ENQUEUE 30000 news"), QUEUED);
        batch.add(&line, answer);
        batch.exchange(&mut self.driver);
        self.heard.hears(&news(&format!("granted 0 waits {key} 1 5000 0")));
        self.driver.say(&format!("RLOCK.RELEASE {key} waits"), ONE);
    }
}

fn holder_calls(batch: &mut Batch, key: &str) {
    let script = format!("EVAL \"{SCRIPT}\" 1 {key}");
    batch.add(&acquire(key, "driver", "BLOCK 0"), ACQUIRED);
    batch.add(&acquire(key, "driver", ""), TWO_HOLDS);
    batch.add(&acquire(key, "driver", "HOLDS 2"), TWO_HOLDS);
    batch.add(&acquire(key, "other", "HOLDS 2 BLOCK 0"), DENIED);
    batch.add(&format!("SET redisson_lock_token:{{{key}}} 7"), OK);
    batch.add(&script, ONE);
    batch.add(&format!("RPUSH redisson_lock_queue:{{{key}}} fair"), ONE);
    batch.add("MULTI", OK);
    batch.add(&acquire(key, "other", "BLOCK 0"), "+QUEUED\r\n");
    batch.add(&format!("RLOCK.RENEW {key} driver 30000"), "+QUEUED\r\n");
    batch.add("EXEC", &format!("*2\r\n{DENIED}{ONE}"));
    batch.add(&format!("RLOCK.RENEW {key} other 30000"), ZERO);
    batch.add(&format!("RLOCK.RELEASE {key} driver LEASE 30000"), ZERO);
    batch.add(&format!("RLOCK.RELEASE {key} other"), NOT_HELD);
    batch.add(&format!("RLOCK.RELEASE {key} driver HOLDS 0"), ONE);
    batch.add(&format!("DEL redisson_lock_queue:{{{key}}} redisson_lock_token:{{{key}}}"), ":2\r\n");
    batch.add(&format!("RLOCK.CANCEL {key} driver"), ZERO);
}

fn refused_calls(batch: &mut Batch, key: &str) {
    let wrong_type = "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n";
    let wrong_lock = "-WRONGLOCK the key holds a hash that is not a lock; use another key\r\n";
    let unknown = "-ERR unknown option 'SIDEWAYS'; see COMMAND DOCS\r\n";
    let full =
        "-QUEUEFULL the queue is full (rlock.max-waiters or rlock.max-waiters-per-key); try again later\r\n";
    let closed = "-ERR this server is drained (rlock.accept is no); ask another server or an operator\r\n";
    batch.add("SET no-lock text", OK);
    batch.add(&acquire("no-lock", "driver", ""), wrong_type);
    batch.add("DEL no-lock", ONE);
    batch.add("HSET no-lock one 1 two 2", ":2\r\n");
    batch.add("RLOCK.INFO no-lock", wrong_lock);
    batch.add("DEL no-lock", ONE);
    batch.add(&acquire(key, "driver", "SIDEWAYS"), unknown);
    batch.add("CONFIG SET rlock.accept no", OK);
    batch.add(&acquire(key, "driver", ""), closed);
    batch.add("CONFIG SET rlock.accept yes rlock.max-waiters 0", OK);
    batch.add(&acquire(key, "driver", ""), ACQUIRED);
    batch.add(&acquire(key, "waits", "BLOCK 0"), full);
    batch.add("CONFIG SET rlock.max-waiters 100000", OK);
    batch.add(&format!("RLOCK.RELEASE {key} driver"), ONE);
}
