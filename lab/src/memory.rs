//! The server memory that a held lock and a waiter take.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use rlock_testkit::{Subscriber, TestServer, eventually};

use crate::named::named;
use crate::plan::Plan;
use crate::progress::Progress;
use crate::redisson::Imitation;
use crate::resp::{append, command};
use crate::results::Memory;
use crate::spread::Spread;
use crate::wire::Wire;

/// The process part of owners and channels, as long as a UUID.
const UUID: &str = "285475da-9152-4c83-822a-67ee2f116a79";

const LEASE: &str = "3600000";

/// The number of commands in one write: few enough for the server's usual buffer.
const CHUNK: usize = 100;

named! {
    /// The things whose memory is measured.
    enum What {
        HeldSet = "held-set", "a held lock: SET NX PX";
        HeldRedisson = "held-redisson", "a held lock: Redisson";
        HeldRlock = "held-rlock", "a held lock: rlock";
        Enqueued = "enqueued", "an enqueued waiter, all for one lock, short names";
        EnqueuedUuid = "enqueued-uuid", "the same, with a UUID in owner and channel";
        EnqueuedApart = "enqueued-apart", "an enqueued waiter, each for its own lock, short names";
        BlockedPop = "blocked-blpop", "a client blocked by BLPOP, besides its connection";
        Blocked = "blocked-rlock", "a client blocked by RLOCK.ACQUIRE, besides its connection";
    }
}

impl What {
    /// The number of things made.
    fn count(self) -> usize {
        match self {
            What::BlockedPop | What::Blocked => 500,
            _ => 10_000,
        }
    }
}

/// Measures all of them, on a fresh server in each round.
pub(crate) fn run(plan: &Plan, redisson: Option<&Imitation>, progress: &Progress) -> Vec<Memory> {
    let whats = What::ALL.into_iter().filter(|what| *what != What::HeldRedisson || redisson.is_some());
    let mut bytes: Vec<(What, Vec<f64>)> = whats.map(|what| (what, Vec::new())).collect();
    for round in 1..=plan.memory_rounds {
        for (what, bytes) in &mut bytes {
            progress.show(&format!("memory, {}: round {round} of {}", what.name(), plan.memory_rounds));
            bytes.push(one(*what, redisson));
        }
    }
    let memory = |(what, bytes): (What, Vec<f64>)| Memory {
        what: what.name().into(),
        count: what.count(),
        rounds: bytes.len(),
        bytes: Spread::of(bytes),
    };
    bytes.into_iter().map(memory).collect()
}

/// The bytes that one of them takes.
fn one(what: What, redisson: Option<&Imitation>) -> f64 {
    let server = TestServer::start();
    let mut wire = Wire::connect(server.port()).expect("a connection");
    let grown = match what {
        What::HeldSet | What::HeldRedisson | What::HeldRlock => held(what, redisson, &mut wire),
        What::Enqueued | What::EnqueuedUuid | What::EnqueuedApart => enqueued(what, &server, &mut wire),
        What::BlockedPop | What::Blocked => blocked(what, server.port(), &mut wire),
    };
    grown as f64 / what.count() as f64
}

fn held(what: What, redisson: Option<&Imitation>, wire: &mut Wire) -> i64 {
    // A script is stored at its first use; it is not part of a lock.
    redisson.into_iter().for_each(|imitation| imitation.load(wire));
    fill(wire, what.count(), |index| {
        let (lock, owner) = (format!("lock:{index:05}"), format!("{UUID}:{index:05}"));
        match (what, redisson) {
            (What::HeldSet, _) => (words(&["SET", &lock, &owner, "NX", "PX", LEASE]), "+OK\r\n"),
            (What::HeldRedisson, Some(imitation)) => (imitation.acquire(&lock, &owner), "$-1\r\n"),
            _ => (words(&["RLOCK.ACQUIRE", &lock, &owner, LEASE]), "*3\r\n:1\r\n:3600000\r\n:0\r\n"),
        }
    })
}

fn enqueued(what: What, server: &TestServer, wire: &mut Wire) -> i64 {
    let process = if what == What::EnqueuedUuid { UUID } else { "p1" };
    let channel = format!("{process}:news");
    let _subscriber = Subscriber::channel(server, &channel);
    let locks = if what == What::EnqueuedApart { what.count() } else { 1 };
    let lock = |index: usize| format!("lock:{:05}", index % locks);
    fill(wire, locks, |index| {
        (words(&["RLOCK.ACQUIRE", &lock(index), "holder", LEASE]), "*3\r\n:1\r\n:3600000\r\n:0\r\n")
    });
    fill(wire, what.count(), |index| {
        let owner = format!("{process}:{index:05}");
        let words = words(&["RLOCK.ACQUIRE", &lock(index), &owner, LEASE, "ENQUEUE", "0", &channel]);
        (words, "*3\r\n:0\r\n:0\r\n:0\r\n")
    })
}

/// Sends `count` commands; returns by how much the server's memory has grown.
fn fill(wire: &mut Wire, count: usize, one: impl Fn(usize) -> (Vec<String>, &'static str)) -> i64 {
    let before = wire.info("memory", "used_memory");
    let indices: Vec<usize> = (0..count).collect();
    for chunk in indices.chunks(CHUNK) {
        let (mut request, mut answer) = (Vec::new(), Vec::new());
        for (words, reply) in chunk.iter().map(|index| one(*index)) {
            append(&mut request, &words);
            answer.extend_from_slice(reply.as_bytes());
        }
        wire.exchange(&request, &answer);
    }
    wire.info("memory", "used_memory") - before
}

fn blocked(what: What, port: u16, wire: &mut Wire) -> i64 {
    wire.ask(&["RLOCK.ACQUIRE", "lock:00000", "holder", LEASE], |_| ());
    let connect = |_| {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("a connection");
        // A connection has its buffers only after its first command.
        stream.write_all(&command(&["PING"])).expect("sending to the server");
        stream.read_exact(&mut [0; 7]).expect("PONG");
        stream
    };
    let mut streams: Vec<TcpStream> = (0..what.count()).map(connect).collect();
    let before = wire.info("memory", "used_memory");
    for (index, stream) in streams.iter_mut().enumerate() {
        let owner = format!("p1:{index:05}");
        let request = match what {
            What::Blocked => command(&["RLOCK.ACQUIRE", "lock:00000", &owner, LEASE, "BLOCK", "0"]),
            _ => command(&["BLPOP", "list:00000", "0"]),
        };
        stream.write_all(&request).expect("sending to the server");
    }
    eventually("all clients to be blocked", Duration::from_secs(20), || {
        (wire.info("clients", "blocked_clients") == what.count() as i64).then_some(())
    });
    wire.info("memory", "used_memory") - before
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(ToString::to_string).collect()
}
