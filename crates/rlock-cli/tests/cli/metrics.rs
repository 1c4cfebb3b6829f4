//! `rlock metrics`: what the metrics say of the servers.

use std::thread::sleep;
use std::time::Duration;

use crate::support::metrics::{Exporter, printed};
use crate::support::{address, ask, file, url, url_of};
use rlock_testkit::TestServer;
use rlock_testkit::waiting::Waiting;

#[test]
fn they_count_what_happened_to_locks() {
    let server = TestServer::builder().module_args(&["max-waiters", "7"]).start();
    let client = &mut server.connect();
    ask::<redis::Value>(client, "RLOCK.ACQUIRE lock alice 60000");
    ask::<redis::Value>(client, "RLOCK.ACQUIRE lock dave 60000");
    let bob = Waiting::start(&server, &["RLOCK.ACQUIRE", "lock", "bob", "60000", "BLOCK", "0"]);
    bob.waits_on(Duration::from_millis(150));
    let carol = Waiting::start(&server, &["RLOCK.ACQUIRE", "lock", "carol", "60000", "BLOCK", "0"]);
    ask::<redis::Value>(client, "RLOCK.RELEASE lock alice");
    assert_eq!(bob.answer(), "[1, 60000, 0]");
    ask::<redis::Value>(client, "DEL lock");
    assert_eq!(carol.answer(), "[1, 60000, 0]");
    let _erin = Waiting::start(&server, &["RLOCK.ACQUIRE", "lock", "erin", "60000", "BLOCK", "0"]);

    let (ended, metrics) = printed(&url(&server), &[]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    let names = ["rlock_up", "rlock_module_loaded", "rlock_acquired_total", "rlock_denied_total"];
    assert_eq!(metrics.of(&server, names), [1.0, 1.0, 1.0, 1.0]);
    let names = ["rlock_hand_offs_total", "rlock_waiters", "rlock_max_waiters", "rlock_waiters_peak"];
    assert_eq!(metrics.of(&server, names), [2.0, 1.0, 7.0, 2.0]);
    let found = |cause: &str| {
        let labels = format!("{{server=\"{}\",cause=\"{cause}\"}}", address(&server));
        metrics.get(&format!("rlock_found_free_total{labels}"))
    };
    assert_eq!(["deleted", "expired"].map(found), [Some(1.0), Some(0.0)]);
    let bucket = |bound: &str| {
        let labels = format!("{{server=\"{}\",le=\"{bound}\"}}", address(&server));
        metrics.get(&format!("rlock_wait_seconds_bucket{labels}")).unwrap()
    };
    let bounds = ["0.001", "0.1", "0.5", "1", "5", "300", "+Inf"].map(bucket);
    assert!(bounds.is_sorted() && bounds[1] <= 1.0 && bounds[6] == 2.0, "{bounds:?}");
    let [sum, count] = metrics.of(&server, ["rlock_wait_seconds_sum", "rlock_wait_seconds_count"]);
    assert!(sum >= 0.15 && count == 2.0, "{sum} of {count}");
    assert_eq!(
        (metrics.get("rlock_discovery_up"), metrics.of(&server, ["rlock_panics_total"])),
        (Some(1.0), [0.0])
    );
}

/// A new field of the module is a metric, and stands in the contract.
#[test]
fn they_leave_out_no_field() {
    let server = TestServer::start();
    let (_, metrics) = printed(&url(&server), &[]);
    let contract = &file("docs/COMMANDS.md");
    // Metrics with labels and a histogram have the values of these.
    let others = ["rlock_version", "rlock_server_warning", "rlock_found_", "rlock_waited"];
    let is_other = |name: &String| others.iter().any(|other| name.starts_with(other));
    let fields: Vec<_> = server.info("rlock").into_keys().filter(|name| !is_other(name)).collect();
    assert!(fields.len() > 20, "{fields:?}");
    let lacks = |page: &str| fields.iter().filter(|name| !page.contains(*name)).cloned().collect::<Vec<_>>();
    assert_eq!(lacks(&metrics.0), [""; 0], "not in `MODULE` of metrics/fields.rs");
    assert_eq!(lacks(contract), [""; 0], "not in docs/COMMANDS.md");
}

/// Locks are named in labels, whatever bytes their names have; the option bounds their number for each server.
#[test]
fn they_name_hot_locks() {
    let (server, client) = &mut TestServer::builder().start_and_connect();
    let names: [&[u8]; 3] = [b"plain", b"line\n \"q\" \\ \xff", b"other"];
    for (name, waits) in names.into_iter().zip([3, 2, 1]) {
        redis::cmd("RLOCK.ACQUIRE").arg(name).arg("alice").arg(60_000).exec(client).unwrap();
        for _ in 0..waits {
            let words: [&[u8]; 6] = [b"RLOCK.ACQUIRE", name, b"bob", b"60000", b"BLOCK", b"60"];
            assert_eq!(Waiting::start(server, &words).answer(), "null");
        }
    }
    let _carol = Waiting::start(server, &["RLOCK.ACQUIRE", "plain", "carol", "60000", "BLOCK", "0"]);
    let (_, metrics) = printed(&url(server), &["--hot-locks", "2"]);
    let of = |name: &str, key: &str| {
        let labels = format!("{{server=\"{}\",db=\"0\",key=\"{key}\"}}", address(server));
        metrics.get(&format!("rlock_hot_lock_{name}{labels}"))
    };
    assert_eq!(
        ["waits_total", "waiters", "error_seconds"].map(|name| of(name, "plain").unwrap()),
        [3.0, 1.0, 0.0]
    );
    let [waited, longest] =
        ["waited_seconds_total", "longest_wait_seconds"].map(|name| of(name, "plain").unwrap());
    assert!((0.18..10.0).contains(&waited) && (0.06..waited).contains(&longest), "{waited} {longest}");
    // The name as `rlock ls` shows it, with the quotes and backslashes of the text format.
    assert_eq!(of("waits_total", r#"line\\x0a \"q\" \\\\ \\xff"#), Some(2.0), "{}", metrics.0);
    assert_eq!(of("waits_total", "other"), None);
    let (_, metrics) = printed(&url(server), &["--hot-locks", "0"]);
    assert!(!metrics.0.contains("rlock_hot_lock"));
}

#[test]
fn a_server_that_is_not_there_is_shown_as_down() {
    let (ended, metrics) = printed("redis://127.0.0.1:1", &[]);
    ended.fails(1, &["no answer from 127.0.0.1:1"]);
    assert_eq!(metrics.get("rlock_up{server=\"127.0.0.1:1\"}"), Some(0.0));
    assert_eq!(metrics.get("rlock_discovery_up"), Some(0.0));
    printed("nonsense", &[]).0.fails(125, &["the server's URL has no scheme"]);
}

/// The permissions of docs/OPERATIONS.md, and nothing else.
#[test]
fn a_user_with_few_permissions_is_enough() {
    let server = TestServer::builder().conf("cluster-enabled", "yes").start();
    let client = &mut server.connect();
    ask::<()>(client, "ACL SETUSER exporter on >secret -@all +info +cluster|nodes +rlock.hot");
    let url = url_of("exporter:secret", &server);
    let (ended, metrics) = printed(&url, &[]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    assert_eq!(metrics.of(&server, ["rlock_up", "rlock_module_loaded"]), [1.0, 1.0]);
    // Without the hot locks all others are there, and the missing ones are counted.
    ask::<()>(client, "ACL SETUSER exporter -rlock.hot");
    let (ended, metrics) = printed(&url, &[]);
    ended.fails(1, &["NOPERM", "+rlock.hot"]);
    assert_eq!(metrics.of(&server, ["rlock_up", "rlock_waiters"]), [1.0, 0.0]);
    let errors = format!("rlock_scrape_errors_total{{server=\"{}\",question=\"hot\"}}", address(&server));
    assert_eq!(metrics.get(&errors), Some(1.0));
    let (ended, _) = printed(&url, &["--hot-locks", "0"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    ask::<()>(client, "ACL SETUSER exporter -info");
    let (ended, metrics) = printed(&url, &[]);
    ended.fails(1, &["NOPERM", "ACL SETUSER <user> +info"]);
    assert_eq!(metrics.of(&server, ["rlock_up"]), [0.0]);
}

/// A scrape costs the server less than a millisecond: here of all its CPU time, with the connections. The table of hot locks is
/// full, and each of its locks has waiters.
#[test]
fn a_scrape_costs_a_server_less_than_a_millisecond() {
    const SCRAPES: u32 = 100;
    let (server, client) = &mut TestServer::builder().start_and_connect();
    for number in 0..128 {
        let key = format!("invoice:{number}");
        ask::<redis::Value>(client, &format!("RLOCK.ACQUIRE {key} alice:1 600000"));
        ask::<redis::Value>(client, &format!("RLOCK.ACQUIRE {key} bob:1 1000"));
        for waiter in 0..3 {
            let enqueue = format!("RLOCK.ACQUIRE {key} carol:{waiter} 600000 ENQUEUE 0 news");
            ask::<redis::Value>(client, &enqueue);
        }
    }
    assert_eq!(ask::<Vec<redis::Value>>(client, "RLOCK.HOT").len(), 128, "a full table");
    for hot_locks in ["10", "100"] {
        let exporter = Exporter::start(&url(server), &["--hot-locks", hot_locks]);
        let shown =
            exporter.scrape().0.lines().filter(|line| line.starts_with("rlock_hot_lock_waiters{")).count();
        assert_eq!(shown.to_string(), hot_locks);
        let used = || {
            let info = server.info("cpu");
            let seconds = |name: &str| info[name].parse::<f64>().unwrap();
            seconds("used_cpu_user") + seconds("used_cpu_sys")
        };
        // Its idle time is subtracted.
        let start = used();
        sleep(Duration::from_millis(500));
        let idle = used() - start;
        let (start, begun) = (used(), std::time::Instant::now());
        for _ in 0..SCRAPES {
            exporter.scrape();
        }
        let cost = used() - start - idle * begun.elapsed().as_secs_f64() / 0.5;
        let each = cost / f64::from(SCRAPES) * 1_000.0;
        println!("a scrape with {hot_locks} hot locks of 128 costs {each:.3} ms of CPU time");
        assert!(each < 1.0, "{each:.3} ms with {hot_locks} hot locks");
    }
}
