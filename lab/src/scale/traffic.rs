//! What the module costs other commands of the same server.

use rlock_testkit::{Subscriber, TestServer};

use super::Effort;
use super::results::Traffic;
use crate::cpu::CpuMeter;
use crate::named::named;
use crate::placement::Placement;
use crate::resp::{Reply, append};
use crate::rng::Rng;
use crate::spread::Spread;
use crate::wire::Wire;

const DEPTH: usize = 50;
/// Writes of one measurement.
const WRITES: usize = 40;

const LEASE: &str = "3600000";
const CHANNEL: &str = "news";

named! {
    /// What the module does on the server.
    enum State {
        Without = "without", "without the module";
        Idle = "idle", "module loaded, never used";
        Listening = "listening", "after the first BLOCK: key events are subscribed";
        Waiting = "waiting", "with waiters, `rlock.hot-locks 0`";
        Hot = "hot", "with waiters, and a full table of RLOCK.HOT";
    }
}

/// The commands, in the order in which a round sends them: the values that are set are read and deleted.
pub(crate) const COMMANDS: [&str; 4] = ["SET", "GET", "DEL", "HSET"];

/// A server in one state, and what each command cost in each round, in µs.
struct Bed {
    state: State,
    server: TestServer,
    wire: Wire,
    costs: [Vec<f64>; COMMANDS.len()],
    _listens: Subscriber,
}

/// Measures all states in turns.
pub(super) fn measure(effort: Effort, seed: u64, show: &dyn Fn(&str)) -> Vec<Traffic> {
    let mut rng = Rng::new(seed);
    let mut beds = State::ALL.map(|state| Bed::start(state, effort));
    let steps = COMMANDS.map(batches);
    let cleaning = batches("cleaning");
    for round in 1..=effort.rounds {
        show(&format!("other commands, round {round} of {}", effort.rounds));
        rng.shuffle(&mut beds);
        beds.iter_mut().for_each(|bed| bed.round(&steps, &cleaning));
    }
    let find = |state| beds.iter().find(|bed| bed.state == state).expect("every state has its server");
    let without = find(State::Without);
    let of = |state: State| {
        let bed = find(state);
        COMMANDS.into_iter().zip(bed.costs.iter().zip(&without.costs)).map(move |(command, (costs, base))| {
            Traffic {
                state: state.name().into(),
                command: command.into(),
                rounds: costs.len(),
                cpu_us: Spread::of(costs.clone()),
                to_without: Spread::ratio(costs, base, |one| *one),
            }
        })
    };
    State::ALL.into_iter().flat_map(of).collect()
}

/// All writes of a command, each with its reply.
fn batches(command: &str) -> Vec<(Vec<u8>, Vec<u8>)> {
    let value = "v".repeat(32);
    let write = |write: usize| {
        let mut request = Vec::new();
        for key in 0..DEPTH {
            let (key, hash) =
                (format!("key:{:06}", write * DEPTH + key), format!("hash:{:06}", write * DEPTH + key));
            match command {
                "SET" => append(&mut request, &["SET", &key, &value]),
                "GET" => append(&mut request, &["GET", &key]),
                "DEL" => append(&mut request, &["DEL", &key]),
                "HSET" => append(&mut request, &["HSET", &hash, "field", &value]),
                _ => append(&mut request, &["DEL", &hash]),
            }
        }
        let reply = match command {
            "SET" => "+OK\r\n".to_string(),
            "GET" => format!("$32\r\n{value}\r\n"),
            _ => ":1\r\n".to_string(),
        };
        (request, reply.repeat(DEPTH).into_bytes())
    };
    (0..WRITES).map(write).collect()
}

impl Bed {
    fn start(state: State, effort: Effort) -> Bed {
        let server = match state {
            State::Without => TestServer::builder().without_module().start(),
            State::Waiting => TestServer::builder().conf("rlock.hot-locks", 0).start(),
            _ => TestServer::start(),
        };
        let mut wire = Wire::connect(server.port()).expect("a connection");
        let _listens = Subscriber::channel(&server, CHANNEL);
        if !matches!(state, State::Waiting | State::Hot) {
            keep(&mut wire, effort.waiting);
        }
        match state {
            State::Without | State::Idle => {}
            State::Listening => {
                let another = effort.waiting;
                wire.exchange(&acquire(another, "a", &[]), b"*3\r\n:1\r\n:3600000\r\n:0\r\n");
                wire.exchange(&acquire(another, "b", &["BLOCK", "1"]), b"*-1\r\n");
            }
            State::Waiting | State::Hot => wait(&mut wire, effort.waiting),
        }
        if state == State::Hot {
            feed(&mut wire);
        }
        Bed { state, server, wire, costs: Default::default(), _listens }
    }

    fn round(&mut self, steps: &[Vec<(Vec<u8>, Vec<u8>)>], cleaning: &[(Vec<u8>, Vec<u8>)]) {
        Placement::OneCore.apply(self.server.pid(), None);
        let cpu = CpuMeter::of(self.server.pid());
        // The first commands on a core find its caches cold.
        steps[0].iter().for_each(|(request, answer)| self.wire.exchange(request, answer));
        for (batches, costs) in steps.iter().zip(&mut self.costs) {
            let begin = cpu.used();
            batches.iter().for_each(|(request, answer)| self.wire.exchange(request, answer));
            let used = cpu.used().saturating_sub(begin);
            costs.push(used.as_secs_f64() * 1e6 / (WRITES * DEPTH) as f64);
        }
        cleaning.iter().for_each(|(request, answer)| self.wire.exchange(request, answer));
    }
}

/// This number of hashes as rlock writes them for locks: a server with more keys is slower, whatever they are.
fn keep(wire: &mut Wire, count: usize) {
    for lock in 0..count {
        let lock = format!("lock:{lock}");
        wire.exchange(&crate::resp::command(&["HSET", &lock, "a", "1"]), b":1\r\n");
        wire.exchange(&crate::resp::command(&["PEXPIRE", &lock, LEASE]), b":1\r\n");
    }
}

/// This number of locks, each with a holder and a waiter.
fn wait(wire: &mut Wire, count: usize) {
    for lock in 0..count {
        wire.exchange(&acquire(lock, "a", &[]), b"*3\r\n:1\r\n:3600000\r\n:0\r\n");
        wire.exchange(&acquire(lock, "b", &["ENQUEUE", "0", CHANNEL]), b"*3\r\n:0\r\n:0\r\n:0\r\n");
    }
}

/// Waits that last for some time end: their locks fill the table.
fn feed(wire: &mut Wire) {
    std::thread::sleep(std::time::Duration::from_millis(20));
    for lock in 0..200 {
        let words = ["RLOCK.RELEASE", &format!("lock:{lock}"), "a"];
        wire.exchange(&crate::resp::command(&words), b":1\r\n");
    }
    let rows = wire.ask(&["RLOCK.HOT"], |reply| match reply {
        Reply::Array(rows) => rows.len(),
        other => panic!("RLOCK.HOT answered {other:?}"),
    });
    assert_eq!(rows, 128, "the table of RLOCK.HOT is full");
}

fn acquire(lock: usize, owner: &str, rest: &[&str]) -> Vec<u8> {
    let lock = format!("lock:{lock}");
    crate::resp::command(&[&["RLOCK.ACQUIRE", &lock, owner, LEASE], rest].concat())
}
