//! One contended lock: the cost of a hand-off, its latency, and how evenly the clients get the lock.

mod block;
mod enqueue;
mod fleet;
mod polling;
mod pop;
mod publish;
mod redisson;
mod round;
mod tally;

use rlock_testkit::TestServer;

use crate::named::named;
use crate::plan::Plan;
use crate::progress::Progress;
use crate::redisson::{Imitation, Release};
use crate::results::{Contention, Latency};
use crate::rng::Rng;
use crate::spread::{Spread, quantile, rounded};
use round::{Figures, Ground, Span};

named! {
    /// How clients wait for the lock.
    enum Protocol {
        /// No lock: a message by PUBLISH.
        Publish = "publish", "PUBLISH, no lock";
        /// RLOCK.ACQUIRE … BLOCK.
        Block = "block", "BLOCK";
        /// RLOCK.ACQUIRE … ENQUEUE, each waiter with separate connections.
        Enqueue = "enqueue", "ENQUEUE";
        /// The same with all waiters in one process.
        EnqueueShared = "enqueue-shared", "ENQUEUE, one process";
        /// RPUSH and BLPOP: the server's blocking commands.
        Pop = "blpop", "a token by BLPOP";
        /// Redisson's messages and scripts, as its newest release sends them.
        Redisson = Release::Newest.name(), "Redisson 3.46 to 4.7";
        /// SET NX PX every 100 ms.
        Polling = "polling", "polling, 100 ms";
    }
}

impl Protocol {
    /// The numbers of waiters that it is measured with.
    pub(crate) fn sizes(self) -> &'static [usize] {
        match self {
            Protocol::Publish => &[1],
            Protocol::EnqueueShared => &[2, 10, 100, 1_000, 10_000],
            _ => &[2, 10, 100, 1_000],
        }
    }
}

/// One protocol and number of waiters, and the results of each round.
struct Lane {
    protocol: Protocol,
    waiters: usize,
    rounds: Vec<Figures>,
    /// Of each round: the median latency to that of PUBLISH beside it; and without a pause.
    to_publish: Vec<f64>,
    to_publish_busy: Vec<f64>,
}

/// Measures all protocols and sizes.
pub(crate) fn run(plan: &Plan, redisson: Option<&Imitation>, progress: &Progress) -> Vec<Contention> {
    let is_there = |protocol: &Protocol| *protocol != Protocol::Redisson || redisson.is_some();
    let protocols = Protocol::ALL.into_iter().filter(is_there);
    let lane = |protocol: Protocol, waiters| Lane {
        protocol,
        waiters,
        rounds: vec![],
        to_publish: vec![],
        to_publish_busy: vec![],
    };
    let sizes = |protocol: Protocol| protocol.sizes().iter().map(move |waiters| lane(protocol, *waiters));
    let mut lanes: Vec<Lane> = protocols.flat_map(sizes).collect();
    let mut sizes = Protocol::EnqueueShared.sizes().to_vec();
    let mut rng = Rng::new(plan.seed);
    for round in 1..=plan.contention_rounds {
        let server = TestServer::start();
        rng.shuffle(&mut sizes);
        for size in &sizes {
            let what = format!("contention, {size} waiters: round {round} of {}", plan.contention_rounds);
            one_size(&server, redisson, *size, &mut lanes, &mut rng, &mut || progress.show(&what));
        }
    }
    lanes.into_iter().map(summary).collect()
}

/// All protocols with `waiters` waiters, in random order, and PUBLISH among them.
fn one_size(
    server: &TestServer,
    redisson: Option<&Imitation>,
    size: usize,
    lanes: &mut [Lane],
    rng: &mut Rng,
    show: &mut dyn FnMut(),
) {
    let mut ground = Ground::of(server, redisson);
    let takes_part = |lane: &&mut Lane| lane.protocol == Protocol::Publish || lane.waiters == size;
    let mut here: Vec<&mut Lane> = lanes.iter_mut().filter(takes_part).collect();
    rng.shuffle(&mut here);
    for lane in &mut here {
        show();
        lane.rounds.push(ground.measure(lane.protocol, lane.waiters, rng.below(u64::MAX)));
    }
    let medians = |lane: &Lane| {
        let last = lane.rounds.last().expect("measured just now");
        let median = |span: &Span| quantile(&span.latencies, 0.5);
        (median(&last.apart), last.busy.as_ref().map(median))
    };
    let publish = here.iter().find(|lane| lane.protocol == Protocol::Publish).map(|lane| medians(lane));
    let (publish, publish_busy) = publish.expect("PUBLISH takes part in every size");
    for lane in here {
        let (own, busy) = medians(lane);
        lane.to_publish.push(own / publish);
        lane.to_publish_busy.extend(busy.zip(publish_busy).map(|(own, publish)| own / publish));
    }
}

fn summary(lane: Lane) -> Contention {
    let each = |figure: fn(&Figures) -> f64| Spread::of(lane.rounds.iter().map(figure).collect());
    let busy: Vec<f64> = lane.rounds.iter().filter_map(|round| Some(round.busy.as_ref()?.cpu_us)).collect();
    let mut latencies: Vec<f64> =
        lane.rounds.iter().flat_map(|round| round.apart.latencies.clone()).collect();
    latencies.sort_by(f64::total_cmp);
    let at = |share| rounded(quantile(&latencies, share));
    Contention {
        protocol: lane.protocol.name().into(),
        waiters: lane.waiters,
        rounds: lane.rounds.len(),
        hand_offs: lane.rounds.iter().map(|f| f.apart.latencies.len() + f.together.latencies.len()).sum(),
        per_second: each(|figures| figures.apart.per_second),
        commands: each(|figures| figures.together.commands),
        executed: each(|figures| figures.together.executed),
        cpu_us: each(|figures| figures.together.cpu_us),
        latency: Latency { p50: at(0.5), p99: at(0.99), p999: at(0.999) },
        latency_to_publish: Spread::of(lane.to_publish),
        busy_cpu_us: (!busy.is_empty()).then(|| Spread::of(busy)),
        busy_latency_to_publish: (!lane.to_publish_busy.is_empty()).then(|| Spread::of(lane.to_publish_busy)),
        grants: [0, 1, 2]
            .map(|place| Spread::of(lane.rounds.iter().map(|f| f.grants[place]).collect()).median),
    }
}
