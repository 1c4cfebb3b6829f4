//! The same fleet, measured: each process is a connection to a real server, all of them in one thread.
//!
//! The thread never sleeps, so it acts at the moment that a step begins, and the server never wakes another core to
//! reply: clients of other machines do not cost that either.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use rlock_testkit::TestServer;

use super::outcome::{Figures, Outcome};
use super::workload::{Demand, Profile, Step};
use crate::cpu::CpuMeter;
use crate::placement::Placement;
use crate::resp::{Reply, command, parse};
use crate::wire::Wire;

/// The process part of all owners, as long as that of a real client.
const UUID: &str = "285475da-9152-4c83-822a-67ee2f116a79";

/// The number of events that are taken at a time.
const EVENTS: usize = 1024;

#[derive(Clone, Copy, PartialEq)]
enum Doing {
    Think,
    Acquire,
    Hold,
    Release,
}

struct Process {
    stream: TcpStream,
    received: Vec<u8>,
    doing: Doing,
    asked: Instant,
    step: Step,
    /// The number of the acquisition: an owner is never used again.
    number: u64,
    owner: String,
}

/// What a fleet did, and what it cost the server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run {
    pub(crate) figures: Figures,
    /// For each acquisition.
    pub(crate) cpu_us: f64,
    /// How often the server slept, for each acquisition.
    pub(crate) sleeps: f64,
}

struct Fleet<'a> {
    profile: &'a Profile,
    demand: Demand,
    poll: Poll,
    processes: Vec<Process>,
    timers: BinaryHeap<Reverse<(Instant, usize)>>,
    begin: Instant,
    outcome: Outcome,
}

/// Measures a fleet on a fresh server: after `warm_up`, for a `span`.
pub(crate) fn measure(profile: &Profile, warm_up: Duration, span: Duration) -> Run {
    let clients = profile.processes + 100;
    let server = TestServer::builder().conf("maxclients", clients).start();
    Placement::TwoCores.apply(server.pid(), None);
    let mut control = Wire::connect(server.port()).expect("a connection");
    let mut fleet = Fleet::connect(server.port(), profile);
    fleet.drive(warm_up);
    let (cpu, begin) = (CpuMeter::of(server.pid()), fleet.begin.elapsed());
    let before = Meters::read(&server, &cpu, &mut control);
    let ns = |time: Duration| u64::try_from(time.as_nanos()).expect("a short time");
    fleet.outcome.watch(ns(begin), u64::MAX);
    fleet.drive(begin + span);
    let end = fleet.begin.elapsed();
    let after = Meters::read(&server, &cpu, &mut control);
    fleet.outcome.watch(ns(begin), ns(end));
    let used = after.cpu.saturating_sub(before.cpu);
    fleet.outcome.counted(after.hand_offs - before.hand_offs, ns(used));
    let acquired = fleet.outcome.acquired() as f64;
    Run {
        cpu_us: used.as_secs_f64() * 1e6 / acquired,
        sleeps: (after.sleeps - before.sleeps) as f64 / acquired,
        figures: fleet.outcome.figures(),
    }
}

/// The server's counters.
struct Meters {
    cpu: Duration,
    sleeps: u64,
    hand_offs: u64,
}

impl Meters {
    fn read(server: &TestServer, cpu: &CpuMeter, control: &mut Wire) -> Meters {
        let hand_offs = control.info("rlock", "rlock_hand_offs");
        Meters { cpu: cpu.used(), sleeps: sleeps(server.pid()), hand_offs: hand_offs.unsigned_abs() }
    }
}

/// How often the main thread has slept.
fn sleeps(pid: u32) -> u64 {
    let path = format!("/proc/{pid}/status");
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let found = text.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    found.and_then(|count| count.trim().parse().ok()).unwrap_or_else(|| panic!("{path} has no switches"))
}

impl Fleet<'_> {
    fn connect(port: u16, profile: &Profile) -> Fleet<'_> {
        let poll = Poll::new().expect("an epoll instance");
        let mut demand = Demand::new(*profile);
        let connect = |index: u32| {
            let stream = std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap_or_else(|error| {
                panic!("connection {index}: {error}; raise the limit of open files (ulimit -n)")
            });
            stream.set_nodelay(true).expect("TCP_NODELAY");
            stream.set_nonblocking(true).expect("a socket that does not block");
            let mut stream = TcpStream::from_std(stream);
            let token = Token(index as usize);
            poll.registry().register(&mut stream, token, Interest::READABLE).expect("watching a socket");
            let (step, asked) = (demand.first(index), Instant::now());
            let (received, owner) = (Vec::new(), String::new());
            Process { stream, received, doing: Doing::Think, asked, step, number: 0, owner }
        };
        let processes: Vec<Process> = (0..profile.processes).map(connect).collect();
        let (begin, outcome) = (Instant::now(), Outcome::new(1));
        let mut fleet = Fleet { profile, demand, poll, processes, timers: BinaryHeap::new(), begin, outcome };
        (0..fleet.processes.len()).for_each(|process| fleet.thinks(process));
        fleet
    }

    /// Until this time after the beginning.
    fn drive(&mut self, until: Duration) {
        let mut events = Events::with_capacity(EVENTS);
        while self.begin.elapsed() < until {
            match self.poll.poll(&mut events, Some(Duration::ZERO)) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                outcome => outcome.expect("watching sockets"),
            }
            for event in &events {
                self.receives(event.token().0);
            }
            while let Some(Reverse((at, process))) = self.timers.peek().copied() {
                if at > Instant::now() {
                    break;
                }
                self.timers.pop();
                self.sends(process);
            }
        }
    }

    fn thinks(&mut self, process: usize) {
        self.pauses(process, self.processes[process].step.think_ns);
    }

    fn pauses(&mut self, process: usize, ns: u64) {
        if ns == 0 {
            return self.sends(process);
        }
        self.timers.push(Reverse((Instant::now() + Duration::from_nanos(ns), process)));
    }

    /// A process has thought or held for long enough.
    fn sends(&mut self, process: usize) {
        let lease = (self.profile.lease_ns / 1_000_000).to_string();
        let it = &mut self.processes[process];
        let lock = format!("lock:{}", it.step.lock);
        let request = if it.doing == Doing::Think {
            it.doing = Doing::Acquire;
            it.asked = Instant::now();
            it.number += 1;
            it.owner = format!("{UUID}:{process}:{}", it.number);
            command(&["RLOCK.ACQUIRE", &lock, &it.owner, &lease, "BLOCK", "0"])
        } else {
            it.doing = Doing::Release;
            command(&["RLOCK.RELEASE", &lock, &it.owner])
        };
        // One command is under way at a time: it fits in the socket's buffer.
        let count = it.stream.write(&request).expect("sending to the server");
        assert_eq!(count, request.len(), "a command is sent as a whole");
    }

    fn receives(&mut self, process: usize) {
        let it = &mut self.processes[process];
        let mut chunk = [0; 512];
        match it.stream.read(&mut chunk) {
            Ok(0) => panic!("the server closed a connection"),
            Ok(count) => it.received.extend_from_slice(&chunk[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return,
            Err(error) => panic!("receiving from the server: {error}"),
        }
        // The rest of a reply, if there is one, is another event.
        let Some((reply, length)) = parse(&it.received).expect("the Redis protocol") else { return };
        assert_eq!(length, it.received.len(), "one reply to one command");
        let is_granted = match (it.doing, reply) {
            (Doing::Acquire, Reply::Array(_)) => true,
            (Doing::Release, Reply::Int(1)) => false,
            (_, reply) => panic!("process {process} got {reply:?}"),
        };
        it.received.clear();
        if is_granted { self.acquired(process) } else { self.asks_next(process) }
    }

    fn acquired(&mut self, process: usize) {
        let it = &mut self.processes[process];
        let since = |time: Instant| {
            u64::try_from(time.saturating_duration_since(self.begin).as_nanos()).expect("a short time")
        };
        self.outcome.acquires(since(Instant::now()), since(it.asked));
        if it.step.crashes {
            return self.asks_next(process);
        }
        it.doing = Doing::Hold;
        let hold = it.step.hold_ns;
        self.pauses(process, hold);
    }

    fn asks_next(&mut self, process: usize) {
        let step = self.demand.next(u32::try_from(process).expect("a process's number"));
        let it = &mut self.processes[process];
        (it.doing, it.step) = (Doing::Think, step);
        self.thinks(process);
    }
}
