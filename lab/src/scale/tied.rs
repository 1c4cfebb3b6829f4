//! Connections that hold a lock each, and do nothing.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};

use rlock_testkit::TestServer;

use super::results::Tied;
use super::{Effort, UUID, fill};
use crate::named::named;
use crate::placement::Placement;
use crate::resp::command;
use crate::spread::rounded;
use crate::wire::Wire;

named! {
    /// How the connections hold their locks.
    enum Kind {
        Plain = "plain", "connections with a held lock each";
        Session = "session", "the same, tied by SESSION";
    }
}

/// Opens all connections; what they take includes their locks.
pub(super) fn measure(kind: Kind, effort: Effort) -> Tied {
    let count = effort.tied;
    let server = TestServer::builder().conf("maxclients", count + 100).start();
    let mut wire = Wire::connect(server.port()).expect("a connection");
    Placement::TwoCores.apply(server.pid(), None);
    let before = wire.info("memory", "used_memory");
    let connect = |index: usize| {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, server.port())).expect("a connection");
        let (lock, owner) = (format!("lock:{index:05}"), format!("{UUID}:{index}"));
        let session: &[&str] = if kind == Kind::Session { &["SESSION", "1000"] } else { &[] };
        let words = [&["RLOCK.ACQUIRE", &lock, &owner, "3600000"], session].concat();
        stream.write_all(&command(&words)).expect("sending to the server");
        let mut reply = [0; 22];
        stream.read_exact(&mut reply).expect("the server's answer");
        assert_eq!(&reply, b"*3\r\n:1\r\n:3600000\r\n:0\r\n", "the lock is free");
        stream
    };
    let _streams: Vec<TcpStream> = (0..count).map(connect).collect();
    let grown = wire.info("memory", "used_memory") - before;
    if kind == Kind::Session {
        assert_eq!(wire.info("rlock", "rlock_ties"), count as i64, "all holds are tied");
    }
    let bytes_each = rounded(grown as f64 / count as f64);
    Tied {
        what: kind.name().into(),
        connections: count,
        bytes_each,
        idle_percent: fill::idle(&server, effort),
    }
}
