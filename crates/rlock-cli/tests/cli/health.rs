//! `rlock health`: one server, primary or replica, in each state in which it gives no locks.

use std::time::{Duration, Instant};

use rlock_testkit::clients::cluster::Cluster;
use rlock_testkit::{TestServer, wait_for_replicas_in_sync};

use crate::hindrance::{CASES, hindered};
use crate::support::metrics::address;
use crate::support::{Ended, Running, Signal, ask, bare, rlock, url};

#[track_caller]
fn by_url(url: &str) -> Ended {
    let mut command = bare();
    command.env("REDIS_URL", url).arg("health");
    Running::start(command).ended()
}

#[test]
fn a_primary_that_gives_locks_is_well() {
    let server = TestServer::start();
    let place = address(&server);
    rlock(&server, &["health"]).is(0, &format!("ok  {place}  primary\n"));
    let report = rlock(&server, &["health", "--json"]).json().remove(0);
    assert_eq!((&report["ok"], &report["address"]), (&true.into(), &place.into()), "{report}");
    assert!(report["what"].is_null() && report["advice"].is_null(), "{report}");
}

#[test]
fn a_primary_that_refuses_locks_is_not_unless_an_operator_drained_it() {
    for (command, code, text) in CASES {
        let server = hindered(command);
        let ended = rlock(&server, &["health"]);
        let place = address(&server);
        if code == "DRAIN" {
            ended.is(0, &format!("ok  {place}  primary\n"));
            continue;
        }
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert!(ended.stdout.starts_with(&format!("NO  {place}  primary; it {text}")), "{ended:?}");
        assert!(ended.stdout.lines().nth(1).is_some_and(|line| line.starts_with("→ ")), "{ended:?}");
    }
}

/// Health checks wait 3 s, and show no reason after them.
#[test]
fn a_server_that_hangs_is_named_before_a_health_check_gives_up() {
    let server = TestServer::start();
    server.signal(Signal::STOP.as_raw());
    let began = Instant::now();
    let ended = rlock(&server, &["health"]);
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    ended.fails(125, &[&address(&server), "no reply within "]);
}

#[test]
fn a_user_that_may_not_ask_for_writes_learns_so() {
    let server = TestServer::start();
    let client = &mut server.connect();
    ask::<redis::Value>(client, "ACL SETUSER app on >secret -@all +info");
    let by_app = || by_url(&url(&server).replace("redis://", "redis://app:secret@"));
    let ended = by_app();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stdout.contains("primary; whether it takes writes is not known"), "{ended:?}");
    assert!(ended.stdout.contains("→ allow it: ACL SETUSER <user> +rlock.cancel ~rlock:probe*"), "{ended:?}");
    ask::<redis::Value>(client, "ACL SETUSER app +rlock.cancel ~rlock:probe*");
    by_app().is(0, &format!("ok  {}  primary\n", address(&server)));
}

#[test]
fn a_server_without_the_module_is_not_unless_it_is_never_promoted() {
    let server = TestServer::builder().without_module().start();
    let ended = rlock(&server, &["health"]);
    assert!(
        ended.code == Some(1) && ended.stdout.contains("; the module is not loaded\n→ add "),
        "{ended:?}"
    );
    let replica = TestServer::builder()
        .without_module()
        .conf("replicaof", format!("127.0.0.1 {}", server.port()))
        .conf("replica-priority", 0)
        .start();
    wait_for_replicas_in_sync(&server, &replica);
    rlock(&replica, &["health"]).is(0, &format!("ok  {}  replica\n", address(&replica)));
}

/// If a replica were unwell without its primary, all would be after its death: none would be left to be promoted.
#[test]
fn a_replica_is_well_once_it_has_its_primarys_data_also_without_its_primary() {
    let primary = TestServer::start();
    let replica_of = |port: u16| TestServer::builder().conf("replicaof", format!("127.0.0.1 {port}")).start();
    let replica = replica_of(primary.port());
    wait_for_replicas_in_sync(&primary, &replica);
    rlock(&replica, &["health"]).is(0, &format!("ok  {}  replica\n", address(&replica)));
    let port = primary.port();
    let stopped = primary.kill9();
    rlock(&replica, &["health"]).is(0, &format!("ok  {}  replica\n", address(&replica)));
    // It was started while no primary answers.
    let second = replica_of(port);
    let ended = rlock(&second, &["health"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stdout.contains("it does not have its primary's data yet"), "{ended:?}");
    drop(stopped);
}

#[test]
fn a_node_is_asked_alone_and_a_sentinel_or_several_servers_are_refused() {
    let cluster = Cluster::start(3);
    let [one, two, _] = cluster.primaries.as_slice() else { panic!("three primaries") };
    ask::<redis::Value>(&mut one.connect(), "CONFIG SET min-replicas-to-write 1");
    let node = |server: &TestServer| format!("redis+cluster://{}", address(server));
    assert_eq!(by_url(&node(one)).code, Some(1));
    by_url(&node(two)).is(0, &format!("ok  {}  primary\n", address(two)));
    rlock(two, &["health"]).is(0, &format!("ok  {}  primary\n", address(two)));
    by_url(&format!("redis+cluster://{},{}", address(one), address(two)))
        .fails(125, &["checks one server: the URL names several servers", "name the server itself"]);
    by_url("redis+sentinel://127.0.0.1:1/app").fails(125, &["the URL names Sentinels"]);
    let watched = format!("monitor app 127.0.0.1 {} 1", two.port());
    let sentinel = TestServer::builder().sentinel().conf("sentinel", watched).start();
    rlock(&sentinel, &["health"]).fails(125, &["a Sentinel has no locks"]);
}
