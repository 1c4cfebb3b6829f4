//! Where the time of a lock goes when thousands of clients have one command in flight each, and what the server's I/O threads change.
//! `make bench ONLY=threads` measures it.
//!
//! Nothing is bound to a core: the server's threads and the load generator share the machine.

mod load;
mod meter;
mod report;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use minijinja::context;
use minijinja::value::Serde;
use rlock_testkit::TestServer;
use serde::{Deserialize, Serialize};

use crate::environment::{load as load_average, root};
use crate::placement;
use crate::progress::Progress;
use crate::report::template;
use crate::results::Environment;
use crate::rng::Rng;
use crate::spread::{Spread, rounded};
use crate::stalls::raise_file_limit;
use crate::store;
use crate::systems::redis_server;
pub(crate) use load::Load;
use load::{Clients, SOCKET};
use meter::Meter;
pub(crate) use report::computed;

/// The version of this layout; a reader of another one refuses the file.
const SCHEMA: u32 = 1;

/// The settings of `io-threads`; 1 is the main thread alone.
const IO_THREADS: [u32; 3] = [1, 2, 4];

/// One run.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Threads {
    schema: u32,
    environment: Environment,
    connections: usize,
    rows: Vec<Row>,
}

/// One load on one server, for each lock: an acquire and a release, or two PINGs.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    server: String,
    io_threads: u32,
    load: String,
    rounds: usize,
    /// With the load generator on the same cores.
    per_second: Spread,
    /// CPU time of the main thread, in user mode and in the kernel.
    user_us: Spread,
    kernel_us: Spread,
    /// CPU time of all other threads.
    others_us: Spread,
    /// Reads and writes of sockets.
    calls: f64,
}

struct Effort {
    connections: usize,
    rounds: usize,
    span: Duration,
}

const FULL: Effort = Effort { connections: 9_000, rounds: 5, span: Duration::from_millis(1_500) };
const QUICK: Effort = Effort { connections: 1_000, rounds: 1, span: Duration::from_millis(500) };

/// A server with a load, and what each round has shown.
struct Bed {
    /// Not the server under test.
    binary: Option<PathBuf>,
    io_threads: u32,
    load: Load,
    server: String,
    rounds: Vec<[f64; 5]>,
}

/// Measures, and stores a whole run of the server that the targets are about.
pub(crate) fn run(is_quick: bool, seed: u64) -> Result<(), String> {
    placement::require_two_cores();
    raise_file_limit();
    let (effort, begin, progress) = (if is_quick { QUICK } else { FULL }, Instant::now(), Progress::start());
    let (mut environment, mut rng, mut beds) = (Environment::now(seed), Rng::new(seed), beds());
    for round in 1..=effort.rounds {
        for (done, bed) in rng.order(beds.len()).into_iter().enumerate() {
            progress.show(&format!("threads: round {round} of {}, {done} of {}", effort.rounds, beds.len()));
            beds[bed].round(&effort);
        }
    }
    progress.end();
    environment.load[1] = load_average();
    environment.seconds = begin.elapsed().as_secs();
    let rows = beds.into_iter().map(Bed::row).collect();
    let is_main = store::is_main(&environment);
    let threads = Threads { schema: SCHEMA, environment, connections: effort.connections, rows };
    print!("{}", shown(&threads));
    if is_quick || !is_main {
        println!("\nnot stored: only a whole run on the server that the targets are about is");
        return Ok(());
    }
    store::keep(&path(), &threads)?;
    store::render()?;
    println!("\nstored in {}, and docs/BENCHMARKS.md remade", path().display());
    Ok(())
}

/// The section of the page.
fn shown(threads: &Threads) -> String {
    let values = context! { threads => Serde(threads), computed => computed(threads) };
    template::shown("tables", "threads(threads, computed)", values)
}

/// All loads on the server under test, and locks with I/O threads on it and the newest others.
fn beds() -> Vec<Bed> {
    let bed = |binary: &Option<PathBuf>, io_threads, load| {
        let (binary, server) = (binary.clone(), String::new());
        Bed { binary, io_threads, load, server, rounds: Vec::new() }
    };
    let binaries = [None, Some(redis_server("redis-8.6")), Some(redis_server("valkey-9.1"))];
    let others = Load::ALL.into_iter().filter(|load| *load != Load::LOCKS);
    let mut beds: Vec<Bed> = others.map(|load| bed(&binaries[0], 1, load)).collect();
    for binary in &binaries {
        beds.extend(IO_THREADS.map(|io_threads| bed(binary, io_threads, Load::LOCKS)));
    }
    beds
}

impl Bed {
    fn round(&mut self, effort: &Effort) {
        let builder = TestServer::builder();
        let builder = self.binary.iter().fold(builder, |builder, binary| builder.binary(binary));
        let server = builder
            .conf("maxclients", effort.connections + 100)
            .conf("unixsocket", SOCKET)
            .conf("io-threads", self.io_threads)
            // Redis 7 reads in the main thread without it; later servers ignore it.
            .conf("io-threads-do-reads", "yes")
            .start();
        let version = server.version();
        self.server = format!("{:?} {}.{}.{}", version.name, version.major, version.minor, version.patch);
        let mut clients = Clients::start(self.load, effort.connections, &server);
        let mut meter = Meter::of(&server);
        clients.drive(effort.span / 3);
        let before = meter.read();
        clients.drive(effort.span);
        self.rounds.push(meter.read().since(&before));
    }

    fn row(self) -> Row {
        let of = |figure: usize| Spread::of(self.rounds.iter().map(|round| round[figure]).collect());
        Row {
            server: self.server,
            io_threads: self.io_threads,
            load: self.load.name.into(),
            rounds: self.rounds.len(),
            per_second: of(0),
            user_us: of(1),
            kernel_us: of(2),
            others_us: of(3),
            calls: rounded(of(4).median),
        }
    }
}

fn path() -> PathBuf {
    root().join("docs/bench/threads/results.json")
}

/// The results of the last run, if there was one.
pub(crate) fn stored() -> Result<Option<Threads>, String> {
    if !path().exists() {
        return Ok(None);
    }
    store::kept(&path(), "make bench ONLY=threads", SCHEMA..=SCHEMA, |threads: &Threads| threads.schema)
        .map(Some)
}
