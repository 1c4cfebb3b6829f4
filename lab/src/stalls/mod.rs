//! Events that end many waiters at one moment: how long all of it takes, and how long another client waits
//! meanwhile.

mod bed;
mod blocked;
mod ends;
mod pings;
mod scenario;

use std::thread::sleep;
use std::time::Duration;

use rlock_testkit::eventually;

use crate::placement::Placement;
use crate::plan::Plan;
use crate::progress::Progress;
use crate::results::Stall;
use crate::spread::{Spread, rounded};

use bed::Bed;
pub(crate) use blocked::raise_file_limit;
use ends::Trigger;
pub(crate) use pings::Pings;
pub(crate) use scenario::{Names, Scenario};

/// No scenario takes this long unless something went wrong.
const WHOLE: Duration = Duration::from_secs(120);

/// How long PINGs continue after the end: deferred work can keep the server busy a little longer.
const AFTERWARDS: Duration = Duration::from_millis(100);

/// One scenario with one number of waiters, and the measurements of each round.
struct Lane {
    scenario: Scenario,
    names: Names,
    waiters: usize,
    totals: Vec<f64>,
    longest: f64,
}

/// Measures all scenarios in each round, on a fresh server each time.
pub(crate) fn run(plan: &Plan, progress: &Progress) -> Vec<Stall> {
    raise_file_limit();
    let all = Names::ALL.into_iter().flat_map(|names| Scenario::ALL.map(|scenario| (names, scenario)));
    let mut lanes: Vec<Lane> = all.flat_map(|(names, scenario)| lanes(scenario, names, plan)).collect();
    for round in 1..=plan.stalls_rounds {
        for lane in &mut lanes {
            let (name, waiters) = (lane.scenario.name(), lane.waiters);
            let long = if lane.names == Names::Long { ", long names" } else { "" };
            progress
                .show(&format!("stalls, {name}, {waiters}{long}: round {round} of {}", plan.stalls_rounds));
            lane.round();
        }
    }
    lanes.into_iter().map(Lane::result).collect()
}

fn lanes(scenario: Scenario, names: Names, plan: &Plan) -> Vec<Lane> {
    let sizes = scenario.sizes(names).iter().take(if plan.is_quick() { 1 } else { usize::MAX });
    let lane =
        |waiters: &usize| Lane { scenario, names, waiters: *waiters, totals: Vec::new(), longest: 0.0 };
    sizes.map(lane).collect()
}

impl Lane {
    fn round(&mut self) {
        let mut bed = Bed::start(self.scenario, self.names, self.waiters);
        // An earlier benchmark may have bound this process, and with it its servers, to other cores.
        Placement::TwoCores.apply(bed.pid(), None);
        let mut trigger = Trigger::of(&mut bed);
        let pings = Pings::start(bed.port());
        let begin = trigger.pull();
        eventually(self.scenario.name(), WHOLE, || bed.is_over().then_some(()));
        let total = begin.elapsed();
        sleep(AFTERWARDS);
        let longest = pings.longest();
        bed.check();
        self.totals.push(total.as_secs_f64() * 1e3);
        self.longest = self.longest.max(longest.as_secs_f64() * 1e3);
    }

    fn result(self) -> Stall {
        Stall {
            scenario: self.scenario.name().into(),
            long_names: self.names == Names::Long,
            waiters: self.waiters,
            rounds: self.totals.len(),
            total_ms: Spread::of(self.totals),
            longest_ping_ms: rounded(self.longest),
        }
    }
}
