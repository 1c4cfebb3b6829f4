//! The cost of the clients for other languages, against the libraries that are used there without the module.

mod process;
mod results;

use rlock_testkit::TestServer;

use crate::client::{Worker, hand_off_times};
use crate::cpu::CpuMeter;
use crate::placement::Placement;
use crate::plan::Plan;
use crate::progress::Progress;
use crate::rng::Rng;
use crate::spread::{Spread, quantile, rounded};
pub(crate) use process::Library;
pub(crate) use results::{Clients, Crowd, LibraryCosts};

/// Acquisitions without contention in one round.
const PAIRS: u64 = 300;
/// Turns of each of two processes in one round: few, because pollers are slow.
const TURNS: u64 = 10;
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
    crowd_us: Vec<f64>,
    crowd_server_us: Vec<f64>,
    crowd_commands: Vec<f64>,
    overtaken: u64,
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
    for round in 0..=plan.process_rounds {
        progress.show(&format!("clients: round {round} of {}", plan.process_rounds));
        let mut order: Vec<usize> = (0..lanes.len()).collect();
        rng.shuffle(&mut order);
        for index in order {
            let (library, workers, figures) = &mut lanes[index];
            // The first round connects and warms up.
            let mut unused = Figures::default();
            let figures = if round == 0 { &mut unused } else { figures };
            measure(&server, *library, workers, figures);
        }
    }
    let own = |library: Library| Library::ALL.iter().position(|one| *one == library.own()).unwrap_or(0);
    lanes.iter().map(|(library, _, figures)| costs(*library, figures, &lanes[own(*library)].2)).collect()
}

fn measure(server: &TestServer, library: Library, workers: &mut [Worker; 2], figures: &mut Figures) {
    let name = library.name();
    let (pair, server_us, commands) =
        counted(server, PAIRS, || ask(&mut workers[0], &format!("pairs {PAIRS} pairs:{name}")));
    figures.pair_us.push(per(pair.0, PAIRS));
    figures.pair_cpu_us.push(per(pair.1, PAIRS));
    figures.pair_server_us.push(server_us);
    figures.pair_commands.push(commands);
    let times = hand_off_times(workers, TURNS, &format!("turns:{name}"));
    figures.hand_off_us.push(quantile(&times, 0.5));
    let (crowd, server_us, commands) =
        counted(server, WAITERS, || ask(&mut workers[0], &format!("crowd {WAITERS} crowd:{name}")));
    figures.crowd_us.push(per(crowd.0, WAITERS));
    figures.crowd_server_us.push(server_us);
    figures.crowd_commands.push(commands);
    figures.overtaken = figures.overtaken.max(crowd.1);
}

fn ask(worker: &mut Worker, work: &str) -> (u64, u64) {
    worker.tell(work);
    worker.answer()
}

fn per(nanoseconds: u64, count: u64) -> f64 {
    nanoseconds as f64 / 1e3 / count as f64
}

/// What the work answers, and what it costs the server for each of `count`: CPU in µs, and commands, those in scripts too.
fn counted(server: &TestServer, count: u64, work: impl FnOnce() -> (u64, u64)) -> ((u64, u64), f64, f64) {
    let mut raw = server.connect();
    redis::cmd("CONFIG").arg("RESETSTAT").exec(&mut raw).expect("RESETSTAT");
    let meter = CpuMeter::of(server.pid());
    let before = meter.used();
    let answer = work();
    let used = meter.used().saturating_sub(before);
    let stats = server.info("commandstats");
    let calls = |(command, text): (&String, &String)| -> Option<u64> {
        let ours = ["info", "config"].iter().any(|own| command.starts_with(&format!("cmdstat_{own}")));
        let calls = text.strip_prefix("calls=")?.split(',').next()?.parse().ok()?;
        (!ours).then_some(calls)
    };
    let commands = stats.iter().filter_map(calls).sum::<u64>() as f64 / count as f64;
    (answer, used.as_secs_f64() * 1e6 / count as f64, commands)
}

fn costs(library: Library, own: &Figures, base: &Figures) -> LibraryCosts {
    let spread = |values: &[f64]| Spread::of(values.to_vec());
    let ratio =
        |own: &[f64], base: &[f64]| Spread::of(own.iter().zip(base).map(|(own, base)| own / base).collect());
    LibraryCosts {
        library: library.name().into(),
        rounds: own.pair_us.len(),
        pair_us: spread(&own.pair_us),
        pair_to_own: ratio(&own.pair_us, &base.pair_us),
        pair_cpu_us: spread(&own.pair_cpu_us),
        pair_server_us: spread(&own.pair_server_us),
        pair_commands: spread(&own.pair_commands),
        hand_off_us: spread(&own.hand_off_us),
        hand_off_to_own: ratio(&own.hand_off_us, &base.hand_off_us),
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
        },
    }
}
