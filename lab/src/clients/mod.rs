//! The cost of the clients for other languages, against the libraries that are used there without the module.

mod process;
mod results;

use std::thread::sleep;
use std::time::Duration;

use rlock_testkit::TestServer;

use crate::client::Worker;
use crate::cpu::{CpuMeter, commands_but};
use crate::kill::{Rivals, freed_after};
use crate::placement::Placement;
use crate::plan::Plan;
use crate::progress::Progress;
use crate::rng::Rng;
use crate::spread::{Spread, quantile, rounded};
pub(crate) use process::Library;
pub(crate) use results::{Clients, Crowd, Footprint, LibraryCosts, Resident};

/// Acquisitions without contention in one round.
const PAIRS: u64 = 300;
/// Rounds of these for each of the rest: a round is short, and its time differs more than theirs.
const PAIR_ROUNDS: usize = 5;
/// Hand-offs between two processes in one round, and of pollers, which are slow.
const HAND_OFFS: usize = 100;
const HAND_OFFS_POLLED: usize = 30;
/// From the line that lets a process wait to the release: until it waits.
const UNTIL_IT_WAITS: Duration = Duration::from_millis(5);
/// The lease of every library, in ms.
const LEASE_MS: u64 = 30_000;
/// How often holders are killed, unless the run is quick: it takes a lease each time.
const KILLS: usize = 3;
/// Waiters of one lock.
pub(crate) const WAITERS: u64 = 100;

/// What a round measured.
#[derive(Default)]
struct Figures {
    pair_us: Vec<f64>,
    pair_cpu_us: Vec<f64>,
    pair_server_us: Vec<f64>,
    pair_commands: Vec<f64>,
    hand_off_us: Vec<f64>,
    hand_offs: Vec<f64>,
    crowd_us: Vec<f64>,
    crowd_hand_off_us: Vec<f64>,
    crowd_hand_offs: Vec<f64>,
    crowd_server_us: Vec<f64>,
    crowd_commands: Vec<f64>,
    overtaken: u64,
    freed_ms: Vec<f64>,
    footprint: Option<Footprint>,
}

/// Measures all of them; nothing where they cannot be installed.
pub(crate) fn run(plan: &Plan, progress: &Progress) -> Vec<LibraryCosts> {
    progress.show("clients: installing them");
    if let Err(why) = process::install() {
        eprintln!("\nthe clients of other languages are left out, since they could not be installed: {why}");
        return Vec::new();
    }
    let server = TestServer::start();
    Placement::TwoCores.apply(server.pid(), None);
    let mut rng = Rng::new(plan.seed);
    let start = |library: Library| [library.start(server.port()), library.start(server.port())];
    let mut lanes = Library::ALL.map(|library| (library, start(library), Figures::default()));
    progress.show("clients: acquire + release");
    for (library, workers, figures) in &mut lanes {
        figures.footprint = Some(footprint(*library, &mut workers[0]));
        // The first round warms up.
        measure_pairs(&server, *library, &mut workers[0], &mut Figures::default());
    }
    for _ in 0..PAIR_ROUNDS * plan.process_rounds {
        for index in rng.order(lanes.len()) {
            let (library, workers, figures) = &mut lanes[index];
            measure_pairs(&server, *library, &mut workers[0], figures);
        }
    }
    // The first round, 0, warms up.
    for round in usize::from(plan.is_quick())..=plan.process_rounds {
        progress.show(&format!("clients: round {round} of {}", plan.process_rounds));
        for index in rng.order(lanes.len()) {
            let (library, workers, figures) = &mut lanes[index];
            let mut unused = Figures::default();
            let figures = if round == 0 { &mut unused } else { figures };
            measure_waits(&server, *library, workers, &mut rng, figures);
        }
    }
    let kills = if plan.is_quick() { 0 } else { KILLS };
    for kill in 0..kills {
        progress.show("clients: kill -9 of the holders");
        let rivals = Library::ALL.map(|library| rivals(start(library), library, kill)).into();
        for (ms, (_, _, figures)) in freed_after(rivals, LEASE_MS, &mut rng).into_iter().zip(&mut lanes) {
            figures.freed_ms.push(ms);
        }
    }
    let own = |library: Library| Library::ALL.iter().position(|one| *one == library.own()).unwrap_or(0);
    lanes.iter().map(|(library, _, figures)| costs(*library, figures, &lanes[own(*library)].2)).collect()
}

/// Of a process that has done nothing yet.
fn footprint(library: Library, worker: &mut Worker) -> Footprint {
    let name = library.name();
    worker.ask(&format!("pairs 1 pairs:{name}"));
    sleep(Duration::from_millis(300));
    let idle = Resident::of(worker.pid());
    worker.ask(&format!("wait {WAITERS} crowd:{name}"));
    let crowd = Resident::of(worker.pid());
    open(worker);
    Footprint { idle, crowd, installed_bytes: library.installed_bytes() }
}

/// Two processes that are connected and warm.
fn rivals(workers: [Worker; 2], library: Library, kill: usize) -> Rivals {
    let name = library.name();
    let [holder, waiter] = workers.map(|mut worker| {
        worker.ask(&format!("pairs 1 warm:{name}"));
        worker
    });
    Rivals { holder, waiter, acquire: format!("take 1 kill:{name}:{kill}") }
}

fn measure_pairs(server: &TestServer, library: Library, worker: &mut Worker, figures: &mut Figures) {
    let name = library.name();
    let (pair, server_us, commands) =
        counted(server, PAIRS, || worker.ask(&format!("pairs {PAIRS} pairs:{name}")));
    figures.pair_us.push(per(pair.0, PAIRS));
    figures.pair_cpu_us.push(per(pair.1, PAIRS));
    figures.pair_server_us.push(server_us);
    figures.pair_commands.push(commands);
}

fn measure_waits(
    server: &TestServer,
    library: Library,
    workers: &mut [Worker; 2],
    rng: &mut Rng,
    figures: &mut Figures,
) {
    let name = library.name();
    let times = hand_offs(library, workers, rng);
    figures.hand_off_us.push(quantile(&times, 0.5));
    figures.hand_offs.extend(times);
    let ((times, overtaken), server_us, commands) = counted(server, WAITERS, || {
        workers[0].ask(&format!("wait {WAITERS} crowd:{name}"));
        open(&mut workers[0])
    });
    figures.crowd_us.push(times.iter().map(|one| one.whole_us).fold(0.0, f64::max) / WAITERS as f64);
    let times = sorted(times.iter().map(|one| one.us).collect());
    figures.crowd_hand_off_us.push(quantile(&times, 0.5));
    figures.crowd_hand_offs.extend(times);
    figures.crowd_server_us.push(server_us);
    figures.crowd_commands.push(commands);
    figures.overtaken = figures.overtaken.max(overtaken);
}

/// The sorted times from a release by one of two processes to the acquisition by the other, in µs.
fn hand_offs(library: Library, workers: &mut [Worker; 2], rng: &mut Rng) -> Vec<f64> {
    let key = format!("hand-off:{}", library.name());
    let polls = library.polls_every_ms();
    let count = if polls == 0 { HAND_OFFS } else { HAND_OFFS_POLLED };
    workers[0].ask(&format!("take 1 {key}"));
    let mut times = Vec::new();
    for _ in 0..count {
        let [holder, waiter] = workers;
        waiter.tell(&format!("take 1 {key}"));
        // A poller is met anywhere between two of its tries.
        sleep(UNTIL_IT_WAITS + Duration::from_micros(rng.below(polls.max(1) * 1_000)));
        let (released, _) = holder.ask(&format!("give 1 {key}"));
        let (acquired, _) = waiter.answer();
        times.push(elapsed_us(released, acquired, &key));
        workers.swap(0, 1);
    }
    workers[0].ask(&format!("give 1 {key}"));
    sorted(times)
}

/// One acquisition in a crowd: the time since the release before it, and since the first release.
struct Turn {
    us: f64,
    whole_us: f64,
}

/// Lets the waiters have the lock; all their turns, and the most later waiters that were served before one.
fn open(worker: &mut Worker) -> (Vec<Turn>, u64) {
    let (_, first) = worker.ask(&format!("open {WAITERS} crowd"));
    let mut before = first;
    let turn = |_| {
        let (acquired, released) = worker.answer();
        let us = elapsed_us(before, acquired, "a crowd");
        before = released;
        Turn { us, whole_us: elapsed_us(first, acquired, "a crowd") }
    };
    let turns = (0..WAITERS).map(turn).collect();
    (turns, worker.answer().0)
}

fn elapsed_us(released: u64, acquired: u64, what: &str) -> f64 {
    assert!(released <= acquired, "{what}: two held the lock at a time");
    (acquired - released) as f64 / 1e3
}

fn sorted(mut times: Vec<f64>) -> Vec<f64> {
    times.sort_by(f64::total_cmp);
    times
}

fn per(nanoseconds: u64, count: u64) -> f64 {
    nanoseconds as f64 / 1e3 / count as f64
}

/// What the work answers, and what it costs the server for each of `count`: CPU in µs, and commands, those in scripts too.
fn counted<T>(server: &TestServer, count: u64, work: impl FnOnce() -> T) -> (T, f64, f64) {
    let mut raw = server.connect();
    redis::cmd("CONFIG").arg("RESETSTAT").exec(&mut raw).expect("RESETSTAT");
    let meter = CpuMeter::of(server.pid());
    let before = meter.used();
    let answer = work();
    let used = meter.used().saturating_sub(before);
    let commands = commands_but(server, &["info", "config"]) / count as f64;
    (answer, used.as_secs_f64() * 1e6 / count as f64, commands)
}

fn costs(library: Library, own: &Figures, base: &Figures) -> LibraryCosts {
    let spread = |values: &[f64]| Spread::of(values.to_vec());
    let ratio = |own: &[f64], base: &[f64]| Spread::ratio(own, base, |one| *one);
    let p99 = |times: &[f64]| Some(rounded(quantile(&sorted(times.to_vec()), 0.99)));
    LibraryCosts {
        library: library.name().into(),
        rounds: own.hand_off_us.len(),
        pair_rounds: own.pair_us.len(),
        pair_us: spread(&own.pair_us),
        pair_to_own: ratio(&own.pair_us, &base.pair_us),
        pair_cpu_us: spread(&own.pair_cpu_us),
        pair_server_us: spread(&own.pair_server_us),
        pair_commands: spread(&own.pair_commands),
        hand_off_us: spread(&own.hand_off_us),
        hand_off_to_own: ratio(&own.hand_off_us, &base.hand_off_us),
        hand_off_p99_us: p99(&own.hand_offs),
        freed_ms: (!own.freed_ms.is_empty()).then(|| spread(&own.freed_ms)),
        footprint: own.footprint,
        crowd: Crowd {
            waiters: WAITERS,
            us: spread(&own.crowd_us),
            to_own: ratio(&own.crowd_us, &base.crowd_us),
            longest_ms: rounded(
                own.crowd_us.iter().fold(0.0, |most: f64, us| most.max(*us)) * WAITERS as f64 / 1e3,
            ),
            overtaken: own.overtaken,
            server_us: spread(&own.crowd_server_us),
            commands: spread(&own.crowd_commands),
            hand_off_us: Some(spread(&own.crowd_hand_off_us)),
            hand_off_p99_us: p99(&own.crowd_hand_offs),
        },
    }
}
