//! Polling, durability and access control.

use std::time::Duration;

use rlock_client::{Client, Durability, Error, Lost, Waiting};
use rlock_testkit::TestServer;
use rlock_testkit::clients;
use rlock_testkit::clients::proxy::{Fate, Proxy};
use rlock_testkit::clients::{SOON, connect_with, eventually, holder, run, url, waiters, within};

#[tokio::test(flavor = "multi_thread")]
async fn pollers_need_no_messages() {
    let server = TestServer::start();
    let client = connect_with(&server, Client::builder().waiting(Waiting::Polling)).await;
    let guard = client.lock("lock").acquire().await.unwrap();
    let error = client.lock("lock").acquire_timeout(Duration::from_millis(150)).await.unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "{error}");
    let lock = client.lock("lock");
    let waiting = tokio::spawn(async move { lock.acquire().await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(waiters(&server), 0);
    guard.release().await.unwrap();
    within("the lock", waiting).await.unwrap().unwrap().release().await.unwrap();
    let channels: Vec<String> = run(&mut server.connect(), "PUBSUB CHANNELS");
    assert_eq!(channels, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_with_lock_commands_only_can_poll_and_learns_what_waiting_needs() {
    let server = TestServer::start();
    let mut raw = server.connect();
    let may = "+rlock.acquire +rlock.release +rlock.renew +rlock.cancel +rlock.info";
    run::<()>(&mut raw, &format!("ACL SETUSER app on >secret ~locks:* resetchannels {may}"));
    let url = url(&server).replace("redis://", "redis://app:secret@");
    let client = Client::connect(&url).await.unwrap();
    // A lock that is free needs no message …
    let guard = within("the lock", client.lock("locks:1").acquire()).await.unwrap();
    // … one that is not does.
    let error = client.lock("locks:1").acquire().await.unwrap_err();
    assert!(
        matches!(error, Error::Permission { .. })
            && error.advice().is_some_and(|advice| advice.contains("&rlock:grants:*"))
            && error.advice().is_some_and(|advice| advice.contains("Waiting::Polling")),
        "{error}"
    );
    let error = client.lock("other").try_acquire().await.unwrap_err();
    assert!(matches!(error, Error::Permission { .. }), "{error}");
    let polling = Client::builder().waiting(Waiting::Polling).connect(&url).await.unwrap();
    let lock = polling.lock("locks:1");
    let waiting = tokio::spawn(async move { lock.acquire().await });
    tokio::time::sleep(Duration::from_millis(50)).await;
    guard.release().await.unwrap();
    within("the lock", waiting).await.unwrap().unwrap().release().await.unwrap();
    let error = Client::connect(&url.replace("secret", "wrong")).await.unwrap_err();
    assert!(matches!(error, Error::Permission { .. }), "{error}");
    // The rights that the error's message asks for are enough.
    run::<()>(&mut raw, "ACL SETUSER app &rlock:grants:* +subscribe");
    let (client, lock) = (Client::connect(&url).await.unwrap(), "locks:2");
    let guard = client.lock(lock).acquire().await.unwrap();
    let next = client.lock(lock);
    let waiting = tokio::spawn(async move { next.acquire().await });
    eventually("a waiter", || (waiters(&server) == 1).then_some(())).await;
    guard.release().await.unwrap();
    within("the lock", waiting).await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_have_the_lock_or_it_is_released() {
    let server = TestServer::start();
    let mut raw = server.connect();
    let waits = async |wait| {
        let builder = Client::builder().durability_wait(Duration::from_millis(wait));
        connect_with(&server, builder.durability(Durability::Majority)).await
    };
    // Ample time where a replica must answer, and little where none can.
    let (client, brief) = (waits(5_000).await, waits(500).await);
    // Without any replica there is no majority to have it.
    let error = brief.lock("lock").acquire().await.unwrap_err();
    assert_eq!(error, Error::Durability { lock: "lock".into(), wanted: 1, reached: 0 });
    assert_eq!(holder(&mut raw, "lock"), None);
    let replica = TestServer::start();
    replica.replicate_from(&server);
    let guard = within("the lock", client.lock("lock").try_acquire()).await.expect("a free lock");
    assert_eq!(holder(&mut replica.connect(), "lock").unwrap().0.as_bytes(), guard.owner());
    // A waiter's grant is made durable too.
    let lock = client.lock("lock");
    let waiting = tokio::spawn(async move { lock.acquire().await });
    eventually("a waiter", || (waiters(&server) == 1).then_some(())).await;
    guard.release().await.unwrap();
    let guard = within("the lock", waiting).await.unwrap().unwrap();
    assert_eq!(holder(&mut replica.connect(), "lock").unwrap().0.as_bytes(), guard.owner());
    guard.release().await.unwrap();
    let error = client.lock("lock").durability(Durability::Replicas(2)).try_acquire().await.unwrap_err();
    assert_eq!(error, Error::Durability { lock: "lock".into(), wanted: 2, reached: 1 });
    // A stopped replica still counts among those of which more than half must have the lock.
    replica.signal(libc::SIGSTOP);
    let error = brief.lock("lock").try_acquire().await.unwrap_err();
    assert_eq!(error, Error::Durability { lock: "lock".into(), wanted: 1, reached: 0 });
    replica.signal(libc::SIGCONT);
    assert_eq!(holder(&mut raw, "lock"), None);
    brief.close(SOON).await.unwrap();
    eventually("few connections", || {
        let clients: String = run(&mut raw, "CLIENT LIST TYPE normal");
        let pubsub: String = run(&mut raw, "CLIENT LIST TYPE pubsub");
        (clients.lines().count() + pubsub.lines().count() <= 3 + 1).then_some(())
    })
    .await;
}

/// A renewal in the millisecond of the acquisition changes nothing, so nothing was replicated, and WAIT after it on a
/// connection that had written nothing else counted every replica as one that had the lock: on Redis 8 and Valkey 8.1,
/// where only a connection's own writes count. A lock was handed out that no replica had.
#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_stands_still_has_no_lock_however_soon_it_is_asked() {
    let server = TestServer::start();
    let replica = TestServer::start();
    replica.replicate_from(&server);
    replica.signal(libc::SIGSTOP);
    let mut beside = server.connect();
    for attempt in 0..10 {
        let builder = Client::builder().durability_wait(Duration::from_millis(100));
        let client = connect_with(&server, builder.durability(Durability::Replicas(1))).await;
        let name = format!("lock:{attempt}");
        let error = within("an answer", client.lock(&name).try_acquire()).await.unwrap_err();
        // An error came before the release was sent: another request, at once, found the lock held.
        assert_eq!(holder(&mut beside, &name), None);
        assert_eq!(error, Error::Durability { lock: name, wanted: 1, reached: 0 });
    }
    replica.signal(libc::SIGCONT);
}

/// The wait for replicas uses a connection of its own. Where that could not be opened, a new holder waited
/// for it without any limit.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_for_durability_that_does_not_come_is_not_waited_for_for_ever() {
    let server = TestServer::start();
    let replica = TestServer::start();
    replica.replicate_from(&server);
    let proxy = Proxy::to(server.port()).await;
    let builder = Client::builder().response_timeout(Duration::from_millis(300));
    let client = within("a client", builder.connect(&proxy.url())).await.unwrap();
    let lock = client.lock("lock").durability(Durability::Replicas(1));
    proxy.set_full(true);
    let error = within("an answer", lock.try_acquire()).await.unwrap_err();
    assert!(matches!(error, Error::Transport { .. }), "{error}");
    let error = within("a time-out", lock.acquire_timeout(Duration::from_millis(500))).await.unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "{error}");
    let mut raw = server.connect();
    eventually("the rollback", || holder(&mut raw, "lock").is_none().then_some(())).await;
    // An acquisition without a limit continues until there is a connection.
    let waiting = tokio::spawn(lock.acquire());
    tokio::time::sleep(Duration::from_millis(2_000)).await;
    assert!(!waiting.is_finished(), "{:?}", waiting.await);
    proxy.set_full(false);
    within("the lock", waiting).await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_clients_settings_are_those_of_its_locks() {
    let server = TestServer::start();
    let builder = Client::builder().lease(Duration::from_secs(2)).wait(Duration::from_millis(100));
    let client = connect_with(&server, builder).await;
    let guard = client.lock("lock").renew(false).acquire().await.unwrap();
    assert!(guard.check().unwrap() < Duration::from_secs(2));
    let error = client.lock("lock").acquire().await.unwrap_err();
    assert!(
        matches!(error, Error::Timeout { waited, .. } if waited >= Duration::from_millis(100)),
        "{error}"
    );
    let error = client.lock("lock").wait(Duration::ZERO).acquire().await.unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "{error}");
    // Unless a lock says otherwise: it waits for the end of the lease of the first, which is not renewed.
    let next = within("the lock", client.lock("lock").wait(SOON).lease(SOON).acquire()).await.unwrap();
    assert_eq!(guard.release().await, Err(Error::LockLost { lock: "lock".into(), why: Lost::Expired }));
    assert!(next.check().unwrap() > Duration::from_secs(2));
    next.release().await.unwrap();
    for builder in [
        Client::builder().lease(Duration::ZERO),
        Client::builder().lease(Duration::from_micros(10)),
        Client::builder().response_timeout(Duration::ZERO),
    ] {
        let error = builder.connect(&url(&server)).await.unwrap_err();
        assert!(matches!(error, Error::Invalid { .. }), "{error}");
    }
}

/// The names of all connections.
fn names(raw: &mut redis::Connection) -> Vec<String> {
    let list: String = run(raw, "CLIENT LIST");
    let name = |line: &str| line.split(' ').find_map(|word| word.strip_prefix("name=").map(str::to_string));
    list.lines().filter_map(name).collect()
}

#[tokio::test]
async fn owners_and_connections_say_whose_they_are() {
    let server = TestServer::start();
    let mut raw = server.connect();
    let client = connect_with(&server, Client::builder().name("billing job")).await;
    let guard = client.lock("lock").await.unwrap();
    let owner = String::from_utf8(guard.owner().to_vec()).unwrap();
    let process = format!(":{}:", std::process::id());
    assert!(owner.starts_with("billing_job@") && owner.contains(&process), "{owner}");
    assert!(owner.starts_with(client.identity()), "{owner}");
    let called: Vec<_> = names(&mut raw).into_iter().filter(|name| !name.is_empty()).collect();
    assert!(called.len() == 1 && owner.starts_with(&format!("{}:", called[0])), "{called:?} {owner}");
    // The program's name, unless there is another. Two clients of a process differ nevertheless.
    let (one, other) = (clients::connect(&server).await, clients::connect(&server).await);
    assert!(one.identity().starts_with("locks-"), "{}", one.identity());
    assert_ne!(one.identity(), other.identity());
}

#[tokio::test]
async fn a_client_of_the_driver_lends_its_settings() {
    let server = TestServer::start();
    let mut raw = server.connect();
    run::<()>(&mut raw, "ACL SETUSER app on >secret ~* &* +@all");
    let url = url(&server).replace("redis://", "redis://app:secret@") + "/3";
    let driver = redis::Client::open(url.as_str()).unwrap();
    let client = within("a client", Client::builder().connect_like(&driver)).await.unwrap();
    let guard = client.lock("lock").await.unwrap();
    assert_eq!(holder(&mut raw, "lock"), None);
    run::<()>(&mut raw, "SELECT 3");
    assert_eq!(holder(&mut raw, "lock").unwrap().0.as_bytes(), guard.owner());
    let list: String = run(&mut raw, "CLIENT LIST");
    assert!(list.contains("user=app"), "{list}");
    guard.release().await.unwrap();
    // Addresses are compared as those of URLs are.
    let same = [client, within("a client", Client::connect(&url)).await.unwrap()];
    assert_eq!(same[0].lock("a").server(), same[1].lock("b").server());
}

/// A connection was named in a round trip of its own, within the time that connecting may take.
#[tokio::test(flavor = "multi_thread")]
async fn a_name_costs_no_time() {
    let server = TestServer::start();
    let proxy = Proxy::to(server.port()).await;
    // Not the one that asks for the role.
    let slow = |words: &[String]| {
        words[0] == "HELLO" && words.len() > 1 || words.get(1).is_some_and(|word| word == "SETNAME")
    };
    proxy.rule(move |words| if slow(words) { Fate::Slow(1_200) } else { Fate::Pass });
    let builder = Client::builder().name("job").response_timeout(Duration::from_secs(2));
    let client = within("a client", builder.connect(&proxy.url())).await.unwrap();
    let mut raw = server.connect();
    let named = || names(&mut raw).iter().any(|name| name.starts_with("job@")).then_some(());
    eventually("the name", named).await;
    client.lock("lock").await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_name_needs_no_permission() {
    let server = TestServer::start();
    let mut raw = server.connect();
    run::<()>(
        &mut raw,
        "ACL SETUSER app on >secret ~* &* +rlock.acquire +rlock.renew +rlock.release +subscribe",
    );
    let url = url(&server).replace("redis://", "redis://app:secret@");
    let client = within("a client", Client::connect(&url)).await.unwrap();
    client.lock("lock").await.unwrap().release().await.unwrap();
    assert!(names(&mut raw).iter().all(String::is_empty));
}
