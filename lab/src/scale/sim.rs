//! A simulated fleet: processes, and the primaries that have their locks. Its costs were measured.
//!
//! A primary is one thread that works in cycles, as the server's event loop does: it takes all commands that have
//! arrived, executes them one after the other, and sends all replies at the end. Time is in nanoseconds. The same seed
//! gives the same events.

mod outage;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use serde::Serialize;

use super::outcome::Outcome;
use super::workload::{Demand, Profile, Step};
use crate::rng::Rng;
pub(crate) use outage::Outage;

/// What a primary's work takes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Costs {
    /// A command on a connection of its own.
    pub(crate) command_ns: u64,
    /// More for an acquisition that waits until another owner's release hands the lock over.
    pub(crate) wait_ns: u64,
    /// More for a cycle that begins when the primary sleeps: after a short sleep, and after a long one.
    pub(crate) wakes: [Wake; 2],
    /// From a process to the primary, or back.
    pub(crate) hop_ns: u64,
}

/// The cost of a wake-up: the longer a server has slept, the colder are its core and its caches.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Wake {
    pub(crate) slept_ns: u64,
    pub(crate) cost_ns: u64,
}

impl Costs {
    /// The cost of a wake-up after this sleep: on the line between the two, and never beyond them.
    fn wake_ns(&self, slept_ns: u64) -> u64 {
        let [short, long] = self.wakes;
        let span = long.slept_ns.saturating_sub(short.slept_ns).max(1) as f64;
        let share = (slept_ns.saturating_sub(short.slept_ns) as f64 / span).min(1.0);
        (short.cost_ns as f64 + (long.cost_ns as f64 - short.cost_ns as f64) * share) as u64
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrives(u32),
    CycleEnds(u32),
    Expires(u32),
    Fails(u32),
    Returns(u32),
}

/// The command that a process sends next, or whose reply it awaits.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Doing {
    Acquire,
    Release,
}

#[derive(Debug, Clone, Copy)]
struct Process {
    doing: Doing,
    asked_ns: u64,
    step: Step,
}

/// What a primary works on.
#[derive(Debug, Clone, Copy)]
enum Input {
    Command(u32),
    /// The lease of a lock whose holder has crashed.
    Expired(u32),
}

#[derive(Debug, Default)]
struct Primary {
    inbox: Vec<Input>,
    replies: Vec<u32>,
    is_working: bool,
    is_down: bool,
    /// When it last had nothing more to do.
    idle_since_ns: u64,
}

/// When it begins: some have waited before.
const BEGIN_NS: u64 = 1_000_000_000_000;

const FREE: u32 = u32::MAX;
/// The holder has crashed: no process holds the lock, and its lease runs.
const CRASHED: u32 = u32::MAX - 1;

/// The whole of it.
pub(crate) struct Simulation {
    costs: Costs,
    lease_ns: u64,
    retry_ns: u64,
    demand: Demand,
    processes: Vec<Process>,
    primaries: Vec<Primary>,
    /// The primary of each lock.
    places: Vec<u16>,
    holders: Vec<u32>,
    queues: BTreeMap<u32, VecDeque<u32>>,
    events: BinaryHeap<Reverse<(u64, Event)>>,
    now: u64,
    is_ending: bool,
    retries: Rng,
    outcome: Outcome,
}

impl Simulation {
    /// A fleet whose locks are at `places`, each of `primaries`.
    pub(crate) fn new(profile: Profile, costs: Costs, primaries: u16, places: Vec<u16>) -> Simulation {
        assert_eq!(places.len(), profile.locks() as usize, "each lock has its place");
        let mut demand = Demand::new(profile);
        let steps = (0..profile.processes).map(|process| demand.first(process));
        let processes = steps.map(|step| Process { doing: Doing::Acquire, asked_ns: 0, step }).collect();
        let mut simulation = Simulation {
            costs,
            lease_ns: profile.lease_ns,
            retry_ns: 0,
            demand,
            processes,
            primaries: (0..primaries).map(|_| Primary::default()).collect(),
            holders: vec![FREE; places.len()],
            places,
            queues: BTreeMap::new(),
            events: BinaryHeap::new(),
            now: BEGIN_NS,
            is_ending: false,
            retries: Rng::new(profile.seed),
            outcome: Outcome::new(usize::from(primaries)),
        };
        (0..profile.processes).for_each(|process| simulation.asks(process, BEGIN_NS));
        let gathered = profile.gathered;
        for (process, ahead) in simulation.processes.iter_mut().zip(0..gathered.processes) {
            process.asked_ns -= u64::from(gathered.processes - ahead) * gathered.interval_ns;
        }
        simulation
    }

    /// What happens between these times after the beginning.
    pub(crate) fn run(mut self, from_ns: u64, until_ns: u64) -> Outcome {
        self.outcome.watch(BEGIN_NS + from_ns, BEGIN_NS + until_ns);
        self.advance(BEGIN_NS + until_ns);
        self.outcome
    }

    fn advance(&mut self, until_ns: u64) {
        while let Some(Reverse((at, event))) = self.events.peek().copied().filter(|next| next.0.0 < until_ns)
        {
            self.events.pop();
            self.now = at;
            match event {
                Event::Arrives(process) => self.input(self.place(process), Input::Command(process)),
                Event::Expires(lock) => {
                    self.input(u32::from(self.places[lock as usize]), Input::Expired(lock))
                }
                Event::CycleEnds(primary) => self.ends_cycle(primary),
                Event::Fails(primary) => self.goes_down(primary),
                Event::Returns(primary) => self.returns(primary),
            }
        }
    }

    fn schedule(&mut self, at: u64, event: Event) {
        self.events.push(Reverse((at, event)));
    }

    fn place(&self, process: u32) -> u32 {
        let lock = self.processes[process as usize].step.lock;
        u32::from(self.places[lock as usize])
    }

    /// A process begins its step at this time.
    fn asks(&mut self, process: u32, begin: u64) {
        let it = &mut self.processes[process as usize];
        it.doing = Doing::Acquire;
        it.asked_ns = begin + it.step.think_ns;
        let arrives = it.asked_ns + self.costs.hop_ns;
        self.schedule(arrives, Event::Arrives(process));
    }

    fn asks_next(&mut self, process: u32, begin: u64) {
        if !self.is_ending {
            self.processes[process as usize].step = self.demand.next(process);
            self.asks(process, begin);
        }
    }

    fn input(&mut self, primary: u32, input: Input) {
        let it = &mut self.primaries[primary as usize];
        it.inbox.push(input);
        if !it.is_working && !it.is_down {
            let slept_ns = self.now.saturating_sub(it.idle_since_ns);
            self.begins_cycle(primary, self.costs.wake_ns(slept_ns));
        }
    }

    fn begins_cycle(&mut self, primary: u32, wake_ns: u64) {
        let inbox = std::mem::take(&mut self.primaries[primary as usize].inbox);
        let mut replies = std::mem::take(&mut self.primaries[primary as usize].replies);
        let work = inbox.iter().map(|input| self.serve(*input, &mut replies)).sum::<u64>() + wake_ns;
        let it = &mut self.primaries[primary as usize];
        (it.replies, it.is_working) = (replies, true);
        self.outcome.works(primary as usize, self.now, work);
        self.schedule(self.now + work, Event::CycleEnds(primary));
    }

    /// Executes a command; returns the time that it takes.
    fn serve(&mut self, input: Input, replies: &mut Vec<u32>) -> u64 {
        match input {
            Input::Expired(lock) => {
                assert_eq!(self.holders[lock as usize], CRASHED, "only a dead holder's lease ends");
                self.hands_over(lock, replies);
            }
            Input::Command(process) => {
                let Process { doing, step: Step { lock, .. }, .. } = self.processes[process as usize];
                let holder = &mut self.holders[lock as usize];
                match doing {
                    Doing::Acquire if *holder != FREE => {
                        self.queues.entry(lock).or_default().push_back(process);
                        return self.costs.command_ns + self.costs.wait_ns;
                    }
                    Doing::Acquire => *holder = process,
                    Doing::Release => {
                        assert_eq!(*holder, process, "a lock has one holder");
                        self.hands_over(lock, replies);
                    }
                }
                replies.push(process);
            }
        }
        self.costs.command_ns
    }

    fn hands_over(&mut self, lock: u32, replies: &mut Vec<u32>) {
        let next = self.queues.get_mut(&lock).and_then(VecDeque::pop_front);
        self.holders[lock as usize] = next.unwrap_or(FREE);
        match next {
            Some(next) => {
                self.outcome.hands_over(self.now);
                replies.push(next);
            }
            None => drop(self.queues.remove(&lock)),
        }
    }

    fn ends_cycle(&mut self, primary: u32) {
        let it = &mut self.primaries[primary as usize];
        it.is_working = false;
        let (mut replies, is_down) = (std::mem::take(&mut it.replies), it.is_down);
        for process in replies.drain(..) {
            self.answered(process);
        }
        let now = self.now;
        let it = &mut self.primaries[primary as usize];
        (it.replies, it.idle_since_ns) = (replies, now);
        if !is_down && !it.inbox.is_empty() {
            self.begins_cycle(primary, 0);
        }
    }

    /// A process reads its reply a hop later.
    fn answered(&mut self, process: u32) {
        let at = self.now + self.costs.hop_ns;
        let it = &mut self.processes[process as usize];
        if it.doing == Doing::Release {
            return self.asks_next(process, at);
        }
        self.outcome.acquires(at, it.asked_ns);
        if it.step.crashes {
            let lock = it.step.lock;
            self.holders[lock as usize] = CRASHED;
            self.schedule(at + self.lease_ns, Event::Expires(lock));
            return self.asks_next(process, at);
        }
        it.doing = Doing::Release;
        let arrives = at + it.step.hold_ns + self.costs.hop_ns;
        self.schedule(arrives, Event::Arrives(process));
    }
}

#[cfg(test)]
mod tests;
