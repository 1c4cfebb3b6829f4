//! Watches for what stalls: the servers, and this process itself.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::Duration;

use crate::clients::desk::Shared;
use crate::clients::look::{self, entries, word};
use crate::history::{Harm, Us, ms};
use crate::wire::Wires;

/// A round trip, or a pause, that takes this much longer is a stall.
const STALL: Us = ms(60);

/// How often servers are asked.
const BEAT: Duration = Duration::from_millis(15);

/// Threads that watch until they are told to stop.
pub(crate) struct Monitor {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Monitor {
    /// One thread for each server of the place, and one for the machine.
    pub(crate) fn start(whole: &Arc<Shared>) -> Monitor {
        let shared = whole;
        let stop = Arc::new(AtomicBool::new(false));
        let servers = shared.place.primaries().len();
        let mut threads: Vec<_> = (0..servers)
            .map(|server| {
                let (shared, stop) = (Arc::clone(shared), Arc::clone(&stop));
                spawn(move || watch_server(&shared, server, &stop))
            })
            .collect();
        let (machine, stopped) = (Arc::clone(shared), Arc::clone(&stop));
        threads.push(spawn(move || watch_machine(&machine, &stopped)));
        if shared.peeks {
            let (shared, stop) = (Arc::clone(whole), Arc::clone(&stop));
            threads.push(spawn(move || peek(&shared, &stop)));
        }
        Monitor { stop, threads }
    }

    pub(crate) fn stop(self) {
        self.stop.store(true, SeqCst);
        for thread in self.threads {
            let _ = thread.join();
        }
    }
}

fn stalled(shared: &Shared, what: &str, since: Us) {
    shared.recorder.event(what, since, None, Harm { stalls: true, lags: true, ..Harm::default() });
}

fn watch_server(shared: &Shared, server: usize, stop: &AtomicBool) {
    let mut connection: Option<(u16, TcpStream)> = None;
    let mut last = shared.recorder.now();
    while !stop.load(SeqCst) {
        let port = shared.place.primaries()[server];
        if connection.as_ref().is_none_or(|(known, _)| *known != port) {
            connection = connect(port).map(|stream| (port, stream));
        }
        let answered = connection.as_mut().is_some_and(|(_, stream)| ping(stream).is_some());
        if answered {
            let now = shared.recorder.now();
            if now - last > STALL {
                stalled(shared, "the server stalls", last);
            }
            last = now;
        } else {
            connection = None;
        }
        sleep(BEAT);
    }
}

/// Looks who holds each lock, as the server has it. That may itself end a lease that nobody has noticed, so it is only
/// for finding out what a violation was.
fn peek(shared: &Shared, stop: &AtomicBool) {
    let mut wires = Wires::default();
    let mut before: HashMap<(u16, usize), String> = HashMap::new();
    while !stop.load(SeqCst) {
        for port in shared.place.primaries() {
            for (number, key) in shared.scene.keys.iter().enumerate() {
                let Ok(info) = wires.ask(port, &[&["RLOCK.INFO", &key.name]], Duration::from_secs(1)) else {
                    continue;
                };
                let names = |list| {
                    entries(&info, list)
                        .iter()
                        .map(|entry| word(entry, "owner"))
                        .collect::<Vec<_>>()
                        .join(" ")
                };
                let (holders, queue) = (names("holders"), names("queue"));
                let seen = format!(
                    "port {port}: held by [{holders}] for {} ms, awaited by [{queue}]",
                    look::number(&info, "lease-ms") / 1_000 * 1_000
                );
                if before.get(&(port, number)) != Some(&seen) {
                    shared.recorder.event(&seen, shared.recorder.now(), Some(number), Harm::default());
                    before.insert((port, number), seen);
                }
            }
        }
        sleep(Duration::from_millis(20));
    }
}

fn connect(port: u16) -> Option<TcpStream> {
    let stream =
        TcpStream::connect_timeout(&SocketAddr::from(([127, 0, 0, 1], port)), Duration::from_secs(1)).ok()?;
    stream.set_nodelay(true).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(2))).ok()?;
    Some(stream)
}

fn ping(stream: &mut TcpStream) -> Option<()> {
    stream.write_all(b"PING\r\n").ok()?;
    let mut answer = [0; 7];
    stream.read_exact(&mut answer).ok()?;
    (&answer == b"+PONG\r\n").then_some(())
}

fn watch_machine(shared: &Shared, stop: &AtomicBool) {
    let mut last = shared.recorder.now();
    while !stop.load(SeqCst) {
        sleep(BEAT);
        let now = shared.recorder.now();
        if now - last > STALL {
            stalled(shared, "this machine stalls", last);
        }
        last = now;
    }
}
