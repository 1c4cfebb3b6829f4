//! The nodes of a cluster, as one of them lists them.

use redis::cmd;

use super::PATIENCE;
use super::link::Link;
use super::reply::text;
use super::target::{Address, Target, parted};
use crate::error::Error;

/// A node in CLUSTER NODES.
pub(super) struct Node {
    pub(super) address: Address,
    flags: Vec<String>,
    /// From the first to the last of each range.
    pub(super) slots: Vec<(u16, u16)>,
}

impl Node {
    pub(super) fn is(&self, flag: &str) -> bool {
        self.flags.iter().any(|own| own == flag)
    }

    /// Whether it has this slot.
    pub(super) fn has(&self, slot: u16) -> bool {
        self.slots.iter().any(|(first, last)| (*first..=*last).contains(&slot))
    }

    /// Reads a line: id, address, flags, primary, ping, pong, epoch, link, slots.
    fn read(line: &str, asked: &Target) -> Option<Node> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, address, flags, ..] = words.as_slice() else { return None };
        // host:port@bus,hostname
        let (host, port) = parted(address.split(['@', ',']).next()?)?;
        // A node that has not been spoken to by address knows none of its own.
        let host = if host.is_empty() { asked.host().to_string() } else { host };
        let flags = flags.split(',').map(str::to_string).collect();
        let slots = words.get(8..).unwrap_or_default().iter().filter_map(|word| range(word)).collect();
        Some(Node { address: (host, port), flags, slots })
    }
}

/// `5` or `5-9`; slots on their way stand in brackets.
fn range(word: &str) -> Option<(u16, u16)> {
    let (first, last) = word.split_once('-').unwrap_or((word, word));
    Some((first.parse().ok()?, last.parse().ok()?))
}

pub(super) fn nodes(link: &mut Link, asked: &Target) -> Result<Vec<Node>, Error> {
    let mut command = cmd("CLUSTER");
    command.arg("NODES");
    let lines = text(&link.ask(&command, PATIENCE)?).unwrap_or_default();
    Ok(lines.lines().filter_map(|line| Node::read(line, asked)).collect())
}

/// The slot of a key: of its hash tag, the bytes between its first `{` and the next `}`, if there are any.
pub(super) fn slot_of(key: &[u8]) -> u16 {
    let mut parts = key.splitn(2, |byte| *byte == b'{').skip(1);
    let mut tag = parts.next().unwrap_or_default().splitn(2, |byte| *byte == b'}');
    let key = match (tag.next(), tag.next()) {
        (Some(tag), Some(_)) if !tag.is_empty() => tag,
        _ => key,
    };
    let shift = |sum: u16, _| (sum << 1) ^ if sum & 0x8000 == 0 { 0 } else { 0x1021 };
    let crc = |sum: u16, byte: &u8| (0..8).fold(sum ^ (u16::from(*byte) << 8), shift);
    key.iter().fold(0, crc) % 16_384
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::Certificates;
    use crate::server::Place;

    #[test]
    fn lines_of_a_cluster_are_read() {
        let asked = Place::parse("redis://10.0.0.9:7000", Certificates::default()).unwrap().starts.remove(0);
        let cases = [
            ("a 10.0.0.1:7000@17000 master - 0 0 1 connected 0-5", Some(("10.0.0.1", 7000, "master", true))),
            ("a :7001@17001,host myself,slave b 0 0 1 connected", Some(("10.0.0.9", 7001, "myself", false))),
            ("a ::1:7002@17002 slave,nofailover b 0 0 1 connected", Some(("::1", 7002, "nofailover", false))),
            ("a", None),
            ("", None),
        ];
        for (line, expected) in cases {
            let node = Node::read(line, &asked);
            let seen =
                node.as_ref().map(|node| (node.address.0.as_str(), node.address.1, !node.slots.is_empty()));
            assert_eq!(seen, expected.map(|(host, port, _, slots)| (host, port, slots)), "{line}");
            assert!(expected.is_none_or(|(_, _, flag, _)| node.unwrap().is(flag)), "{line}");
        }
    }

    #[test]
    fn slots_are_those_of_the_servers() {
        // As CLUSTER KEYSLOT says.
        let cases = [
            ("123456789", 12_739),
            ("foo", 12_182),
            ("", 0),
            ("a{foo}b", 12_182),
            ("{foo", 13_308),
            ("{}foo", 9_500),
        ];
        for (key, expected) in cases {
            assert_eq!(slot_of(key.as_bytes()), expected, "{key}");
        }
    }
}
