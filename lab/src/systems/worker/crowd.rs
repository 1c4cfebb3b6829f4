//! The holder and the waiters of one lock, each a thread with a connection.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use super::clock;
use super::way::Way;

/// How long each holder keeps the lock at least.
const HOLD: Duration = Duration::from_millis(1);

/// After the last hand-off: until the server has nothing to do.
const SETTLE: Duration = Duration::from_millis(20);

/// How long all may take to connect and to wait.
const SET_UP: Duration = Duration::from_secs(120);

#[derive(Default)]
struct State {
    held: bool,
    /// How many releases may still happen.
    allowed: usize,
    /// When the lock was last released.
    released: Option<u64>,
    hand_offs: Vec<(u64, u64)>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    leaving: AtomicBool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("a panic ends the process")
    }

    fn until(&self, reached: impl Fn(&State) -> bool) -> MutexGuard<'_, State> {
        self.changed.wait_while(self.state(), |state| !reached(state)).expect("a panic ends the process")
    }

    /// Keeps the lock for a while and until it may be released; whether it was for the last time.
    fn hold(&self, acquired: u64) -> bool {
        let mut state = self.state();
        assert!(!state.held, "two hold the lock at a time");
        state.held = true;
        if let Some(released) = state.released {
            state.hand_offs.push((released, acquired));
        }
        drop(state);
        self.changed.notify_all();
        let leaving = || self.leaving.load(Ordering::SeqCst);
        if !leaving() {
            sleep(HOLD);
        }
        let mut state = self.until(|state| state.allowed > 0 || leaving());
        state.allowed = state.allowed.saturating_sub(1);
        state.held = false;
        state.released = Some(clock());
        leaving()
    }

    fn work(&self, way: &mut dyn Way, key: &str) {
        while way.acquire(key, &self.leaving) {
            let last = self.hold(clock());
            way.release(key);
            if last {
                return;
            }
            way.pause();
        }
    }
}

/// The clients.
pub(super) struct Crowd {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Crowd {
    /// Returns when one client holds the lock and the others wait for it; `control` looks.
    pub(super) fn gather(
        connect: &dyn Fn() -> Box<dyn Way>,
        control: &mut dyn Way,
        waiters: usize,
        key: &str,
    ) -> Crowd {
        let shared = Arc::new(Shared::default());
        let start = |()| {
            let (shared, mut way, key) = (Arc::clone(&shared), connect(), key.to_string());
            spawn(move || shared.work(&mut *way, &key))
        };
        let mut threads = vec![start(())];
        drop(shared.until(|state| state.held));
        threads.extend((0..waiters).map(|_| start(())));
        let begin = Instant::now();
        while control.waiting(key) < waiters {
            assert!(begin.elapsed() < SET_UP, "not all clients wait for the lock after {SET_UP:?}");
            sleep(Duration::from_millis(10));
        }
        Crowd { shared, threads }
    }

    /// Lets the lock change hands: when it was released and acquired each time.
    pub(super) fn hand_off(&self, count: usize) -> Vec<(u64, u64)> {
        let mut state = self.shared.state();
        state.hand_offs.clear();
        state.allowed = count;
        drop(state);
        self.shared.changed.notify_all();
        let hand_offs = self.shared.until(|state| state.hand_offs.len() == count).hand_offs.clone();
        sleep(SETTLE);
        hand_offs
    }

    /// Each waiter gets the lock once more, except for pollers, which stop to try.
    pub(super) fn leave(self) {
        self.shared.leaving.store(true, Ordering::SeqCst);
        // Under the lock: a holder that has just looked must not miss the notice.
        drop(self.shared.state());
        self.shared.changed.notify_all();
        for thread in self.threads {
            thread.join().expect("a panic ends the process");
        }
    }
}
