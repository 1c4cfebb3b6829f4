//! `rlock exporter`: what it serves, from scrape to scrape.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::support::metrics::{Exporter, Metrics, each, read, send};
use crate::support::servers::replica;
use crate::support::{SOON, Signal, address, ask, rlock};
use rlock_testkit::{TestServer, eventually, wait_for_replicas_in_sync};

#[test]
fn it_serves_metrics_and_nothing_else() {
    let server = TestServer::start();
    let exporter = Exporter::of(&server);
    let page = exporter.request("GET", "/metrics", "");
    assert_eq!(page.status, 200);
    assert!(page.head.contains("content-type: text/plain; version=0.0.4; charset=utf-8"), "{page:?}");
    assert!(page.body.contains(&format!("rlock_up{{server=\"{}\"}} 1\n", address(&server))), "{page:?}");
    let page = exporter.request("HEAD", "/metrics", "");
    assert_eq!((page.status, page.body.as_str()), (200, ""));
    let page = exporter.request("GET", "/", "");
    assert_eq!((page.status, page.body.as_str()), (200, "The metrics are at /metrics.\n"));
    assert_eq!(exporter.request("GET", "/other", "").status, 404);
    let page = exporter.request("POST", "/metrics", "Content-Length: 0\r\n");
    assert!(page.status == 405 && page.head.contains("allow: get, head"), "{page:?}");
}

/// Its connections stay open, so a server that was restarted has closed one: the next scrape takes another.
#[test]
fn a_restart_between_scrapes_is_not_an_outage() {
    let server = TestServer::start();
    let exporter = Exporter::of(&server);
    exporter.scrape();
    let connections =
        |server: &TestServer| server.info("stats")["total_connections_received"].parse::<u64>().unwrap();
    let before = connections(&server);
    exporter.scrape();
    assert_eq!(connections(&server), before + 1, "only that which asks");
    let port = server.port();
    let stopped = server.shutdown();
    let server = TestServer::builder().dir(stopped).port(port).start();
    assert_eq!(exporter.scrape().of(&server, ["rlock_up"]), [1.0]);
    assert!(!exporter.running.told().contains("no answer"), "{}", exporter.running.told());
}

/// A primary forgets a replica that is gone, and a primary that is gone names no replicas.
#[test]
fn servers_that_are_no_longer_named_are_remembered() {
    let primary = TestServer::start();
    let (one, two) = (replica(&primary), replica(&primary));
    let exporter = Exporter::of(&primary);
    assert_eq!(exporter.scrape().servers("rlock_up"), each(&[(&primary, "1"), (&one, "1"), (&two, "1")]));

    let gone = (address(&one), "0".to_string());
    one.kill9();
    let forgets = |left: &str| {
        let has_left = || (primary.info("replication")["connected_slaves"] == left).then_some(());
        eventually("the primary to forget it", SOON, has_left);
    };
    forgets("1");
    let mut expected = each(&[(&primary, "1"), (&two, "1")]);
    expected.insert(gone.clone());
    assert_eq!(exporter.scrape().servers("rlock_up"), expected);
    exporter.running.tells(&format!("no answer from {}", gone.0));

    // A replica that became a primary of its own has left.
    redis::cmd("REPLICAOF").arg("NO").arg("ONE").exec(&mut two.connect()).unwrap();
    forgets("0");
    expected = each(&[(&primary, "1")]);
    expected.insert(gone.clone());
    assert_eq!(exporter.scrape().servers("rlock_up"), expected);

    ask::<()>(&mut two.connect(), &format!("REPLICAOF 127.0.0.1 {}", primary.port()));
    wait_for_replicas_in_sync(&primary, &two);
    exporter.scrape();
    expected = each(&[(&two, "1")]);
    expected.extend([gone, (address(&primary), "0".to_string())]);
    primary.kill9();
    let metrics = exporter.scrape();
    assert_eq!(metrics.servers("rlock_up"), expected);
    assert_eq!(metrics.get("rlock_discovery_up"), Some(0.0));
}

/// One server hangs: the others are shown in time, and scrapes leave one thread behind, not one each.
#[test]
fn a_server_that_hangs_delays_no_scrape_past_its_deadline() {
    let primary = TestServer::start();
    let replica = replica(&primary);
    let exporter = Exporter::of(&primary);
    exporter.scrape();
    replica.signal(Signal::STOP.as_raw());
    for (timeout, at_most) in [("", 5), ("X-Prometheus-Scrape-Timeout-Seconds: 1\r\n", 1)] {
        let start = Instant::now();
        let page = exporter.request("GET", "/metrics", timeout);
        assert!(start.elapsed() < Duration::from_secs(at_most), "{:?} for {timeout:?}", start.elapsed());
        let metrics = Metrics(page.body);
        assert_eq!(metrics.servers("rlock_up"), each(&[(&primary, "1"), (&replica, "0")]));
    }
    for _ in 0..5 {
        exporter.request("GET", "/metrics", "X-Prometheus-Scrape-Timeout-Seconds: 0.1\r\n");
    }
    // On a busy machine the primary's answer may take longer than the last scrape did.
    eventually("one thread to be left at most", SOON, || {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", exporter.running.pid())).unwrap();
        // A thread may end between the listing and the look.
        let names = tasks.filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")).ok());
        (names.filter(|name| name.trim() == "question").count() <= 1).then_some(())
    });
    replica.signal(Signal::CONT.as_raw());
    eventually("the replica to be back", SOON, || {
        (exporter.scrape().of(&replica, ["rlock_up"]) == [1.0]).then_some(())
    });
    exporter.running.tells(&format!("{} answers again", address(&replica)));
}

#[test]
fn a_signal_ends_it_after_the_scrapes_that_are_under_way() {
    for signal in [Signal::TERM, Signal::INT] {
        let server = TestServer::start();
        let exporter = Exporter::of(&server);
        // An idle connection keeps nothing alive.
        let _idle = TcpStream::connect(exporter.address()).unwrap();
        server.signal(Signal::STOP.as_raw());
        let scrape = send(exporter.address(), "GET", "/metrics", "");
        // Sent before the signal, on another connection: once this is answered, the scrape is read too.
        assert_eq!(exporter.request("GET", "/", "").status, 200);
        exporter.running.signal(signal);
        let page = read(scrape);
        assert!(page.status == 200 && page.body.contains("} 0\n"), "{page:?}");
        let ended = exporter.running.ended_within(Duration::from_secs(10));
        assert_eq!((ended.code, ended.signal), (Some(0), None), "{ended:?}");
        server.signal(Signal::CONT.as_raw());
    }
}

#[test]
fn an_address_that_is_taken_is_refused() {
    let server = TestServer::start();
    for address in [address(&server), "nonsense".to_string(), "192.0.2.1:9821".to_string()] {
        let ended = rlock(&server, &["exporter", "--listen", &address]);
        ended.fails(125, &[&format!("cannot listen on {address}"), "--listen 127.0.0.1:9821"]);
    }
}
