use super::super::workload::{Popularity, Shared};
use super::*;

const MS: u64 = 1_000_000;

const WAKES: [Wake; 2] =
    [Wake { slept_ns: 10_000, cost_ns: 2_000 }, Wake { slept_ns: 50_000, cost_ns: 4_000 }];

const COSTS: Costs = Costs { command_ns: 6_000, wait_ns: 3_000, wakes: WAKES, hop_ns: 20_000 };

fn profile() -> Profile {
    Profile {
        popularity: Popularity::Skewed { locks: 200, skew: 0.8 },
        shared: Some(Shared { share: 0.05, names: 1 }),
        think_ns: 20 * MS,
        hold_ns: 2 * MS,
        crash: 0.002,
        lease_ns: 300 * MS,
        ..Profile::restless(11, 300)
    }
}

fn fleet(profile: Profile, primaries: u16) -> Simulation {
    let places = (0..profile.locks()).map(|lock| (lock % u32::from(primaries)) as u16).collect();
    Simulation::new(profile, COSTS, primaries, places)
}

const OUTAGE: Outage = Outage { at_ns: 1_000 * MS, stop_ns: 500 * MS, retry_ns: 100 * MS };

#[test]
fn a_seed_gives_the_same_outcome() {
    let outcome = |seed| {
        let mut fleet = fleet(Profile { seed, ..profile() }, 3);
        fleet.fails(OUTAGE);
        fleet.run(500 * MS, 3_000 * MS)
    };
    assert_eq!(outcome(1), outcome(1));
    assert_ne!(outcome(1), outcome(2));
}

/// Every acquisition ends, through crashes and an outage, and leaves nothing. (Two holders stop the simulation itself.)
#[test]
fn every_acquisition_ends() {
    let mut fleet = fleet(profile(), 3);
    fleet.fails(OUTAGE);
    fleet.outcome.watch(0, u64::MAX);
    fleet.advance(BEGIN_NS + 3_000 * MS);
    fleet.is_ending = true;
    fleet.advance(u64::MAX);
    assert!(fleet.events.is_empty() && fleet.queues.values().all(VecDeque::is_empty));
    assert!(fleet.holders.iter().all(|holder| *holder == FREE));
    // A new generator repeats what each process wanted: it acquired all of that, in this order.
    let mut demand = Demand::new(profile());
    let mut steps = 0;
    for process in 0..profile().processes {
        let last = fleet.processes[process as usize].step;
        let mut step = demand.first(process);
        steps += 1;
        while step != last {
            step = demand.next(process);
            steps += 1;
        }
    }
    assert!(steps > 10_000, "{steps}");
    assert_eq!(fleet.outcome.acquired(), steps);
}

#[test]
fn an_idle_fleet_takes_its_costs() {
    let one = Profile { think_ns: 10 * MS, hold_ns: 10 * MS, ..Profile::restless(3, 1) };
    let figures = fleet(one, 1).run(0, 100_000 * MS).figures();
    // Two hops, and a cycle with one command.
    assert_eq!((figures.mean_ms, figures.longest_ms, figures.hand_offs), (0.05, 0.05, 0.0));
    // Both commands of a round wake the primary: 20 µs of 20 ms.
    assert!((0.095..0.105).contains(&figures.busiest), "{figures:?}");
    assert!((49.0..51.0).contains(&figures.per_second), "{figures:?}");
}

#[test]
fn a_longer_sleep_costs_more_within_what_was_measured() {
    let costs = [0, 10_000, 20_000, 30_000, 50_000, 1_000_000].map(|slept_ns| COSTS.wake_ns(slept_ns));
    assert_eq!(costs, [2_000, 2_000, 2_500, 3_000, 4_000, 4_000]);
}

#[test]
fn a_lock_serves_its_waiters_one_after_the_other() {
    let all = Profile {
        popularity: Popularity::Skewed { locks: 1, skew: 0.0 },
        hold_ns: 2 * MS,
        ..Profile::restless(5, 101)
    };
    let figures = fleet(all, 1).run(1_000 * MS, 101_000 * MS).figures();
    // A hold, a hop with the release, its cycle, a hop with the grant.
    let interval_ms = 2.0 + 0.04 + 0.01;
    assert!((figures.per_second * interval_ms / 1e3 - 1.0).abs() < 0.02, "{figures:?}");
    assert!((figures.mean_ms / (100.0 * interval_ms) - 1.0).abs() < 0.02, "{figures:?}");
    assert_eq!(figures.per_second, figures.hand_offs);
}

#[test]
fn a_busy_primary_serves_as_much_as_its_costs_allow() {
    let figures = fleet(Profile::restless(5, 1_000), 1).run(100 * MS, 1_100 * MS).figures();
    assert!((99.0..=101.0).contains(&figures.busiest), "{figures:?}");
    assert!((82_000.0..84_000.0).contains(&figures.per_second), "{figures:?}");
}

#[test]
fn a_crash_keeps_its_lock_until_the_lease_ends() {
    let all = Profile {
        popularity: Popularity::Skewed { locks: 1, skew: 0.0 },
        crash: 1.0,
        lease_ns: 250 * MS,
        ..Profile::restless(5, 10)
    };
    let figures = fleet(all, 1).run(10_000 * MS, 60_000 * MS).figures();
    assert!((3.9..=4.0).contains(&figures.per_second), "{figures:?}");
}

#[test]
fn an_outage_stops_what_is_on_its_primary() {
    // Hardly ever do two of them want one of these locks: all waiting is that for the primary.
    let popularity = Popularity::Skewed { locks: 10_000, skew: 0.0 };
    let mut fleet = fleet(Profile { popularity, shared: None, crash: 0.0, ..profile() }, 3);
    fleet.fails(OUTAGE);
    let outcome = fleet.run(0, 3_000 * MS);
    let during: u64 = outcome.series()[13..15].iter().sum();
    let before: u64 = outcome.series()[8..10].iter().sum();
    assert!(during * 10 < before, "{during} and {before}: all of them soon want a lock that is there");
    let figures = outcome.figures();
    assert!((500.0..650.0).contains(&figures.longest_ms), "{figures:?}");
}
