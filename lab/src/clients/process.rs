//! The libraries that are measured, each in processes of its own.
//!
//! | line | does | answer |
//! |---|---|---|
//! | `pairs N KEY` | N times acquire and release, one after the other | `WALL-NS CPU-NS` |
//! | `take 1 KEY` | acquires | `ACQUIRED-NS 0`, by one clock for all processes |
//! | `give 1 KEY` | releases that lock | `RELEASED-NS 0` |
//! | `wait N KEY` | acquires, and N wait for the lock | `0 0` when all wait |
//! | `open N KEY` | releases; each waiter holds the lock for 1 to 2 ms once | `0 RELEASED-NS`, in their order N lines `ACQUIRED-NS RELEASED-NS`, then `OVERTAKEN 0`: the most later waiters that were served before one |

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::client::Worker;
use crate::environment::{peers_target as target, root};
use crate::named::named;
use crate::redisson::{Java, Release, build, java};

named! {
    /// A library and its language.
    enum Library {
        Python = "python", "Python: rlock-client";
        RedisPy = "redis-py", "Python: redis-py 8.1.0 `Lock`";
        JavaScript = "javascript", "Node: rlock-client on ioredis";
        Redlock = "redlock", "Node: redlock 4.2.0";
        RedlockUniversal = "redlock-universal", "Node: redlock-universal 0.8.5 on ioredis";
        RedisSemaphore = "redis-semaphore", "Node: redis-semaphore 5.8.0 `Mutex`";
        Go = "go", "Go: rlock-client on go-redis";
        Redsync = "redsync", "Go: redsync 4.18.1 on go-redis";
        Rueidislock = "rueidislock", "Go: rueidislock 1.0.79 on rueidis";
        Java = "java", "Java: rlock-client on Lettuce";
        Redisson = "redisson", "Java: Redisson 4.7.0 `RLock`";
    }
}

impl Library {
    /// What its users get, as measured: with one server, and no options but the lease and to wait as long as it takes.
    pub(crate) fn guarantees(self) -> &'static str {
        match self {
            Library::Python | Library::JavaScript | Library::Go | Library::Java => {
                "first come, first served; renewed; loss is reported; fencing tokens on request"
            }
            Library::RedisPy => "no order; not renewed; loss shows at the release; polls every 100 ms",
            Library::Redlock => "no order; not renewed; loss shows at the release; polls every 100 to 300 ms",
            Library::RedlockUniversal => {
                "no order; not renewed; loss shows at the release; polls every 100 ms"
            }
            Library::RedisSemaphore => "no order; renewed; loss is reported; polls every 10 ms",
            Library::Redsync => "no order; not renewed; loss shows at the release; polls every 50 to 250 ms",
            Library::Rueidislock => "no order; renewed; loss is reported; wakes by client-side caching",
            Library::Redisson => {
                "no order; renewed; loss shows at the release; re-entrant; wakes by messages, one thread of each process"
            }
        }
    }

    /// This project's client in its language.
    pub(crate) fn own(self) -> Library {
        match self {
            Library::Python | Library::RedisPy => Library::Python,
            Library::JavaScript | Library::Redlock | Library::RedlockUniversal | Library::RedisSemaphore => {
                Library::JavaScript
            }
            Library::Go | Library::Redsync | Library::Rueidislock => Library::Go,
            Library::Java | Library::Redisson => Library::Java,
        }
    }

    /// How often its waiters ask again at most, in ms; 0 if something wakes them.
    pub(super) fn polls_every_ms(self) -> u64 {
        match self {
            Library::RedisPy | Library::RedlockUniversal => 100,
            Library::Redlock => 300,
            Library::Redsync => 250,
            Library::RedisSemaphore => 10,
            _ => 0,
        }
    }

    /// The bytes that it installs with its driver, as languages.sh wrote them.
    pub(super) fn installed_bytes(self) -> u64 {
        let text = fs::read_to_string(target().join("installed.txt")).expect("languages.sh wrote it");
        let bytes = text.lines().find_map(|line| line.strip_prefix(self.name())?.strip_prefix(' '));
        bytes.and_then(|bytes| bytes.parse().ok()).unwrap_or_else(|| panic!("no size of {}", self.name()))
    }

    pub(super) fn start(self, port: u16) -> Worker {
        let (peers, url) = (peers(), format!("redis://127.0.0.1:{port}"));
        let mut command = match self.own() {
            Library::Java => {
                let program =
                    if self == Library::Java { Java::Rlock } else { Java::Redisson(Release::Newest) };
                return Worker::spawn(java(program, port));
            }
            Library::Go => {
                let program = if self == Library::Go { "rlock" } else { self.name() };
                Command::new(target().join("go").join(program))
            }
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
