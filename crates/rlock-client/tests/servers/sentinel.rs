//! Sentinels: the client finds the primary, and the next one.

use std::time::Duration;

use redis::Connection;
use rlock_client::{Builder, Client, Durability, Error, State};
use rlock_testkit::clients;
use rlock_testkit::clients::{chain, counter, eventually, holder, run, waiters, within};
use rlock_testkit::{TestServer, wait_for_replicas_in_sync};
use tokio::task::JoinHandle;

/// A lease that outlasts a fail-over on a busy machine.
pub(crate) const LEASE: Duration = Duration::from_secs(30);

/// How long a fail-over may take there: several elections without a winner.
const FAIL_OVER: Duration = Duration::from_secs(60);

/// A sentinel that knows the primary as `main`.
pub(crate) fn sentinel(primary: &TestServer, down_after_ms: u32) -> TestServer {
    TestServer::builder()
        .sentinel()
        .conf("sentinel", format!("monitor main 127.0.0.1 {} 2", primary.port()))
        .conf("sentinel", format!("down-after-milliseconds main {down_after_ms}"))
        // An election without a winner is held again after twice this time: before the tests give up.
        .conf("sentinel", "failover-timeout main 3500")
        .start()
}

/// A primary, its replica, and three sentinels that know of both and of each other.
pub(crate) struct Watched {
    pub(crate) primary: TestServer,
    pub(crate) replica: TestServer,
    pub(crate) sentinels: Vec<TestServer>,
}

pub(crate) async fn watched() -> Watched {
    let (primary, replica) = (TestServer::start(), TestServer::start());
    replica.replicate_from(&primary);
    let sentinels: Vec<_> = (0..3).map(|_| sentinel(&primary, 2_000)).collect();
    for sentinel in &sentinels {
        let mut connection = sentinel.connect();
        eventually("the sentinels to know each other", || {
            let facts: Vec<(String, String)> = run(&mut connection, "SENTINEL MASTER main");
            let is = |name: &str, value: &str| facts.contains(&(name.to_string(), value.to_string()));
            (is("num-slaves", "1") && is("num-other-sentinels", "2") && is("flags", "master")).then_some(())
        })
        .await;
        // A replica that the sentinel does not know is not promoted.
        eventually("the replica to be known", || {
            let replicas: Vec<Vec<String>> = run(&mut connection, "SENTINEL REPLICAS main");
            let up = |facts: &Vec<String>| {
                facts.windows(2).any(|pair| pair[0] == "master-link-status" && pair[1] == "ok")
            };
            replicas.iter().any(up).then_some(())
        })
        .await;
    }
    Watched { primary, replica, sentinels }
}

pub(crate) fn url(sentinels: &[TestServer]) -> String {
    let hosts: Vec<_> = sentinels.iter().map(|sentinel| format!("127.0.0.1:{}", sentinel.port())).collect();
    format!("redis+sentinel://{}/main", hosts.join(","))
}

pub(crate) async fn connect(sentinels: &[TestServer], builder: Builder) -> Client {
    within("a client to connect", builder.connect(&url(sentinels))).await.expect("a client")
}

/// Waits for a lock in a task; releases it at once and says that it was there.
pub(crate) fn wait_for(client: &Client, name: &str) -> JoinHandle<Result<(), Error>> {
    let lock = client.lock(name);
    tokio::spawn(async move { lock.acquire().await?.release().await })
}

/// A field of INFO. Where roles change, sentinels cut every connection, this one too.
pub(crate) fn fact(server: &TestServer, section: &str, name: &str) -> Option<String> {
    let client = redis::Client::open(clients::url(server)).unwrap();
    let info: String = redis::cmd("INFO").arg(section).query(&mut client.get_connection().ok()?).ok()?;
    let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.map(str::to_string)
}

async fn await_fact(server: &TestServer, section: &str, name: &str, value: &str) {
    let came = async {
        while fact(server, section, name).as_deref() != Some(value) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let in_time = tokio::time::timeout(FAIL_OVER, came).await;
    in_time.unwrap_or_else(|_| panic!("waited {FAIL_OVER:?} in vain for {name}:{value}"));
}

pub(crate) async fn await_role(server: &TestServer, role: &str) {
    await_fact(server, "replication", "role", role).await;
}

pub(crate) async fn await_waiters(server: &TestServer, count: u64) {
    await_fact(server, "rlock", "rlock_waiters", &count.to_string()).await;
}

pub(crate) fn owner(connection: &mut Connection, lock: &str) -> Option<Vec<u8>> {
    holder(connection, lock).map(|(owner, _)| owner.into_bytes())
}

#[tokio::test(flavor = "multi_thread")]
async fn locks_and_waits_outlive_the_primary() {
    let Watched { primary, replica, sentinels } = watched().await;
    let client = connect(&sentinels, Client::builder().lease(LEASE)).await;
    let held = client.lock("held").durability(Durability::Replicas(1)).acquire().await.unwrap();
    let fixed = client.lock("fixed").lease(Duration::from_secs(300)).renew(false).acquire().await.unwrap();
    let waiting: Vec<_> = ["held", "held", "fixed"].iter().map(|name| wait_for(&client, name)).collect();
    await_waiters(&primary, 3).await;
    wait_for_replicas_in_sync(&primary, &replica);
    assert_eq!((waiters(&replica), counter(&replica, "renewed")), (0, 0));
    let port = primary.port();
    let stopped = primary.kill9();
    await_role(&replica, "master").await;
    // The queue was in the old primary's memory: the waiters ask again.
    await_waiters(&replica, 3).await;
    eventually("a renewal there", || (counter(&replica, "renewed") > 0).then_some(())).await;
    eventually("the renewal's reply", || (held.state() == State::Held).then_some(())).await;
    fixed.check().unwrap();
    let mut raw = replica.connect();
    assert_eq!(owner(&mut raw, "held").unwrap(), held.owner());
    assert_eq!(owner(&mut raw, "fixed").unwrap(), fixed.owner());
    // The old primary returns and is made a replica, and no client turns to it.
    let old = TestServer::builder().port(port).dir(stopped).start();
    await_role(&old, "slave").await;
    within("the release", held.release()).await.unwrap();
    within("the release", fixed.release()).await.unwrap();
    for waiting in waiting {
        within("a lock", waiting).await.unwrap().unwrap();
    }
    await_fact(&old, "rlock", "rlock_acquired", "0").await;
    await_fact(&old, "rlock", "rlock_errors", "0").await;
    assert_eq!((owner(&mut raw, "held"), owner(&mut raw, "fixed")), (None, None));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_was_demoted_unnoticed_is_left() {
    let server = TestServer::start();
    let mut raw = server.connect();
    // The sentinel keeps naming it: it would take minutes to notice.
    let sentinels = [sentinel(&server, 300_000)];
    let quick = Client::builder().response_timeout(Duration::from_millis(300)).lease(LEASE);
    let client = connect(&sentinels, quick).await;
    let held = client.lock("held").acquire().await.unwrap();
    let waiting = wait_for(&client, "held");
    await_waiters(&server, 1).await;
    run::<()>(&mut raw, "REPLICAOF 127.0.0.1 1");
    // It still answers what only reads, and the client's connections stay open: it must leave by itself.
    eventually_async("the client to leave", async || {
        let why = chain(&client.lock("held").locked().await.err()?);
        // A question that was under way when the client left says why, too.
        assert!(why.contains("no longer a primary") || why.contains("is a replica"), "{why}");
        why.contains("it is a replica, but the Sentinel").then_some(())
    })
    .await;
    let error = client.lock("other").acquire_timeout(Duration::from_millis(100)).await.unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "{error}");
    held.check().unwrap();
    run::<()>(&mut raw, "REPLICAOF NO ONE");
    await_waiters(&server, 1).await;
    within("the release", held.release()).await.unwrap();
    within("the lock", waiting).await.unwrap().unwrap();
}

/// From now on the sentinel knows another primary as `main`.
fn point(sentinel: &TestServer, primary: &TestServer) {
    let mut connection = sentinel.connect();
    run::<()>(&mut connection, "SENTINEL REMOVE main");
    run::<()>(&mut connection, &format!("SENTINEL MONITOR main 127.0.0.1 {} 1", primary.port()));
}

/// When the primary is replaced on purpose, it ends a wait for replicas with UNBLOCKED. That was taken for
/// the last word: `lock` failed with it, though the next primary could be asked.
#[tokio::test(flavor = "multi_thread")]
async fn a_wait_for_replicas_of_a_replaced_primary_ends_with_the_lock_from_the_next() {
    let (old, new) = (TestServer::start(), TestServer::start());
    new.replicate_from(&old);
    let sentinels = [sentinel(&old, 300_000)];
    let builder = Client::builder().lease(LEASE).durability_wait(FAIL_OVER);
    let client = connect(&sentinels, builder.durability(Durability::Replicas(1))).await;
    new.signal(libc::SIGSTOP);
    let waiting = tokio::spawn(client.lock("lock").acquire());
    await_fact(&old, "clients", "blocked_clients", "1").await;
    run::<()>(&mut old.connect(), &format!("REPLICAOF 127.0.0.1 {}", new.port()));
    await_fact(&old, "clients", "blocked_clients", "0").await;
    new.signal(libc::SIGCONT);
    point(&sentinels[0], &new);
    run::<()>(&mut new.connect(), "REPLICAOF NO ONE");
    let guard =
        tokio::time::timeout(FAIL_OVER, waiting).await.expect("an answer").unwrap().expect("the lock");
    for server in [&new, &old] {
        assert_eq!(owner(&mut server.connect(), "lock").unwrap(), guard.owner());
    }
    within("the release", guard.release()).await.unwrap();
}

/// Replicas are waited for on a connection of its own. When that one led to a server that was demoted, it was the other
/// one that was given up, again and again.
#[tokio::test(flavor = "multi_thread")]
async fn an_idle_connection_for_durability_to_a_server_that_was_demoted_is_left() {
    let (old, new) = (TestServer::start(), TestServer::start());
    new.replicate_from(&old);
    let sentinels = [sentinel(&old, 300_000)];
    // So seldom does the client ask by itself whether a server is still the primary.
    let builder = Client::builder().lease(LEASE * 10).response_timeout(FAIL_OVER * 5);
    let builder = builder.durability_wait(FAIL_OVER).durability(Durability::Replicas(1));
    let client = connect(&sentinels, builder).await;
    client.lock("lock").acquire().await.unwrap().release().await.unwrap();
    run::<()>(&mut old.connect(), "FAILOVER");
    await_role(&new, "master").await;
    await_fact(&old, "replication", "master_link_status", "up").await;
    point(&sentinels[0], &new);
    let waiting = tokio::time::timeout(FAIL_OVER, client.lock("lock").acquire());
    let guard = waiting.await.expect("an answer").expect("the lock");
    assert_eq!(owner(&mut new.connect(), "lock").unwrap(), guard.owner());
    within("the release", guard.release()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn sentinels_that_are_gone_or_silent_are_passed_over() {
    let server = TestServer::start();
    let sentinels: Vec<_> = (0..3).map(|_| sentinel(&server, 300_000)).collect();
    sentinels[0].signal(libc::SIGSTOP);
    // An address without a listener, a stopped sentinel, and two more.
    let url = url(&sentinels).replace("redis+sentinel://", "redis+sentinel://127.0.0.1:1,");
    let builder = Client::builder().response_timeout(Duration::from_secs(2));
    let client = within("a client", builder.connect(&url)).await;
    sentinels[0].signal(libc::SIGCONT);
    client.unwrap().lock("lock").acquire().await.unwrap().release().await.unwrap();
    let other = url.replace("/main", "/other");
    let error = within("an error", Client::connect(&other)).await.unwrap_err();
    assert!(chain(&error).contains("no primary called other"), "{}", chain(&error));
}

/// Asks again and again until there is an answer.
pub(crate) async fn eventually_async<T>(what: &str, mut attempt: impl AsyncFnMut() -> Option<T>) -> T {
    within(what, async {
        loop {
            if let Some(value) = attempt().await {
                return value;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn sentinels_may_ask_for_a_user_and_a_password_of_their_own() {
    let primary = TestServer::builder().conf("requirepass", "secret").start();
    let guarded = TestServer::builder()
        .sentinel()
        .conf("sentinel", format!("monitor main 127.0.0.1 {} 1", primary.port()))
        .conf("sentinel", "auth-pass main secret")
        .start();
    let mut admin = guarded.connect();
    run::<()>(&mut admin, "ACL SETUSER default resetpass >p@ss/word");
    run::<()>(
        &mut admin,
        "ACL SETUSER asker on >other -@all +sentinel|get-master-addr-by-name +sentinel|master +sentinel|sentinels \
         +subscribe resetchannels &+switch-master",
    );
    let base = format!("redis+sentinel://:secret@127.0.0.1:{}/main", guarded.port());
    for query in ["", "?sentinel_password=wrong", "?sentinel_username=asker&sentinel_password=p%40ss%2Fword"]
    {
        let error = within("a refusal", Client::connect(&format!("{base}{query}"))).await.unwrap_err();
        assert!(matches!(error, Error::Permission { .. }), "{error}");
        assert!(error.to_string().contains("?sentinel_username="), "{error}");
    }
    for query in ["?sentinel_password=p%40ss%2Fword", "?sentinel_username=asker&sentinel_password=other"] {
        let client = within("a client", Client::connect(&format!("{base}{query}"))).await.unwrap();
        let guard = within("the lock", client.lock("lock").acquire()).await.unwrap();
        assert!(holder(&mut primary.connect(), "lock").is_some());
        guard.release().await.unwrap();
    }
    // These permissions suffice, but for the name of the connection.
    let log = format!("{:?}", run::<Vec<redis::Value>>(&mut admin, "ACL LOG"));
    for word in ["sentinel|", "subscribe", "switch-master"] {
        assert!(!log.contains(word), "{log}");
    }
    // A refusal by the primary does not name the sentinel.
    let url = base.replace("secret", "wrong") + "?sentinel_password=p%40ss%2Fword";
    let error = within("a refusal", Client::connect(&url)).await.unwrap_err();
    assert!(matches!(error, Error::Permission { .. }), "{error}");
    assert!(!error.to_string().contains("sentinel"), "{error}");
}
