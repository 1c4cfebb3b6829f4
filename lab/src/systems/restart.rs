//! A server with an append-only file is killed: how long until it serves again.

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use rlock_testkit::{ServerBuilder, Stopped, TestServer, free_port};

use super::host::dflockd;
use super::install::redis_server;
use super::results::Restart;
use super::worker::{Dflockd, Way};
use crate::named::named;
use crate::progress::Progress;
use crate::resp::{Reply, append};
use crate::rng::Rng;
use crate::spread::Spread;
use crate::wire::Wire;

const LOCKS: usize = 100_000;
const BATCH: usize = 1_000;
/// An hour: no lock ends in a measurement.
const LEASE: &str = "3600000";

named! {
    /// What is in the file, and which server reads it.
    enum What {
        WithModule = "rlock", "locks of rlock, server with the module";
        WithoutModule = "rlock-without-module", "the same file, server without the module";
        Set = "set", "locks by `SET NX PX`, server without the module";
        Dflockd = "dflockd", "dflockd: no lock is there";
    }
}

impl What {
    fn builder(self) -> ServerBuilder {
        let builder = TestServer::builder().binary(redis_server("redis-8.6"));
        let builder = builder.conf("appendonly", "yes").conf("appendfsync", "everysec");
        if self == What::WithModule { builder } else { builder.without_module() }
    }

    fn acquire(self, lock: usize) -> (Vec<String>, &'static str) {
        let (key, owner) = (key(lock), format!("285475da-9152-4c83-822a-67ee2f116a79:{lock}"));
        match self {
            What::Set => (["SET", &key, &owner, "NX", "PX", LEASE].map(String::from).to_vec(), "+OK\r\n"),
            _ => {
                let words = ["RLOCK.ACQUIRE", &key, &owner, LEASE].map(String::from).to_vec();
                (words, "*3\r\n:1\r\n:3600000\r\n:0\r\n")
            }
        }
    }
}

fn key(lock: usize) -> String {
    format!("lock:invoice:{lock}")
}

pub(super) fn run(rounds: usize, has_dflockd: bool, rng: &mut Rng, progress: &Progress) -> Vec<Restart> {
    progress.show(&format!("systems: {LOCKS} locks"));
    let mut of_rlock = Some(hold_all(What::WithModule));
    let mut of_set = Some(hold_all(What::Set));
    let mut figures = [const { Vec::new() }; 4];
    for round in 1..=rounds {
        progress.show(&format!("systems: kill -9 of the server, round {round} of {rounds}"));
        for index in rng.order(What::ALL.len()) {
            let what = What::ALL[index];
            if what == What::Dflockd {
                figures[index].extend(has_dflockd.then(restart_dflockd));
                continue;
            }
            let data = if what == What::Set { &mut of_set } else { &mut of_rlock };
            let (ms, stopped) = restart(what, data.take().expect("put back after each restart"));
            figures[index].push(ms);
            *data = Some(stopped);
        }
    }
    let of = |(what, own): (What, &Vec<f64>)| Restart {
        what: what.name().into(),
        locks: if what == What::Dflockd { 0 } else { LOCKS },
        rounds,
        ms: Spread::of(own.clone()),
        to_without_module: Spread::ratio(own, &figures[1], |one| *one),
    };
    What::ALL.into_iter().zip(&figures).filter(|(_, own)| !own.is_empty()).map(of).collect()
}

/// How long the start takes, in ms; nothing is left of the lock that the killed server had granted.
fn restart_dflockd() -> f64 {
    let (port, never) = (free_port(), AtomicBool::new(false));
    let killed = dflockd(port);
    let mut holder = Dflockd::connect(port, LEASE);
    holder.acquire("bench-restart", &never);
    drop(killed);
    let begin = Instant::now();
    let _server = dflockd(port);
    let ms = begin.elapsed().as_secs_f64() * 1e3;
    let mut another = Dflockd::connect(port, LEASE);
    another.acquire("bench-restart", &never);
    another.release("bench-restart");
    ms
}

/// A server that was killed while it held all the locks.
fn hold_all(what: What) -> Stopped {
    let server = what.builder().start();
    let mut wire = Wire::connect(server.port()).expect("a connection");
    for first in (0..LOCKS).step_by(BATCH) {
        let (mut request, mut answer) = (Vec::new(), String::new());
        for lock in first..first + BATCH {
            let (words, reply) = what.acquire(lock);
            append(&mut request, &words);
            answer.push_str(reply);
        }
        wire.exchange(&request, answer.as_bytes());
    }
    // The file is on the disk once a second.
    std::thread::sleep(std::time::Duration::from_millis(1_500));
    server.kill9()
}

/// How long the start takes, in ms, and what is left after the next kill.
fn restart(what: What, stopped: Stopped) -> (f64, Stopped) {
    let begin = Instant::now();
    let server = what.builder().dir(stopped).start();
    let ms = begin.elapsed().as_secs_f64() * 1e3;
    let mut wire = Wire::connect(server.port()).expect("a connection");
    wire.ask(&["DBSIZE"], |reply| assert_eq!(*reply, Reply::Int(LOCKS as i64), "all locks are back"));
    if what == What::WithModule {
        let words = ["RLOCK.ACQUIRE", &key(LOCKS - 1), "another:1", LEASE];
        wire.ask(&words, |reply| assert_eq!(*reply, Reply::Null, "the lock is still held"));
    }
    (ms, server.kill9())
}
