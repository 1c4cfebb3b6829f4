//! The addresses in the replies of a cluster: a client must reach each server through its proxy.

use std::collections::HashMap;

/// What stands before a port: in CLUSTER SLOTS, in MOVED, ASK and CLUSTER NODES, in CLUSTER SHARDS.
const BEFORE: [&[u8]; 3] = [b"127.0.0.1\r\n:", b"127.0.0.1:", b"port\r\n:"];

/// All ports have as many digits, so that no length changes.
const DIGITS: usize = 5;

/// Puts the proxy's ports in the place of the servers'.
pub(super) fn rename(bytes: &mut [u8], ports: &HashMap<u16, u16>) {
    for start in 0..bytes.len() {
        let here = bytes.get(start..).unwrap_or_default();
        let Some(before) = BEFORE.iter().find(|before| here.starts_with(before)) else { continue };
        let place = start + before.len()..start + before.len() + DIGITS;
        let port = bytes.get(place.clone()).and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
        let Some(renamed) = port.and_then(|port: u16| ports.get(&port)) else { continue };
        if let Some(digits) = bytes.get_mut(place).filter(|_| *renamed >= 10_000) {
            digits.copy_from_slice(renamed.to_string().as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ports_of_servers_are_renamed() {
        let ports = HashMap::from([(10_922, 40_001), (15_000, 40_002)]);
        let mut reply = *b"*4\r\n:10922\r\n*2\r\n$9\r\n127.0.0.1\r\n:10922\r\n-MOVED 15000 127.0.0.1:15000\r\n-ASK 1 127.0.0.1:12345\r\n";
        rename(&mut reply, &ports);
        let renamed = b"*4\r\n:10922\r\n*2\r\n$9\r\n127.0.0.1\r\n:40001\r\n-MOVED 15000 127.0.0.1:40002\r\n-ASK 1 127.0.0.1:12345\r\n";
        assert_eq!(reply.escape_ascii().to_string(), renamed.escape_ascii().to_string());
    }
}
