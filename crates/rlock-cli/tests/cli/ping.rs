//! `rlock ping` and `rlock metrics`: every server that may become the primary, from whichever the URL names.

use crate::support::metrics::{each, printed};
use crate::support::servers::{
    await_replica, quiet_sentinel, replica, replica_for_ever, replica_without_module, url_by,
};
use crate::support::{Ended, RLOCK, SOON, Signal, address, ask, at, rlock, url};
use rlock_testkit::{TestServer, eventually};
use serde_json::Value;

/// Its line about a server: the role, whether it has the module, whether it may become the primary, whether that is ok.
#[track_caller]
fn seen(report: &Value, server: &TestServer) -> (String, bool, bool, bool) {
    let servers = report["servers"].as_array().unwrap();
    let line = servers.iter().find(|line| line["address"] == address(server).as_str());
    let line = line.unwrap_or_else(|| panic!("no {} in {report:#}", address(server)));
    let role = line["role"].as_str().unwrap_or("none").to_string();
    let flag = |name: &str| line[name].as_bool().unwrap();
    (role, !line["module"].is_null(), flag("may_become_primary"), flag("ok"))
}

#[track_caller]
fn report(ended: &Ended) -> Value {
    let mut reports = ended.json();
    assert_eq!(reports.len(), 1, "{ended:?}");
    reports.remove(0)
}

#[test]
fn one_server_with_the_module() {
    let server = TestServer::start();
    let version = server.version();
    let ended = rlock(&server, &["ping"]);
    let name =
        format!("{:?} {}.{}.{}", version.name, version.major, version.minor, version.patch).to_lowercase();
    let module = &server.info("rlock")["rlock_version"];
    // A version with a fault.
    let warning = server.info("rlock").get("rlock_server_warning").cloned();
    let warns = warning.as_ref().map(|warning| format!("warning  {}: {warning}\n", address(&server)));
    let line = format!("ok  {}  primary  {name}  rlock {module}\n", address(&server));
    ended.is(0, &[line, warns.unwrap_or_default()].concat());
    let report = report(&rlock(&server, &["ping", "--json"]));
    assert_eq!(report["servers"][0]["warnings"], Value::from_iter(warning));
    assert_eq!((&report["ok"], &report["advice"]), (&true.into(), &Value::Null));
    assert_eq!(report["servers"][0]["module"], module.as_str());
    assert_eq!(seen(&report, &server), ("primary".into(), true, true, true));
    let refused = format!("rlock_writes_refused{{server=\"{}\",code=\"\"}}", address(&server));
    assert_eq!(printed(&url(&server), &[]).1.get(&refused), Some(0.0));
}

#[test]
fn what_the_module_warns_of_is_shown() {
    let server =
        TestServer::builder().conf("maxmemory", "1gb").conf("maxmemory-policy", "allkeys-lru").start();
    let ended = rlock(&server, &["ping"]);
    let warning = format!("\nwarning  {}: maxmemory-policy may evict locks", address(&server));
    assert!(ended.code == Some(0) && ended.stdout.contains(&warning), "{ended:?}");
    let report = report(&rlock(&server, &["ping", "--json"]));
    let first = report["servers"][0]["warnings"][0].as_str();
    assert!(first.is_some_and(|first| first.starts_with("maxmemory-policy may evict locks")), "{report:#}");
    assert_eq!(report["ok"], true);
}

#[test]
fn replicas_need_it_unless_they_are_never_promoted() {
    let primary = TestServer::start();
    let (with, never) = (replica(&primary), replica_for_ever(&primary));
    // From a replica the others are found by the primary.
    for start in [&primary, &with, &never] {
        let ended = rlock(start, &["ping", "--json"]);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let report = report(&ended);
        assert_eq!(seen(&report, &primary), ("primary".into(), true, true, true));
        assert_eq!(seen(&report, &with), ("replica".into(), true, true, true));
        assert_eq!(seen(&report, &never), ("replica".into(), false, false, true));
        assert_eq!(report["servers"].as_array().unwrap().len(), 3);
        let (ended, metrics) = printed(&url(start), &[]);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert_eq!(metrics.servers("rlock_up"), each(&[(&primary, "1"), (&with, "1"), (&never, "1")]));
        let loaded = each(&[(&primary, "1"), (&with, "1"), (&never, "0")]);
        assert_eq!(metrics.servers("rlock_module_loaded"), loaded);
        assert_eq!(metrics.servers("rlock_may_become_primary"), loaded, "of priority 0");
        assert_eq!(metrics.servers("rlock_waiters"), each(&[(&primary, "0"), (&with, "0")]));
        let info = format!("rlock_server_info{{server=\"{}\",role=\"replica\"", address(&with));
        assert!(metrics.0.contains(&info), "{}", metrics.0);
        // By a replica's URL the table showed the replica, on which nothing is acquired.
        let top = rlock(start, &["top", "--once", "--interval", "100ms", "--json"]).json();
        assert!(top.len() == 1 && top[0]["server"] == address(&primary), "{top:?}");
    }
    let without = replica_without_module(&primary);
    let ended = rlock(&primary, &["ping"]);
    assert_eq!(ended.code, Some(1));
    let line = |server: &TestServer| {
        let line = ended.stdout.lines().find(|line| line.contains(&address(server)));
        line.unwrap_or_else(|| panic!("{ended:?}")).to_string()
    };
    assert!(line(&without).starts_with("NO ") && line(&without).ends_with("the module is not loaded"));
    assert!(line(&never).starts_with("ok ") && line(&never).contains("none needed"));
    let advice = ended.stdout.lines().last().unwrap();
    assert!(advice.starts_with(&format!("→ load the module on {}: ", address(&without))), "{advice}");
}

#[test]
fn a_replica_that_does_not_answer_is_a_no_and_down() {
    let primary = TestServer::start();
    let replica = replica(&primary);
    replica.signal(Signal::STOP.as_raw());
    let pinged = rlock(&primary, &["ping", "--json"]);
    let (ended, metrics) = printed(&url(&primary), &[]);
    replica.signal(Signal::CONT.as_raw());
    assert_eq!(pinged.code, Some(1), "{pinged:?}");
    let report = report(&pinged);
    assert_eq!(seen(&report, &replica), ("none".into(), false, true, false));
    assert!(report["servers"][1]["error"].as_str().unwrap().contains("no reply within"), "{report:#}");
    assert!(report["advice"].as_str().unwrap().starts_with("start 127.0.0.1:"), "{report:#}");
    ended.fails(1, &["no reply within 2.0s"]);
    assert_eq!(metrics.servers("rlock_up"), each(&[(&primary, "1"), (&replica, "0")]));
    let errors = |server: &TestServer, question: &str| {
        let labels = format!("{{server=\"{}\",question=\"{question}\"}}", address(server));
        metrics.get(&format!("rlock_scrape_errors_total{labels}")).unwrap()
    };
    assert_eq!(
        [errors(&replica, "info"), errors(&primary, "info"), errors(&primary, "hot")],
        [1.0, 0.0, 0.0]
    );
    assert_eq!(metrics.servers("rlock_waiters"), each(&[(&primary, "0")]));
}

#[test]
fn a_sentinel_names_the_servers() {
    let primary = TestServer::start();
    let replica = replica_without_module(&primary);
    let sentinel = quiet_sentinel(&primary);
    await_replica(&sentinel);
    let ended = rlock(&sentinel, &["ping", "--json"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let report = report(&ended);
    assert_eq!(seen(&report, &primary), ("primary".into(), true, true, true));
    assert_eq!(seen(&report, &replica), ("replica".into(), false, true, false));
    assert_eq!(report["servers"].as_array().unwrap().len(), 2, "the sentinel holds no locks");
    let both = each(&[(&primary, "1"), (&replica, "1")]);
    let (ended, metrics) = printed(&url(&sentinel), &[]);
    assert_eq!((ended.code, metrics.servers("rlock_up")), (Some(0), both.clone()), "{ended:?}");
    // One of the Sentinels is out of order: not a server that locks need, but an error of the scrape.
    let (ended, metrics) = printed(&format!("redis+sentinel://127.0.0.1:1,{}/app", address(&sentinel)), &[]);
    ended.fails(1, &["no answer from 127.0.0.1:1"]);
    assert_eq!(metrics.servers("rlock_up"), both);
    assert_eq!(metrics.get("rlock_discovery_up"), Some(1.0));
    // It also tells where the locks are.
    ask::<redis::Value>(&mut primary.connect(), "RLOCK.ACQUIRE job alice:1 100000");
    assert!(rlock(&sentinel, &["ls"]).stdout.starts_with("job  alice:1"));
    // It remembers a replica that is down, which may come back, with or without the module.
    let address = address(&replica);
    replica.kill9();
    let ended = rlock(&sentinel, &["ping"]);
    let line = ended.stdout.lines().find(|line| line.contains(&address));
    assert!(ended.code == Some(1) && line.is_some_and(|line| line.starts_with("NO ")), "{ended:?}");
}

/// The form of URL that names a service; one of the Sentinels is out of order.
#[test]
fn the_url_of_a_service_is_enough_for_everything() {
    let primary = TestServer::start();
    let sentinel = quiet_sentinel(&primary);
    let at = |service: &str, arguments: &[&str]| {
        at(&format!("redis+sentinel://127.0.0.1:1,{}/{service}", address(&sentinel)), arguments)
    };
    at("app", &["run", "job", "--", "echo", "ran"]).is(0, "ran\n");
    ask::<redis::Value>(&mut primary.connect(), "RLOCK.ACQUIRE job alice:1 100000");
    assert!(at("app", &["status", "job"]).stdout.contains("holder  alice:1"));
    assert!(at("app", &["ls"]).stdout.starts_with("job  alice:1"));
    let report = report(&at("app", &["ping", "--json"]));
    assert_eq!(seen(&report, &primary), ("primary".into(), true, true, true));
    assert_eq!(report["servers"].as_array().unwrap().len(), 1);
    at("app", &["force-release", "job", "--yes"]).is(0, "job  released\n");
    for arguments in [&["ping"][..], &["status", "job"]] {
        at("other", arguments).fails(125, &["watches no primary called other", "at the end of the URL: app"]);
    }
}

#[test]
fn sentinels_may_ask_for_a_user_and_a_password_of_their_own() {
    let primary = TestServer::start();
    let sentinel = quiet_sentinel(&primary);
    let mut admin = sentinel.connect();
    ask::<()>(&mut admin, "ACL SETUSER default resetpass >p@ss");
    ask::<()>(&mut admin, "ACL SETUSER asker on >other +@all");
    ask::<redis::Value>(&mut primary.connect(), "RLOCK.ACQUIRE job alice:1 100000");
    let url = url_by(&[&sentinel]);
    let at = |query: &str, arguments: &[&str]| at(&format!("{url}{query}"), arguments);
    for query in ["?sentinel_password=p%40ss", "?sentinel_username=asker&sentinel_password=other"] {
        // One of these asks by the client crate, the others by their own connections.
        assert!(at(query, &["status", "job"]).stdout.contains("holder  alice:1"));
        assert!(at(query, &["ls"]).stdout.starts_with("job  alice:1"));
        at(query, &["run", "free", "--", "echo", "ran"]).is(0, "ran\n");
        let report = report(&at(query, &["ping", "--json"]));
        assert_eq!(seen(&report, &primary), ("primary".into(), true, true, true));
    }
    for arguments in [&["status", "job"][..], &["ls"], &["run", "free", "--", "true"]] {
        at("", arguments).fails(125, &["NOAUTH"]);
    }
}

/// Two nodes of a cluster, the second without the module.
fn two_nodes() -> (TestServer, TestServer) {
    let node = || TestServer::builder().conf("cluster-enabled", "yes").conf("cluster-node-timeout", 5_000);
    let (one, two) = (node().start(), node().without_module().start());
    ask::<String>(&mut one.connect(), "CLUSTER ADDSLOTSRANGE 0 8191");
    ask::<String>(&mut two.connect(), "CLUSTER ADDSLOTSRANGE 8192 16383");
    ask::<String>(&mut two.connect(), "CONFIG SET cluster-require-full-coverage no");
    ask::<String>(&mut one.connect(), &format!("CLUSTER MEET 127.0.0.1 {}", two.port()));
    for node in [&one, &two] {
        eventually("the cluster", SOON, || {
            ask::<String>(&mut node.connect(), "CLUSTER INFO").contains("cluster_state:ok").then_some(())
        });
        eventually("the other node's slots", SOON, || {
            let nodes: String = ask(&mut node.connect(), "CLUSTER NODES");
            (nodes.contains(" 0-8191") && nodes.contains(" 8192-16383")).then_some(())
        });
    }
    (one, two)
}

#[test]
fn a_cluster_is_asked_node_by_node() {
    let (one, two) = two_nodes();
    for start in [&one, &two] {
        let ended = rlock(start, &["ping", "--json"]);
        assert_eq!(ended.code, Some(1), "{ended:?}");
        let report = report(&ended);
        assert_eq!(seen(&report, &one), ("primary".into(), true, true, true));
        assert_eq!(seen(&report, &two), ("primary".into(), false, true, false));
        assert_eq!(report["servers"].as_array().unwrap().len(), 2, "{report:#}");
        for url in [url(start), format!("redis+cluster://{}", address(start))] {
            let (ended, metrics) = printed(&url, &[]);
            assert_eq!(ended.code, Some(0), "{ended:?}");
            assert_eq!(metrics.servers("rlock_up"), each(&[(&one, "1"), (&two, "1")]));
        }
    }
    let path = rlock_testkit::module_path().display().to_string();
    ask::<String>(&mut two.connect(), &format!("MODULE LOAD {path}"));
    assert_eq!(rlock(&one, &["ping"]).code, Some(0));
    // Each key is served by one of them, whichever is asked; `foo` by the second, `bar` by the first.
    for start in [&one, &two] {
        rlock(start, &["run", "foo", "--", "echo", "ran"]).is(0, "ran\n");
        rlock(start, &["run", "bar", "--", "echo", "ran"]).is(0, "ran\n");
        let words = ["run", "foo", "--", RLOCK, "run", "bar", "--", RLOCK, "ls"];
        let ended = rlock(start, &words);
        let mut keys: Vec<&str> = ended.stdout.lines().filter_map(|line| line.split(' ').next()).collect();
        keys.sort_unstable();
        assert_eq!(keys, ["bar", "foo"], "{ended:?}");
    }
    // The others still name a node that is down.
    let gone = address(&two);
    two.kill9();
    let (ended, metrics) = printed(&format!("redis+cluster://{}", address(&one)), &[]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert_eq!(metrics.get(&format!("rlock_up{{server=\"{gone}\"}}")), Some(0.0));
}
