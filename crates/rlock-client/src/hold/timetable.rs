//! The timetable of a client's holds: their next renewals, and their ends.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::Hold;
use crate::clock::Instant;

/// Renewals that are due so soon go along with those that are due now.
pub(crate) const WINDOW: Duration = Duration::from_millis(100);

/// The longest sleep: timers may stand still while the machine is suspended, the clock does not.
const NAP: Duration = Duration::from_secs(1);

/// When each hold is due.
#[derive(Default)]
pub(crate) struct Timetable {
    plan: Mutex<Plan>,
    /// Notified when a hold is due before the nap under way is over.
    pub(crate) sooner: Notify,
}

#[derive(Default)]
struct Plan {
    holds: BTreeMap<(Instant, u64), Arc<Hold>>,
    /// The end of the nap under way; `None` while the task is awake, and looks here before it naps again.
    nap_ends: Option<Instant>,
}

impl Timetable {
    /// Moves a hold in the timetable.
    pub(crate) fn plan(&self, hold: &Arc<Hold>, from: Option<Instant>, to: Instant) {
        let mut plan = self.entries();
        if let Some(from) = from {
            plan.holds.remove(&(from, hold.id));
        }
        plan.holds.insert((to, hold.id), hold.clone());
        let too_late = plan.nap_ends.take_if(|end| to < *end).is_some();
        drop(plan);
        if too_late {
            self.sooner.notify_one();
        }
    }

    /// Takes a hold out of the timetable.
    pub(crate) fn forget(&self, id: u64, from: Option<Instant>) {
        if let Some(from) = from {
            self.entries().holds.remove(&(from, id));
        }
    }

    /// All watched holds: those that are neither lost nor released.
    pub(crate) fn all(&self) -> Vec<Arc<Hold>> {
        self.entries().holds.values().cloned().collect()
    }

    /// Takes out what is due, if anything is, and what is due soon after.
    pub(crate) fn due(&self, now: Instant) -> Vec<(Instant, Arc<Hold>)> {
        let holds = &mut self.entries().holds;
        if holds.first_key_value().is_none_or(|((at, _), _)| *at > now) {
            return Vec::new();
        }
        let later = holds.split_off(&(now.after(WINDOW), u64::MAX));
        let due = std::mem::replace(holds, later);
        due.into_iter().map(|((at, _), hold)| (at, hold)).collect()
    }

    /// How long to sleep, unless `sooner` is notified.
    pub(crate) fn nap(&self, now: Instant) -> Duration {
        let mut plan = self.entries();
        let nap = plan.holds.first_key_value().map_or(NAP, |((at, _), _)| at.since(now).min(NAP));
        plan.nap_ends = Some(now.after(nap));
        nap
    }

    fn entries(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
