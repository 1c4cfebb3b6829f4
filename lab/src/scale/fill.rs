//! A server with a million held locks, and one with a hundred thousand awaited ones.

use std::fs;
use std::thread::sleep;

use rlock_testkit::{Subscriber, TestServer};

use super::results::Filled;
use super::{Effort, UUID};
use crate::cpu::CpuMeter;
use crate::named::named;
use crate::placement::Placement;
use crate::resp::append;
use crate::spread::rounded;
use crate::stalls::Pings;
use crate::wire::Wire;

const LEASE: &str = "3600000";
const CHUNK: usize = 100;
const CHANNEL: &str = "285475da-9152-4c83-822a-67ee2f116a79:news";

named! {
    /// The contents of a server.
    enum What {
        Held = "held", "held locks";
        Awaited = "awaited", "held locks with a waiter each (ENQUEUE): the waiters alone";
    }
}

/// Fills a server with them, and watches it for a while.
pub(super) fn measure(what: What, effort: Effort) -> Filled {
    let server = TestServer::start();
    let mut wire = Wire::connect(server.port()).expect("a connection");
    let _listens = Subscriber::channel(&server, CHANNEL);
    Placement::TwoCores.apply(server.pid(), None);
    let count = if what == What::Held { effort.held } else { effort.awaited };
    if what == What::Awaited {
        hold(&mut wire, count);
    }
    let before = sizes(&server, &mut wire);
    let pings = Pings::start(server.port());
    match what {
        What::Held => hold(&mut wire, count),
        What::Awaited => wait(&mut wire, count),
    }
    let coming = pings.longest();
    let after = sizes(&server, &mut wire);
    let idle_percent = idle(&server, effort);
    let pings = Pings::start(server.port());
    sleep(effort.watch);
    let later = pings.longest();
    let megabytes = |at: usize| (after[at] - before[at]) as f64 / 1e6;
    Filled {
        what: what.name().into(),
        count,
        used_mb: rounded(megabytes(0)),
        resident_mb: rounded(megabytes(1)),
        bytes_each: rounded(megabytes(0) * 1e6 / count as f64),
        coming_ms: rounded(coming.as_secs_f64() * 1e3),
        after_ms: rounded(later.as_secs_f64() * 1e3),
        idle_percent,
    }
}

/// The share of a core that a server takes while its clients do nothing, in percent.
pub(super) fn idle(server: &TestServer, effort: Effort) -> f64 {
    let cpu = CpuMeter::of(server.pid());
    let begin = cpu.used();
    sleep(effort.span);
    rounded(cpu.used().saturating_sub(begin).as_secs_f64() / effort.span.as_secs_f64() * 100.0)
}

/// `used_memory`, and the memory of the process.
fn sizes(server: &TestServer, wire: &mut Wire) -> [i64; 2] {
    let path = format!("/proc/{}/status", server.pid());
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let resident = text.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB"));
    let kilobytes: i64 =
        resident.and_then(|count| count.parse().ok()).unwrap_or_else(|| panic!("{path}: no VmRSS"));
    [wire.info("memory", "used_memory"), kilobytes * 1024]
}

fn hold(wire: &mut Wire, count: usize) {
    send(wire, count, "*3\r\n:1\r\n:3600000\r\n:0\r\n", &|index, request| {
        append(request, &["RLOCK.ACQUIRE", &lock(index), &format!("{UUID}:{index}"), LEASE]);
    });
}

fn wait(wire: &mut Wire, count: usize) {
    send(wire, count, "*3\r\n:0\r\n:0\r\n:0\r\n", &|index, request| {
        let owner = format!("{UUID}:w{index}");
        append(request, &["RLOCK.ACQUIRE", &lock(index), &owner, LEASE, "ENQUEUE", "0", CHANNEL]);
    });
}

fn lock(index: usize) -> String {
    format!("lock:{index:07}")
}

fn send(wire: &mut Wire, count: usize, reply: &str, one: &dyn Fn(usize, &mut Vec<u8>)) {
    let indices: Vec<usize> = (0..count).collect();
    for chunk in indices.chunks(CHUNK) {
        let mut request = Vec::new();
        chunk.iter().for_each(|index| one(*index, &mut request));
        wire.exchange(&request, reply.repeat(chunk.len()).as_bytes());
    }
}
