//! A way to a server that can be shut: what is on either side of it cannot reach the other then, and nobody is told.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::thread;
use std::time::Duration;

/// How often a connection looks whether its door is shut.
const LOOK: Duration = Duration::from_millis(20);

/// A port that leads to another one. As in a network that drops packets, what was sent while it is shut is delivered
/// late, and whoever connects then waits.
pub(crate) struct Door {
    port: u16,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    leads_to: AtomicU16,
    shut: AtomicBool,
}

impl Door {
    pub(crate) fn new() -> Door {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port for the door");
        let port = listener.local_addr().expect("the door's address").port();
        let state = Arc::new(State::default());
        let inside = state.clone();
        // It ends with the process, as do the connections.
        thread::spawn(move || {
            for client in listener.incoming() {
                inside.wait_until_open();
                if let Ok(client) = client {
                    connect(client, &inside);
                }
            }
        });
        Door { port, state }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn lead_to(&self, port: u16) {
        self.state.leads_to.store(port, Ordering::SeqCst);
    }

    pub(crate) fn set_shut(&self, shut: bool) {
        self.state.shut.store(shut, Ordering::SeqCst);
    }
}

impl State {
    fn wait_until_open(&self) {
        while self.shut.load(Ordering::SeqCst) {
            thread::sleep(LOOK);
        }
    }
}

/// Connects a client with the server, or hangs up if there is none.
fn connect(client: TcpStream, state: &Arc<State>) {
    let Ok(server) = TcpStream::connect(("127.0.0.1", state.leads_to.load(Ordering::SeqCst))) else { return };
    let ends = [client, server].map(|end| {
        let _ = (end.set_nodelay(true), end.set_read_timeout(Some(LOOK)));
        end
    });
    for (from, to) in [(0, 1), (1, 0)] {
        let (Ok(from), Ok(to)) = (ends[from].try_clone(), ends[to].try_clone()) else { return };
        let state = state.clone();
        thread::spawn(move || {
            pass_on(&from, &to, &state);
            let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
        });
    }
}

fn pass_on(mut from: &TcpStream, mut to: &TcpStream, state: &State) {
    let mut buffer = vec![0; 65_536];
    loop {
        let length = match from.read(&mut buffer) {
            Ok(length) => length,
            Err(error)
                if [std::io::ErrorKind::WouldBlock, std::io::ErrorKind::TimedOut].contains(&error.kind()) =>
            {
                continue;
            }
            Err(_) => return,
        };
        state.wait_until_open();
        if length == 0 || to.write_all(&buffer[..length]).is_err() {
            return;
        }
    }
}
