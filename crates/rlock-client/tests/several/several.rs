//! Locks that are several: in clusters, and for code that is not async.

use std::time::Duration;

use rlock_client::blocking;
use rlock_client::{Client, Error, Lost, MultiLock, Plain};
use rlock_testkit::clients::cluster::Cluster;
use rlock_testkit::clients::{SOON, denied, holder, url, within};
use rlock_testkit::{TestServer, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn a_multi_lock_reaches_over_a_cluster() {
    let cluster = Cluster::start(3);
    let clients = [
        within("a client", Client::connect(&cluster.url())).await.unwrap(),
        within("a client", Client::connect(&cluster.url())).await.unwrap(),
    ];
    let names = [cluster.lock_on(2, 'x'), cluster.lock_on(0, 'y'), cluster.lock_on(1, 'z')];
    // The second client names them in another order; one of them is named by both clients.
    let locks = MultiLock::new(names.iter().map(|name| clients[0].lock(name))).unwrap();
    let others = MultiLock::new(
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

#[test]
#[expect(clippy::too_many_lines, reason = "to be split: MultiLock and RedLock")]
fn locks_that_are_several_block_threads() {
    let servers: Vec<_> = (0..3).map(|_| TestServer::start()).collect();
    // Renewed every second.
    let builder = || Client::builder().lease(Duration::from_secs(3));
    let clients: Vec<_> = servers
        .iter()
        .map(|server| blocking::Client::connect_lazy_with(builder(), &url(server)).unwrap())
        .collect();
    let held_by_all =
        |lock: &str| servers.iter().filter(|server| holder(&mut server.connect(), lock).is_some()).count();
    let locks = blocking::MultiLock::new(clients.iter().map(|client| client.lock("multi"))).unwrap();
    let guard = locks.acquire().unwrap();
    assert_eq!((guard.locks().len(), held_by_all("multi")), (3, 3));
    assert!(denied(locks.try_acquire()));
    let limit = Duration::from_millis(50);
    assert!(matches!(locks.acquire_timeout(limit), Err(Error::Timeout { .. })));
    assert!(matches!(locks.clone().wait(limit).acquire(), Err(Error::Timeout { .. })));
    guard.held().check().unwrap();
    guard.release().unwrap();
    assert_eq!(held_by_all("multi"), 0);
    let guard = locks.acquire().unwrap();
    clients[1].lock("multi").force_release().unwrap();
    // The watchdog learns it with the next renewal.
    assert_eq!(guard.lost(), Lost::Taken);
    assert_eq!(guard.check(), Err(Error::LockLost { lock: "multi".into(), why: Lost::Taken }));
    drop(guard);
    eventually("the release", SOON, || (held_by_all("multi") == 0).then_some(()));
    let taken = locks.run(|guard| {
        clients[2].lock("multi").force_release().unwrap();
        eventually("the loss", SOON, || guard.check().is_err().then_some(()));
    });
    assert_eq!(taken, Err(Error::LockLost { lock: "multi".into(), why: Lost::Taken }));
    eventually("the release", SOON, || (held_by_all("multi") == 0).then_some(()));
    assert_eq!(locks.run(|_| held_by_all("multi")), Ok(3));
    let lock = blocking::RedLock::new(&clients, "red").unwrap().wait(Duration::from_secs(10));
    assert_eq!(lock.run(|guard| guard.check().is_ok()), Ok(true));
    let late = lock.clone().lease(Duration::from_millis(500)).renew(false).run(|guard| guard.lost());
    assert_eq!(late, Err(Error::LockLost { lock: "red".into(), why: Lost::Expired }));
    let guard = lock.acquire().unwrap();
    assert!(denied(lock.try_acquire()));
    assert!(matches!(lock.acquire_timeout(limit), Err(Error::Timeout { .. })));
    guard.check().unwrap();
    guard.release().unwrap();
    let short = lock.lease(Duration::from_secs(1)).renew(false).acquire().unwrap();
    assert_eq!(short.lost(), Lost::Expired);
    let held = short.held();
    drop((short, clients, locks));
    assert!(held.check().is_err());
    eventually("the release", SOON, || (held_by_all("red") == 0).then_some(()));
    assert!(matches!(blocking::MultiLock::new::<Plain>([]), Err(Error::Invalid { .. })));
    assert!(matches!(blocking::RedLock::new([], "red"), Err(Error::Invalid { .. })));
}
