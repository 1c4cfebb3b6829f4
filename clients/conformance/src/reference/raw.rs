//! Acquisitions by raw commands, for wrong clients: what the Rust client would never do.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use redis::{Connection, ErrorKind, RedisError, Value};

use super::answers::Fault;
use super::request::Acquire;
use super::wrong::Wrong;

const LEASE: u64 = 30_000;
const SLICE: Duration = Duration::from_millis(20);
const SILENCE: Duration = Duration::from_secs(1);

pub(super) struct RawGuard {
    pub(super) owner: String,
    lock: String,
    connection: Connection,
    end: Instant,
}

impl RawGuard {
    /// The time that is left.
    pub(super) fn check(&self) -> Result<u64, Fault> {
        let left = self.end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Fault::new("LockLost", "its lease ended"));
        }
        Ok(u64::try_from(left.as_millis()).unwrap_or(u64::MAX))
    }

    pub(super) fn release(mut self) -> Result<(), Fault> {
        let reply: Option<i64> = command("RLOCK.RELEASE", &self.lock, &self.owner)
            .arg("ALL")
            .query(&mut self.connection)
            .map_err(fault)?;
        reply.map(|_| ()).ok_or_else(|| Fault::new("LockLost", "it was no longer held"))
    }
}

/// One RENEW on a connection of its own.
pub(super) fn renew(url: &str, lock: &str, owner: &str) -> Result<(), Fault> {
    let mut connection = connect(url)?;
    let _: i64 = command("RLOCK.RENEW", lock, owner).arg(LEASE).query(&mut connection).map_err(fault)?;
    Ok(())
}

/// Acquires as the wrong client does; blocks.
pub(super) fn acquire(
    url: &str,
    wrong: Wrong,
    ask: &Acquire,
    cancelled: &Arc<AtomicBool>,
) -> Result<RawGuard, Fault> {
    static NUMBER: AtomicU64 = AtomicU64::new(1);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let mut attempt = Attempt {
        wrong,
        owner: ask.owner.clone().unwrap_or_else(|| format!("raw@localhost:{}:{number}", std::process::id())),
        lock: ask.lock.clone(),
        lease: ask.lease_ms.unwrap_or(LEASE),
        connection: connect(url)?,
        end: ask.timeout_ms.map(|wait| Instant::now() + Duration::from_millis(wait)),
        cancelled: cancelled.clone(),
        fenced: ask.fenced,
        first: Instant::now(),
        sent: Instant::now(),
    };
    let held = match wrong {
        _ if ask.r#try => attempt.ask(&[])?,
        Wrong::Polls => attempt.poll()?,
        _ => attempt.wait(url)?,
    };
    if held {
        return Ok(attempt.held());
    }
    Err(match () {
        () if ask.r#try => Fault::new("Denied", "another owner holds it"),
        () if cancelled.load(Ordering::Relaxed) => Fault::new("Cancelled", "cancelled"),
        () => Fault::new("Timeout", "the wait is over"),
    })
}

struct Attempt {
    wrong: Wrong,
    owner: String,
    lock: String,
    lease: u64,
    connection: Connection,
    end: Option<Instant>,
    cancelled: Arc<AtomicBool>,
    fenced: bool,
    /// When the first request was sent.
    first: Instant,
    /// From when the lease counts.
    sent: Instant,
}

impl Attempt {
    fn held(self) -> RawGuard {
        let end = self.sent + Duration::from_millis((self.lease.saturating_mul(99) / 100).saturating_sub(2));
        RawGuard { owner: self.owner, lock: self.lock, connection: self.connection, end }
    }

    fn ask(&mut self, more: &[&str]) -> Result<bool, Fault> {
        self.sent = Instant::now();
        let mut acquire = command("RLOCK.ACQUIRE", &self.lock, &self.owner);
        acquire.arg(self.lease);
        if self.wrong != Wrong::NoHolds {
            acquire.arg("HOLDS").arg(1);
        }
        if self.fenced {
            acquire.arg("FENCED");
        }
        acquire.arg(more);
        let reply: Option<Vec<i64>> = acquire.query(&mut self.connection).map_err(fault)?;
        Ok(reply.is_some_and(|reply| reply.first().is_some_and(|holds| *holds > 0)))
    }

    fn over(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed) || self.end.is_some_and(|end| Instant::now() >= end)
    }

    fn poll(&mut self) -> Result<bool, Fault> {
        while !self.over() {
            if self.ask(&[])? {
                return Ok(true);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(false)
    }

    fn wait(&mut self, url: &str) -> Result<bool, Fault> {
        let channel = format!("rlock:grants:{}", self.owner);
        let mut listener = connect(url)?;
        let mut messages = listener.as_pubsub();
        messages.subscribe(&channel).map_err(fault)?;
        messages.set_read_timeout(Some(SLICE)).map_err(fault)?;
        self.first = Instant::now();
        if self.enqueue(&channel)? {
            return Ok(true);
        }
        while !self.over() {
            let message: String = match messages.get_message().and_then(|message| message.get_payload()) {
                Ok(message) => message,
                Err(error) if error.is_timeout() && self.repeat(url, &channel)? => return Ok(true),
                Err(error) if error.is_timeout() => continue,
                Err(error) => return Err(fault(error)),
            };
            if message.starts_with("granted") {
                return Ok(self.holds_at_once(&message) || self.confirm()?);
            }
        }
        if self.wrong != Wrong::NoCancel {
            self.leave()?;
        }
        Ok(false)
    }

    fn enqueue(&mut self, channel: &str) -> Result<bool, Fault> {
        let left = self.end.map_or(0, |end| end.saturating_duration_since(Instant::now()).as_millis().max(1));
        self.ask(&["ENQUEUE", &left.to_string(), channel])
    }

    /// Asks again after a second, by another connection if that one has ended.
    fn repeat(&mut self, url: &str, channel: &str) -> Result<bool, Fault> {
        if !self.wrong.holds_by_message() || self.sent.elapsed() < SILENCE {
            return Ok(false);
        }
        match self.enqueue(channel) {
            Err(_) => {
                self.connection = connect(url)?;
                self.enqueue(channel)
            }
            answered => answered,
        }
    }

    /// Whether it holds the lock by the message alone, from the moment that it takes for right.
    fn holds_at_once(&mut self, message: &str) -> bool {
        if self.wrong == Wrong::NoConfirmation {
            return true;
        }
        if let Some(lease) = message.split(' ').nth(5).and_then(|lease| lease.parse().ok()) {
            self.lease = lease;
        }
        self.sent = match self.wrong {
            Wrong::LeaseFromMessage => Instant::now(),
            Wrong::LeaseFromRepeat => self.sent,
            _ => self.first,
        };
        self.wrong.holds_by_message()
    }

    fn confirm(&mut self) -> Result<bool, Fault> {
        self.sent = Instant::now();
        let mut renew = command("RLOCK.RENEW", &self.lock, &self.owner);
        let reply: i64 = renew.arg(self.lease).query(&mut self.connection).map_err(fault)?;
        Ok(reply == 1)
    }

    fn leave(&mut self) -> Result<(), Fault> {
        let _: Value =
            command("RLOCK.CANCEL", &self.lock, &self.owner).query(&mut self.connection).map_err(fault)?;
        let mut release = command("RLOCK.RELEASE", &self.lock, &self.owner);
        let _: Value = release.arg("ALL").query(&mut self.connection).map_err(fault)?;
        Ok(())
    }
}

pub(super) fn connect(url: &str) -> Result<Connection, Fault> {
    redis::Client::open(url).and_then(|client| client.get_connection()).map_err(fault)
}

fn command(name: &str, lock: &str, owner: &str) -> redis::Cmd {
    let mut command = redis::cmd(name);
    command.arg(lock).arg(owner);
    command
}

fn fault(error: RedisError) -> Fault {
    let name = if error.kind() == ErrorKind::Io { "Unreachable" } else { "Refused" };
    Fault::new(name, error.to_string())
}
