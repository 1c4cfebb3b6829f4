//! `rlock doctor`: what is wrong with real servers.

use rlock_testkit::{TestServer, eventually, wait_for_replicas_in_sync};

use crate::support::metrics::address;
use crate::support::{Running, SOON, ask, bare, rlock};

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
fn what_refuses_locks_is_wrong() {
    let server = TestServer::builder().conf("appendonly", "yes").start();
    for (command, text) in [
        ("CONFIG SET min-replicas-to-write 1", "NOREPLICAS"),
        ("CONFIG SET rlock.accept no", "it is drained"),
    ] {
        ask::<redis::Value>(&mut server.connect(), command);
        let ended = rlock(&server, &["doctor"]);
        assert!(ended.code == Some(2) && ended.stdout.contains(text), "{ended:?}");
        let undone = command.replace("write 1", "write 0").replace("accept no", "accept yes");
        ask::<redis::Value>(&mut server.connect(), &undone);
    }
    let bare_server = TestServer::builder().without_module().start();
    let ended = rlock(&bare_server, &["doctor"]);
    assert!(ended.code == Some(2) && ended.stdout.contains("the module is not loaded"), "{ended:?}");
}

#[test]
fn replicas_are_examined_too() {
    let server = TestServer::start();
    let replica = TestServer::start();
    replica.replicate_from(&server);
    wait_for_replicas_in_sync(&server, &replica);
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
    let user = "ACL SETUSER app on >pass ~* resetchannels -@all +info +acl|whoami +acl|dryrun +rlock.acquire +rlock.info";
    let words: Vec<&str> = user.split_whitespace().collect();
    ask::<redis::Value>(&mut server.connect(), &words.join(" "));
    let mut command = bare();
    command.args(["--url", &format!("redis://app:pass@{}", address(&server)), "doctor"]);
    let ended = Running::start(command).ended();
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let denied = "this user may not use RLOCK.RELEASE, RLOCK.RENEW, RLOCK.CANCEL, SUBSCRIBE";
    assert!(ended.stdout.contains(denied), "{ended:?}");
}
