//! The libraries that are measured, each in processes of its own.
//!
//! | line | does | answer |
//! |---|---|---|
//! | `pairs N KEY` | N times acquire and release, one after the other | `WALL-NS CPU-NS` |
//! | `turns N KEY` | N times acquire, hold for 1 to 2 ms, release | N lines `ACQUIRED-NS RELEASED-NS`, by one clock for all processes |
//! | `crowd N KEY` | N wait for the lock, each holds it for 1 to 2 ms once | `NS OVERTAKEN`: from the first release to the last acquisition; the most later waiters that were served before one |

use std::path::PathBuf;
use std::process::Command;

use crate::client::Worker;
use crate::environment::{peers_target as target, root};
use crate::redisson::{Java, Release, build, java};

/// A library and its language.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Library {
    Python,
    RedisPy,
    JavaScript,
    Redlock,
    RedisSemaphore,
    Go,
    Redsync,
    Java,
    Redisson,
}

impl Library {
    /// All, in the order of the tables: the first of a language is this project's.
    pub(crate) const ALL: [Library; 9] = [
        Library::Python,
        Library::RedisPy,
        Library::JavaScript,
        Library::Redlock,
        Library::RedisSemaphore,
        Library::Go,
        Library::Redsync,
        Library::Java,
        Library::Redisson,
    ];

    /// Its name in the results.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Library::Python => "python",
            Library::RedisPy => "redis-py",
            Library::JavaScript => "javascript",
            Library::Redlock => "redlock",
            Library::RedisSemaphore => "redis-semaphore",
            Library::Go => "go",
            Library::Redsync => "redsync",
            Library::Java => "java",
            Library::Redisson => "redisson",
        }
    }

    /// Its name in the tables.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Library::Python => "Python: rlock-client",
            Library::RedisPy => "Python: redis-py 8.1.0 `Lock`",
            Library::JavaScript => "Node: rlock-client on ioredis",
            Library::Redlock => "Node: redlock 4.2.0",
            Library::RedisSemaphore => "Node: redis-semaphore 5.8.0 `Mutex`",
            Library::Go => "Go: rlock-client on go-redis",
            Library::Redsync => "Go: redsync 4.18.1 on go-redis",
            Library::Java => "Java: rlock-client on Lettuce",
            Library::Redisson => "Java: Redisson 4.7.0 `RLock`",
        }
    }

    /// What its users get, as measured: with one server, and no options but the lease and to wait as long as it takes.
    pub(crate) fn guarantees(self) -> &'static str {
        match self {
            Library::Python | Library::JavaScript | Library::Go | Library::Java => {
                "first come, first served; renewed; loss is reported; fencing tokens on request"
            }
            Library::RedisPy => "no order; not renewed; loss shows at the release; polls every 100 ms",
            Library::Redlock => "no order; not renewed; loss shows at the release; polls every 100 to 300 ms",
            Library::RedisSemaphore => "no order; renewed; loss is reported; polls every 10 ms",
            Library::Redsync => "no order; not renewed; loss shows at the release; polls every 50 to 250 ms",
            Library::Redisson => {
                "no order; renewed; loss shows at the release; re-entrant; wakes by messages, one thread of each process"
            }
        }
    }

    /// This project's client in its language.
    pub(crate) fn own(self) -> Library {
        match self {
            Library::Python | Library::RedisPy => Library::Python,
            Library::JavaScript | Library::Redlock | Library::RedisSemaphore => Library::JavaScript,
            Library::Go | Library::Redsync => Library::Go,
            Library::Java | Library::Redisson => Library::Java,
        }
    }

    pub(super) fn start(self, port: u16) -> Worker {
        let (peers, url) = (peers(), format!("redis://127.0.0.1:{port}"));
        let mut command = match self.own() {
            Library::Java => {
                let program =
                    if self == Library::Java { Java::Rlock } else { Java::Redisson(Release::Newest) };
                return Worker::spawn(java(program, port));
            }
            Library::Go => Command::new(target().join("go/peers")),
            Library::Python => {
                let mut command = Command::new(target().join("python/bin/python"));
                command.arg(peers.join("python/worker.py"));
                command
            }
            _ => {
                let mut command = Command::new("node");
                command.arg(peers.join("node/worker.mjs"));
                command
            }
        };
        command.arg(if self == self.own() { "rlock-client" } else { self.name() }).arg(url);
        Worker::spawn(command)
    }
}

fn peers() -> PathBuf {
    root().join("lab/peers")
}

/// Installs all of them; where that fails, says why they are left out.
pub(super) fn install() -> Result<(), String> {
    build()?;
    let output = Command::new("sh").arg(peers().join("languages.sh")).arg(target()).output();
    match output {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_string()),
        Err(error) => Err(error.to_string()),
    }
}
