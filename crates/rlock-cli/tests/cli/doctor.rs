//! `rlock doctor`: what is wrong with real servers.

use rlock_testkit::{TestServer, eventually};

use crate::support::servers::replica;
use crate::support::{SOON, address, ask, at, rlock, url_of};

#[test]
fn a_server_with_an_aof_is_well() {
    let server = TestServer::builder().conf("appendonly", "yes").start();
    let ended = rlock(&server, &["doctor"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let lines: Vec<&str> = ended.stdout.lines().collect();
    assert!(lines[0].starts_with(&format!("{}  primary  ", address(&server))), "{lines:?}");
    assert!(lines[0].contains("  AOF always  ") && lines[1] == "ok  nothing is wrong", "{lines:?}");
}

#[test]
fn what_may_become_wrong_is_a_warning() {
    let server = TestServer::start();
    let ended = rlock(&server, &["doctor"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stdout.contains("warning  ") && ended.stdout.contains("neither an AOF nor a replica"));
    ask::<redis::Value>(&mut server.connect(), "CONFIG SET maxmemory 1gb maxmemory-policy allkeys-lru");
    let report = rlock(&server, &["doctor", "--json"]).json().remove(0);
    assert_eq!(report["worst"], "warning");
    let texts = report["findings"].to_string();
    assert!(texts.contains("evict"), "{texts}");
}

#[test]
fn replicas_are_examined_too() {
    let server = TestServer::start();
    let replica = replica(&server);
    let ended = rlock(&server, &["doctor"]);
    assert_eq!((ended.code, ended.stdout.lines().count()), (Some(0), 3), "{ended:?}");
    ask::<redis::Value>(&mut replica.connect(), "CONFIG SET rlock.max-waiters 7");
    let ended = rlock(&server, &["doctor"]);
    assert!(ended.code == Some(1) && ended.stdout.contains("rlock.max-waiters differs: "), "{ended:?}");
    let place = address(&replica);
    drop(replica);
    eventually("the dead replica to be a finding", SOON, || {
        let ended = rlock(&server, &["doctor"]);
        (!ended.stdout.contains(&place) || ended.code == Some(2)).then_some(())
    });
}

#[test]
fn a_user_with_few_rights_sees_what_it_lacks() {
    let server = TestServer::builder().conf("appendonly", "yes").start();
    let rights = "-@all +info +acl|whoami +acl|dryrun +rlock.acquire +rlock.info";
    let user = format!("ACL SETUSER app on >pass ~* resetchannels {rights}");
    ask::<()>(&mut server.connect(), &user);
    let ended = at(&url_of("app:pass", &server), &["doctor"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let denied = "this user may not use RLOCK.RELEASE, RLOCK.RENEW, RLOCK.CANCEL, SUBSCRIBE";
    assert!(ended.stdout.contains(denied), "{ended:?}");
}
