//! `rlock health`: one server, primary or replica, in each state in which it gives no locks.

use std::time::{Duration, Instant};

use rlock_testkit::TestServer;
use rlock_testkit::clients::cluster::Cluster;

use crate::support::servers::{quiet_sentinel, replica, replica_for_ever, replica_of};
use crate::support::{Signal, address, ask, at, rlock, url_of};

#[test]
fn a_primary_that_gives_locks_is_well() {
    let server = TestServer::start();
    let place = address(&server);
    rlock(&server, &["health"]).is(0, &format!("ok  {place}  primary\n"));
    let report = rlock(&server, &["health", "--json"]).json().remove(0);
    assert_eq!((&report["ok"], &report["address"]), (&true.into(), &place.into()), "{report}");
    assert!(report["what"].is_null() && report["advice"].is_null(), "{report}");
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
    let (server, client) = &mut TestServer::builder().start_and_connect();
    ask::<redis::Value>(client, "ACL SETUSER app on >secret -@all +info");
    let by_app = || at(&url_of("app:secret", server), &["health"]);
    let ended = by_app();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stdout.contains("primary; whether it takes writes is not known"), "{ended:?}");
    assert!(ended.stdout.contains("→ allow it: ACL SETUSER <user> +rlock.cancel ~rlock:probe*"), "{ended:?}");
    ask::<redis::Value>(client, "ACL SETUSER app +rlock.cancel ~rlock:probe*");
    by_app().is(0, &format!("ok  {}  primary\n", address(server)));
}

#[test]
fn a_server_without_the_module_is_not_unless_it_is_never_promoted() {
    let server = TestServer::builder().without_module().start();
    let ended = rlock(&server, &["health"]);
    assert!(
        ended.code == Some(1) && ended.stdout.contains("; the module is not loaded\n→ add "),
        "{ended:?}"
    );
    let replica = replica_for_ever(&server);
    rlock(&replica, &["health"]).is(0, &format!("ok  {}  replica\n", address(&replica)));
}

/// If a replica were unwell without its primary, all would be after its death: none would be left to be promoted.
#[test]
fn a_replica_is_well_once_it_has_its_primarys_data_also_without_its_primary() {
    let primary = TestServer::start();
    // The second is started while no primary answers.
    let (replica, second) = (replica(&primary), replica_of(&primary));
    rlock(&replica, &["health"]).is(0, &format!("ok  {}  replica\n", address(&replica)));
    let stopped = primary.kill9();
    rlock(&replica, &["health"]).is(0, &format!("ok  {}  replica\n", address(&replica)));
    let ended = rlock(&second.start(), &["health"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stdout.contains("it does not have its primary's data yet"), "{ended:?}");
    drop(stopped);
}

/// `rlock ping` asks each node.
#[test]
fn a_node_is_asked_alone_and_a_sentinel_or_several_servers_are_refused() {
    let cluster = Cluster::start(3);
    let [one, two, _] = cluster.primaries.as_slice() else { panic!("three primaries") };
    assert_eq!(at(&cluster.url(), &["ping"]).code, Some(0));
    ask::<redis::Value>(&mut one.connect(), "CONFIG SET min-replicas-to-write 1");
    let ended = at(&cluster.url(), &["ping"]);
    let refuses: Vec<&str> = ended.stdout.lines().filter(|line| line.contains("NOREPLICAS")).collect();
    assert!(ended.code == Some(1) && refuses.len() == 1, "{ended:?}");
    assert!(refuses[0].contains(&address(one)), "{ended:?}");
    let node = |server: &TestServer| format!("redis+cluster://{}", address(server));
    assert_eq!(at(&node(one), &["health"]).code, Some(1));
    at(&node(two), &["health"]).is(0, &format!("ok  {}  primary\n", address(two)));
    rlock(two, &["health"]).is(0, &format!("ok  {}  primary\n", address(two)));
    at(&format!("redis+cluster://{},{}", address(one), address(two)), &["health"])
        .fails(125, &["checks one server: the URL names several servers", "name the server itself"]);
    at("redis+sentinel://127.0.0.1:1/app", &["health"]).fails(125, &["the URL names Sentinels"]);
    rlock(&quiet_sentinel(two), &["health"]).fails(125, &["a Sentinel has no locks"]);
}
