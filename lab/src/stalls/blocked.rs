//! Waiters with a connection each.

use std::io::Write;
use std::net::{Ipv4Addr, TcpStream};
use std::time::Instant;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::resp::command;

use super::bed::{LEASE, Place, ms_until};

/// Opens `count` connections; none of them waits yet.
pub(super) fn connect(port: u16, count: usize) -> Vec<TcpStream> {
    let connect = |_| TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("a connection");
    (0..count).map(connect).collect()
}

/// Makes all of them wait, until the same moment.
pub(super) fn wait(streams: &mut [TcpStream], place: &Place, until: Instant) {
    for (index, stream) in streams.iter_mut().enumerate() {
        let (owner, wait) = (place.waiter(index), ms_until(until).to_string());
        let request = command(&["RLOCK.ACQUIRE", &place.lock, &owner, LEASE, "BLOCK", &wait]);
        stream.write_all(&request).expect("sending to the server");
    }
}

/// Lets this process, and the servers that it starts, open as many files as the system allows: a limit of 1,024 is
/// usual.
pub(crate) fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })
        .expect("raising the limit of open files to what the system allows");
}
