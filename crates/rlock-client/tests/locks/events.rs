//! The events that the receiver gets.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rlock_client::{Client, Error, Event, Guard, Held, Lost};
use rlock_testkit::TestServer;
use rlock_testkit::clients::{SOON, connect_with, denied, eventually, run, waiters, within};

/// Events as lines.
#[derive(Clone, Default)]
struct Diary(Arc<Mutex<Vec<String>>>);

impl Diary {
    fn lines(&self) -> MutexGuard<'_, Vec<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.lines())
    }

    fn seen(&self, line: &str) -> Option<()> {
        self.lines().iter().any(|one| one == line).then_some(())
    }

    fn note(&self, event: &Event<'_>) {
        let line = match *event {
            Event::Acquired { lock, waited } => {
                assert!(waited < SOON);
                let long = if waited >= Duration::from_millis(300) { " after a wait" } else { "" };
                format!("acquired {}{long}", lock.escape_ascii())
            }
            Event::Denied { lock } => format!("denied {}", lock.escape_ascii()),
            Event::TimedOut { lock, waited } => {
                assert!(waited >= Duration::from_millis(50) && waited < SOON);
                format!("timed out {}", lock.escape_ascii())
            }
            Event::Released { lock, held } => {
                assert!(held < SOON && (lock != b"d" || held >= Duration::from_millis(300)));
                format!("released {}", lock.escape_ascii())
            }
            Event::Renewed { lock } => format!("renewed {}", lock.escape_ascii()),
            Event::RenewalFailed { lock, error } => {
                assert!(matches!(error, Error::Transport { .. } | Error::Permission { .. }), "{error:?}");
                format!("renewal failed {}", lock.escape_ascii())
            }
            Event::Lost { lock, held, why } => {
                assert!(held >= Duration::from_millis(50));
                format!("lost {} {why:?}", lock.escape_ascii())
            }
            Event::Disconnected { server, error } => {
                assert!(matches!(error, Error::Transport { .. }), "{error:?}");
                format!("disconnected {server}")
            }
            Event::Reconnected { server, after } => {
                assert!(after < SOON);
                format!("reconnected {server}")
            }
            _ => panic!("an event of an unknown kind: {event:?}"),
        };
        self.lines().push(line);
    }
}

async fn diary_of(server: &TestServer, lease: Duration) -> (Diary, Client) {
    let diary = Diary::default();
    let told = diary.clone();
    let builder = Client::builder().lease(lease).on_event(move |event| told.note(event));
    (diary, connect_with(server, builder).await)
}

#[tokio::test]
async fn acquisitions_and_their_ends_are_reported() {
    let server = TestServer::start();
    let (diary, client) = diary_of(&server, Duration::from_secs(30)).await;
    client.lock("a").await.unwrap().release().await.unwrap();
    let guard = client.lock("b").lease(Duration::from_millis(100)).renew(false).await.unwrap();
    within("the loss", guard.lost()).await;
    drop(guard);
    drop(client.lock("c").try_acquire().await.unwrap());
    // The release of a dropped guard is reported when the server has answered.
    eventually("the release", || diary.seen("released c")).await;
    let expected = ["acquired a", "released a", "acquired b", "lost b Expired", "acquired c", "released c"];
    assert_eq!(diary.take(), expected);
    let guard = client.lock("d").await.unwrap();
    assert!(denied(client.lock("d").try_acquire().await));
    let error = client.lock("d").acquire_timeout(Duration::from_millis(50)).await.unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }));
    let waiting = tokio::spawn(client.lock("d").acquire());
    eventually("a waiter", || (waiters(&server) == 1).then_some(())).await;
    tokio::time::sleep(Duration::from_millis(400)).await;
    guard.release().await.unwrap();
    std::mem::forget(within("the lock", waiting).await.unwrap().unwrap());
    let expected = ["acquired d", "denied d", "timed out d", "released d", "acquired d after a wait"];
    assert_eq!(diary.take(), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn renewals_and_connections_are_reported() {
    let server = TestServer::start();
    let (diary, client) = diary_of(&server, Duration::from_millis(1_500)).await;
    let guard = client.lock("a").await.unwrap();
    let seen = |line: &str| diary.seen(line);
    eventually("a renewal", || seen("renewed a")).await;
    let mut raw = server.connect();
    run::<()>(&mut raw, "ACL SETUSER default -rlock.renew");
    eventually("a renewal that fails", || seen("renewal failed a")).await;
    run::<()>(&mut raw, "ACL SETUSER default +@all");
    diary.take();
    eventually("a renewal", || seen("renewed a")).await;
    assert!(diary.lines().iter().all(|line| !line.contains("connected")), "{:?}", diary.lines());
    run::<u64>(&mut raw, "CLIENT KILL TYPE pubsub SKIPME yes");
    run::<u64>(&mut raw, "CLIENT KILL TYPE normal SKIPME yes");
    let address = format!("127.0.0.1:{}", server.port());
    eventually("the loss of the connection", || seen(&format!("disconnected {address}"))).await;
    eventually("another connection", || seen(&format!("reconnected {address}"))).await;
    guard.release().await.unwrap();
}

/// Receivers were called while the hold was locked, and so hung when they asked about it; a panic of theirs
/// ended the task that renews all locks.
#[tokio::test(flavor = "multi_thread")]
async fn receivers_may_check_the_lock_and_their_panics_end_nothing() {
    let server = TestServer::start();
    let shown = Arc::new(Mutex::new(None::<Held>));
    let look = shown.clone();
    let client = connect_with(
        &server,
        Client::builder().on_event(move |event| {
            if matches!(event, Event::Released { .. } | Event::Lost { .. }) {
                let held = look.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap();
                held.check().unwrap_err();
                panic!("on purpose");
            }
        }),
    )
    .await;
    let show = |guard: &Guard| {
        *shown.lock().unwrap_or_else(PoisonError::into_inner) = Some(guard.held());
    };
    for _ in 0..2 {
        let guard = client.lock("a").lease(Duration::from_millis(100)).renew(false).await.unwrap();
        show(&guard);
        assert_eq!(within("the loss", guard.lost()).await, Lost::Expired);
    }
    let guard = client.lock("a").await.unwrap();
    show(&guard);
    guard.release().await.unwrap();
    let guard = client.lock("a").await.unwrap();
    show(&guard);
    drop(guard);
    client.close(SOON).await.unwrap();
}

/// A receiver that learned of a connection and asked for its state got the state from before.
#[tokio::test(flavor = "multi_thread")]
async fn connections_are_reported_after_they_have_changed() {
    let server = TestServer::start();
    let shown = Arc::new(Mutex::new(None::<rlock_client::Lock>));
    let states = Arc::new(Mutex::new(Vec::new()));
    let (look, noted) = (shown.clone(), states.clone());
    let builder = Client::builder().on_event(move |event| {
        let Some(lock) = look.lock().unwrap().clone() else { return };
        if let Event::Disconnected { .. } | Event::Reconnected { .. } = event {
            noted
                .lock()
                .unwrap()
                .push((format!("{event:?}").starts_with("Reconnected"), lock.connected().is_ok()));
        }
    });
    let client = connect_with(&server, builder).await;
    *shown.lock().unwrap() = Some(client.lock("lock"));
    run::<u64>(&mut server.connect(), "CLIENT KILL TYPE normal SKIPME yes");
    eventually("both", || (states.lock().unwrap().len() == 2).then_some(())).await;
    assert_eq!(*states.lock().unwrap(), [(false, false), (true, true)]);
}

/// A lock that its release found to be lost was reported as released.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_is_gone_at_its_release_was_lost() {
    let server = TestServer::start();
    let (diary, client) = diary_of(&server, Duration::from_secs(30)).await;
    for drops in [false, true] {
        let guard = client.lock("a").await.unwrap();
        let held = guard.held();
        tokio::time::sleep(Duration::from_millis(60)).await;
        assert!(client.lock("a").force_release().await.unwrap());
        if drops {
            drop(guard);
        } else {
            let error = guard.release().await.unwrap_err();
            assert!(matches!(error, Error::LockLost { why: Lost::Taken, .. }), "{error:?}");
        }
        eventually("the loss", || diary.seen("lost a Taken")).await;
        assert_eq!(diary.take(), ["acquired a", "lost a Taken"]);
        assert_eq!(within("the loss", held.lost()).await, Lost::Taken);
    }
    client.close(SOON).await.unwrap();
    assert!(diary.take().is_empty());
}
