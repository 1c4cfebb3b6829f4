//! Waiters with a connection each.

use std::io::Write;
use std::mem;
use std::net::{Ipv4Addr, TcpStream};
use std::time::Instant;

use crate::resp::command;

use super::bed::{LEASE, LOCK, ms_until};

/// Connects so many; none of them waits yet.
pub(super) fn connect(port: u16, count: usize) -> Vec<TcpStream> {
    let connect = |_| TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("a connection");
    (0..count).map(connect).collect()
}

/// They wait, all until the same moment.
pub(super) fn wait(streams: &mut [TcpStream], until: Instant) {
    for (index, stream) in streams.iter_mut().enumerate() {
        let (owner, wait) = (format!("w{index}"), ms_until(until).to_string());
        let request = command(&["RLOCK.ACQUIRE", LOCK, &owner, LEASE, "BLOCK", &wait]);
        stream.write_all(&request).expect("sending to the server");
    }
}

/// Lets this process, and the servers that it starts, open as many files as the system allows: a limit of 1,024 is
/// usual.
pub(super) fn raise_file_limit() {
    // SAFETY: an rlimit is two integers, for which zeroes are valid.
    let mut limit: libc::rlimit = unsafe { mem::zeroed() };
    // SAFETY: the pointer is to a valid rlimit, which the call fills.
    let outcome = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    assert_eq!(outcome, 0, "the limit of open files: {}", std::io::Error::last_os_error());
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: the pointer is to a valid rlimit, which the call only reads.
    let outcome = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
    assert_eq!(outcome, 0, "raising the limit of open files: {}", std::io::Error::last_os_error());
}
