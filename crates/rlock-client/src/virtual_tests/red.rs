//! How long a red lock is valid, and that nothing covers up that it was not.

use std::sync::Arc;

use tokio::time::{Instant, sleep};

use super::server::{Mood, VirtualServer};
use super::{COUNTED, SECOND};
use crate::clock::Clock;
use crate::config::Config;
use crate::node::Node;
use crate::red::members::Members;
use crate::router::Router;
use crate::{Client, Error, Lost, RedLock};

/// Three servers and a client of each.
fn three() -> (Vec<VirtualServer>, Vec<Client>) {
    let servers: Vec<_> = (0..3).map(|_| VirtualServer::start()).collect();
    let client = |(number, server): (usize, &VirtualServer)| {
        let connector = Arc::new(server.clone());
        let clock = Clock::Tokio(Instant::now());
        Client::start(Config::default(), clock, number.to_string(), |links| {
            Router::One(Arc::new(Node::new(connector, links)))
        })
    };
    let clients = servers.iter().enumerate().map(client).collect();
    (servers, clients)
}

#[tokio::test(start_paused = true)]
async fn a_red_lock_is_valid_as_long_as_its_quorum() {
    let (servers, clients) = three();
    let lock = RedLock::new(&clients, "lock").unwrap();
    let begin = Instant::now();
    let guard = lock.clone().lease(30 * SECOND).renew(false).acquire().await.unwrap();
    assert!(guard.check().unwrap() <= COUNTED);
    assert_eq!(guard.lost().await, Lost::Expired);
    let took = begin.elapsed();
    assert!(took >= COUNTED && took < COUNTED + SECOND / 20, "{took:?}");
    drop(guard);
    // A lease of its own is renewed on each server.
    let guard = lock.clone().lease(6 * SECOND).acquire().await.unwrap();
    sleep(3600 * SECOND).await;
    assert!(guard.check().unwrap() <= 6 * SECOND);
    guard.release().await.unwrap();
    // Renewed for hours, also by two of the three.
    let guard = lock.acquire().await.unwrap();
    // One server may have denied this lock during the release of the earlier one, and is asked again soon.
    sleep(SECOND).await;
    servers[0].set(Mood::Silent);
    for _ in 0..2 * 3600 {
        sleep(SECOND).await;
        assert!(guard.check().unwrap() >= 19 * SECOND);
    }
    servers[1].set(Mood::Silent);
    let begin = Instant::now();
    assert_eq!(guard.lost().await, Lost::Unreachable);
    // Since the last renewal of that server, which is 10 seconds ago at most.
    assert!(begin.elapsed() >= 19 * SECOND && begin.elapsed() < COUNTED + SECOND / 20);
    sleep(SECOND).await;
    assert_eq!(servers[2].holder("lock"), None, "it is released where it was left");
}

/// `release` returns at a quorum. The server with a release still under way denied the next lock, and was asked again after up to
/// five twelfths of the lease: until then the lock had no spare server.
#[tokio::test(start_paused = true)]
async fn a_server_that_denied_is_asked_again_soon() {
    let (servers, clients) = three();
    let lock = RedLock::new(&clients, "lock").unwrap();
    servers[0].occupy("lock", SECOND / 10);
    let guard = lock.clone().acquire().await.unwrap();
    sleep(SECOND / 2).await;
    assert!(servers[0].holder("lock").is_some(), "no spare server");
    guard.release().await.unwrap();
    sleep(SECOND).await;
    // The load is bounded where another owner keeps that server.
    servers[0].occupy("lock", 3600 * SECOND);
    let before = servers[0].times("RLOCK.ACQUIRE").len();
    let guard = lock.acquire().await.unwrap();
    sleep(600 * SECOND).await;
    let asked = servers[0].times("RLOCK.ACQUIRE").len() - before;
    assert!((48..=85).contains(&asked), "{asked}");
    guard.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_server_that_joins_does_not_cover_a_gap_up() {
    let (_servers, clients) = three();
    let members = Members::new(b"lock", 3, 2);
    let short = clients[0].lock("lock").lease(SECOND).renew(false).acquire().await.unwrap();
    assert!(members.join(0, short.any()) && !members.are_enough());
    assert!(members.join(1, clients[1].lock("lock").acquire().await.unwrap().any()) && members.are_enough());
    // One of two is no longer held, and no check has run: another owner may have had a quorum since.
    sleep(2 * SECOND).await;
    assert!(!members.join(2, clients[2].lock("lock").acquire().await.unwrap().any()));
    assert!(matches!(members.check(), Err(Error::LockLost { why: Lost::Expired, .. })));
    assert_eq!(members.why(), Some(Lost::Expired));
}
