//! The CPU time of all processes of a system.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use crate::cpu::used_by;

/// The CPU time of each process.
pub(super) struct Used(BTreeMap<u32, Duration>);

impl Used {
    /// Of these processes and their children.
    pub(super) fn by(processes: &[u32]) -> Used {
        let all = processes.iter().flat_map(|pid| children(*pid).into_iter().chain([*pid]));
        // A child may have ended since it was listed.
        Used(all.filter_map(|pid| Some((pid, used_by(pid)?))).collect())
    }

    /// The CPU time since `before`; a child that has ended in between is left out.
    pub(super) fn since(&self, before: &Used) -> Duration {
        let used = |(pid, now): (&u32, &Duration)| {
            now.saturating_sub(before.0.get(pid).copied().unwrap_or_default())
        };
        self.0.iter().map(used).sum()
    }
}

fn children(pid: u32) -> Vec<u32> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}
