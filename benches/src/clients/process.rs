//! The libraries that are measured, each in processes of its own.
//!
//! | line | does | answer |
//! |---|---|---|
//! | `pairs N KEY` | N times acquire and release, one after the other | `WALL-NS CPU-NS` |
//! | `turns N KEY` | N times acquire, hold for 1 to 2 ms, release | N lines `ACQUIRED-NS RELEASED-NS`, by one clock for all processes |
//! | `crowd N KEY` | N wait for the lock, each holds it for 1 to 2 ms once | `NS OVERTAKEN`: from the first release to the last acquisition; the most later waiters that were served before one |

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::client::Worker;
use crate::environment::root;

/// A library and its language.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Library {
    Python,
    RedisPy,
    JavaScript,
    Redlock,
    RedisSemaphore,
}

impl Library {
    /// All, in the order of the tables: the first of a language is this project's.
    pub(crate) const ALL: [Library; 5] =
        [Library::Python, Library::RedisPy, Library::JavaScript, Library::Redlock, Library::RedisSemaphore];

    /// Its name in the results.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Library::Python => "python",
            Library::RedisPy => "redis-py",
            Library::JavaScript => "javascript",
            Library::Redlock => "redlock",
            Library::RedisSemaphore => "redis-semaphore",
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
        }
    }

    /// What its users get, as measured: with one server, and no options but the lease and to wait as long as it takes.
    pub(crate) fn guarantees(self) -> &'static str {
        match self {
            Library::Python | Library::JavaScript => {
                "first come, first served; renewed; loss is reported; fencing tokens on request"
            }
            Library::RedisPy => "no order; not renewed; loss shows at the release; polls every 100 ms",
            Library::Redlock => "no order; not renewed; loss shows at the release; polls every 100 to 300 ms",
            Library::RedisSemaphore => "no order; renewed; loss is reported; polls every 10 ms",
        }
    }

    /// This project's client in its language.
    pub(crate) fn own(self) -> Library {
        match self {
            Library::Python | Library::RedisPy => Library::Python,
            _ => Library::JavaScript,
        }
    }

    pub(super) fn start(self, port: u16) -> Worker {
        let (peers, url) = (peers(), format!("redis://127.0.0.1:{port}"));
        let mut command = match self.own() {
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
    root().join("benches/peers")
}

fn target() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").filter(|path| !path.is_empty());
    root().join(target.as_deref().map_or(Path::new("target"), Path::new)).join("peers")
}

/// Installs all of them; where that fails, says why they are left out.
pub(super) fn install() -> Result<(), String> {
    let output = Command::new("sh").arg(peers().join("languages.sh")).arg(target()).output();
    match output {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_string()),
        Err(error) => Err(error.to_string()),
    }
}
