//! The server's CPU time for an acquire and a release without contention.

use rlock_testkit::{TestServer, wait_for_replicas_in_sync};

use crate::contender::{Batch, Contender, Dialect};
use crate::cpu::CpuMeter;
use crate::named::named;
use crate::placement::Placement;
use crate::plan::Plan;
use crate::progress::Progress;
use crate::redisson::{Imitation, Release};
use crate::results::{Cost, Ratio, Uncontended};
use crate::rng::Rng;
use crate::spread::Spread;
use crate::wire::Wire;

/// The contenders that the others are compared with.
pub(crate) const BASES: [Contender; 3] =
    [Contender::SetDel, Contender::SetScript, Contender::Redisson(Release::Newest)];

/// A server is replaced after this many rounds: its memory layout counts as spread, and its append-only
/// file does not fill the disk.
const ROUNDS_PER_SERVER: usize = 10;

named! {
    /// What the server does besides answering.
    enum Setting {
        /// Neither AOF nor replicas.
        Plain = "plain";
        /// An AOF synced every second, and one replica.
        AofReplica = "aof-replica";
    }
}

/// The number of locks in one write, and the number of acquisitions in one measurement: long compared with
/// the periodic work of the kernel and the server.
pub(crate) const DEPTHS: [(usize, usize); 2] = [(50, 2_000), (1, 200)];

/// A server, with its replica if it has one.
struct Bed {
    primary: TestServer,
    replica: Option<TestServer>,
}

impl Bed {
    fn start(setting: Setting) -> Bed {
        match setting {
            Setting::Plain => Bed { primary: TestServer::start(), replica: None },
            Setting::AofReplica => {
                let aof = TestServer::builder().conf("appendonly", "yes").conf("appendfsync", "everysec");
                let primary = aof.conf("auto-aof-rewrite-percentage", 0).start();
                let replica = TestServer::builder().without_module().start();
                replica.replicate_from(&primary);
                Bed { primary, replica: Some(replica) }
            }
        }
    }

    /// Waits until the replica is in sync.
    fn between_rounds(&self) {
        if let Some(replica) = &self.replica {
            wait_for_replicas_in_sync(&self.primary, replica);
        }
    }
}

/// One contender at one depth, and the cost of a pair in each round, in µs.
struct Lane {
    contender: Contender,
    placement: Placement,
    depth: usize,
    times: usize,
    batch: Batch,
    costs: Vec<f64>,
}

/// Measures the settings and depths that the plan names.
pub(crate) fn run(plan: &Plan, redisson: &[Imitation], progress: &Progress) -> Vec<Uncontended> {
    let settings = Setting::ALL.into_iter().filter(|setting| plan.wants_setting(*setting));
    settings.flat_map(|setting| in_setting(setting, plan, redisson, progress)).collect()
}

fn in_setting(
    setting: Setting,
    plan: &Plan,
    redisson: &[Imitation],
    progress: &Progress,
) -> Vec<Uncontended> {
    let depths: Vec<_> = DEPTHS.into_iter().filter(|(depth, _)| plan.wants_depth(*depth)).collect();
    let mut rng = Rng::new(plan.seed);
    let (total, mut done) = (plan.uncontended_rounds, 0);
    let mut lanes: Vec<Lane> = Vec::new();
    while done < total {
        let rounds = ROUNDS_PER_SERVER.min(total - done);
        let bed = Bed::start(setting);
        let mut wire = Wire::connect(bed.primary.port()).expect("a connection");
        let dialect = Dialect::of(&mut wire, redisson);
        if lanes.is_empty() {
            lanes = all_lanes(&dialect, &depths);
        }
        for lane in &lanes {
            lane.batch.run(&mut wire, lane.times);
        }
        for round in done..done + rounds {
            progress.show(&format!("uncontended, {}: round {} of {total}", setting.name(), round + 1));
            rng.shuffle(&mut lanes);
            one_round(&bed, &mut wire, &mut lanes, &mut rng);
        }
        done += rounds;
    }
    let summaries = |placement| {
        let lanes = &lanes;
        depths.iter().map(move |(depth, _)| summary(setting, placement, *depth, lanes))
    };
    Placement::ALL.into_iter().flat_map(summaries).collect()
}

fn all_lanes(dialect: &Dialect<'_>, depths: &[(usize, usize)]) -> Vec<Lane> {
    let mut lanes = Vec::new();
    for placement in Placement::ALL {
        for (depth, pairs) in depths.iter().copied() {
            lanes.extend(dialect.contenders().into_iter().map(|contender| {
                let batch = Batch::new(dialect, contender, depth);
                Lane { contender, placement, depth, times: pairs / depth, batch, costs: Vec::new() }
            }));
        }
    }
    lanes
}

/// All contenders of one placement, then all of the other: moving to another core has a cost.
fn one_round(bed: &Bed, wire: &mut Wire, lanes: &mut [Lane], rng: &mut Rng) {
    let cpu = CpuMeter::of(bed.primary.pid());
    let mut placements = Placement::ALL;
    rng.shuffle(&mut placements);
    for placement in placements {
        placement.apply(bed.primary.pid(), bed.replica.as_ref().map(TestServer::pid));
        let mut here = lanes.iter_mut().filter(|lane| lane.placement == placement).peekable();
        if let Some(first) = here.peek() {
            first.batch.run(wire, 1);
        }
        for lane in here {
            let begin = cpu.used();
            lane.batch.run(wire, lane.times);
            let used = cpu.used().saturating_sub(begin);
            lane.costs.push(used.as_secs_f64() * 1e6 / (lane.depth * lane.times) as f64);
        }
    }
    bed.between_rounds();
}

fn summary(setting: Setting, placement: Placement, depth: usize, lanes: &[Lane]) -> Uncontended {
    let here = |lane: &&Lane| lane.placement == placement && lane.depth == depth;
    let find = |contender| lanes.iter().filter(here).find(|lane| lane.contender == contender);
    let costs = Contender::ALL.into_iter().filter_map(find).map(|lane| {
        let against = |base: Contender| {
            let ratio = Spread::ratio(&lane.costs, &find(base)?.costs, |one| *one);
            Some(Ratio { to: base.name().into(), ratio })
        };
        Cost {
            contender: lane.contender.name().into(),
            cpu_us: Spread::of(lane.costs.clone()),
            ratios: BASES.into_iter().filter_map(against).collect(),
        }
    });
    Uncontended {
        setting: setting.name().into(),
        placement: placement.name().into(),
        depth,
        rounds: lanes.first().map_or(0, |lane| lane.costs.len()),
        costs: costs.collect(),
    }
}
