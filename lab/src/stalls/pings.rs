//! Another client of the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

use crate::resp::command;
use crate::wire::Wire;

/// Between two PINGs: a stall is seen but for this part, and the server is not kept busy by PINGs alone.
const PAUSE: Duration = Duration::from_micros(200);

/// A thread that sends PINGs, one after the other, on a connection of its own.
pub(crate) struct Pings {
    over: Arc<AtomicBool>,
    thread: JoinHandle<Duration>,
}

impl Pings {
    /// Begins; the first one has been answered.
    pub(crate) fn start(port: u16) -> Pings {
        let mut wire = Wire::connect(port).expect("a connection");
        let ping = command(&["PING"]);
        wire.exchange(&ping, b"+PONG\r\n");
        let over = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&over);
        let thread = thread::spawn(move || {
            let mut longest = Duration::ZERO;
            while !is_over.load(Ordering::Relaxed) {
                let begin = Instant::now();
                wire.exchange(&ping, b"+PONG\r\n");
                longest = longest.max(begin.elapsed());
                sleep(PAUSE);
            }
            longest
        });
        Pings { over, thread }
    }

    /// Ends: the longest that an answer took.
    pub(crate) fn longest(self) -> Duration {
        self.over.store(true, Ordering::Relaxed);
        self.thread.join().expect("PINGs are answered")
    }
}
