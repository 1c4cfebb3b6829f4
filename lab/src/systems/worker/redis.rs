//! rlock's raw commands, and plain SET with a compare-and-delete, each on one connection.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::Duration;

use super::way::Way;
use crate::resp::Reply;
use crate::wire::Wire;

/// How often a poller tries, and for how long it leaves the lock alone after it held it.
const POLL: Duration = Duration::from_millis(100);

/// An owner's name, as long as real ones are; never used again.
fn owner() -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("285475da-9152-4c83-822a-{:012}:{number}", std::process::id())
}

fn wire(port: u16) -> Wire {
    Wire::connect_patiently(port).unwrap_or_else(|error| panic!("port {port}: {error}"))
}

/// RLOCK.ACQUIRE with BLOCK, and RLOCK.RELEASE.
pub(super) struct Rlock {
    wire: Wire,
    lease_ms: String,
    options: &'static [&'static str],
    durable: bool,
    owner: String,
}

impl Rlock {
    pub(super) fn connect(port: u16, lease_ms: &str, options: &'static [&'static str]) -> Rlock {
        Rlock { wire: wire(port), lease_ms: lease_ms.into(), options, durable: false, owner: String::new() }
    }

    /// Holds a lock only once it is on the disks of the primary and of a replica.
    pub(super) fn durable(self) -> Rlock {
        Rlock { durable: true, ..self }
    }

    fn ask_for(&mut self, key: &str, more: &[&str]) -> bool {
        let mut words = vec!["RLOCK.ACQUIRE", key, &self.owner, &self.lease_ms, "HOLDS", "1"];
        words.extend(self.options);
        words.extend(more);
        self.wire.ask(&words, |reply| match reply {
            Reply::Null => false,
            Reply::Array(items) if items.first() == Some(&Reply::Int(1)) => true,
            other => panic!("{words:?}: {other:?}"),
        })
    }

    /// WAIT counts replicas that have what its own connection wrote; with `appendfsync always` a replica answers after it has
    /// written its file. (WAITAOF would say so itself, but its answer can take a second.) A hand-off is written by another
    /// connection, so the owner renews first; two leases, since a renewal that changes nothing is not a write.
    fn ensure(&mut self, key: &str, renew: bool) {
        let lease: u64 = self.lease_ms.parse().expect("a lease");
        for lease in [lease - 1, lease].into_iter().filter(|_| renew) {
            let words = ["RLOCK.RENEW", key, &self.owner, &lease.to_string()];
            self.wire.ask(&words, |reply| assert_eq!(*reply, Reply::Int(1), "the lock is held"));
        }
        self.wire.ask(&["WAIT", "1", "0"], |reply| assert_eq!(*reply, Reply::Int(1), "the replica has it"));
    }
}

impl Way for Rlock {
    fn acquire(&mut self, key: &str, leaving: &AtomicBool) -> bool {
        self.owner = owner();
        // A lock that is free needs no renewal to be durable.
        let at_once = self.durable && self.ask_for(key, &[]);
        if !at_once {
            assert!(self.ask_for(key, &["BLOCK", "0"]), "a wait without end has ended");
        }
        if self.durable && !leaving.load(Ordering::SeqCst) {
            self.ensure(key, !at_once);
        }
        true
    }

    fn release(&mut self, key: &str) {
        let words = ["RLOCK.RELEASE", key, &self.owner, "HOLDS", "0"];
        self.wire.ask(&words, |reply| assert_eq!(*reply, Reply::Int(1), "the lock was held"));
    }

    fn renew(&mut self, key: &str) {
        let words = ["RLOCK.RENEW", key, &self.owner, &self.lease_ms];
        self.wire.ask(&words, |reply| assert_eq!(*reply, Reply::Int(1), "the lock was held"));
    }

    fn waiting(&mut self, key: &str) -> usize {
        self.wire.ask(&["RLOCK.INFO", key, "LIMIT", "0"], |reply| {
            let Reply::Array(fields) = reply else { panic!("RLOCK.INFO: {reply:?}") };
            let count = fields.chunks(2).find(|pair| pair[0] == Reply::Text(b"waiter-count"));
            match count {
                Some([_, Reply::Int(count)]) => usize::try_from(*count).expect("a count"),
                other => panic!("waiter-count: {other:?}"),
            }
        })
    }
}

/// The server's own compare-and-delete.
#[derive(Clone, Copy)]
pub(super) enum Command {
    Delex,
    DelIfEq,
}

/// SET NX PX until it succeeds, and SET IFEQ to renew.
pub(super) struct Poller {
    wire: Wire,
    lease_ms: String,
    command: Command,
    owner: String,
}

/// How many pollers of this process were denied and have not got the lock since: the server does not know them.
static WAITING: AtomicUsize = AtomicUsize::new(0);

impl Poller {
    pub(super) fn connect(port: u16, lease_ms: &str, command: Command) -> Poller {
        Poller { wire: wire(port), lease_ms: lease_ms.into(), command, owner: String::new() }
    }

    fn set(&mut self, key: &str) -> bool {
        let words = ["SET", key, &self.owner, "NX", "PX", &self.lease_ms];
        self.wire.ask(&words, |reply| match reply {
            Reply::Text(b"OK") => true,
            Reply::Null => false,
            other => panic!("SET: {other:?}"),
        })
    }
}

impl Way for Poller {
    fn acquire(&mut self, key: &str, leaving: &AtomicBool) -> bool {
        self.owner = owner();
        let mut held = self.set(key);
        if held {
            return true;
        }
        WAITING.fetch_add(1, Ordering::SeqCst);
        while !held && !leaving.load(Ordering::SeqCst) {
            sleep(POLL);
            held = self.set(key);
        }
        WAITING.fetch_sub(1, Ordering::SeqCst);
        held
    }

    fn release(&mut self, key: &str) {
        let words = match self.command {
            Command::Delex => vec!["DELEX", key, "IFEQ", &self.owner],
            Command::DelIfEq => vec!["DELIFEQ", key, &self.owner],
        };
        self.wire.ask(&words, |reply| assert_eq!(*reply, Reply::Int(1), "the lock was held"));
    }

    fn renew(&mut self, key: &str) {
        let words = ["SET", key, &self.owner, "IFEQ", &self.owner, "PX", &self.lease_ms];
        self.wire.ask(&words, |reply| assert_eq!(*reply, Reply::Text(b"OK"), "the lock was held"));
    }

    fn waiting(&mut self, _key: &str) -> usize {
        WAITING.load(Ordering::SeqCst)
    }

    fn pause(&self) {
        sleep(POLL);
    }
}
