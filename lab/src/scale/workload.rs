//! The work of a fleet of processes, drawn from a seed: the simulation and the measurement have the same.

use crate::rng::Rng;

/// Which locks the processes want.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Popularity {
    /// Each process has a lock of its own.
    Own,
    /// The lock of rank n is wanted in proportion to n to the power of `-skew`.
    Skewed { locks: u32, skew: f64 },
}

/// A lock that all processes want, beside the others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Shared {
    /// The share of all acquisitions.
    pub(crate) share: f64,
    /// The number of names among which its users choose at random.
    pub(crate) names: u32,
}

/// Processes that wait already: each of them asked this time after the one ahead.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Gathered {
    pub(crate) processes: u32,
    pub(crate) interval_ns: u64,
}

/// What all processes do: think, acquire a lock, hold it, release it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Profile {
    pub(crate) seed: u64,
    pub(crate) processes: u32,
    pub(crate) popularity: Popularity,
    pub(crate) shared: Option<Shared>,
    /// Means of exponential distributions.
    pub(crate) think_ns: u64,
    pub(crate) hold_ns: u64,
    /// The share of holders that crash, and the time after which their locks are free.
    pub(crate) crash: f64,
    pub(crate) lease_ns: u64,
    /// Processes that have waited for the most popular lock before the beginning: a fleet takes minutes to gather there.
    pub(crate) gathered: Gathered,
}

/// One acquisition.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Step {
    pub(crate) think_ns: u64,
    pub(crate) lock: u32,
    pub(crate) hold_ns: u64,
    pub(crate) crashes: bool,
}

impl Profile {
    /// Processes that never pause, each with a lock of its own.
    pub(crate) fn restless(seed: u64, processes: u32) -> Profile {
        Profile {
            seed,
            processes,
            popularity: Popularity::Own,
            shared: None,
            think_ns: 0,
            hold_ns: 0,
            crash: 0.0,
            lease_ns: 30_000_000_000,
            gathered: Gathered::default(),
        }
    }

    /// The number of locks: the last ones are the names of the shared lock.
    pub(crate) fn locks(&self) -> u32 {
        self.others() + self.shared.map_or(0, |shared| shared.names)
    }

    fn others(&self) -> u32 {
        match self.popularity {
            Popularity::Own => self.processes,
            Popularity::Skewed { locks, .. } => locks,
        }
    }

    /// The most popular lock, and its share of all acquisitions.
    pub(crate) fn hottest(&self) -> (u32, f64) {
        let shared = self.shared.unwrap_or(Shared { share: 0.0, names: 1 });
        let first = match self.popularity {
            Popularity::Own => 1.0 / f64::from(self.processes),
            Popularity::Skewed { locks, skew } => total(2.0, skew) / total(f64::from(locks) + 1.0, skew),
        } * (1.0 - shared.share);
        let named = shared.share / f64::from(shared.names);
        if named > first { (self.others(), named) } else { (0, first) }
    }

    fn wanted(&self, process: u32, chance: f64, rank: f64) -> u32 {
        match (self.shared, self.popularity) {
            // A chance at most 1 is never 0, and a share of 0 is never met.
            (Some(Shared { share, names }), _) if chance <= share => {
                self.others() + below(rank * f64::from(names), names)
            }
            (_, Popularity::Own) => process,
            (_, Popularity::Skewed { locks, skew }) => {
                below(inverse(rank * total(f64::from(locks) + 1.0, skew), skew), locks)
            }
        }
    }
}

/// The weight of all ranks from 1 to `end`, as an integral: it has an inverse.
fn total(end: f64, skew: f64) -> f64 {
    if skew == 1.0 { end.ln() } else { (end.powf(1.0 - skew) - 1.0) / (1.0 - skew) }
}

/// How far above rank 1 this weight ends.
fn inverse(weight: f64, skew: f64) -> f64 {
    let end = if skew == 1.0 { weight.exp() } else { (weight * (1.0 - skew) + 1.0).powf(1.0 / (1.0 - skew)) };
    end - 1.0
}

fn below(value: f64, bound: u32) -> u32 {
    (value as u32).min(bound - 1)
}

/// The steps of all processes; those of one process do not depend on the others' progress.
pub(crate) struct Demand {
    profile: Profile,
    processes: Vec<Rng>,
}

impl Demand {
    pub(crate) fn new(profile: Profile) -> Demand {
        let rng = |process| Rng::of(profile.seed, u64::from(process));
        Demand { profile, processes: (0..profile.processes).map(rng).collect() }
    }

    /// The first step of a process.
    pub(crate) fn first(&mut self, process: u32) -> Step {
        let step = self.next(process);
        if process >= self.profile.gathered.processes {
            return step;
        }
        Step { think_ns: 0, lock: self.profile.hottest().0, ..step }
    }

    /// The next step of a process.
    pub(crate) fn next(&mut self, process: u32) -> Step {
        let profile = &self.profile;
        let rng = &mut self.processes[process as usize];
        let mut around = |mean: u64| (-rng.unit().ln() * mean as f64) as u64;
        let (think_ns, hold_ns) = (around(profile.think_ns), around(profile.hold_ns));
        let (chance, rank, crash) = (rng.unit(), rng.unit(), rng.unit());
        let lock = profile.wanted(process, chance, rank);
        Step { think_ns, lock, hold_ns, crashes: crash <= profile.crash }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(popularity: Popularity, shared: Option<Shared>) -> Profile {
        Profile { popularity, shared, think_ns: 1_000, hold_ns: 500, ..Profile::restless(7, 10) }
    }

    fn steps(profile: Profile) -> Vec<Step> {
        let mut demand = Demand::new(profile);
        (0..100_000).map(|step| demand.next(step % profile.processes)).collect()
    }

    #[test]
    fn a_seed_repeats_the_steps_of_a_process_in_any_order() {
        let profile = profile(Popularity::Skewed { locks: 1_000, skew: 0.5 }, None);
        let mut one = Demand::new(profile);
        let forwards: Vec<Step> = (0..10).map(|process| one.next(process)).collect();
        let mut other = Demand::new(profile);
        let mut backwards: Vec<Step> = (0..10).rev().map(|process| other.next(process)).collect();
        backwards.reverse();
        assert_eq!(forwards, backwards);
        assert_ne!(one.next(0), forwards[0]);
    }

    #[test]
    fn times_have_their_means_and_locks_their_shares() {
        for (skew, shared) in [(0.0, None), (0.5, None), (1.0, Some(Shared { share: 0.02, names: 1 }))] {
            let profile = profile(Popularity::Skewed { locks: 1_000, skew }, shared);
            let steps = steps(profile);
            let mean = steps.iter().map(|step| step.think_ns as f64).sum::<f64>() / steps.len() as f64;
            assert!((970.0..1_030.0).contains(&mean), "{mean}");
            assert!(steps.iter().all(|step| step.lock < profile.locks() && !step.crashes));
            let (hottest, share) = profile.hottest();
            let found = steps.iter().filter(|step| step.lock == hottest).count() as f64 / steps.len() as f64;
            assert!((found / share - 1.0).abs() < 0.15, "skew {skew}: {found} of the steps, not {share}");
        }
    }

    #[test]
    fn a_shared_lock_is_divided_among_its_names_and_gathered_processes_begin_there() {
        let shared = Shared { share: 0.5, names: 4 };
        let mut profile = profile(Popularity::Own, Some(shared));
        profile.crash = 0.1;
        profile.gathered.processes = 3;
        assert_eq!(profile.hottest(), (10, 0.125));
        let steps = steps(profile);
        let count = |lock| steps.iter().filter(|step| step.lock == lock).count();
        assert!((10..14).all(|lock| (11_500..13_500).contains(&count(lock))));
        assert!((0..10).all(|lock| (4_000..6_000).contains(&count(lock))));
        assert!((9_000..11_000).contains(&steps.iter().filter(|step| step.crashes).count()));
        let mut demand = Demand::new(profile);
        let first = (0..10).map(|process| demand.first(process));
        assert!(first.take(3).all(|step| step.lock == 10 && step.think_ns == 0));
    }
}
