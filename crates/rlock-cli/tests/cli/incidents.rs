//! Each incident of docs/OPERATIONS.md, as an operator meets it: on a cluster of three and with Sentinels `doctor`, `top` or an alert says
//! what it is and what to do next. That Prometheus fires the alerts is what `make exporter` shows.

use rlock_testkit::clients::cluster::Cluster;
use rlock_testkit::{TestServer, eventually};

use crate::hindrance::fill_disk;
use crate::support::metrics::{Exporter, printed};
use crate::support::servers::{await_replica, replica_without_module, sentinel, url_by, with_tls};
use crate::support::{Ended, Files, SOON, address, ask, at, file};

/// Shows that the doctor has a finding about a server, which begins so, and the advice behind it.
#[track_caller]
fn finds(doctor: &Ended, severity: &str, place: &str, what: &str, advice: &str) {
    let begins = format!("{severity}  {place}: {what}");
    let mut lines = doctor.stdout.lines().skip_while(|line| !line.starts_with(&begins));
    assert!(lines.next().is_some(), "no {begins:?} in {doctor:#?}");
    let next = lines.next().unwrap_or_default();
    assert!(next.starts_with("  → ") && next.contains(advice), "no {advice:?} in {next:?}");
}

/// Shows that an alert watches this expression, and that its text has these words.
#[track_caller]
fn alerts(name: &str, expression: &str, words: &[&str]) {
    let rules = file("packaging/prometheus/rlock.rules.yml");
    let alert = rules.split("- alert: ").find(|alert| alert.lines().next() == Some(name)).expect(name);
    let (rule, text) = alert.split_once("annotations:").expect("a text");
    assert!(rule.contains(expression), "{rule}");
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    words.iter().for_each(|word| assert!(text.contains(word), "no {word:?} in {text}"));
}

/// A lock with a holder and waiters, and a denial, by which `top` shows it at once.
pub(crate) fn contended(server: &TestServer, lock: &str, holder: &str, waiters: usize) {
    let client = &mut server.connect();
    ask::<redis::Value>(client, &format!("RLOCK.ACQUIRE {lock} {holder} 600000"));
    ask::<redis::Value>(client, &format!("RLOCK.ACQUIRE {lock} other:1 1000"));
    for number in 0..waiters {
        let waiter = format!("shop@web-1:318:4be17c9a03d25f86:{number}");
        ask::<redis::Value>(
            client,
            &format!("RLOCK.ACQUIRE {lock} {waiter} 600000 ENQUEUE 0 news:{{{lock}}}"),
        );
    }
}

/// A stuck holder and a herd are in the table with their holders, and have alerts.
#[track_caller]
fn shows_stuck_and_herd(url: &str, server: &TestServer, [stuck, herd]: [&str; 2]) {
    contended(server, stuck, "batch@db-1:4711:9c02e6f7b1a84d35:3", 3);
    contended(server, herd, "shop@web-2:99:9c02e6f7b1a84d35:1", 120);
    let top = at(url, &["top", "--once", "--interval", "100ms", "--sort", "waiters"]).stdout;
    let rows: Vec<Vec<&str>> = top
        .lines()
        .skip_while(|line| !line.starts_with("LOCK"))
        .skip(1)
        .map(|line| line.split_whitespace().collect())
        .collect();
    let shown: Vec<_> = rows.iter().map(|row| (row[0], row[2], row[row.len() - 1])).collect();
    assert_eq!(shown, [(herd, "120", "shop@web-2:99"), (stuck, "3", "batch@db-1:4711")], "{top}");
    let status = at(url, &["status", stuck]).stdout;
    assert!(status.contains("(batch on db-1, process 4711)"), "{status}");
    alerts(
        "RlockLockStuck",
        "rlock_hot_lock_waiters",
        &["rlock top names the lock, rlock status its holder"],
    );
    alerts(
        "RlockLockCrowded",
        "rlock_hot_lock_waiters > 100",
        &["divide it into several locks", "rlock top"],
    );
}

/// A full disk, a drain that was left on, and eviction, on servers that may be the same.
#[track_caller]
fn shows_refusals(url: &str, [full, drained, evicts]: [&TestServer; 3]) {
    ask::<redis::Value>(&mut drained.connect(), "CONFIG SET rlock.accept no");
    ask::<redis::Value>(&mut evicts.connect(), "CONFIG SET maxmemory 1gb maxmemory-policy allkeys-lru");
    let doctor = at(url, &["doctor"]);
    let (full_at, drained_at, evicts_at) = (address(full), address(drained), address(evicts));
    finds(
        &doctor,
        "WRONG",
        &drained_at,
        "it refuses new locks: it is drained",
        "CONFIG SET rlock.accept yes",
    );
    let evicted = "maxmemory-policy may evict locks";
    finds(&doctor, "warning", &evicts_at, evicted, "set maxmemory-policy noeviction");
    let (_, metrics) = printed(url, &[]);
    let of = |name: &str, place: &str| metrics.get(&format!("{name}{{server=\"{place}\"}}"));
    assert_eq!(of("rlock_accept", &drained_at), Some(0.0));
    assert_eq!(of("rlock_locks_may_be_evicted", &evicts_at), Some(1.0));
    ask::<redis::Value>(&mut drained.connect(), "CONFIG SET rlock.accept yes");
    alerts("RlockDraining", "rlock_accept == 0", &["set rlock.accept yes"]);
    alerts("RlockLocksMayBeEvicted", "rlock_locks_may_be_evicted == 1", &["Set maxmemory-policy noeviction"]);

    fill_disk(full);
    let doctor = at(url, &["doctor"]);
    assert_eq!(doctor.code, Some(2), "{doctor:?}");
    finds(&doctor, "WRONG", &full_at, "it refuses writes: MISCONF", "such as a full disk");
    let sample = format!("rlock_writes_refused{{server=\"{full_at}\",code=\"MISCONF\"}}");
    assert_eq!(printed(url, &[]).1.get(&sample), Some(1.0));
    let refused = "rlock_writes_refused{code!=\"DRAIN\"} == 1";
    alerts("RlockWritesRefused", refused, &["a full disk (MISCONF)", "rlock doctor"]);
}

/// A primary that died, before another one takes over.
#[track_caller]
fn shows_dead(url: &str, place: &str) {
    let refused = format!("no answer from {place}: Connection refused");
    let advice = format!("check that a server runs at {place}");
    finds(&at(url, &["doctor"]), "WRONG", place, &refused, &advice);
    alerts("RlockServerDown", "rlock_up == 0", &["has not answered", "rlock doctor"]);
}

#[test]
fn in_a_cluster_each_incident_is_found() {
    let mut cluster = Cluster::start_with_replicas(3);
    let url = cluster.url();
    let locks = [cluster.lock_on(1, 's'), cluster.lock_on(1, 'h')];
    shows_stuck_and_herd(&url, &cluster.primaries[1], [&locks[0], &locks[1]]);
    let [full, drained, evicts] = &cluster.primaries[..] else { panic!("three primaries") };
    shows_refusals(&url, [full, drained, evicts]);
    let dead = address(&cluster.primaries[2]);
    cluster.kill(2);
    shows_dead(&url, &dead);
    assert_eq!(printed(&url, &[]).1.get(&format!("rlock_up{{server=\"{dead}\"}}")), Some(0.0));
}

#[test]
fn with_sentinels_each_incident_is_found() {
    let primary = TestServer::start();
    let replica = replica_without_module(&primary);
    let sentinels = [(); 3].map(|()| sentinel(&primary, 2, 60_000));
    let url = url_by(&sentinels.each_ref());
    let (first, second) = (address(&primary), address(&replica));
    await_replica(&sentinels[0]);
    let exporter = Exporter::start(&url, &[]);
    finds(&at(&url, &["doctor"]), "WRONG", &second, "the module is not loaded", "loadmodule");
    let loaded = format!("rlock_module_loaded{{server=\"{second}\"}}");
    assert_eq!(exporter.scrape().get(&loaded), Some(0.0));
    alerts("RlockModuleMissing", "rlock_module_loaded == 0", &["Load the module", "replica-priority 0"]);
    shows_stuck_and_herd(&url, &primary, ["stuck", "herd"]);
    shows_refusals(&url, [&primary, &primary, &primary]);
    primary.kill9();
    shows_dead(&url, &first);
    let metrics = exporter.scrape();
    assert_eq!(metrics.get(&format!("rlock_up{{server=\"{first}\"}}")), Some(0.0));

    // A dead exporter is what Prometheus does not find any more.
    assert!(metrics.0.contains("\nrlock_exporter_info{"), "{}", metrics.0);
    let gone = exporter.address().to_string();
    drop(exporter);
    assert!(std::net::TcpStream::connect(gone).is_err());
    alerts("RlockExporterMissing", "absent(last_over_time(rlock_exporter_info", &["Start rlock exporter"]);
}

#[test]
fn a_certificate_that_expires_is_found_before_and_after() {
    let doctor = |files: &Files, port: u16| {
        let ca = files.path("ca.crt").display().to_string();
        at(&format!("rediss://localhost:{port}"), &["--cacert", &ca, "doctor"])
    };
    let (soon, now) = (Files::new(), Files::new());
    let (_server, port) = with_tls(&soon, "2", "no");
    let place = format!("localhost:{port}");
    finds(&doctor(&soon, port), "warning", &place, "its certificate expires in 1d23h", "renew it");
    let (_server, port) = with_tls(&now, "0", "no");
    let expired = eventually("the certificate to expire", SOON, || {
        let ended = doctor(&now, port);
        (ended.code == Some(125)).then_some(ended)
    });
    expired.fails(
        125,
        &[&format!("no encrypted connection to localhost:{port}"), "renew the server's certificate"],
    );
    alerts("RlockExporterMissing", "rlock_exporter_info", &["a certificate that has expired"]);
}
