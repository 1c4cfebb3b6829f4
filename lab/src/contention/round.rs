//! One measurement: the clients connect, hand the lock around for a while, and disconnect.

use std::time::{Duration, Instant};

use rlock_testkit::{TestServer, eventually};

use super::Protocol;
use super::block::Block;
use super::enqueue::Enqueue;
use super::fleet::{Clients, Fleet};
use super::polling::Polling;
use super::pop::Pop;
use super::publish::Publish;
use super::redisson::Redisson;
use super::tally::Tally;
use crate::cpu::CpuMeter;
use crate::placement::Placement;
use crate::redisson::Imitation;
use crate::wire::Wire;

/// The time that the lock is handed around: longer where that gives too few hand-offs.
const SPAN: Duration = Duration::from_millis(350);
const BUSY_SPAN: Duration = Duration::from_millis(150);
const FEWEST_HAND_OFFS: usize = 8;
const LONGEST_SPAN: Duration = Duration::from_secs(3);

/// The time limit for connecting, and for disconnecting.
const SET_UP: Duration = Duration::from_secs(30);

/// Whether clients can do without a pause.
#[derive(PartialEq)]
enum Pace {
    Steady,
    Relentless,
}

/// The results of one measurement.
pub(crate) struct Figures {
    /// Client and server on two cores.
    pub(crate) apart: Span,
    /// Both on one core.
    pub(crate) together: Span,
    /// Both on one core without a hold time: nothing ever sleeps. Not for Redisson's protocol and polling: there
    /// the first client to ask again would always win, before the others have tried.
    pub(crate) busy: Option<Span>,
    /// Of a client: the fewest, the mean, the most.
    pub(crate) grants: [f64; 3],
}

/// The results of one span of time.
pub(crate) struct Span {
    pub(crate) per_second: f64,
    /// Each per hand-off.
    pub(crate) commands: f64,
    pub(crate) executed: f64,
    pub(crate) cpu_us: f64,
    /// Sorted, in µs.
    pub(crate) latencies: Vec<f64>,
}

/// A server to measure on.
pub(crate) struct Ground<'a> {
    /// The recorded commands of Redisson, if any.
    redisson: Option<&'a Imitation>,
    port: u16,
    pid: u32,
    control: Wire,
    cpu: CpuMeter,
}

impl<'a> Ground<'a> {
    /// Only the control connection stays open.
    pub(crate) fn of(server: &TestServer, redisson: Option<&'a Imitation>) -> Ground<'a> {
        let mut control = Wire::connect(server.port()).expect("a connection");
        if let Some(imitation) = redisson {
            imitation.load(&mut control);
        }
        Ground { redisson, port: server.port(), pid: server.pid(), control, cpu: CpuMeter::of(server.pid()) }
    }

    /// Measures a protocol with `waiters` waiters besides the holder.
    #[expect(clippy::too_many_lines, reason = "a case for each protocol")]
    pub(crate) fn measure(&mut self, protocol: Protocol, waiters: usize, seed: u64) -> Figures {
        let (clients, port) = (waiters + 1, self.port);
        let connect = |count| Fleet::connect(port, count);
        let figures = match protocol {
            Protocol::Publish => {
                let mut fleet = connect(2);
                let publish = Publish::start(&mut fleet);
                self.observe(publish, &mut fleet, Pace::Relentless)
            }
            Protocol::Block => {
                let mut fleet = connect(clients);
                let block = Block::start(clients, &mut fleet);
                self.observe(block, &mut fleet, Pace::Relentless)
            }
            Protocol::Enqueue => {
                let mut fleet = connect(2 * clients);
                let enqueue = Enqueue::start(clients, clients, &mut fleet);
                self.observe(enqueue, &mut fleet, Pace::Relentless)
            }
            Protocol::EnqueueShared => {
                let mut fleet = connect(2);
                let enqueue = Enqueue::start(clients, 1, &mut fleet);
                self.observe(enqueue, &mut fleet, Pace::Relentless)
            }
            Protocol::Pop => {
                let mut fleet = connect(clients);
                let pop = Pop::start(clients, &mut fleet);
                self.observe(pop, &mut fleet, Pace::Relentless)
            }
            Protocol::Redisson => {
                let mut fleet = connect(2 * clients);
                let imitation = self.redisson.expect("measured only if recorded");
                let redisson = Redisson::start(clients, imitation, &mut fleet);
                self.observe(redisson, &mut fleet, Pace::Steady)
            }
            Protocol::Polling => {
                let mut fleet = connect(clients);
                let polling = Polling::start(clients, seed, &mut fleet);
                self.observe(polling, &mut fleet, Pace::Steady)
            }
        };
        self.clear();
        figures
    }

    /// Waits until all clients wait, lets the first release, and measures from there.
    fn observe<C: Clients>(&mut self, mut clients: C, fleet: &mut Fleet, pace: Pace) -> Figures {
        Placement::TwoCores.apply(self.pid, None);
        let settled = fleet.run(&mut clients, Instant::now() + SET_UP, Tally::all_wait);
        assert!(settled, "not all clients wait for the lock after {SET_UP:?}");
        clients.on_timer(0, fleet);
        let apart = self.watch(&mut clients, fleet, SPAN);
        Placement::OneCore.apply(self.pid, None);
        let together = self.watch(&mut clients, fleet, SPAN);
        let grants = grants(&clients.tally().grants);
        let busy = (pace == Pace::Relentless).then(|| {
            clients.tally().hold = Duration::ZERO;
            self.watch(&mut clients, fleet, BUSY_SPAN)
        });
        Figures { apart, together, busy, grants }
    }

    fn watch<C: Clients>(&mut self, clients: &mut C, fleet: &mut Fleet, span: Duration) -> Span {
        let executed = self.control.info("stats", "total_commands_processed");
        let (sent, used, begin) = (fleet.sent, self.cpu.used(), Instant::now());
        let first = clients.tally().latencies.len();
        let enough =
            |tally: &Tally| begin.elapsed() >= span && tally.latencies.len() >= first + FEWEST_HAND_OFFS;
        // Where a hand-off takes very long, a smaller number must do.
        let _ = fleet.run(clients, begin + LONGEST_SPAN, enough);
        let (elapsed, used) = (begin.elapsed().as_secs_f64(), self.cpu.used().saturating_sub(used));
        let sent = fleet.sent - sent;
        // INFO counts itself only after it has read the counters.
        let executed = self.control.info("stats", "total_commands_processed") - executed - 1;
        let mut latencies = clients.tally().latencies[first..].to_vec();
        assert!(!latencies.is_empty(), "the lock was not handed on once in {elapsed} s");
        latencies.sort_by(f64::total_cmp);
        let hand_offs = latencies.len() as f64;
        Span {
            per_second: hand_offs / elapsed,
            commands: sent as f64 / hand_offs,
            executed: executed as f64 / hand_offs,
            cpu_us: used.as_secs_f64() * 1e6 / hand_offs,
            latencies,
        }
    }

    /// Waits until the server has noticed that all clients are gone, and their keys and waiters too.
    fn clear(&mut self) {
        eventually("the clients to be gone", SET_UP, || {
            (self.control.info("clients", "connected_clients") == 1).then_some(())
        });
        self.control.text(&["FLUSHALL"]);
        eventually("the queue to be empty", SET_UP, || {
            (self.control.info("rlock", "rlock_waiters") == 0).then_some(())
        });
    }
}

fn grants(grants: &[u32]) -> [f64; 3] {
    let fewest = grants.iter().copied().min().unwrap_or(0);
    let most = grants.iter().copied().max().unwrap_or(0);
    let sum: u32 = grants.iter().sum();
    [fewest.into(), f64::from(sum) / grants.len() as f64, most.into()]
}
