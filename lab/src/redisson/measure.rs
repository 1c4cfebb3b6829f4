//! The cost of three releases of Redisson: pairs, hand-offs and herds, beside this project's client for Java.

use rlock_testkit::TestServer;

use super::results::{Field as Costs, Pairs, Redissons};
use super::{Java, Release, build, java};
use crate::client::Worker;
use crate::cpu::CpuMeter;
use crate::placement::Placement;
use crate::plan::Plan;
use crate::progress::Progress;
use crate::results::Environment;
use crate::rng::Rng;
use crate::spread::Spread;
use crate::wire::Wire;

/// Acquisitions without contention in one round.
const PAIRS: u64 = 500;

/// Rounds that warm up.
const WARM_UP: usize = 2;

/// How long the lock is handed around in one round, in ms.
const SPAN_MS: u64 = 300;

/// Clients that want one lock: as many as processes, with as many threads each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) processes: usize,
    pub(crate) threads: usize,
    /// How long each holds the lock.
    pub(crate) hold_ms: u64,
}

const fn field(processes: usize, threads: usize, hold_ms: u64) -> Field {
    Field { processes, threads, hold_ms }
}

/// What is measured. A thousand processes are too many for one machine's Redisson: each of them has a thread for its timers.
pub(crate) const FIELDS: [Field; 13] = [
    field(1, 3, 1),
    field(1, 11, 1),
    field(1, 101, 1),
    field(1, 200, 1),
    field(1, 1_001, 1),
    field(3, 1, 1),
    field(11, 1, 1),
    field(101, 1, 1),
    field(10, 20, 1),
    field(100, 2, 1),
    field(1, 200, 0),
    field(10, 20, 0),
    field(100, 2, 0),
];

impl Java {
    /// All, in the order of the tables.
    pub(crate) const ALL: [Java; 4] = [
        Java::Rlock,
        Java::Redisson(Release::Newest),
        Java::Redisson(Release::Eval),
        Java::Redisson(Release::NoLatch),
    ];

    /// Its name in the results.
    pub(crate) fn name(self) -> String {
        match self {
            Java::Rlock => "rlock-client".into(),
            Java::Redisson(release) => format!("redisson-{}", release.version()),
        }
    }

    /// Its name for readers.
    pub(crate) fn label(self) -> String {
        match self {
            Java::Rlock => "rlock-client for Java".into(),
            Java::Redisson(release) => format!("Redisson {}", release.version()),
        }
    }
}

/// One measurement, each figure for one pair or one hand-off.
#[derive(Clone, Copy, Default)]
struct Figures {
    us: f64,
    server_us: f64,
    client_us: f64,
    commands: f64,
    again_percent: f64,
    per_second: f64,
}

/// A server, and a process of each program.
struct Bed {
    server: TestServer,
    wire: Wire,
    workers: Vec<Worker>,
    rng: Rng,
    /// The rounds before those that count.
    warm_up: usize,
}

/// Measures all of them; nothing where they cannot be built.
pub(crate) fn run(plan: &Plan, environment: &Environment, progress: &Progress) -> Option<Redissons> {
    progress.show("Redisson: building its releases");
    if let Err(why) = build() {
        eprintln!("\nRedisson is left out, since it could not be built: {why}");
        return None;
    }
    let server = TestServer::start();
    Placement::TwoCores.apply(server.pid(), None);
    let workers = Java::ALL.map(|program| Worker::spawn(java(program, server.port())));
    let wire = Wire::connect(server.port()).expect("a connection");
    let mut bed = Bed {
        server,
        wire,
        workers: workers.into(),
        rng: Rng::new(plan.seed),
        warm_up: if plan.is_quick() { 1 } else { WARM_UP },
    };
    let rounds = plan.process_rounds;
    let mut fields = Vec::new();
    // A quick run has every second of the smaller fields, which is enough to see that they work.
    let smaller = FIELDS.into_iter().filter(|field| !plan.is_quick() || field.threads <= 200);
    for field in smaller.step_by(if plan.is_quick() { 2 } else { 1 }) {
        let Field { processes, threads, hold_ms } = field;
        let what = format!("{processes} processes of {threads} threads, {hold_ms} ms");
        progress.show(&format!("Redisson: {what}: they come"));
        for (program, worker) in Java::ALL.into_iter().zip(&mut bed.workers) {
            let key = format!("field:{}:{processes}:{threads}:{hold_ms}", program.name());
            worker.ask(&format!("field {processes} {threads} {hold_ms} {key}"));
        }
        fields.push((field, bed.rounds(rounds, &what, progress, Bed::span)));
        bed.workers.iter_mut().for_each(|worker| {
            worker.ask("end");
        });
    }
    // Last, when the processes have compiled what they use.
    let pairs = bed.rounds(rounds, "pairs", progress, Bed::pair);
    Some(summary(environment, &pairs, &fields))
}

impl Bed {
    /// Has all programs take turns, in random order; the first rounds warm up. The figures of each program.
    fn rounds(
        &mut self,
        rounds: usize,
        what: &str,
        progress: &Progress,
        measure: fn(&mut Bed, usize) -> Figures,
    ) -> Vec<Vec<Figures>> {
        let mut all = vec![Vec::new(); self.workers.len()];
        for round in 0..self.warm_up + rounds {
            progress.show(&format!("Redisson: {what}: round {} of {}", round + 1, self.warm_up + rounds));
            for index in self.rng.order(self.workers.len()) {
                let figures = measure(self, index);
                if round >= self.warm_up {
                    all[index].push(figures);
                }
            }
        }
        all
    }

    fn pair(&mut self, index: usize) -> Figures {
        let work = format!("pairs {PAIRS} pairs:{}", Java::ALL[index].name());
        let (numbers, server_us, commands) = self.counted(index, &work);
        let per = |total: f64| total / PAIRS as f64;
        let [wall, cpu] = numbers[..] else { panic!("{work}: {numbers:?}") };
        Figures {
            us: per(wall / 1e3),
            server_us: per(server_us),
            client_us: per(cpu / 1e3),
            commands: per(commands),
            again_percent: 0.0,
            per_second: 0.0,
        }
    }

    fn span(&mut self, index: usize) -> Figures {
        let work = format!("span {SPAN_MS}");
        let (numbers, server_us, commands) = self.counted(index, &work);
        let [hand_offs, again, wall, cpu, median] = numbers[..] else { panic!("{work}: {numbers:?}") };
        assert!(hand_offs > 0.0, "the lock was not handed on once");
        Figures {
            us: median / 1e3,
            server_us: server_us / hand_offs,
            client_us: cpu / 1e3 / hand_offs,
            commands: commands / hand_offs,
            again_percent: again * 100.0 / hand_offs,
            per_second: hand_offs * 1e9 / wall,
        }
    }

    /// What the work answers, and what it costs the server: CPU in µs, and commands, those inside scripts too.
    fn counted(&mut self, index: usize, work: &str) -> (Vec<f64>, f64, f64) {
        let meter = CpuMeter::of(self.server.pid());
        let executed = self.wire.info("stats", "total_commands_processed");
        let used = meter.used();
        self.workers[index].tell(work);
        let line = self.workers[index].line();
        let used = meter.used().saturating_sub(used);
        // INFO counts itself only after it has looked.
        let executed = self.wire.info("stats", "total_commands_processed") - executed - 1;
        let numbers = line.split(' ').map(|word| word.parse().unwrap_or_else(|_| panic!("{work}: {line}")));
        (numbers.collect(), used.as_secs_f64() * 1e6, executed as f64)
    }
}

fn summary(
    environment: &Environment,
    pairs: &[Vec<Figures>],
    fields: &[(Field, Vec<Vec<Figures>>)],
) -> Redissons {
    let pair = |(program, own): (Java, &Vec<Figures>)| {
        let base = &pairs[0];
        Pairs {
            library: program.name(),
            rounds: own.len(),
            us: Spread::by(own, |one| one.us),
            to_own: Spread::ratio(own, base, |one| one.us),
            server_us: Spread::by(own, |one| one.server_us),
            server_to_own: Spread::ratio(own, base, |one| one.server_us),
            client_us: Spread::by(own, |one| one.client_us),
            client_to_own: Spread::ratio(own, base, |one| one.client_us),
            commands: Spread::by(own, |one| one.commands),
        }
    };
    let of_field = |(field, all): &(Field, Vec<Vec<Figures>>)| {
        let costs = |(program, own): (Java, &Vec<Figures>)| costs(program, *field, own, &all[0]);
        Java::ALL.into_iter().zip(all).map(costs).collect::<Vec<_>>()
    };
    Redissons {
        environment: environment.clone(),
        pairs: Java::ALL.into_iter().zip(pairs).map(pair).collect(),
        fields: fields.iter().flat_map(of_field).collect(),
    }
}

fn costs(program: Java, field: Field, own: &[Figures], base: &[Figures]) -> Costs {
    Costs {
        library: program.name(),
        processes: field.processes,
        threads: field.threads,
        hold_ms: field.hold_ms,
        rounds: own.len(),
        us: Spread::by(own, |one| one.us),
        to_own: Spread::ratio(own, base, |one| one.us),
        server_us: Spread::by(own, |one| one.server_us),
        server_to_own: Spread::ratio(own, base, |one| one.server_us),
        client_us: Spread::by(own, |one| one.client_us),
        client_to_own: Spread::ratio(own, base, |one| one.client_us),
        commands: Spread::by(own, |one| one.commands),
        again_percent: Spread::by(own, |one| one.again_percent),
        per_second: Spread::by(own, |one| one.per_second),
    }
}
