//! The agenda of a client: when each acquisition's machine is due.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rlock_links::Instant;
use tokio::sync::Notify;

use super::Acquisition;

/// Renewals that are due within this time are sent with those that are due now.
const WINDOW: Duration = Duration::from_millis(100);

/// The longest sleep: timers may stand still while the machine is suspended, the clock does not.
const NAP: Duration = Duration::from_secs(1);

/// When each acquisition is due.
#[derive(Default)]
pub(super) struct Agenda {
    plan: Mutex<Plan>,
    /// Notified when an acquisition is due before the nap under way is over.
    pub(super) sooner: Notify,
}

#[derive(Default)]
struct Plan {
    due: BTreeMap<(Instant, u64), Arc<Acquisition>>,
    /// When the current nap ends; `None` while the task is awake: it reads the agenda before its next nap.
    nap_ends: Option<Instant>,
    /// The client has ended: nothing is due any more.
    is_over: bool,
}

impl Agenda {
    /// Moves an acquisition from one due time to another.
    pub(super) fn plan(&self, acquisition: &Arc<Acquisition>, from: Option<Instant>, to: Option<Instant>) {
        let mut plan = self.entries();
        if let Some(from) = from {
            plan.due.remove(&(from, acquisition.id));
        }
        let Some(to) = to.filter(|_| !plan.is_over) else { return };
        plan.due.insert((to, acquisition.id), acquisition.clone());
        let is_sooner = plan.nap_ends.take_if(|end| to < *end).is_some();
        drop(plan);
        if is_sooner {
            self.sooner.notify_one();
        }
    }

    /// The acquisitions that are due now, with those that are due within [`WINDOW`].
    pub(super) fn due(&self, now: Instant) -> Vec<Arc<Acquisition>> {
        let plan = self.entries();
        if plan.due.first_key_value().is_none_or(|((at, _), _)| *at > now) {
            return Vec::new();
        }
        plan.due.range(..=(now.after(WINDOW), u64::MAX)).map(|(_, acquisition)| acquisition.clone()).collect()
    }

    /// The client has ended.
    pub(super) fn end(&self) {
        let mut plan = self.entries();
        plan.is_over = true;
        let due = std::mem::take(&mut plan.due);
        drop(plan);
        // Their drops may take locks.
        drop(due);
    }

    /// How long to sleep, unless `sooner` is notified.
    pub(super) fn nap(&self, now: Instant) -> Duration {
        let mut plan = self.entries();
        let nap = plan.due.first_key_value().map_or(NAP, |((at, _), _)| at.since(now).min(NAP));
        plan.nap_ends = Some(now.after(nap));
        nap
    }

    fn entries(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
