//! Whatever a server refuses is an error that says what to do next.

use std::time::Duration;

use rlock_client::{Any, Client, Error};
use rlock_testkit::TestServer;
use rlock_testkit::clients::{connect, eventually, run, url, waiters, within};
use signal_hook::consts::SIGUSR1;
use signal_hook::low_level::raise;

#[tokio::test]
async fn bad_settings_are_refused_with_advice() {
    let server = TestServer::start();
    let client = connect(&server).await;
    let invalid = |error: Error, words: &[&str]| {
        let Error::Invalid { message } = &error else { panic!("{error:?}") };
        assert!(words.iter().all(|word| message.contains(word)), "{message}");
    };
    for (lease, words) in [
        (Duration::ZERO, ["0ns", "a renewal, which takes a round trip", "100ms or more"]),
        (Duration::from_millis(99), ["99ms", "a renewal, which takes a round trip", "100ms or more"]),
        (Duration::MAX, ["a lease", "at most", "not"]),
    ] {
        invalid(client.lock("lock").lease(lease).acquire().await.unwrap_err(), &words);
        invalid(client.lock("lock").lease(lease).renew(false).try_acquire().await.unwrap_err(), &words);
        invalid(Client::builder().lease(lease).connect(&url(&server)).await.unwrap_err(), &words);
    }
    for permits in [0, 1 << 31] {
        invalid(client.semaphore("lock", permits).try_acquire().await.unwrap_err(), &["permits"]);
    }
    let shortest = client.lock("lock").lease(Duration::from_millis(100)).renew(false);
    shortest.try_acquire().await.unwrap().release().await.unwrap();
    // The second panicked where a request was given the time that was left of a wait.
    for response in [Duration::ZERO, Duration::from_micros(999)] {
        let builder = Client::builder().response_timeout(response);
        invalid(builder.connect(&url(&server)).await.unwrap_err(), &["1 ms or more"]);
    }
    for (url, words) in [
        ("", ["is a variable unset?", "write redis://"]),
        ("localhost", ["no scheme", "write redis://"]),
        ("http://localhost", ["http://", "write redis://"]),
        ("redis+sentinel://localhost", ["the primary", "write redis+sentinel://"]),
        ("redis-sentinel://localhost/main", ["redis-sentinel://", "write redis+sentinel://"]),
        ("redis-cluster://localhost", ["redis-cluster://", "write redis+cluster://"]),
    ] {
        invalid(Client::connect(url).await.unwrap_err(), &words);
        invalid(Client::builder().connect_lazy(url).unwrap_err(), &words);
        let blocking = tokio::task::spawn_blocking(move || rlock_client::blocking::Client::connect(url));
        invalid(blocking.await.unwrap().unwrap_err(), &words);
    }
    let cluster = url(&server).replace("redis://", "redis+cluster://");
    invalid(Client::connect(&cluster).await.unwrap_err(), &["connect with redis://"]);
}

/// An unset variable locked the empty name: on some servers another lock than meant, and nothing said so.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_without_a_name_and_one_with_too_long_a_name_are_not_acquired() {
    let server = TestServer::start();
    let client = connect(&server).await;
    for (name, words) in
        [(String::new(), "is a variable unset?"), ("k".repeat(1_025), "1025 bytes: use 1 to 1024")]
    {
        let (pages, builder) = (client.read_write_lock(&name), client.lock(&name));
        let kinds = [
            builder.clone().any(),
            pages.read().any(),
            pages.write().any(),
            client.semaphore(&name, 2).any(),
        ];
        let outcomes = async |lock: rlock_client::Lock<Any>| {
            let run = lock.run(|_| async {}).await.map(|()| None);
            let lasting = lock.acquire_timeout(Duration::from_secs(1)).await.map(Some);
            [run, lock.acquire().await.map(Some), lock.try_acquire().await.map(Some), lasting]
        };
        for lock in kinds.into_iter().chain([builder.owner("named").any()]) {
            for outcome in outcomes(lock).await {
                let error = outcome.unwrap_err();
                assert!(matches!(&error, Error::Invalid { message } if message.contains(words)), "{error}");
            }
        }
        // They can still be inspected and released: another client may hold them.
        assert!(!client.lock(&name).locked().await.unwrap());
        assert!(!client.lock(&name).force_release().await.unwrap());
    }
    client.lock("k".repeat(1_024)).try_acquire().await.unwrap().release().await.unwrap();
    let none = tokio::task::spawn_blocking({
        let url = url(&server);
        move || rlock_client::blocking::Client::connect(&url).unwrap().lock("").acquire().map(|_| ())
    });
    assert!(matches!(none.await.unwrap(), Err(Error::Invalid { .. })));
}

/// A refusal without a variant of its own is `Refused`, with the server's own words.
#[tokio::test(flavor = "multi_thread")]
async fn other_refusals_keep_the_words_of_the_server() {
    let server = TestServer::start();
    let (client, mut raw) = (connect(&server).await, server.connect());
    for (option, code) in [("maxmemory", "OOM"), ("min-replicas-to-write", "NOREPLICAS")] {
        run::<()>(&mut raw, &format!("CONFIG SET {option} 1"));
        let error = within("a refusal", client.lock("lock").acquire()).await.unwrap_err();
        assert!(matches!(&error, Error::Refused { message } if message.contains(code)), "{error}");
        run::<()>(&mut raw, &format!("CONFIG SET {option} 0"));
    }
}

/// A wait without a limit never ended, though no wait mends a wrong password.
#[tokio::test(flavor = "multi_thread")]
async fn a_user_that_is_not_let_in_gets_an_error_and_does_not_wait() {
    let server = TestServer::start();
    let mut raw = server.connect();
    run::<()>(&mut raw, "ACL SETUSER app on >secret ~* &* +@all");
    let with = |login: &str| url(&server).replace("://", &format!("://{login}@"));
    let client = Client::builder().connect_lazy(&with("app:wrong")).unwrap();
    let error = within("a refusal", client.lock("lock").acquire()).await.unwrap_err();
    assert!(matches!(&error, Error::Permission { message } if message.contains("WRONGPASS")), "{error}");
    // Also when it was let in before.
    let client = within("a client", Client::connect(&with("app:secret"))).await.unwrap();
    run::<Vec<u64>>(&mut raw, "RLOCK.ACQUIRE lock other 60000");
    let waiting = tokio::spawn(client.lock("lock").acquire());
    eventually("a waiter", || (waiters(&server) == 1).then_some(())).await;
    run::<()>(&mut raw, "ACL SETUSER app resetpass >other");
    run::<u64>(&mut raw, "CLIENT KILL USER app");
    let error = within("a refusal", waiting).await.unwrap().unwrap_err();
    assert!(matches!(error, Error::Permission { .. }), "{error}");
}

/// As Ctrl-C is, where a program has a handler for it. Ctrl-C itself still ends the tests.
#[tokio::test(flavor = "multi_thread")]
async fn a_signal_in_the_middle_of_a_wait_leaves_nothing_behind() {
    let server = TestServer::start();
    let (client, mut raw) = (connect(&server).await, server.connect());
    let guard = client.lock("held").acquire().await.unwrap();
    run::<Vec<u64>>(&mut raw, "RLOCK.ACQUIRE lock other 60000");
    let mut signal = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::user_defined1()).unwrap();
    let interrupted = async {
        eventually("a waiter", || (waiters(&server) == 1).then_some(())).await;
        raise(SIGUSR1).unwrap();
        signal.recv().await
    };
    tokio::select! {
        outcome = client.lock("lock").acquire() => panic!("{outcome:?}"),
        _ = within("the signal", interrupted) => {}
    }
    guard.release().await.unwrap();
    client.close(Duration::from_secs(5)).await.unwrap();
    assert_eq!(waiters(&server), 0);
}
