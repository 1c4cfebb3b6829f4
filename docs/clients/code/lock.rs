use std::sync::atomic::{AtomicU64, Ordering};

use redis::{Connection, RedisResult, cmd};

static NUMBERS: AtomicU64 = AtomicU64::new(1);

/// A lock for one thread at a time. Times are in ms.
pub struct Lock {
    pub key: String,
    lease_ms: u64,
    /// The owner is this random number of the process and a number for each acquisition: no owner is used twice.
    process: u128,
    pub owner: String,
    holds: u64,
    releasing: bool,
}

impl Lock {
    pub fn new(process: u128, key: &str, lease_ms: u64) -> Lock {
        let (key, owner) = (key.to_string(), new_owner(process));
        Lock { key, lease_ms, process, owner, holds: 0, releasing: false }
    }

    /// Adds a hold; for the first one, waits for at most `wait_ms`. False: not acquired.
    pub fn acquire(&mut self, connection: &mut Connection, wait_ms: Option<u64>) -> RedisResult<bool> {
        if self.releasing {
            self.release(connection)?; // a release that failed is repeated first
        }
        let mut acquire = cmd("RLOCK.ACQUIRE");
        acquire.arg(&self.key).arg(&self.owner).arg(self.lease_ms).arg("HOLDS").arg(self.holds + 1);
        if let Some(wait_ms) = wait_ms {
            acquire.arg("BLOCK").arg(wait_ms);
        }
        let reply: Option<(u64, i64, u64)> = acquire.query(connection)?;
        self.holds += u64::from(reply.is_some());
        Ok(reply.is_some())
    }

    /// Call it every third of the lease. False: the lock is lost, stop the work that it protects.
    pub fn renew(&self, connection: &mut Connection) -> RedisResult<bool> {
        cmd("RLOCK.RENEW").arg(&self.key).arg(&self.owner).arg(self.lease_ms).query(connection)
    }

    /// Releases one hold. False: the lock was lost before.
    pub fn release(&mut self, connection: &mut Connection) -> RedisResult<bool> {
        let holds = self.holds.saturating_sub(1);
        self.releasing = true;
        if self.holds == 0 {
            // An acquire that failed may still wait in the server.
            cmd("RLOCK.CANCEL").arg(&self.key).arg(&self.owner).exec(connection)?;
        }
        let mut release = cmd("RLOCK.RELEASE");
        let reply: Option<u64> =
            release.arg(&self.key).arg(&self.owner).arg("HOLDS").arg(holds).query(connection)?;
        (self.holds, self.releasing) = (holds, false);
        if holds == 0 {
            self.owner = new_owner(self.process);
        }
        Ok(reply.is_some())
    }
}

fn new_owner(process: u128) -> String {
    format!("{process:032x}:{}", NUMBERS.fetch_add(1, Ordering::Relaxed))
}
