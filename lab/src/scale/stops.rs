//! How long a fail-over stops the locks of a primary: from its kill -9 until its replica grants one of them.

use std::thread::sleep;
use std::time::{Duration, Instant};

use rlock_testkit::clients::cluster::Cluster;
use rlock_testkit::{TestServer, eventually, wait_for_replicas_in_sync};

use super::results::Stop;
use crate::spread::rounded;

/// A fail-over takes less.
const DEADLINE: Duration = Duration::from_secs(90);

/// Kills of one cluster: each has a replica for the primary, and a majority of the others.
const KILLS: usize = 2;

/// Between two tries of a client.
const PAUSE: Duration = Duration::from_millis(5);

/// Three primaries with a replica each, which take a primary for dead after this time.
pub(super) fn cluster(timeout_ms: u32, show: &dyn Fn(&str)) -> Stop {
    show(&format!("fail-over, cluster-node-timeout {timeout_ms}: the cluster starts"));
    let mut cluster = Cluster::start_failing_after(3, timeout_ms);
    let locks: Vec<String> = (0..KILLS).map(|primary| cluster.lock_on(primary, 'l')).collect();
    let (mut seconds, mut heirs) = (Vec::new(), Vec::new());
    for (kill, lock) in locks.iter().enumerate() {
        show(&format!("fail-over, cluster-node-timeout {timeout_ms}: kill {} of {KILLS}", kill + 1));
        acquire(&cluster.primaries[0], lock, "owner:1").expect("the lock is free");
        let heir = cluster.replicas.remove(0);
        wait_for_replicas_in_sync(&cluster.primaries[0], &heir);
        let _data = cluster.kill(0);
        seconds.push(served(&heir, lock));
        // The others learn of it before the next one fails.
        sleep(Duration::from_millis(500));
        heirs.push(heir);
    }
    Stop { option: "cluster-node-timeout".into(), option_ms: timeout_ms, seconds }
}

/// A primary, a replica and three sentinels.
pub(super) fn sentinel(down_ms: u32, show: &dyn Fn(&str)) -> Stop {
    show(&format!("fail-over, down-after-milliseconds {down_ms}"));
    let primary = TestServer::start();
    let replica = TestServer::start();
    replica.replicate_from(&primary);
    let sentinels: Vec<TestServer> = (0..3).map(|_| watcher(primary.port(), down_ms)).collect();
    for sentinel in &sentinels {
        eventually("the sentinels to know all", DEADLINE, || knows_all(sentinel).then_some(()));
    }
    acquire(&primary, "lock", "owner:1").expect("the lock is free");
    wait_for_replicas_in_sync(&primary, &replica);
    let _data = primary.kill9();
    Stop {
        option: "down-after-milliseconds".into(),
        option_ms: down_ms,
        seconds: vec![served(&replica, "lock")],
    }
}

fn watcher(primary: u16, down_ms: u32) -> TestServer {
    TestServer::builder()
        .sentinel()
        .conf("sentinel", format!("monitor main 127.0.0.1 {primary} 2"))
        .conf("sentinel", format!("down-after-milliseconds main {down_ms}"))
        .start()
}

fn knows_all(sentinel: &TestServer) -> bool {
    let info =
        redis::cmd("INFO").arg("sentinel").query::<String>(&mut sentinel.connect()).unwrap_or_default();
    info.contains("status=ok") && info.contains("slaves=1,sentinels=3")
}

/// From now until the lock is held there still, and another one is granted.
fn served(heir: &TestServer, lock: &str) -> f64 {
    let begin = Instant::now();
    eventually("the replica to serve locks", DEADLINE, || {
        sleep(PAUSE);
        acquire(heir, &format!("{{{lock}}}:next"), "owner:2").ok()
    });
    let stopped = begin.elapsed();
    let acquired = acquire(heir, lock, "owner:2").expect("it serves this lock, too");
    assert!(!acquired, "the lock that the primary granted is held");
    rounded(stopped.as_secs_f64())
}

/// Whether it was acquired; an error while the server does not serve it.
fn acquire(server: &TestServer, lock: &str, owner: &str) -> Result<bool, redis::RedisError> {
    let client = redis::Client::open(format!("redis://127.0.0.1:{}", server.port()))?;
    let mut connection = client.get_connection()?;
    let mut command = redis::cmd("RLOCK.ACQUIRE");
    let reply: Option<Vec<i64>> = command.arg(lock).arg(owner).arg(600_000).query(&mut connection)?;
    Ok(reply.is_some())
}
