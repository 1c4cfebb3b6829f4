//! The thread that a client which is not async has for its tasks.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use crate::error::Error;

/// How often the thread checks whether its tasks are done.
const LOOK: Duration = Duration::from_millis(20);

/// The thread. Dropped, it continues until its tasks are done: the releases that are still to be sent.
#[derive(Clone, Debug)]
pub(super) struct Thread {
    tasks: Handle,
    /// The last clone closes the channel on which the thread waits; of locks that are several, a channel for each.
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

    /// All these threads: each has the connections of some of the locks, the first runs the work.
    pub(super) fn all(threads: Vec<Thread>) -> Result<Thread, Error> {
        let tasks = threads.first().map(|first| first.tasks.clone());
        let tasks = tasks.ok_or_else(|| Error::invalid("no client is named"))?;
        Ok(Thread { tasks, alive: threads.into_iter().flat_map(|thread| thread.alive).collect() })
    }

    /// Runs `work` on the caller's thread, with the timers and connections of this one.
    pub(super) fn run<T>(&self, work: impl Future<Output = T>) -> T {
        self.tasks.block_on(work)
    }
}
