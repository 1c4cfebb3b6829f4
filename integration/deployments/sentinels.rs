//! A primary, two replicas and three sentinels, every kind of lock held and awaited, and the Rust client: the primary is
//! killed, stands still, is cut off, or is replaced on purpose. `make cluster` runs this.
//!
//! All reach each server through a door of its own, whose address the server announces; so the primary is cut off from
//! sentinels and replicas when its door is shut, while the tests' own connections, which go to the server itself, are
//! those of clients on its side.

use std::time::Duration;

use rlock_client::{Client, Durability, Error, Guard};
use rlock_testkit::clients;
use rlock_testkit::clients::watched::{FAILED_OVER, Member, Watched, announcing, await_heir};
use rlock_testkit::clients::within;
use rlock_testkit::commands::{SOON, counter, say, server_time, story};
use rlock_testkit::held::{Awaited, KINDS, acquisition, all_is_held, hold};
use rlock_testkit::waiting::Waiting;
use rlock_testkit::{TestServer, eventually};
use tokio::task::JoinHandle;

/// A lease that outlasts every test.
const LEASE: Duration = Duration::from_secs(600);

/// The Rust client on these servers: it holds a lock that both replicas have, and waits for it twice.
struct Users {
    held: Guard,
    waiting: Vec<JoinHandle<Result<(), Error>>>,
}

impl Users {
    async fn start(watched: &Watched) -> Users {
        let client = clients::connect_to_new(&Client::builder().lease(LEASE), &watched.url()).await;
        let held = client.lock("held").renew(false).durability(Durability::Replicas(2)).await.unwrap();
        let wait = || {
            let lock = client.lock("held");
            tokio::spawn(async move { lock.await?.release().await })
        };
        let waiting = vec![wait(), wait()];
        await_waiters(&watched.primary.server, 2);
        Users { held, waiting }
    }

    /// Asserts that the client has found the new primary: the lock is held, and both waiters wait there.
    #[track_caller]
    fn have_found(&self, heir: &TestServer) {
        await_waiters(heir, 2);
        self.held.check().unwrap();
        let owner = String::from_utf8(self.held.owner().to_vec()).unwrap();
        story(&mut heir.connect(), &[("HGETALL held", &format!(r#"["{owner}", "1"]"#))]);
    }

    async fn are_served(self) {
        within("the release", self.held.release()).await.unwrap();
        for waiting in self.waiting {
            within("a lock", waiting).await.unwrap().unwrap();
        }
    }
}

#[track_caller]
fn await_waiters(server: &TestServer, count: u64) {
    eventually("waiters", FAILED_OVER, || (counter(server, "waiters") == count).then_some(()));
}

/// Asserts that waiters learn that their server was demoted: by `UNBLOCKED`, or by the end of their connections,
/// since the sentinel cuts the connections of all clients in the same transaction.
///
/// A sentinel demotes a server that wrongly acts as the primary at its next check, after eight seconds at least.
#[track_caller]
fn were_told(old: &Member, blocked: Vec<Waiting>) {
    eventually("the old primary to be demoted", FAILED_OVER, || (old.fact("role")? == "slave").then_some(()));
    for waiting in blocked {
        let told = waiting.answer();
        assert!(["!UNBLOCKED ", "the connection ended"].iter().any(|word| told.starts_with(word)), "{told}");
    }
}

/// Asserts that the former primary follows the new one, serves no client and has granted nothing.
#[track_caller]
fn is_no_primary(old: &Member, heir: &Member) {
    eventually("the old primary to follow the new one", FAILED_OVER, || old.follows(heir).then_some(()));
    let client = &mut old.server.connect();
    for kind in &KINDS {
        let said = say(client, &format!("{} BLOCK 0", kind.ask("", "s:1")));
        assert!(said.starts_with("!READONLY "), "{said}");
    }
    assert_eq!((counter(&old.server, "waiters"), counter(&old.server, "hand_offs")), (0, 0));
}

/// Holds locks of every kind on the primary, with waiters, and waits until the replicas have them.
async fn begin(watched: &Watched) -> (Users, i64, Awaited) {
    let users = Users::start(watched).await;
    let token = hold(&mut watched.primary.server.connect(), "");
    let awaited = Awaited::start(&watched.primary.server, "");
    watched.await_replicas();
    (users, token, awaited)
}

/// The new primary has all locks, and waiters that ask again wait there.
#[track_caller]
fn takes_over(users: &Users, heir: &Member) -> Awaited {
    users.have_found(&heir.server);
    all_is_held(&mut heir.server.connect(), "");
    Awaited::start(&heir.server, "")
}

/// The end of every fail-over: waiters that ask again are served, and all three servers have the same data.
async fn end(users: Users, there: Awaited, token: i64, heir: &Member, others: [&Member; 2]) {
    users.are_served().await;
    there.are_served(&mut heir.server.connect(), token);
    for other in others {
        eventually("a replica to have it all", FAILED_OVER, || other.follows(heir).then_some(()));
        story(&mut other.server.connect(), &[("KEYS *", r#"["redisson_lock_token:{fenced}"]"#)]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_primary_that_is_killed() {
    let watched = Watched::start();
    let (users, token, awaited) = begin(&watched).await;
    let Watched { primary: Member { server, door }, replicas, sentinels } = watched;
    let port = server.port();
    let stopped = server.kill9();
    for waiting in &awaited.blocked {
        let told = waiting.answer();
        assert!(told.starts_with("the connection ended"), "{told}");
    }
    let (heir, other) = await_heir(&sentinels, &replicas);
    let there = takes_over(&users, heir);
    let old = Member { server: announcing(&door).port(port).dir(stopped).start(), door };
    is_no_primary(&old, heir);
    end(users, there, token, heir, [&old, other]).await;
}

/// Replicas receive nothing while the lock is requested, and the primary is killed as soon as the client has the
/// lock: data that they have not received by that time is lost. The first `standing_still` of them are stopped from
/// the beginning. Returns whether the heir has the lock.
async fn outlives_its_primary(durability: Durability, standing_still: usize) -> bool {
    let Watched { primary: Member { server, door }, replicas, sentinels } = Watched::start();
    let set_down_after = |milliseconds: u32| {
        for sentinel in &sentinels {
            let line = format!("SENTINEL SET main down-after-milliseconds {milliseconds}");
            story(&mut sentinel.connect(), &[(&line, "OK")]);
        }
    };
    for replica in &replicas[..standing_still] {
        replica.server.signal(libc::SIGSTOP);
        for sentinel in &sentinels {
            eventually("a sentinel to miss it", FAILED_OVER, || {
                say(&mut sentinel.connect(), "SENTINEL REPLICAS main").contains("s_down").then_some(())
            });
        }
    }
    // The sentinels must not replace the primary before this test kills it.
    set_down_after(600_000);
    let (builder, url) = (Client::builder().lease(LEASE).durability_wait(FAILED_OVER), clients::url(&server));
    let client = clients::connect_to_new(&builder, &url).await;
    door.set_shut(true);
    let mut asked = tokio::spawn(client.lock("lock").renew(false).durability(durability).acquire());
    eventually("the lock on the primary", SOON, || {
        (say(&mut server.connect(), "EXISTS lock") == "1").then_some(())
    });
    // A request that waits for no replica succeeds within this time.
    let guard = match tokio::time::timeout(Duration::from_secs(3), &mut asked).await {
        Ok(early) => early,
        Err(_) => {
            door.set_shut(false);
            within("the lock", asked).await
        }
    };
    // Writes that are still in transit never arrive.
    door.set_shut(true);
    server.kill9();
    let guard = guard.unwrap().unwrap();
    set_down_after(2_000);
    let (heir, _) = await_heir(&sentinels, &replicas);
    let owner = String::from_utf8(guard.owner().to_vec()).unwrap();
    say(&mut heir.server.connect(), "HGETALL lock") == format!(r#"["{owner}", "1"]"#)
}

/// With a majority, the replica without the lock cannot be promoted. The last case shows that the others could fail.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_outlives_its_primary_if_enough_replicas_have_it() {
    let cases =
        [(Durability::Replicas(2), 0, true), (Durability::Majority, 1, true), (Durability::None, 0, false)];
    for (durability, standing_still, outlives) in cases {
        assert_eq!(outlives_its_primary(durability, standing_still).await, outlives, "{durability:?}");
    }
}

/// After its pause it still acts as the primary, until a sentinel corrects it.
#[tokio::test(flavor = "multi_thread")]
async fn a_primary_that_stands_still() {
    let watched = Watched::start();
    let (users, token, awaited) = begin(&watched).await;
    let old = &watched.primary;
    old.server.signal(libc::SIGSTOP);
    let (heir, other) = watched.await_heir();
    let there = takes_over(&users, heir);
    old.server.signal(libc::SIGCONT);
    were_told(old, awaited.blocked);
    is_no_primary(old, heir);
    end(users, there, token, heir, [old, other]).await;
}

/// On its side it stays the primary, and grants locks that the other side does not know: a replicated lock is refused
/// there, and all others are lost when it comes back.
#[tokio::test(flavor = "multi_thread")]
async fn a_primary_that_is_cut_off() {
    let watched = Watched::start();
    let (users, token, mut awaited) = begin(&watched).await;
    let old = &watched.primary;
    let beside = &mut old.server.connect();
    old.door.set_shut(true);
    let (heir, other) = watched.await_heir();
    let waiting_there = takes_over(&users, heir);
    // Two holders at a time, one on each side: only a request for replicas shows it, or a check of tokens.
    let alone = "RLOCK.ACQUIRE alone n:1 1000000 FENCED";
    let there = &mut heir.server.connect();
    let here = acquisition(&say(beside, alone))[2];
    eventually("the next millisecond", SOON, || (server_time(there) > here).then_some(()));
    let there = acquisition(&say(there, alone))[2];
    assert!(there > here, "{there} after {here}");
    let direct = within("a client", Client::connect(&clients::url(&old.server))).await.unwrap();
    let replicated = direct.lock("replicated").durability(Durability::Replicas(1));
    let refused = within("a refusal", replicated.acquire()).await.unwrap_err();
    assert!(matches!(refused, Error::Durability { wanted: 1, reached: 0, .. }), "{refused}");
    // A connection without a write would count the replicas whose links the server takes for alive still.
    let written = [("EXISTS replicated", "0"), ("SET beside 1", "OK"), ("WAIT 1 100", "0")];
    story(&mut old.server.connect(), &written);
    awaited.wait_on();
    old.door.set_shut(false);
    were_told(old, awaited.blocked);
    is_no_primary(old, heir);
    story(
        &mut heir.server.connect(),
        &[("RLOCK.RELEASE alone n:1", "1"), ("DEL redisson_lock_token:{alone}", "1")],
    );
    end(users, waiting_there, token, heir, [old, other]).await;
}

/// With `min-replicas-to-write` a primary that is cut off stops granting: if the lease ends meanwhile, a waiter there
/// does not get the lock, and the other side grants it.
#[test]
fn a_primary_that_is_cut_off_and_needs_replicas() {
    let watched = Watched::start();
    let old = &watched.primary;
    let client = &mut old.server.connect();
    story(
        client,
        &[("CONFIG SET min-replicas-to-write 1", "OK"), ("CONFIG SET min-replicas-max-lag 2", "OK")],
    );
    // Much longer than the primary needs to notice the cut.
    eventually("enough replicas", SOON, || {
        (say(client, "RLOCK.ACQUIRE lock n:1 15000") == "[1, 15000, 0]").then_some(())
    });
    let waiting = Waiting::line(&old.server, "RLOCK.ACQUIRE lock b:1 50000 BLOCK 0");
    watched.await_replicas();
    old.door.set_shut(true);
    eventually("the primary to refuse", SOON, || {
        say(client, "RLOCK.ACQUIRE other n:1 1000").starts_with("!NOREPLICAS ").then_some(())
    });
    let (heir, _) = watched.await_heir();
    let there = &mut heir.server.connect();
    eventually("the lease to end", FAILED_OVER, || {
        (say(there, "RLOCK.ACQUIRE lock s:1 1000000") == "[1, 1000000, 0]").then_some(())
    });
    // Long enough for many checks by the timer there.
    waiting.waits_on(Duration::from_millis(500));
    old.door.set_shut(false);
    were_told(old, vec![waiting]);
    is_no_primary(old, heir);
    story(&mut old.server.connect(), &[("HGETALL lock", r#"["s:1", "1"]"#)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_primary_that_is_replaced_on_purpose() {
    let watched = Watched::start();
    let (users, token, awaited) = begin(&watched).await;
    let old = &watched.primary;
    story(&mut watched.sentinels[0].connect(), &[("SENTINEL FAILOVER main", "OK")]);
    let (heir, other) = watched.await_heir();
    were_told(old, awaited.blocked);
    let there = takes_over(&users, heir);
    is_no_primary(old, heir);
    end(users, there, token, heir, [old, other]).await;
}
