//! One round: servers, clients and faults for a while, the end, and the verdict.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

use crate::clients::desk::Shared;
use crate::clients::{self, Fleet};
use crate::dice::Dice;
use crate::faults::Faults;
use crate::history::{History, Us, Verdict, Violation, check, ms};
use crate::monitor::Monitor;
use crate::places::{Alone, Cluster, FAIR_TURN_MS, Place};
use crate::plan::{self, Planned, Setting};
use crate::recorder::Recorder;
use crate::scene::{Role, Scene};

/// How long clients may take to end: the longest wait, and what holds it up.
const ENDING: Duration = Duration::from_secs(30);

/// What came of a round.
pub(crate) struct Outcome {
    pub(crate) setting: Setting,
    pub(crate) server: String,
    pub(crate) clients: usize,
    pub(crate) counts: BTreeMap<String, u64>,
    pub(crate) history: History,
    pub(crate) verdict: Verdict,
    pub(crate) plan: Vec<Planned>,
}

/// The servers of a setting.
fn place(setting: Setting) -> Place {
    match setting {
        Setting::Durable => Place::Alone(Box::new(Alone::start(true))),
        Setting::Attached => Place::Alone(Box::new(Alone::start(false))),
        Setting::Cluster => Place::Cluster(Cluster::start()),
    }
}

/// Runs a round, whose plan and choices follow from the seed.
pub(crate) fn run(seed: u64, number: u64, lasts: Duration, say: &mut dyn FnMut(&str)) -> Outcome {
    let seed = plan::seed_of(seed, number);
    let setting = Setting::of(number);
    let lasts_ms = lasts.as_millis() as u64;
    let plan = plan::draw(&mut Dice::new(seed, plan::PLAN), setting, lasts_ms);
    let (scene, roles) = Scene::new();
    let recorder = Recorder::new(scene.names(), ms(FAIR_TURN_MS));
    let shared = Shared { place: place(setting), recorder, stop: AtomicBool::new(false), scene };
    let shared = Arc::new(shared);
    let server = shared.place.version();
    let monitor = Monitor::start(&shared);
    let (threads, endings) = clients::start(&shared, &roles, seed);
    let fleet = Fleet::start(&shared, &roles, seed);
    let began = shared.recorder.now();
    let faults = {
        let (faults, plan) = (Faults::new(&shared), plan.clone());
        spawn(move || faults.run(&plan, began))
    };
    progress(&shared, began + lasts.as_micros() as Us, say);
    if faults.join().is_err() {
        shared.recorder.violation("end", 0, "a fault failed: see above".to_owned());
    }
    shared.stop.store(true, SeqCst);
    stop(&shared, &roles, threads, &endings, fleet);
    // The kit panics where a server is gone.
    if std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| crate::ending::check(&shared))).is_err() {
        shared.recorder.violation("end", 0, "a server is gone, or does not answer: see above".to_owned());
    }
    monitor.stop();
    let counts = shared.recorder.counts();
    let (history, seen, excused) = shared.recorder.take();
    let mut verdict = check(&history);
    excused.into_iter().for_each(|rule| verdict.excuse(rule));
    verdict.violations.extend(seen);
    verdict.violations.sort_by_key(|violation: &Violation| violation.at);
    Outcome { setting, server, clients: roles.len(), counts, history, verdict, plan }
}

/// Waits until the time is over, with a line every five seconds.
fn progress(shared: &Shared, until: Us, say: &mut dyn FnMut(&str)) {
    let (begin, mut next) = (Instant::now(), Duration::from_secs(5));
    while shared.recorder.now() < until {
        sleep(Duration::from_millis(50));
        if begin.elapsed() >= next {
            next += Duration::from_secs(5);
            let counts = shared.recorder.counts();
            let (faults, others): (Vec<_>, Vec<_>) =
                counts.iter().partition(|(name, _)| name.starts_with("fault"));
            let sum = |counts: Vec<(&String, &u64)>| counts.into_iter().map(|(_, count)| count).sum::<u64>();
            say(&format!(
                "{} s: {} attempts, {} faults",
                begin.elapsed().as_secs(),
                sum(others),
                sum(faults)
            ));
        }
    }
}

/// Waits for every client to end; those that do not were left asleep.
fn stop(
    shared: &Arc<Shared>,
    roles: &[Role],
    mut threads: Vec<usize>,
    endings: &std::sync::mpsc::Receiver<clients::Ending>,
    fleet: Fleet,
) {
    let deadline = Instant::now() + ENDING;
    while !threads.is_empty() {
        let left = deadline.saturating_duration_since(Instant::now());
        let Ok((number, failed)) = endings.recv_timeout(left) else { break };
        threads.retain(|thread| *thread != number);
        if failed {
            let text = format!("client {number} ({}) failed: see above", roles[number].kind);
            shared.recorder.violation("end", 0, text);
        }
    }
    let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_secs(2));
    threads.extend(fleet.stop(left));
    for number in threads {
        let text = format!("client {number} ({}) does not end", roles[number].kind);
        shared.recorder.violation("end", roles[number].keys[0], text);
    }
}
