//! A port that leads to a server, and can lead to another one, be cut, or be shut, without a word to either side.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// A port that leads to a server's, as long as the process lives.
pub struct Door {
    port: u16,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    leads_to: AtomicU16,
    shut: AtomicBool,
    open: Mutex<Vec<TcpStream>>,
}

impl Door {
    /// A door to this port; to 0, it leads nowhere yet.
    pub fn to(port: u16) -> Door {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port for the door");
        let own = listener.local_addr().expect("the door's address").port();
        let state = Arc::new(State { leads_to: port.into(), ..State::default() });
        let inside = Arc::clone(&state);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                inside.wait_until_open();
                // Without a server the client's connection ends here.
                let _ = inside.connect(client);
            }
        });
        Door { port: own, state }
    }

    /// Its own port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Leads new connections to this port.
    pub fn lead_to(&self, port: u16) {
        self.state.leads_to.store(port, SeqCst);
    }

    /// Shuts the door, or opens it. As in a network that drops packets, bytes that are sent while it is shut arrive late, and
    /// new connections wait.
    pub fn set_shut(&self, shut: bool) {
        self.state.shut.store(shut, SeqCst);
    }

    /// Cuts each connection that `chosen` says.
    pub fn cut(&self, mut chosen: impl FnMut() -> bool) {
        let mut open = self.state.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|client| {
            let cut = chosen();
            if cut {
                let _ = client.shutdown(Shutdown::Both);
            }
            !cut
        });
    }
}

impl State {
    fn wait_until_open(&self) {
        while self.shut.load(SeqCst) {
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn connect(self: &Arc<State>, client: TcpStream) -> std::io::Result<()> {
        let server = TcpStream::connect(("127.0.0.1", self.leads_to.load(SeqCst)))?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let ways = [(client.try_clone()?, server.try_clone()?), (server, client.try_clone()?)];
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|client| client.peer_addr().is_ok());
        open.push(client);
        for (from, to) in ways {
            let state = Arc::clone(self);
            thread::spawn(move || {
                state.pass_on(&from, &to);
                let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
            });
        }
        Ok(())
    }

    /// Forwards bytes until either side ends.
    fn pass_on(&self, mut from: &TcpStream, mut to: &TcpStream) {
        let mut buffer = [0; 64 * 1024];
        while let Ok(length) = from.read(&mut buffer) {
            self.wait_until_open();
            if length == 0 || to.write_all(&buffer[..length]).is_err() {
                return;
            }
        }
    }
}
