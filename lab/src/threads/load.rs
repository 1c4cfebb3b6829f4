//! Clients that never pause: each sends its next commands when it has the whole reply to the last ones.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use mio::event::Source;
use mio::{Events, Interest, Poll, Token};
use rlock_testkit::TestServer;

use crate::resp::append;

/// The name of the server's Unix socket, in its directory.
pub(super) const SOCKET: &str = "socket";

/// More than the longest reply: one read empties a socket.
const CHUNK: usize = 4 * 1024;

/// The process part of owners, as long as that of a real client.
const UUID: &str = "285475da-9152-4c83-822a-67ee2f116a79";

/// What the clients send, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Load {
    /// Its name in the results.
    pub(crate) name: &'static str,
    /// Its name for readers.
    pub(crate) label: &'static str,
    /// Commands in flight on each connection.
    depth: usize,
    /// Acquires and releases, in place of PINGs.
    locks: bool,
    /// Not TCP.
    unix: bool,
}

const LOCKS: Load =
    Load { name: "locks", label: "locks, one command in flight", depth: 1, locks: true, unix: false };

impl Load {
    pub(super) const LOCKS: Load = LOCKS;
    pub(super) const PIPED: Load =
        Load { name: "piped-locks", label: "locks, 50 in flight on one connection", depth: 50, ..LOCKS };
    pub(super) const PINGS: Load =
        Load { name: "pings", label: "two PINGs, one command in flight", locks: false, ..LOCKS };
    pub(super) const PIPED_PINGS: Load = Load {
        name: "piped-pings",
        label: "two PINGs, 50 in flight on one connection",
        depth: 50,
        ..Load::PINGS
    };
    pub(super) const UNIX: Load = Load {
        name: "unix-locks",
        label: "locks, one command in flight, over a Unix socket",
        unix: true,
        ..LOCKS
    };
    pub(crate) const ALL: [Load; 5] = [Load::PIPED_PINGS, Load::PIPED, Load::PINGS, Load::UNIX, LOCKS];

    /// Two requests and their replies.
    fn steps(self, client: usize) -> [(Vec<u8>, Vec<u8>); 2] {
        let mut steps: [(Vec<u8>, Vec<u8>); 2] = Default::default();
        for number in 0..self.depth {
            let (lock, owner) = (format!("lock:{client}:{number}"), format!("{UUID}:{client}"));
            let commands: [(&[&str], String); 2] = if self.locks {
                [
                    (&["RLOCK.ACQUIRE", &lock, &owner, "30000"], "*3\r\n:1\r\n:30000\r\n:0\r\n".into()),
                    (&["RLOCK.RELEASE", &lock, &owner], ":1\r\n".into()),
                ]
            } else {
                let pong = format!("${}\r\n{owner}\r\n", owner.len());
                [(&["PING", &owner], pong.clone()), (&["PING", &owner], pong)]
            };
            for ((words, answer), (request, reply)) in commands.iter().zip(&mut steps) {
                append(request, words);
                reply.extend_from_slice(answer.as_bytes());
            }
        }
        steps
    }
}

trait Stream: Read + Write + Source {}
impl<S: Read + Write + Source> Stream for S {}

struct Client {
    stream: Box<dyn Stream>,
    steps: [(Vec<u8>, Vec<u8>); 2],
    step: usize,
    received: Vec<u8>,
}

/// All clients, in one thread that never sleeps.
pub(super) struct Clients {
    poll: Poll,
    clients: Vec<Client>,
}

impl Clients {
    /// Connects this number of clients; one if they pipeline.
    pub(super) fn start(load: Load, connections: usize, server: &TestServer) -> Clients {
        let poll = Poll::new().expect("an epoll instance");
        let connect = |client: usize| {
            let mut stream = connect(load, server).unwrap_or_else(|error| {
                panic!("connection {client}: {error}; raise the limit of open files (ulimit -n)")
            });
            poll.registry()
                .register(&mut stream, Token(client), Interest::READABLE)
                .expect("watching a socket");
            Client { stream, steps: load.steps(client), step: 0, received: Vec::new() }
        };
        let connections = if load.depth > 1 { 1 } else { connections };
        let mut clients = Clients { clients: (0..connections).map(connect).collect(), poll };
        clients.clients.iter_mut().for_each(Client::send);
        clients
    }

    pub(super) fn drive(&mut self, span: Duration) {
        let (begin, mut events) = (Instant::now(), Events::with_capacity(1024));
        while begin.elapsed() < span {
            match self.poll.poll(&mut events, Some(Duration::ZERO)) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                outcome => outcome.expect("watching sockets"),
            }
            events.iter().for_each(|event| self.clients[event.token().0].receive());
        }
    }
}

fn connect(load: Load, server: &TestServer) -> std::io::Result<Box<dyn Stream>> {
    if load.unix {
        let stream = UnixStream::connect(server.dir().join(SOCKET))?;
        stream.set_nonblocking(true)?;
        return Ok(Box::new(mio::net::UnixStream::from_std(stream)));
    }
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, server.port()))?;
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    Ok(Box::new(mio::net::TcpStream::from_std(stream)))
}

impl Client {
    fn send(&mut self) {
        let request = &self.steps[self.step].0;
        let count = self.stream.write(request).expect("sending to the server");
        assert_eq!(count, request.len(), "what is in flight fits in the socket's buffer");
    }

    fn receive(&mut self) {
        let mut chunk = [0; CHUNK];
        match self.stream.read(&mut chunk) {
            Ok(0) => panic!("the server closed a connection"),
            Ok(count) => self.received.extend_from_slice(&chunk[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return,
            Err(error) => panic!("receiving from the server: {error}"),
        }
        let reply = &self.steps[self.step].1;
        if self.received.len() < reply.len() {
            return;
        }
        assert!(self.received == *reply, "the server answered {:?}", String::from_utf8_lossy(&self.received));
        self.received.clear();
        self.step = 1 - self.step;
        self.send();
    }
}
