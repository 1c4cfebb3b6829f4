//! Locks in clusters, and for code that is not async.

use std::time::Duration;

use rlock_client::blocking;
use rlock_client::{Client, Error, Lost, Plain};
use rlock_multi::{LockAll, RedLock};
use rlock_testkit::clients::cluster::Cluster;
use rlock_testkit::clients::{SOON, denied, holder, url, within};
use rlock_testkit::{TestServer, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn locks_reach_over_a_cluster() {
    let cluster = Cluster::start(3);
    let clients = [
        within("a client", Client::connect(&cluster.url())).await.unwrap(),
        within("a client", Client::connect(&cluster.url())).await.unwrap(),
    ];
    let names = [cluster.lock_on(2, 'x'), cluster.lock_on(0, 'y'), cluster.lock_on(1, 'z')];
    // The second client names them in another order; one of them is named by both clients.
    let locks = LockAll::new(names.iter().map(|name| clients[0].lock(name))).unwrap();
    let others = LockAll::new(
        names.iter().rev().map(|name| clients[1].lock(name)).chain([clients[0].lock(&names[0])]),
    )
    .unwrap();
    assert_eq!(others.names().count(), 3);
    let guard = within("the locks", locks.acquire()).await.unwrap();
    assert!(denied(within("a denial", others.try_acquire()).await));
    let waiting = tokio::spawn(others.acquire());
    guard.check().unwrap();
    within("the release", guard.release()).await.unwrap();
    let guard = within("the others' turn", waiting).await.unwrap().unwrap();
    for (name, primary) in names.iter().zip([2, 0, 1]) {
        assert!(holder(&mut cluster.primaries[primary].connect(), name).is_some());
    }
    drop(guard);
    eventually("free locks", SOON, || {
        let holder =
            |(name, primary): (&String, usize)| holder(&mut cluster.primaries[primary].connect(), name);
        names.iter().zip([2, 0, 1]).all(|lock| holder(lock).is_none()).then_some(())
    });
}

/// Three servers, and a client of each whose locks are renewed every second.
fn three() -> (Vec<TestServer>, Vec<blocking::Client>) {
    let servers: Vec<_> = (0..3).map(|_| TestServer::start()).collect();
    let builder = || Client::builder().lease(Duration::from_secs(3));
    let client = |server| blocking::Client::connect_lazy_with(builder(), &url(server)).unwrap();
    let clients = servers.iter().map(client).collect();
    (servers, clients)
}

fn holders(servers: &[TestServer], lock: &str) -> usize {
    servers.iter().filter(|server| holder(&mut server.connect(), lock).is_some()).count()
}

#[test]
fn locks_together_block_threads() {
    let (servers, clients) = three();
    let all = |limit: Duration| {
        let make = |clients: &[&Client]| {
            Ok(LockAll::new(clients.iter().map(|client| client.lock("all")))?.wait(limit))
        };
        blocking::Client::combine(&clients, make).unwrap()
    };
    let (locks, limit) = (all(SOON), Duration::from_millis(50));
    let guard = locks.acquire().unwrap();
    assert_eq!((guard.locks().len(), holders(&servers, "all")), (3, 3));
    assert!(denied(locks.try_acquire()));
    assert!(matches!(locks.acquire_timeout(limit), Err(Error::Timeout { .. })));
    assert!(matches!(all(limit).acquire(), Err(Error::Timeout { .. })));
    guard.held().check().unwrap();
    guard.release().unwrap();
    assert_eq!(holders(&servers, "all"), 0);
    let guard = locks.acquire().unwrap();
    clients[1].lock("all").force_release().unwrap();
    // The watchdog learns it with the next renewal.
    assert_eq!(guard.lost(), Lost::Taken);
    assert_eq!(guard.check(), Err(Error::LockLost { lock: "all".into(), why: Lost::Taken }));
    drop(guard);
    eventually("the release", SOON, || (holders(&servers, "all") == 0).then_some(()));
    let taken = locks.run(|guard| {
        clients[2].lock("all").force_release().unwrap();
        eventually("the loss", SOON, || guard.check().is_err().then_some(()));
    });
    assert_eq!(taken, Err(Error::LockLost { lock: "all".into(), why: Lost::Taken }));
    eventually("the release", SOON, || (holders(&servers, "all") == 0).then_some(()));
    assert_eq!(locks.run(|_| holders(&servers, "all")), Ok(3));
}

#[test]
fn a_red_lock_blocks_threads() {
    let (servers, clients) = three();
    let red = |lease: Duration, renew| {
        let make = |clients: &[&Client]| {
            let lock = RedLock::new(clients.iter().copied(), "red")?;
            Ok(lock.wait(SOON).lease(lease).renew(renew))
        };
        blocking::Client::combine(&clients, make).unwrap()
    };
    let lock = red(Duration::from_secs(3), true);
    assert_eq!(lock.run(|guard| guard.check().is_ok()), Ok(true));
    let late = red(Duration::from_millis(500), false).run(|guard| guard.lost());
    assert_eq!(late, Err(Error::LockLost { lock: "red".into(), why: Lost::Expired }));
    let guard = lock.acquire().unwrap();
    assert!(denied(lock.try_acquire()));
    assert!(matches!(lock.acquire_timeout(Duration::from_millis(50)), Err(Error::Timeout { .. })));
    guard.check().unwrap();
    guard.release().unwrap();
    let short = red(Duration::from_secs(1), false).acquire().unwrap();
    assert_eq!(short.lost(), Lost::Expired);
    let held = short.held();
    drop((short, clients, lock));
    assert!(held.check().is_err());
    eventually("the release", SOON, || (holders(&servers, "red") == 0).then_some(()));
}

#[test]
fn nothing_to_lock_is_an_error() {
    let all = |_: &[&Client]| LockAll::new::<Plain>([]);
    assert!(matches!(blocking::Client::combine([], all), Err(Error::Invalid { .. })));
    let server = TestServer::start();
    let client = blocking::Client::connect(&url(&server)).unwrap();
    assert!(matches!(blocking::Client::combine([&client], all), Err(Error::Invalid { .. })));
}
