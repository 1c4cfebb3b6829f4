//! The cost of joining and leaving a read/write lock that has many readers already.

use rlock_testkit::TestServer;

use crate::cpu::CpuMeter;
use crate::named::named;
use crate::placement::Placement;
use crate::plan::Plan;
use crate::progress::Progress;
use crate::redisson::{Imitation, request};
use crate::resp::append;
use crate::results::Readers;
use crate::rng::Rng;
use crate::spread::Spread;
use crate::wire::Wire;

/// The numbers of readers.
pub(crate) const SIZES: [usize; 5] = [10, 100, 1_000, 10_000, 100_000];

/// The most readers that Redisson's script is measured with: its cost grows with them.
pub(crate) const MOST_BY_SCRIPT: usize = 1_000;

/// A reader joins and leaves this often in one write, while the others stay.
const DEPTH: usize = 50;

/// The number of writes that make one sample; fewer for the script, which takes longer.
const WRITES: [usize; 2] = [20, 2];

const LEASE: &str = "3600000";

named! {
    /// How readers join and leave.
    enum Way {
        Rlock = "rlock";
        /// Redisson's newest release.
        Redisson = "redisson";
    }
}

impl Way {
    /// Whether it is measured with this number of readers.
    pub(crate) fn has(self, readers: usize) -> bool {
        self == Way::Rlock || readers <= MOST_BY_SCRIPT
    }
}

/// A server with `readers` readers of one lock, and the cost of a pair in each round, in µs.
struct Bed {
    readers: usize,
    server: TestServer,
    wire: Wire,
    lanes: Vec<Lane>,
}

/// One way on this server.
struct Lane {
    way: Way,
    request: Vec<u8>,
    answer: Vec<u8>,
    costs: Vec<f64>,
}

/// Measures all sizes, in turns.
pub(crate) fn run(plan: &Plan, redisson: Option<&Imitation>, progress: &Progress) -> Vec<Readers> {
    let mut rng = Rng::new(plan.seed);
    let mut beds: Vec<Bed> = SIZES
        .into_iter()
        .map(|readers| {
            progress.show(&format!("readers: {readers} come in"));
            Bed::start(readers, redisson)
        })
        .collect();
    for round in 1..=plan.readers_rounds {
        progress.show(&format!("readers: round {round} of {}", plan.readers_rounds));
        rng.shuffle(&mut beds);
        for bed in &mut beds {
            bed.round();
        }
    }
    beds.sort_by_key(|bed| bed.readers);
    let first = Way::ALL.map(|way| beds[0].costs(way).to_vec());
    let result = |bed: &Bed, way: Way, first: &[f64]| Readers {
        way: way.name().into(),
        readers: bed.readers,
        rounds: bed.costs(way).len(),
        cpu_us: Spread::of(bed.costs(way).to_vec()),
        to_fewest: Spread::ratio(bed.costs(way), first, |one| *one),
    };
    let of_way = |(way, first): (Way, Vec<f64>)| {
        let beds = beds.iter().filter(move |bed| !bed.costs(way).is_empty());
        beds.map(move |bed| result(bed, way, &first)).collect::<Vec<_>>()
    };
    Way::ALL.into_iter().zip(first).flat_map(of_way).collect()
}

impl Bed {
    fn start(readers: usize, redisson: Option<&Imitation>) -> Bed {
        let server = TestServer::start();
        let mut wire = Wire::connect(server.port()).expect("a connection");
        let indices: Vec<usize> = (0..readers).collect();
        for chunk in indices.chunks(100) {
            let (mut request, mut answer) = (Vec::new(), Vec::new());
            for index in chunk {
                append(&mut request, &["RLOCK.ACQUIRE", "lock", &owner(*index), LEASE, "READ"]);
                answer.extend_from_slice(b"*3\r\n:1\r\n:3600000\r\n:0\r\n");
            }
            wire.exchange(&request, &answer);
        }
        redisson.into_iter().for_each(|imitation| imitation.load(&mut wire));
        let lanes = Way::ALL.into_iter().filter(|way| way.has(readers));
        let lanes = lanes.filter_map(|way| {
            let (request, answer) = batch(way, redisson)?;
            Some(Lane { way, request, answer, costs: Vec::new() })
        });
        Bed { readers, lanes: lanes.collect(), server, wire }
    }

    fn round(&mut self) {
        Placement::OneCore.apply(self.server.pid(), None);
        let cpu = CpuMeter::of(self.server.pid());
        for Lane { way, request, answer, costs } in &mut self.lanes {
            let writes = WRITES[usize::from(*way == Way::Redisson)];
            self.wire.exchange(request, answer);
            let begin = cpu.used();
            for _ in 0..writes {
                self.wire.exchange(request, answer);
            }
            let used = cpu.used().saturating_sub(begin);
            costs.push(used.as_secs_f64() * 1e6 / (writes * DEPTH) as f64);
        }
    }

    fn costs(&self, way: Way) -> &[f64] {
        self.lanes.iter().find(|lane| lane.way == way).map_or(&[], |lane| &lane.costs)
    }
}

/// An owner as long as real ones.
fn owner(index: usize) -> String {
    format!("285475da-9152-4c83-822a-67ee2f116a79:{index:06}")
}

/// The commands of a reader that joins and leaves, and the server's answers.
fn batch(way: Way, redisson: Option<&Imitation>) -> Option<(Vec<u8>, Vec<u8>)> {
    let (me, mut request, mut answer) = (owner(999_999), Vec::new(), Vec::new());
    for _ in 0..DEPTH {
        match way {
            Way::Rlock => {
                append(&mut request, &["RLOCK.ACQUIRE", "lock", &me, LEASE, "READ"]);
                append(&mut request, &["RLOCK.RELEASE", "lock", &me, "READ"]);
                answer.extend_from_slice(b"*3\r\n:1\r\n:3600000\r\n:0\r\n:1\r\n");
            }
            Way::Redisson => {
                let (imitation, id) = (redisson?, self::request(1));
                append(&mut request, &imitation.read("lock", &me, &id));
                answer.extend_from_slice(b"$-1\r\n");
                for (words, reply) in imitation.unread("lock", &me, &id).iter().zip([":0\r\n", ":1\r\n"]) {
                    append(&mut request, words);
                    answer.extend_from_slice(reply.as_bytes());
                }
            }
        }
    }
    Some((request, answer))
}
