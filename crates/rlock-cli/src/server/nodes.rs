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
    /// The slots, from the first to the last of each range.
    pub(super) slots: Vec<(usize, usize)>,
}

impl Node {
    pub(super) fn is(&self, flag: &str) -> bool {
        self.flags.iter().any(|own| own == flag)
    }

    /// Whether it has this slot.
    pub(super) fn has(&self, slot: usize) -> bool {
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
fn range(word: &str) -> Option<(usize, usize)> {
    let (first, last) = word.split_once('-').unwrap_or((word, word));
    Some((first.parse().ok()?, last.parse().ok()?))
}

pub(super) fn nodes(link: &mut Link, asked: &Target) -> Result<Vec<Node>, Error> {
    let lines = text(&link.ask(cmd("CLUSTER").arg("NODES"), PATIENCE)?).unwrap_or_default();
    Ok(lines.lines().filter_map(|line| Node::read(line, asked)).collect())
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
}
