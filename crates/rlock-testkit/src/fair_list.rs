//! A fair queue of natives that have gone, and one of Redisson's behind them.

use crate::commands::{SOON, say, server_time, story};
use crate::eventually;
use crate::redisson::{FAIR_TAKES, run_fair};
use redis::Connection;

/// An hour in ms.
pub const HOUR: i64 = 3_600_000;
/// A minute in ms.
pub const MINUTE: i64 = 60_000;

/// Alice holds the lock; four natives wait for it, and one of Redisson's behind them for an hour.
#[track_caller]
pub fn awaited(client: &mut Connection) {
    story(client, &[("RLOCK.ACQUIRE lock alice 100000", "[1, 100000, 0]")]);
    for n in 0..4 {
        let line = format!("RLOCK.ACQUIRE lock n{n} 60000 FAIR ENQUEUE 0 news:{{lock}}");
        assert_eq!(say(client, &line), "[0, 0, 0]");
    }
    let now = server_time(client);
    assert_ne!(run_fair(client, FAIR_TAKES, "lock", "java:1", HOUR, now), "null");
    assert_eq!(list(client), r#"["n0", "n1", "n2", "n3", "java:1"]"#);
    assert!(ahead(client, "n3") > 20 * MINUTE && ahead(client, "java:1") > HOUR);
}

/// The owners in the fair list, in order.
#[track_caller]
pub fn list(client: &mut Connection) -> String {
    say(client, "LRANGE redisson_lock_queue:{lock} 0 -1")
}

/// The deadline of an owner in the fair list, in ms.
#[track_caller]
pub fn deadline(client: &mut Connection, owner: &str) -> i64 {
    let score = say(client, &format!("ZSCORE redisson_lock_timeout:{{lock}} {owner}"));
    score.trim_matches('"').parse::<f64>().unwrap_or_else(|_| panic!("{owner}: {score}")) as i64
}

/// How many ms are left before an owner counts as gone.
#[track_caller]
pub fn ahead(client: &mut Connection, owner: &str) -> i64 {
    deadline(client, owner) - server_time(client)
}

/// All are in their places still, and none counts as alive for longer than five minutes after the lease, and a turn more
/// than the one before it.
#[track_caller]
pub fn counted_as_gone_in_time(client: &mut Connection) {
    eventually("the deadlines to be bounded", SOON, || (ahead(client, "java:1") < HOUR / 2).then_some(()));
    assert_eq!(list(client), r#"["n0", "n1", "n2", "n3", "java:1"]"#);
    for (owner, turns) in [("n0", 0), ("n1", 1), ("n2", 2), ("n3", 3), ("java:1", 4)] {
        let ahead = ahead(client, owner);
        let least = 5 * MINUTE;
        assert!((least..=least + 100_000 + turns * 5_000).contains(&ahead), "{owner}: {ahead} ms");
    }
}
