//! The trial as an operator: three troubles in a real cluster, found by the alerts, the queries of the dashboard and `rlock top`,
//! and followed to a process. docs/OPERATIONS.md shows what this prints.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use redis::Connection;
use rlock_testkit::clients::cluster::Cluster;
use rlock_testkit::{TestServer, eventually};

use crate::report::Report;
use crate::server::{Alert, Prometheus, queries};
use crate::support::metrics::Exporter;
use crate::support::terminal::Terminal;
use crate::support::{SOON, address, at, await_owner, start_at, state, url};

/// Both are in slots of the first primary: a lock that is stuck is found also beside others that are busy.
const STUCK: &str = "report:daily";
const HERD: &str = "stock:42";
/// In a slot of the third primary, the one that dies.
const MOVED: &str = "mail:queue";

/// Clients of the herd.
const MANY: usize = 24;

/// Clients that all want one lock for a moment, again and again. A fail-over interrupts them, as it does all clients of a cluster.
struct Crowd {
    ended: Arc<AtomicBool>,
}

impl Crowd {
    fn start(server: &TestServer, lock: &'static str, owners: Vec<String>) -> Crowd {
        let ended = Arc::new(AtomicBool::new(false));
        for owner in owners {
            let (ended, client) = (ended.clone(), redis::Client::open(url(server)).expect("a client"));
            thread::spawn(move || {
                while !ended.load(Ordering::Relaxed) {
                    let _ = client
                        .get_connection()
                        .and_then(|mut server| work(&mut server, lock, &owner, &ended));
                    thread::sleep(Duration::from_millis(20));
                }
            });
        }
        Crowd { ended }
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
    }
}

/// Moments of work under a lock, until a call fails.
fn work(server: &mut Connection, lock: &str, owner: &str, ended: &AtomicBool) -> redis::RedisResult<()> {
    while !ended.load(Ordering::Relaxed) {
        redis::cmd("RLOCK.ACQUIRE").arg(&[lock, owner, "60000", "HOLDS", "1", "BLOCK", "0"]).exec(server)?;
        thread::sleep(Duration::from_millis(20));
        redis::cmd("RLOCK.RELEASE").arg(&[lock, owner]).exec(server)?;
    }
    Ok(())
}

/// The alerts that fire.
fn alerts(prometheus: &Prometheus) -> Vec<Alert> {
    let mut alerts = prometheus.alerts();
    // How fast the servers of a test answer is the machine's, and one lock is held to the end: longer than a minute of an alert.
    alerts.retain(|alert| alert.about[0] != "RlockServerSlow" && alert.about[1] != MOVED);
    alerts
}

/// Waits until alerts fire for all of these, and for nothing else.
#[track_caller]
fn await_alerts(prometheus: &Prometheus, expected: &[[&str; 3]]) {
    let wanted: BTreeSet<[String; 3]> = expected.iter().map(|about| about.map(str::to_string)).collect();
    let mut last = BTreeSet::new();
    eventually(&format!("the alerts {expected:?}"), SOON, || {
        let firing: BTreeSet<_> = alerts(prometheus).into_iter().map(|alert| alert.about).collect();
        if firing != last {
            println!("{firing:?}");
            last.clone_from(&firing);
        }
        (firing == wanted).then_some(())
    });
}

/// The value that a panel shows under a name.
#[track_caller]
fn await_value(prometheus: &Prometheus, panel: &str, name: &str, is_right: impl Fn(f64) -> bool) {
    eventually(&format!("{name:?} in {panel:?}"), SOON, || {
        let shown = prometheus.panel(panel);
        shown.iter().any(|(shown, value)| shown == name && is_right(*value)).then_some(())
    });
}

/// Shows that each query of the dashboard finds something, but for those about limits that are far away, and about refused writes.
#[track_caller]
fn every_query_answers(prometheus: &Prometheus) {
    let mut empty = Vec::new();
    eventually("an answer to each query of the dashboard", SOON, || {
        empty = queries();
        empty.retain(|query| prometheus.ask(&query.expression).is_empty());
        empty.retain(|query| {
            !["> 0.5 *", "max_memory", "rlock_writes_refused"]
                .iter()
                .any(|part| query.expression.contains(part))
        });
        empty.is_empty().then_some(())
    });
}

/// The process that `rlock status` names as the holder.
#[track_caller]
fn process_of(status: &str) -> i32 {
    let named = status.lines().find(|line| line.trim_start().starts_with("holder ")).expect("a holder");
    let (_, pid) = named.rsplit_once(", process ").expect("a process");
    pid.trim_end_matches(')').parse().expect("a process id")
}

/// The state of the command that a process runs: what `ps --ppid` shows.
#[track_caller]
fn state_of_child(parent: i32) -> Option<char> {
    let directories = std::fs::read_dir("/proc").expect("/proc").filter_map(Result::ok);
    let mut children = directories.map(|entry| entry.path()).filter(|path| {
        let stat = std::fs::read_to_string(path.join("stat")).unwrap_or_default();
        let parent_of = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1)?.parse().ok());
        parent_of == Some(parent)
    });
    children.next().and_then(|path| state(&path))
}

#[test]
fn an_operator_finds_what_is_wrong() {
    let mut cluster = Cluster::start_with_replicas(3);
    let cluster_url = cluster.url();
    let servers: Vec<String> = cluster.servers().map(address).collect();
    let [one, two, three, _, _, heir] = &servers[..] else { panic!("{servers:?}") };
    let exporter = Exporter::start(&cluster_url, &[]);
    let prometheus = Prometheus::of(&exporter);
    let mut report = Report::new(&servers);

    // A command that stops; the `rlock run` around it renews the lock.
    let holder = start_at(&cluster_url, &["run", STUCK, "--", "sh", "-c", "kill -STOP $$"]);
    eventually("a stopped holder", SOON, || (state_of_child(holder.pid()) == Some('T')).then_some(()));
    report.hides(&holder);
    let owners = (1..=3).map(|number| format!("batch@db-2:97:9c02e6f7b1a84d35:{number}"));
    let _waiters = Crowd::start(&cluster.primaries[0], STUCK, owners.collect());
    let stuck = [["RlockLockStuck", STUCK, one], ["RlockHotLockWaits", STUCK, one]];
    await_alerts(&prometheus, &stuck);

    let owners = (0..MANY).map(|number| format!("shop@web-{}:318:4be17c9a03d25f86:{number}", number % 3 + 1));
    let _herd = Crowd::start(&cluster.primaries[0], HERD, owners.collect());
    let _holds = start_at(&cluster_url, &["run", MOVED, "--", "sleep", "600"]);
    await_owner(&mut cluster.primaries[2].connect(), MOVED);
    let _follows = start_at(&cluster_url, &["run", MOVED, "--", "true"]);
    let named = |lock: &str, server: &str| format!("{lock} on {server}");
    await_value(&prometheus, "Waiters by hot lock", &named(HERD, one), |waiters| waiters >= 10.0);
    await_value(&prometheus, "Ended waits by hot lock", &named(HERD, one), |rate| rate > 1.0);
    await_value(&prometheus, "Ended waits by hot lock", &named(STUCK, one), |rate| rate == 0.0);
    await_value(&prometheus, "Waiters by hot lock", &named(MOVED, three), |waiters| waiters == 1.0);
    await_alerts(&prometheus, &[stuck[0], stuck[1], ["RlockWaitersGrow", "", one]]);
    every_query_answers(&prometheus);

    let mut terminal = Terminal::at((80, 24), &cluster_url, &["top", "--interval", "200ms"], &[]);
    let row = |lines: &[String], lock: &str| lines.iter().position(|line| line.starts_with(lock));
    terminal.screen(|lines| {
        let herd = row(lines, HERD);
        herd.is_some() && herd < row(lines, STUCK) && row(lines, MOVED).is_some()
    });
    cluster.kill(2);
    terminal.screen(|lines| {
        let dead = lines[2].starts_with(&format!("no answer from {three}: Connection refused"));
        let others = row(lines, one).is_some() && row(lines, two).is_some();
        dead && others
            && lines[0].contains(", 1 without an answer")
            && row(lines, HERD).is_some()
            && row(lines, STUCK).is_some()
    });
    report.draw(terminal.cells());
    // The replica takes over: the red line ends, and the waiters of the lock are where it is now.
    terminal.screen(|lines| {
        !lines[0].contains("without") && row(lines, heir).is_some() && row(lines, MOVED).is_some()
    });
    drop(terminal);
    await_value(&prometheus, "Waiters by hot lock", &named(MOVED, heir), |waiters| waiters == 1.0);
    await_value(&prometheus, "Servers down", "", |down| down == 1.0);
    await_value(&prometheus, "Servers that answer", three, |up| up == 0.0);
    // The table knows what the dead one was.
    assert!(
        prometheus
            .panel("Servers")
            .iter()
            .any(|(name, _)| name.contains(three) && name.contains(" primary "))
    );
    await_value(&prometheus, "Waiters by hot lock", &named(STUCK, one), |waiters| waiters == 3.0);
    let down = ["RlockServerDown", "", three];
    await_alerts(&prometheus, &[stuck[0], stuck[1], down]);
    assert!(prometheus.broken_rules().is_empty(), "{:?}", prometheus.broken_rules());
    report.record(&alerts(&prometheus), &prometheus);

    let status = at(&cluster_url, &["status", STUCK]).stdout;
    assert_eq!(process_of(&status), holder.pid());
    assert_eq!(state_of_child(process_of(&status)), Some('T'));
    report.add("$ rlock status report:daily", &status);
    report.is_in_the_docs();
}
