//! Pairs of commands on a server in valgrind.

use std::fs;

use redis::Value;
use rlock_testkit::{ServerBuilder, TestServer};

use crate::profile::{self, FILE, Profile};

/// Counts the work for clients' commands, without the server's start and its beats.
const OPTIONS: &str = "--toggle-collect=processInputBuffer";

/// The number of pairs of commands counted: the server's other requests do not matter among them.
const PAIRS: usize = 5_000;

/// The number of commands in flight.
pub(crate) const TOGETHER: usize = 50;

/// On how many servers they are counted. Each hashes the names of its commands by a seed of its own, by which some find
/// one later than others do: the least counts.
const SERVERS: usize = 4;

/// A server, and what was sent to it before the pairs.
pub(crate) struct Ground<'a> {
    pub(crate) builder: &'a dyn Fn() -> ServerBuilder,
    pub(crate) replica: bool,
    pub(crate) beside: &'a [&'a str],
}

impl Ground<'_> {
    /// Of two commands, one after the other: the least of several servers.
    #[track_caller]
    pub(crate) fn instructions(&self, pair: [&str; 2]) -> Profile {
        let counted = (0..SERVERS).map(|_| self.count(pair));
        counted.min_by(|a, b| a.all.total_cmp(&b.all)).expect("several servers")
    }

    #[track_caller]
    pub(crate) fn count(&self, pair: [&str; 2]) -> Profile {
        let server = profile::start((self.builder)(), OPTIONS);
        let replica = self.replica.then(|| TestServer::builder().without_module().start());
        if let Some(replica) = &replica {
            replica.replicate_from(&server);
        }
        let mut client = server.connect();
        for line in self.beside {
            let answer: Value =
                redis::Cmd::new().arg(line.split(' ').collect::<Vec<_>>()).query(&mut client).unwrap();
            assert!(answer != Value::Nil, "{line}");
        }
        for _ in 0..PAIRS / TOGETHER {
            let mut pipe = redis::pipe();
            for line in (0..TOGETHER).flat_map(|_| pair) {
                let mut words = line.split(' ');
                let command = pipe.cmd(words.next().unwrap());
                for word in words {
                    command.arg(word);
                }
            }
            let answers: Vec<Value> = pipe.query(&mut client).unwrap();
            for answer in answers.chunks(2) {
                assert!(answer[0] != Value::Nil && answer[1] == Value::Int(1), "{pair:?}: {answer:?}");
            }
        }
        drop(client);
        let text = fs::read_to_string(server.shutdown().data.path().join(FILE)).unwrap();
        Profile::of(&text).per(PAIRS)
    }
}
