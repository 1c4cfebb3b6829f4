//! The thread that a client which is not async has for its tasks.

use std::io;
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// How often the thread looks whether its tasks are done.
const LOOK: Duration = Duration::from_millis(20);

/// The thread. Dropped, it goes on until its tasks are done: the releases that are still to be sent.
#[derive(Debug)]
pub(super) struct Thread {
    tasks: Handle,
    /// Closes the channel on which the thread waits.
    _alive: oneshot::Sender<()>,
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
        Ok(Thread { tasks, _alive: alive })
    }

    /// Runs `work` on the caller's thread, with the timers and connections of this one.
    pub(super) fn run<T>(&self, work: impl Future<Output = T>) -> T {
        self.tasks.block_on(work)
    }
}
