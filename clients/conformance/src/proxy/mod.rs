//! A proxy between one client and a server, or the servers of a cluster: it writes down what passes, and holds, drops or cuts by event.

mod addresses;
mod connection;
pub(crate) mod gate;
pub(crate) mod transcript;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use gate::Gate;
use transcript::Entry;

pub(crate) struct Proxy {
    /// One for each server.
    doors: Vec<Door>,
    shared: Arc<Shared>,
}

struct Door {
    port: u16,
    target: Arc<AtomicU16>,
}

struct Shared {
    /// The ports of the doors to a cluster, by those of its servers.
    renamed: HashMap<u16, u16>,
    over: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    down: bool,
    /// New connections are open and silent.
    silent: bool,
    gates: Vec<Gate>,
    open: HashMap<u64, Open>,
    /// The server's ends of connections whose end it does not notice.
    kept: Vec<TcpStream>,
    connections: u64,
    entries: Vec<Entry>,
}

/// A connection that is open.
struct Open {
    client: TcpStream,
    server: TcpStream,
    /// Nothing passes any more, either way.
    silent: bool,
    kept: bool,
    subscriber: bool,
    /// The requests without a reply: their entries, and the gates for their replies.
    pending: VecDeque<(usize, Option<(usize, gate::Act)>)>,
}

impl Open {
    fn cut(&self) {
        // An error says that it is closed already.
        let _ = self.client.shutdown(Shutdown::Both);
        let _ = self.server.shutdown(Shutdown::Both);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `done` finds something; `None` after `within`.
    fn wait<T>(&self, within: Duration, mut done: impl FnMut(&mut State) -> Option<T>) -> Option<T> {
        let end = Instant::now() + within;
        let mut state = self.lock();
        loop {
            if let Some(found) = done(&mut state) {
                return Some(found);
            }
            let left = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())?;
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>, target: &AtomicU16) {
    for client in listener.incoming() {
        if shared.over.load(Ordering::Relaxed) {
            return;
        }
        // A client that has already disconnected does not matter.
        let Ok(client) = client else { continue };
        let _ = connection::start(shared, client, target.load(Ordering::Relaxed));
    }
}

impl Proxy {
    /// To one server.
    pub(crate) fn to(target: u16) -> io::Result<Proxy> {
        Proxy::start(&[target], false)
    }

    /// To the servers of a cluster, whose replies name this proxy in their place.
    pub(crate) fn to_cluster(targets: &[u16]) -> io::Result<Proxy> {
        Proxy::start(targets, true)
    }

    fn start(targets: &[u16], renames: bool) -> io::Result<Proxy> {
        let mut listeners = Vec::new();
        for target in targets {
            let listener = TcpListener::bind(("127.0.0.1", 0))?;
            let port = listener.local_addr()?.port();
            listeners.push((listener, Door { port, target: Arc::new(AtomicU16::new(*target)) }));
        }
        let renamed = targets.iter().zip(&listeners).filter(|_| renames);
        let shared = Arc::new(Shared {
            renamed: renamed.map(|(target, (_, door))| (*target, door.port)).collect(),
            over: AtomicBool::new(false),
            state: Mutex::new(State::default()),
            changed: Condvar::new(),
        });
        let mut doors = Vec::new();
        for (listener, door) in listeners {
            let (accepting, target) = (shared.clone(), door.target.clone());
            std::thread::spawn(move || accept(&listener, &accepting, &target));
            doors.push(door);
        }
        Ok(Proxy { doors, shared })
    }

    /// The port for the first server.
    pub(crate) fn port(&self) -> u16 {
        self.doors.first().map_or(0, |door| door.port)
    }

    /// The ports for all servers.
    pub(crate) fn ports(&self) -> Vec<u16> {
        self.doors.iter().map(|door| door.port).collect()
    }

    /// New connections go there.
    pub(crate) fn set_target(&self, port: u16) {
        if let [door] = self.doors.as_slice() {
            door.target.store(port, Ordering::Relaxed);
        }
    }

    pub(crate) fn add(&self, gate: Gate) {
        self.shared.lock().gates.push(gate);
    }

    /// Whether the gate was met `within` this time.
    pub(crate) fn met(&self, name: &str, within: Duration) -> bool {
        let met =
            |state: &mut State| state.gates.iter().any(|gate| gate.name == name && gate.met).then_some(());
        self.shared.wait(within, met).is_some()
    }

    pub(crate) fn open_gate(&self, name: &str) {
        self.shared
            .lock()
            .gates
            .iter_mut()
            .filter(|gate| gate.name == name)
            .for_each(|gate| gate.open = true);
        self.shared.changed.notify_all();
    }

    pub(crate) fn cut(&self) {
        self.shared.lock().open.values().for_each(Open::cut);
        self.shared.changed.notify_all();
    }

    /// Cuts all connections and refuses others, or accepts and serves them again.
    pub(crate) fn set_down(&self, down: bool) {
        let mut state = self.shared.lock();
        state.down = down;
        state.silent = false;
        drop(state);
        if down {
            self.cut();
        }
    }

    /// Open connections stay open, and become silent; with `new`, later ones are silent too; with `kept`, the server does not
    /// notice when the client gives those up that are open.
    pub(crate) fn silence(&self, new: bool, kept: bool) {
        let mut state = self.shared.lock();
        state.silent |= new;
        for open in state.open.values_mut() {
            open.silent = true;
            open.kept = kept;
        }
    }

    /// Whether no connection is open, at the latest after `within`.
    pub(crate) fn empties(&self, within: Duration) -> bool {
        self.shared.wait(within, |state| state.open.is_empty().then_some(())).is_some()
    }

    /// Whether a request of this command came, `within` this time, as the nth of its kind.
    pub(crate) fn requested(&self, name: &str, nth: usize, within: Duration) -> bool {
        let came = |state: &mut State| {
            let count = state.entries.iter().filter(|entry| entry.command(name).is_some()).count();
            (count >= nth).then_some(())
        };
        self.shared.wait(within, came).is_some()
    }

    /// Drops what was written down of closed connections; for a run of many minutes.
    pub(crate) fn forget(&self) {
        let mut state = self.shared.lock();
        if state.open.is_empty() {
            state.entries.clear();
        }
    }

    pub(crate) fn entries(&self) -> Vec<Entry> {
        self.shared.lock().entries.clone()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
        self.cut();
        for server in &self.shared.lock().kept {
            let _ = server.shutdown(Shutdown::Both);
        }
        // Wakes the threads that accept, which then end.
        for door in &self.doors {
            let _ = TcpStream::connect(("127.0.0.1", door.port));
        }
    }
}
