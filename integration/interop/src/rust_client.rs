//! The Rust client, for a program that contends with it: each connection holds one lock at a time, as a thread would,
//! and gets its orders line by line. Two clients share the connections, as two processes would.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use rlock_client::blocking::{self, Client};
use rlock_client::{Any, Durability, Error};

type Lock = blocking::Lock<rlock_client::Lock<Any>>;
type Guard = blocking::Guard<rlock_client::Guard<Any>>;

/// As long as Redisson's leases in the scenarios: both renew each third of it.
const LEASE: Duration = Duration::from_secs(3);

/// The time limit for retries of temporary errors: longer than any scenario waits.
const LIMIT: Duration = Duration::from_secs(90);

/// Starts it, and returns the address at which it takes orders.
pub(crate) fn serve(url: &str, durability: Durability) -> Result<String, String> {
    let connect = || {
        let client = rlock_client::Client::builder().lease(LEASE).durability(durability);
        Client::connect_with(client, url).map_err(|error| format!("the Rust client: {error}"))
    };
    let clients = [connect()?, connect()?];
    let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(|error| error.to_string())?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    thread::spawn(move || {
        for (connection, client) in listener.incoming().flatten().zip(clients.iter().cycle()) {
            let client = client.clone();
            thread::spawn(move || obey(&client, connection));
        }
    });
    Ok(address.to_string())
}

/// Serves until the connection ends; a lock that is still held is released.
fn obey(client: &Client, connection: TcpStream) {
    let Ok(mut answers) = connection.try_clone() else { return };
    let mut guard = None;
    for line in BufReader::new(connection).lines().map_while(Result::ok) {
        let words: Vec<&str> = line.split(' ').collect();
        let answer = match words[..] {
            ["take", kind, key] => take(client, kind, key, &mut guard),
            ["try", kind, key] => attempt(client, kind, key, &mut guard),
            ["check"] => check(guard.as_ref()),
            ["give"] => give(guard.take()),
            _ => format!("unknown order: {line}"),
        };
        if answers.write_all(format!("{answer}\n").as_bytes()).is_err() {
            return;
        }
    }
}

fn lock(client: &Client, kind: &str, key: &str) -> Lock {
    match kind {
        "fenced" => client.lock(key).fenced().any(),
        "fair" => client.lock(key).fair().any(),
        "read" => client.read_write_lock(key).read().any(),
        "write" => client.read_write_lock(key).write().any(),
        _ => client.lock(key).any(),
    }
}

/// Waits as long as it takes, and longer where a primary was lost.
fn take(client: &Client, kind: &str, key: &str, guard: &mut Option<Guard>) -> String {
    let lock = lock(client, kind, key);
    let start = Instant::now();
    loop {
        match lock.acquire() {
            Ok(taken) => return token(guard.insert(taken)),
            Err(error) if passes(&error) && start.elapsed() < LIMIT => {}
            Err(error) => return format!("failed: {error}"),
        }
    }
}

/// Whether the error is that of a primary that was lost during a wait for replicas.
fn passes(error: &Error) -> bool {
    matches!(error, Error::Durability { .. } | Error::Transport { .. })
}

fn attempt(client: &Client, kind: &str, key: &str, guard: &mut Option<Guard>) -> String {
    match lock(client, kind, key).try_acquire() {
        Ok(taken) => token(guard.insert(taken)),
        Err(Error::Denied { .. }) => "denied".into(),
        Err(error) => format!("failed: {error}"),
    }
}

fn token(guard: &Guard) -> String {
    format!("token {}", guard.token().unwrap_or(0))
}

/// Whether the client itself believes that it holds the lock.
fn check(guard: Option<&Guard>) -> String {
    match guard.map(|guard| guard.check()) {
        Some(Ok(_)) => "held".into(),
        Some(Err(error)) => format!("failed: {error}"),
        None => "failed: nothing is held".into(),
    }
}

fn give(guard: Option<Guard>) -> String {
    match guard.map(Guard::release) {
        Some(Ok(())) => "done".into(),
        // The answer was lost with a primary.
        Some(Err(Error::OutcomeUnknown { .. })) => "unknown".into(),
        Some(Err(error)) => format!("failed: {error}"),
        None => "failed: nothing is held".into(),
    }
}
