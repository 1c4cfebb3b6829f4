//! Watches for what stalls: the servers, and this process itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::Duration;

use rlock_testkit::Wire;

use crate::clients::desk::Shared;
use crate::history::{Harm, Us, ms};

/// A round trip, or a pause, that takes this much longer is a stall.
const STALL: Us = ms(60);

/// How often servers are asked.
const BEAT: Duration = Duration::from_millis(15);

/// Threads that watch until they are stopped.
pub(crate) struct Monitor {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Monitor {
    /// One thread for each server of the place, and one for the machine.
    pub(crate) fn start(shared: &Arc<Shared>) -> Monitor {
        let stop = Arc::new(AtomicBool::new(false));
        let servers = shared.place.primaries().len();
        let mut threads: Vec<_> = (0..servers)
            .map(|server| {
                let (shared, stop) = (Arc::clone(shared), Arc::clone(&stop));
                spawn(move || watch_server(&shared, server, &stop))
            })
            .collect();
        let (machine, stopped) = (Arc::clone(shared), Arc::clone(&stop));
        threads.push(spawn(move || watch_machine(&machine, &stopped)));
        Monitor { stop, threads }
    }

    pub(crate) fn stop(self) {
        self.stop.store(true, SeqCst);
        for thread in self.threads {
            let _ = thread.join();
        }
    }
}

fn stalled(shared: &Shared, what: &str, since: Us) {
    shared.recorder.event(what, since, None, Harm { lags: true, ..Harm::STALLS });
}

fn watch_server(shared: &Shared, server: usize, stop: &AtomicBool) {
    let mut connection: Option<(u16, Wire)> = None;
    let mut last = shared.recorder.now();
    while !stop.load(SeqCst) {
        let port = shared.place.primaries()[server];
        if connection.as_ref().is_none_or(|(known, _)| *known != port) {
            connection = Wire::connect(port, Duration::from_secs(1)).ok().map(|wire| (port, wire));
        }
        let answered = connection.as_mut().is_some_and(|(_, wire)| {
            wire.send(&["PING"]).is_ok() && matches!(wire.frame(Duration::from_secs(2)), Ok(Some(_)))
        });
        if answered {
            let now = shared.recorder.now();
            if now - last > STALL {
                stalled(shared, "the server stalls", last);
            }
            last = now;
        } else {
            connection = None;
        }
        sleep(BEAT);
    }
}

fn watch_machine(shared: &Shared, stop: &AtomicBool) {
    let mut last = shared.recorder.now();
    while !stop.load(SeqCst) {
        sleep(BEAT);
        let now = shared.recorder.now();
        if now - last > STALL {
            stalled(shared, "this machine stalls", last);
        }
        last = now;
    }
}
