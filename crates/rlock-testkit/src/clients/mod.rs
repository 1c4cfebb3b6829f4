//! Helpers that the tests of the client share.

pub mod cluster;
pub mod contest;
pub mod process;
pub mod proxy;
pub mod watched;

use std::sync::Once;
use std::time::Duration;

use crate::TestServer;
pub use crate::commands::counter;
use crate::commands::words_of;
use redis::Connection;
use rlock_client::{Builder, Client, Error};

/// The time limit for any one step on a busy machine.
pub const SOON: Duration = Duration::from_secs(20);

/// The time limit for all tests of a file together.
const LIMIT: Duration = Duration::from_secs(600);

/// Ends the process when its tests take too long: a hang in spite of all deadlines is a failure, not a build that
/// never ends.
pub fn limit_everything() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        std::thread::spawn(|| {
            std::thread::sleep(LIMIT);
            eprintln!("a test hangs: no end after {LIMIT:?}");
            std::process::exit(101);
        });
    });
}

/// The URL of a server.
pub fn url(server: &TestServer) -> String {
    limit_everything();
    format!("redis://127.0.0.1:{}", server.port())
}

/// A client with the usual settings.
pub async fn connect(server: &TestServer) -> Client {
    connect_with(server, Client::builder()).await
}

/// A client with these settings.
pub async fn connect_with(server: &TestServer, builder: Builder) -> Client {
    within("a client to connect", builder.connect(&url(server))).await.expect("a client")
}

/// A client of servers that have only just started, many at a time: on a busy machine the first answer may take
/// longer than a client waits for it.
pub async fn connect_to_new(builder: &Builder, url: &str) -> Client {
    within("a client to connect", async {
        loop {
            match builder.clone().connect(url).await {
                Ok(client) => return client,
                Err(Error::Transport { source, .. }) => eprintln!("connecting again: {source}"),
                Err(error) => panic!("{error}"),
            }
        }
    })
    .await
}

/// Awaits with a deadline.
pub async fn within<T>(what: &str, work: impl Future<Output = T>) -> T {
    tokio::time::timeout(SOON, work).await.unwrap_or_else(|_| panic!("waited {SOON:?} in vain for: {what}"))
}

/// Polls until `attempt` returns an answer.
pub async fn eventually<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    within(what, async {
        loop {
            if let Some(value) = attempt() {
                return value;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await
}

/// Runs a command and returns its reply, converted to the caller's type.
pub fn run<T: redis::FromRedisValue>(connection: &mut Connection, line: &str) -> T {
    command(line).query(connection).unwrap_or_else(|error| panic!("{line}: {error}"))
}

fn command(line: &str) -> redis::Cmd {
    words_of(&line.split(' ').collect::<Vec<_>>())
}

/// The holder of a lock: the owner's name and the number of holds.
pub fn holder(connection: &mut Connection, lock: &str) -> Option<(String, u64)> {
    let fields: Vec<(String, u64)> = run(connection, &format!("HGETALL {lock}"));
    assert!(fields.len() <= 1, "{fields:?}");
    fields.into_iter().next()
}

/// The number of waiters on the server, for all locks.
pub fn waiters(server: &TestServer) -> u64 {
    counter(server, "waiters")
}

/// The length of a server's outage in the tests, `RLOCK_OUTAGE_SECONDS` or 6, and the lease for these tests: longer
/// than the outage, and short enough that a renewal falls into it.
pub fn outage() -> (Duration, Duration) {
    let outage = seconds("RLOCK_OUTAGE_SECONDS", 6);
    (outage, (outage * 5 / 2).min(Duration::from_secs(30)))
}

/// A number of seconds from the environment.
pub fn seconds(name: &str, default: u64) -> Duration {
    let given =
        std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}: not a number")));
    Duration::from_secs(given.unwrap_or(default))
}

/// A seed: `RLOCK_SEED`, or a new one, printed so that a failure can be repeated.
pub fn seed() -> u64 {
    let seed = std::env::var("RLOCK_SEED").ok().map(|seed| seed.parse().expect("RLOCK_SEED is a number"));
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    println!("RLOCK_SEED={seed}");
    seed
}

/// An error's text and those of its causes.
pub fn chain(error: &Error) -> String {
    let causes = std::iter::successors(std::error::Error::source(error), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// Whether a request was denied: another owner holds the lock.
pub fn denied<T>(outcome: Result<T, Error>) -> bool {
    matches!(outcome, Err(Error::Denied { .. }))
}
