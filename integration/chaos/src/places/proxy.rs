//! A proxy between the clients and a server: it cuts connections, and sends new ones to another server after a
//! fail-over.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU16, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// The proxy; it lives as long as the process.
pub(crate) struct Proxy {
    port: u16,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    target: AtomicU16,
    open: Mutex<Vec<TcpStream>>,
}

impl Shared {
    fn with_open<T>(&self, work: impl FnOnce(&mut Vec<TcpStream>) -> T) -> T {
        work(&mut self.open.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Proxy {
    pub(crate) fn to(target: u16) -> Proxy {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port for the proxy");
        let port = listener.local_addr().expect("the proxy's address").port();
        let shared = Arc::new(Shared::default());
        shared.target.store(target, SeqCst);
        let accepting = Arc::clone(&shared);
        thread::spawn(move || accept(&listener, &accepting));
        Proxy { port, shared }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Sends new connections to this port.
    pub(crate) fn retarget(&self, port: u16) {
        self.shared.target.store(port, SeqCst);
    }

    /// Cuts every connection, or each that `chosen` says.
    pub(crate) fn cut(&self, mut chosen: impl FnMut() -> bool) {
        self.shared.with_open(|open| {
            open.retain(|stream| {
                let stays = !chosen();
                if !stays {
                    let _ = stream.shutdown(Shutdown::Both);
                }
                stays
            });
        });
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for client in listener.incoming().flatten() {
        let target = shared.target.load(SeqCst);
        let Ok(server) = TcpStream::connect(("127.0.0.1", target)) else { continue };
        let _ = (client.set_nodelay(true), server.set_nodelay(true));
        let (Ok(there), Ok(here), Ok(known)) = (server.try_clone(), client.try_clone(), client.try_clone())
        else {
            continue;
        };
        shared.with_open(|open| {
            // Those that have ended are of no interest.
            open.retain(|stream| stream.peer_addr().is_ok());
            open.push(known);
        });
        thread::spawn(move || pass(client, there));
        thread::spawn(move || pass(server, here));
    }
}

/// Passes on what comes, until either side ends.
fn pass(mut from: TcpStream, mut to: TcpStream) {
    let mut buffer = [0; 16 * 1024];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        if to.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}
