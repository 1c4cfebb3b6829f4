//! The thread on which a blocking client runs its tasks.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use crate::error::Error;

/// How often the thread checks whether its tasks are done.
const LOOK: Duration = Duration::from_millis(20);

/// The thread of a blocking client. After a drop it continues until its tasks are done: until the pending releases are sent.
#[derive(Clone, Debug)]
pub(super) struct Thread {
    tasks: Handle,
    /// The last clone closes the channel on which the thread waits. Several locks as one have a channel for each thread.
    alive: Vec<Arc<oneshot::Sender<()>>>,
}

impl Thread {
    pub(super) fn start() -> io::Result<Thread> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let tasks = runtime.handle().clone();
        let (alive, gone) = oneshot::channel::<()>();
        std::thread::Builder::new().name("rlock-client".into()).spawn(move || {
            runtime.block_on(async {
                // An error is what is waited for: the end of the sender.
                let _ = gone.await;
                while Handle::current().metrics().num_alive_tasks() > 0 {
                    tokio::time::sleep(LOOK).await;
                }
            });
        })?;
        Ok(Thread { tasks, alive: vec![Arc::new(alive)] })
    }

    /// These threads as one: each has the connections of some of the locks, and the first one runs the work.
    pub(super) fn all(threads: Vec<Thread>) -> Result<Thread, Error> {
        let tasks = threads.first().map(|first| first.tasks.clone());
        let tasks = tasks.ok_or_else(|| Error::invalid("no client is named"))?;
        Ok(Thread { tasks, alive: threads.into_iter().flat_map(|thread| thread.alive).collect() })
    }

    /// Runs `work` on the caller's thread, with the timers and connections of the client's thread.
    pub(super) fn run<T>(&self, work: impl Future<Output = T>) -> T {
        self.tasks.block_on(work)
    }
}
