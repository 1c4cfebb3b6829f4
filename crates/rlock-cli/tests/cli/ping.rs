//! `rlock ping`: every server that may become the primary.

use crate::support::{Ended, SOON, Signal, ask, rlock};
use rlock_testkit::{ServerBuilder, TestServer, eventually, wait_for_replicas_in_sync};
use serde_json::Value;

fn replica_of(primary: &TestServer) -> ServerBuilder {
    TestServer::builder().conf("replicaof", format!("127.0.0.1 {}", primary.port()))
}

fn address(server: &TestServer) -> String {
    format!("127.0.0.1:{}", server.port())
}

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
    let with = replica_of(&primary).start();
    let never = replica_of(&primary).without_module().conf("replica-priority", 0).start();
    wait_for_replicas_in_sync(&primary, &with);
    wait_for_replicas_in_sync(&primary, &never);
    // From a replica the others are found by the primary.
    for start in [&primary, &with, &never] {
        let ended = rlock(start, &["ping", "--json"]);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let report = report(&ended);
        assert_eq!(seen(&report, &primary), ("primary".into(), true, true, true));
        assert_eq!(seen(&report, &with), ("replica".into(), true, true, true));
        assert_eq!(seen(&report, &never), ("replica".into(), false, false, true));
        assert_eq!(report["servers"].as_array().unwrap().len(), 3);
    }
    let without = replica_of(&primary).without_module().start();
    wait_for_replicas_in_sync(&primary, &without);
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
fn a_replica_that_does_not_answer_is_a_no() {
    let primary = TestServer::start();
    let replica = replica_of(&primary).start();
    wait_for_replicas_in_sync(&primary, &replica);
    replica.signal(Signal::STOP.as_raw());
    let ended = rlock(&primary, &["ping", "--json"]);
    replica.signal(Signal::CONT.as_raw());
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let report = report(&ended);
    assert_eq!(seen(&report, &replica), ("none".into(), false, true, false));
    assert!(report["servers"][1]["error"].as_str().unwrap().contains("no reply within"), "{report:#}");
    assert!(report["advice"].as_str().unwrap().starts_with("start 127.0.0.1:"), "{report:#}");
}

#[test]
fn a_sentinel_names_the_servers() {
    let primary = TestServer::start();
    let replica = replica_of(&primary).without_module().start();
    wait_for_replicas_in_sync(&primary, &replica);
    let sentinel = sentinel(&primary);
    eventually("the sentinel to know the replica", SOON, || {
        let replicas: Vec<redis::Value> = ask(&mut sentinel.connect(), "SENTINEL REPLICAS app");
        (replicas.len() == 1).then_some(())
    });
    let ended = rlock(&sentinel, &["ping", "--json"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let report = report(&ended);
    assert_eq!(seen(&report, &primary), ("primary".into(), true, true, true));
    assert_eq!(seen(&report, &replica), ("replica".into(), false, true, false));
    assert_eq!(report["servers"].as_array().unwrap().len(), 2, "the sentinel holds no locks");
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
    let sentinel = sentinel(&primary);
    let url = |service: &str| format!("redis+sentinel://127.0.0.1:1,127.0.0.1:{}/{service}", sentinel.port());
    let at = |service: &str, arguments: &[&str]| {
        let mut command = crate::support::bare();
        command.env("REDIS_URL", url(service)).args(arguments);
        crate::support::Running::start(command).ended()
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
    let sentinel = sentinel(&primary);
    let mut admin = sentinel.connect();
    ask::<()>(&mut admin, "ACL SETUSER default resetpass >p@ss");
    ask::<()>(&mut admin, "ACL SETUSER asker on >other +@all");
    ask::<redis::Value>(&mut primary.connect(), "RLOCK.ACQUIRE job alice:1 100000");
    let at = |query: &str, arguments: &[&str]| {
        let mut command = crate::support::bare();
        let url = format!("redis+sentinel://127.0.0.1:{}/app{query}", sentinel.port());
        command.env("REDIS_URL", url).args(arguments);
        crate::support::Running::start(command).ended()
    };
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

/// A sentinel is the server program by another name.
#[track_caller]
fn sentinel(primary: &TestServer) -> TestServer {
    let watched = format!("monitor app 127.0.0.1 {} 1", primary.port());
    TestServer::builder().sentinel().conf("sentinel", watched).start()
}

#[test]
fn a_cluster_is_asked_node_by_node() {
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
    for start in [&one, &two] {
        let ended = rlock(start, &["ping", "--json"]);
        assert_eq!(ended.code, Some(1), "{ended:?}");
        let report = report(&ended);
        assert_eq!(seen(&report, &one), ("primary".into(), true, true, true));
        assert_eq!(seen(&report, &two), ("primary".into(), false, true, false));
        assert_eq!(report["servers"].as_array().unwrap().len(), 2, "{report:#}");
    }
    let path = rlock_testkit::module_path().display().to_string();
    ask::<String>(&mut two.connect(), &format!("MODULE LOAD {path}"));
    assert_eq!(rlock(&one, &["ping"]).code, Some(0));
    // Each key is served by one of them, whichever is asked; `foo` by the second, `bar` by the first.
    for start in [&one, &two] {
        rlock(start, &["run", "foo", "--", "echo", "ran"]).is(0, "ran\n");
        rlock(start, &["run", "bar", "--", "echo", "ran"]).is(0, "ran\n");
        let script = format!("{} ls", crate::support::RLOCK);
        let ended = rlock(
            start,
            &["run", "foo", "--", crate::support::RLOCK, "run", "bar", "--", "sh", "-c", &script],
        );
        let mut keys: Vec<&str> = ended.stdout.lines().filter_map(|line| line.split(' ').next()).collect();
        keys.sort_unstable();
        assert_eq!(keys, ["bar", "foo"], "{ended:?}");
    }
}
