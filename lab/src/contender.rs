//! The contenders without contention: the commands for one acquire and release, and the answers that they
//! must get.

use crate::redisson::{Imitation, Release, request};
use crate::resp::{Reply, append};
use crate::wire::Wire;

/// The lease in ms that every contender asks for: longer than any batch.
const LEASE: &str = "30000";

/// An owner as Redisson and the examples make it: the process and a number.
const OWNER: &str = "285475da-9152-4c83-822a-67ee2f116a79:52";

/// The usual release of a simple lock. KEYS: the lock. ARGV: the value that the caller has set.
pub(crate) const COMPARE_AND_DELETE: &str = "\
if redis.call('get', KEYS[1]) == ARGV[1] then
    return redis.call('del', KEYS[1])
end
return 0";

/// One way to lock and unlock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Contender {
    /// The floor of any two commands.
    Pings,
    /// SET NX PX and an unconditional DEL: the floor of any lock.
    SetDel,
    /// SET NX PX and a script that compares and deletes, by EVALSHA.
    SetScript,
    /// SET NX PX and the server's own compare-and-delete.
    SetOwn,
    /// The commands of a release of Redisson.
    Redisson(Release),
    /// RLOCK.ACQUIRE and RLOCK.RELEASE.
    Rlock,
    /// The same with HOLDS, which makes them safe to repeat.
    RlockHolds,
}

impl Contender {
    /// All contenders, in the order of the tables.
    pub(crate) const ALL: [Contender; 9] = [
        Contender::Pings,
        Contender::SetDel,
        Contender::SetScript,
        Contender::SetOwn,
        Contender::Redisson(Release::NoLatch),
        Contender::Redisson(Release::Eval),
        Contender::Redisson(Release::Newest),
        Contender::Rlock,
        Contender::RlockHolds,
    ];

    /// Its name in the results.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Contender::Pings => "two-pings",
            Contender::SetDel => "set-del",
            Contender::SetScript => "set-script",
            Contender::SetOwn => "set-own",
            Contender::Redisson(release) => release.name(),
            Contender::Rlock => "rlock",
            Contender::RlockHolds => "rlock-holds",
        }
    }

    /// Its name for readers.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Contender::Pings => "two PINGs",
            Contender::SetDel => "SET NX PX + DEL",
            Contender::SetScript => "SET NX PX + compare-and-delete script",
            Contender::SetOwn => "SET NX PX + the server's own compare-and-delete",
            Contender::Redisson(release) => release.label(),
            Contender::Rlock => "RLOCK.ACQUIRE + RLOCK.RELEASE",
            Contender::RlockHolds => "the same with HOLDS",
        }
    }

    /// The contender of this name in the results.
    pub(crate) fn named(name: &str) -> Option<Contender> {
        Contender::ALL.into_iter().find(|contender| contender.name() == name)
    }
}

/// What the commands need to know of their server.
pub(crate) struct Dialect<'a> {
    compare_and_delete: String,
    own: Option<OwnDelete>,
    redisson: &'a [Imitation],
}

/// A server's own compare-and-delete.
#[derive(Debug, Clone, Copy)]
enum OwnDelete {
    /// `DELEX key IFEQ value`: Redis from 8.4 on.
    Delex,
    /// `DELIFEQ key value`: Valkey from 9.0 on.
    Delifeq,
}

impl Dialect<'_> {
    /// Loads the scripts and finds out whether the server has a compare-and-delete command.
    pub(crate) fn of<'a>(wire: &mut Wire, redisson: &'a [Imitation]) -> Dialect<'a> {
        let mut known = |name| {
            wire.ask(&["COMMAND", "INFO", name], |reply| {
                matches!(reply, Reply::Array(items) if matches!(items.first(), Some(Reply::Array(_))))
            })
        };
        let own = match (known("DELEX"), known("DELIFEQ")) {
            (true, _) => Some(OwnDelete::Delex),
            (_, true) => Some(OwnDelete::Delifeq),
            _ => None,
        };
        redisson.iter().for_each(|imitation| imitation.load(wire));
        let compare_and_delete = wire.text(&["SCRIPT", "LOAD", COMPARE_AND_DELETE]);
        Dialect { compare_and_delete, own, redisson }
    }

    /// The contenders that this server supports.
    pub(crate) fn contenders(&self) -> Vec<Contender> {
        let there = |contender: &Contender| match contender {
            Contender::SetOwn => self.own.is_some(),
            Contender::Redisson(release) => self.redisson.iter().any(|one| one.release == *release),
            _ => true,
        };
        Contender::ALL.into_iter().filter(there).collect()
    }

    /// The commands of a contender for one lock, in order, and the answer to each.
    fn commands(&self, contender: Contender, lock: &str) -> Vec<(Vec<String>, &'static [u8])> {
        let set = (words(&["SET", lock, OWNER, "NX", "PX", LEASE]), b"+OK\r\n".as_slice());
        let acquired = b"*3\r\n:1\r\n:30000\r\n:0\r\n".as_slice();
        let (null, one) = (b"$-1\r\n".as_slice(), b":1\r\n".as_slice());
        match contender {
            Contender::Pings => vec![(words(&["PING"]), b"+PONG\r\n"); 2],
            Contender::SetDel => vec![set, (words(&["DEL", lock]), one)],
            Contender::SetScript => {
                let release = ["EVALSHA", &self.compare_and_delete, "1", lock, OWNER];
                vec![set, (words(&release), one)]
            }
            Contender::SetOwn => match self.own.expect("measured only where the server has it") {
                OwnDelete::Delex => vec![set, (words(&["DELEX", lock, "IFEQ", OWNER]), one)],
                OwnDelete::Delifeq => vec![set, (words(&["DELIFEQ", lock, OWNER]), one)],
            },
            Contender::Redisson(release) => {
                let imitation = self.redisson.iter().find(|one| one.release == release);
                let (imitation, request) = (imitation.expect("measured only if recorded"), request(1));
                let release = imitation.release(lock, OWNER, &request);
                let commands = vec![(imitation.acquire(lock, OWNER), null), (release, one)];
                let forget = imitation.forget(lock, &request).map(|words| (words, one));
                commands.into_iter().chain(forget).collect()
            }
            Contender::Rlock => vec![
                (words(&["RLOCK.ACQUIRE", lock, OWNER, LEASE]), acquired),
                (words(&["RLOCK.RELEASE", lock, OWNER]), one),
            ],
            Contender::RlockHolds => vec![
                (words(&["RLOCK.ACQUIRE", lock, OWNER, LEASE, "HOLDS", "1"]), acquired),
                (words(&["RLOCK.RELEASE", lock, OWNER, "HOLDS", "0"]), one),
            ],
        }
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(ToString::to_string).collect()
}

/// Several locks acquired together and then released together, encoded: each step is one write and the
/// answer that it must get.
pub(crate) struct Batch {
    steps: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Batch {
    /// For `depth` locks.
    pub(crate) fn new(dialect: &Dialect<'_>, contender: Contender, depth: usize) -> Batch {
        let mut steps: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        for slot in 0..depth {
            let commands = dialect.commands(contender, &format!("lock:invoice:{slot:08}"));
            steps.resize(commands.len(), Default::default());
            for ((request, answer), (words, reply)) in steps.iter_mut().zip(commands) {
                append(request, &words);
                answer.extend_from_slice(reply);
            }
        }
        Batch { steps }
    }

    /// Acquires and releases all of them, `times` times.
    pub(crate) fn run(&self, wire: &mut Wire, times: usize) {
        for _ in 0..times {
            for (request, answer) in &self.steps {
                wire.exchange(request, answer);
            }
        }
    }
}
