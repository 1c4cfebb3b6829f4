//! Thousands of connections in one thread.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{ErrorKind, Read, Write};
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};

use super::tally::Tally;
use crate::resp::{Reply, parse};

/// Clients of one protocol, driven by what arrives and by their timers.
pub(crate) trait Clients {
    /// A reply or a message has arrived on a connection.
    fn on_reply(&mut self, connection: usize, reply: &Reply<'_>, fleet: &mut Fleet);
    /// The time has come that the client asked for.
    fn on_timer(&mut self, client: usize, fleet: &mut Fleet);
    /// The notes of all clients.
    fn tally(&mut self) -> &mut Tally;
}

struct Connection {
    stream: TcpStream,
    inbox: Vec<u8>,
    outbox: Vec<u8>,
    arrived: Instant,
}

/// The connections and timers of some clients.
pub(crate) struct Fleet {
    poll: Poll,
    connections: Vec<Connection>,
    timers: BinaryHeap<Reverse<(Instant, usize)>>,
    /// The number of commands sent.
    pub(crate) sent: u64,
}

impl Fleet {
    /// Opens `count` connections to a server on this machine.
    pub(crate) fn connect(port: u16, count: usize) -> Fleet {
        let poll = Poll::new().expect("an epoll instance");
        let connections = (0..count).map(|index| {
            let stream = std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap_or_else(|error| {
                panic!("connection {index}: {error}; raise the limit of open files (ulimit -n)")
            });
            stream.set_nodelay(true).expect("TCP_NODELAY");
            stream.set_nonblocking(true).expect("a socket that does not block");
            let mut stream = TcpStream::from_std(stream);
            let interest = Interest::READABLE | Interest::WRITABLE;
            poll.registry().register(&mut stream, Token(index), interest).expect("watching a socket");
            Connection { stream, inbox: Vec::new(), outbox: Vec::new(), arrived: Instant::now() }
        });
        let connections = connections.collect();
        Fleet { poll, connections, timers: BinaryHeap::new(), sent: 0 }
    }

    /// Sends one encoded command.
    pub(crate) fn send(&mut self, connection: usize, command: &[u8]) {
        self.sent += 1;
        let connection = &mut self.connections[connection];
        connection.outbox.extend_from_slice(command);
        connection.flush();
    }

    /// When something was last read from a connection.
    pub(crate) fn arrived(&self, connection: usize) -> Instant {
        self.connections[connection].arrived
    }

    /// Calls [`Clients::on_timer`] for this client later.
    pub(crate) fn after(&mut self, delay: Duration, client: usize) {
        self.timers.push(Reverse((Instant::now() + delay, client)));
    }

    /// Lets the clients work until `done` returns true; returns `false` if the deadline came first.
    pub(crate) fn run<C: Clients>(
        &mut self,
        clients: &mut C,
        deadline: Instant,
        done: impl Fn(&Tally) -> bool,
    ) -> bool {
        let mut events = Events::with_capacity(1024);
        loop {
            if done(clients.tally()) {
                return true;
            }
            let now = Instant::now();
            if now >= deadline {
                return false;
            }
            let next = self.timers.peek().map_or(deadline, |Reverse((at, _))| (*at).min(deadline));
            match self.poll.poll(&mut events, Some(next.saturating_duration_since(now))) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                outcome => outcome.expect("waiting for sockets"),
            }
            // All are read before any is served: each client stands for a process, and none waits for another.
            for event in &events {
                self.connections[event.token().0].receive();
            }
            for event in &events {
                self.serve(event.token().0, clients);
            }
            while let Some(Reverse((at, client))) = self.timers.peek().copied() {
                if at > Instant::now() {
                    break;
                }
                self.timers.pop();
                clients.on_timer(client, self);
            }
        }
    }

    fn serve<C: Clients>(&mut self, index: usize, clients: &mut C) {
        let connection = &mut self.connections[index];
        connection.flush();
        let mut inbox = std::mem::take(&mut connection.inbox);
        let mut taken = 0;
        while let Some((reply, length)) = parse(&inbox[taken..]).expect("the Redis protocol") {
            if let Reply::Error(text) = reply {
                panic!("the server refused a command: {}", String::from_utf8_lossy(text));
            }
            clients.on_reply(index, &reply, self);
            taken += length;
        }
        inbox.drain(..taken);
        self.connections[index].inbox = inbox;
    }
}

impl Connection {
    fn flush(&mut self) {
        while !self.outbox.is_empty() {
            match self.stream.write(&self.outbox) {
                Ok(count) => drop(self.outbox.drain(..count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => panic!("sending to the server: {error}"),
            }
        }
    }

    /// Reads all bytes that have arrived: the poller reports each arrival only once.
    fn receive(&mut self) {
        let mut chunk = [0; 16 * 1024];
        loop {
            match self.stream.read(&mut chunk) {
                Ok(0) => panic!("the server closed a connection"),
                Ok(count) => {
                    self.arrived = Instant::now();
                    self.inbox.extend_from_slice(&chunk[..count]);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => panic!("receiving from the server: {error}"),
            }
        }
    }
}
