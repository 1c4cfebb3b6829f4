//! The outcome of a mixed run: no second holder, and each participant got the lock.

use std::collections::BTreeMap;
use std::time::Duration;

use super::team::Team;

/// Redisson clients are denied while natives hand the lock on to each other, but for the windows in which the module yields.
/// Windows are bounded, a thread that is too slow for them is not: docs/REDISSON.md.
const REDISSON: &str = "redisson";
const REDISSON_PER_S: f64 = 0.05;

/// From the answer to the last check that said that the lock was held.
pub(super) struct Interval {
    pub(super) from: i64,
    pub(super) to: i64,
    pub(super) guard: String,
}

#[derive(Default)]
pub(super) struct Log {
    pub(super) holds: Vec<Interval>,
    /// By participant: how its requests for the lock ended, and the longest wait of one that got it.
    pub(super) outcomes: BTreeMap<String, BTreeMap<String, u64>>,
    pub(super) longest_ms: BTreeMap<String, i64>,
}

impl Log {
    fn released(&self, team: &Team) -> u64 {
        self.outcomes.get(team.name()).and_then(|mine| mine.get("ok")).copied().unwrap_or_default()
    }
}

pub(super) fn report(
    teams: &[Team],
    log: &Log,
    faults: BTreeMap<&'static str, u64>,
    time: Duration,
) -> Result<(), String> {
    let mut holds: Vec<&Interval> = log.holds.iter().collect();
    holds.sort_by_key(|hold| hold.from);
    println!("mixed: {} holds, faults {faults:?}", holds.len());
    for team in teams {
        let longest = log.longest_ms.get(team.name()).copied().unwrap_or_default();
        println!("mixed: {}: {:?}, longest wait {longest} ms", team.name(), log.outcomes.get(team.name()));
    }
    let mut latest: Option<&Interval> = None;
    for hold in holds {
        if let Some(before) = latest.filter(|before| hold.from < before.to) {
            return Err(format!("a second holder: {} and {}", before.guard, hold.guard));
        }
        latest = latest.filter(|before| before.to > hold.to).or(Some(hold));
    }
    println!("mixed: no second holder");
    shares(teams, log, time)
}

/// A native gets at least a quarter of what natives get on average: they stand in one queue, and differ by their faults.
fn shares(teams: &[Team], log: &Log, time: Duration) -> Result<(), String> {
    let natives: Vec<u64> =
        teams.iter().filter(|team| team.name() != REDISSON).map(|team| log.released(team)).collect();
    let average = natives.iter().sum::<u64>() / u64::try_from(natives.len()).unwrap_or(1).max(1);
    for team in teams {
        let least = match team.name() {
            REDISSON => (time.as_secs_f64() * REDISSON_PER_S) as u64,
            _ => average / 4,
        };
        let (mine, least) = (log.released(team), least.max(1));
        if mine < least {
            return Err(format!(
                "{} released {mine} locks, and not {least}: it does not get on",
                team.name()
            ));
        }
    }
    Ok(())
}
