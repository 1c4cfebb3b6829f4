//! The common part of a client's clones, attempts and guards.

use std::sync::Arc;

use tokio::sync::mpsc::UnboundedSender;

use crate::hold::Timetable;
use crate::named_owners::Turns;
use crate::release::Job;
use crate::shared::Shared;

/// The common part of clients, attempts and guards; the jobs' channel closes with the last of them.
pub(crate) struct Handle {
    pub(crate) shared: Arc<Shared>,
    /// The next renewals and the ends of all holds.
    pub(crate) timetable: Arc<Timetable>,
    pub(crate) turns: Turns,
    pub(crate) runtime: tokio::runtime::Handle,
    /// Which server it is, as `destination` has it.
    pub(crate) server: String,
    pub(crate) jobs: UnboundedSender<Job>,
}

impl Handle {
    /// Leaves a release to the background. Does no I/O and needs no runtime.
    pub(crate) fn send(&self, job: Job) {
        // Without a receiver the runtime is gone, and the lease will end.
        let _ = self.jobs.send(job);
    }
}
