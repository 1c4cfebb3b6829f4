//! Ports for servers.

use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Below the ports that the system gives to outgoing connections: one of those took the port of a server that was down for a
/// moment. The cluster's bus is 10000 above, still below them.
const PORTS: std::ops::Range<u16> = 10_000..20_000;
const BUS: u16 = 10_000;

/// What keeps the ports of this process from those of others until it ends: servers use no UDP.
static TAKEN: Mutex<Vec<UdpSocket>> = Mutex::new(Vec::new());

/// A port for a server, together with that of the cluster's bus. No other process gets it from here before this one ends, so
/// a server may go and return on it.
pub fn free_port() -> u16 {
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    let count = u32::from(PORTS.end - PORTS.start);
    // Processes that start together begin at different places.
    let begin = std::process::id().wrapping_mul(67) % count + taken.len() as u32;
    for step in 0..count {
        let port = PORTS.start + ((begin + step) % count) as u16;
        let is_free = |port| TcpListener::bind(("127.0.0.1", port)).is_ok();
        if let Ok(socket) = UdpSocket::bind(("127.0.0.1", port))
            && is_free(port)
            && is_free(port + BUS)
        {
            taken.push(socket);
            return port;
        }
    }
    panic!("no port from {} to {} is free", PORTS.start, PORTS.end);
}

/// A port of something that is not a server: `serve` answers each connection in a thread of its own.
pub fn answering_port(serve: impl Fn(TcpStream) + Clone + Send + 'static) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let port = listener.local_addr().expect("an address").port();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let serve = serve.clone();
            thread::spawn(move || serve(stream));
        }
    });
    port
}
