//! The servers' map of slots.

use redis::Value;

use super::slot::SLOTS;
use crate::error::Error;
use crate::link::in_url;
use crate::refusal::Refusal;

/// Which server has which slots; servers as `host:port`.
#[derive(Debug, Default)]
pub(super) struct Map {
    addresses: Vec<String>,
    /// For each slot, the index of its server in `addresses`.
    slots: Vec<Option<u16>>,
}

impl Map {
    /// Reads the reply to CLUSTER SLOTS that came from `asked`, a host as it stands in a URL.
    pub(super) fn read(reply: &Value, asked: &str) -> Result<Map, Error> {
        let unexpected = || Error::transport(asked, format!("CLUSTER SLOTS was answered with {reply:?}"));
        let Value::Array(ranges) = reply else { return Err(unexpected()) };
        let mut map = Map::default();
        for range in ranges {
            let (first, last, address) = read_range(range, asked).ok_or_else(unexpected)?;
            (first..=last).for_each(|slot| map.assign(slot, &address));
        }
        if map.addresses.is_empty() {
            return Err(Error::transport(asked, "no server of its cluster has any slots"));
        }
        Ok(map)
    }

    /// The server that has a slot.
    pub(super) fn address(&self, slot: usize) -> Option<&str> {
        let index = (*self.slots.get(slot)?)?;
        self.addresses.get(usize::from(index)).map(String::as_str)
    }

    /// A slot that this server has.
    pub(super) fn slot_at(&self, address: &str) -> Option<usize> {
        let index = self.addresses.iter().position(|other| other == address)?;
        self.slots.iter().position(|slot| slot.map(usize::from) == Some(index))
    }

    /// All servers that have slots, or had until they moved.
    pub(super) fn addresses(&self) -> &[String] {
        &self.addresses
    }

    /// Whether a server has slots, or had until they moved.
    pub(super) fn has(&self, address: &str) -> bool {
        self.addresses.iter().any(|other| other == address)
    }

    /// Notes that this server has a slot.
    pub(super) fn assign(&mut self, slot: usize, address: &str) {
        let known = self.addresses.iter().position(|other| other == address);
        let index = known.unwrap_or_else(|| {
            self.addresses.push(address.to_string());
            self.addresses.len().saturating_sub(1)
        });
        if self.slots.len() < SLOTS {
            self.slots.resize(SLOTS, None);
        }
        if let Some(place) = self.slots.get_mut(slot) {
            *place = u16::try_from(index).ok();
        }
    }

    /// The server that has taken over from `address`: the only one that has the slots of `address` in the later map.
    pub(super) fn heir<'m>(&self, address: &str, later: &'m Map) -> Option<&'m str> {
        let mut heirs =
            (0..SLOTS).filter(|slot| self.address(*slot) == Some(address)).map(|slot| later.address(slot));
        let heir = heirs.next()??;
        (heir != address && heirs.all(|other| other == Some(heir))).then_some(heir)
    }
}

impl PartialEq for Map {
    fn eq(&self, other: &Map) -> bool {
        (0..SLOTS).all(|slot| self.address(slot) == other.address(slot))
    }
}

/// The first and the last slot, and the primary.
fn read_range(range: &Value, asked: &str) -> Option<(usize, usize, String)> {
    let Value::Array(range) = range else { return None };
    let [Value::Int(first), Value::Int(last), Value::Array(primary), ..] = range.as_slice() else {
        return None;
    };
    let [host, Value::Int(port), ..] = primary.as_slice() else { return None };
    let host = match host {
        // It knows no name of its own, or only the one by which it was asked.
        Value::Nil => asked.to_string(),
        Value::BulkString(host) if host.is_empty() || host == b"?" => asked.to_string(),
        Value::BulkString(host) => in_url(std::str::from_utf8(host).ok()?),
        _ => return None,
    };
    let (first, last) = (usize::try_from(*first).ok()?, usize::try_from(*last).ok()?);
    (last < SLOTS).then(|| (first, last, format!("{host}:{port}")))
}

/// The host of `host:port`, as it stands in a URL.
pub(super) fn host_of(address: &str) -> &str {
    address.rsplit_once(':').map_or(address, |(host, _)| host)
}

/// A refusal that names another server.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Redirection {
    pub(super) slot: usize,
    /// `host:port`; without a host if it is the host of the server that refused.
    pub(super) address: String,
    /// Whether it holds for one command only: ASK.
    pub(super) asks: bool,
}

impl Redirection {
    /// Reads `MOVED slot host:port` and `ASK slot host:port`.
    pub(super) fn read(refusal: &Refusal) -> Option<Redirection> {
        let asks = match refusal.code.as_str() {
            "MOVED" => false,
            "ASK" => true,
            _ => return None,
        };
        let (slot, address) = refusal.details.split_once(' ')?;
        let (host, port) = address.rsplit_once(':')?;
        let slot = slot.parse().ok().filter(|slot| *slot < SLOTS)?;
        let port: u16 = port.parse().ok()?;
        Some(Redirection { slot, address: format!("{}:{port}", in_url(host)), asks })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use redis::Value::{Array, BulkString, Int, Nil};

    fn range(first: i64, last: i64, host: Value, port: i64) -> Value {
        let replica = Array(vec![BulkString("10.0.0.9".into()), Int(1), BulkString("id".into())]);
        let primary = Array(vec![host, Int(port), BulkString("id".into()), Value::Map(Vec::new())]);
        Array(vec![Int(first), Int(last), primary, replica])
    }

    fn host(name: &str) -> Value {
        BulkString(name.into())
    }

    #[test]
    fn slots_are_read_with_hosts_of_every_kind() {
        let ranges = [
            range(0, 99, host("10.0.0.1"), 7),
            range(100, 199, host("::1"), 8),
            range(200, 299, host(""), 9),
            range(300, 16_383, Nil, 10),
        ];
        let map = Map::read(&Array(ranges.to_vec()), "asked").unwrap();
        for (slot, address) in
            [(0, "10.0.0.1:7"), (99, "10.0.0.1:7"), (100, "[::1]:8"), (250, "asked:9"), (16_383, "asked:10")]
        {
            assert_eq!(map.address(slot), Some(address));
        }
        let holes = Map::read(&Array(vec![range(5, 6, host("a"), 7)]), "asked").unwrap();
        assert_eq!((holes.address(4), holes.address(6), holes.addresses().len()), (None, Some("a:7"), 1));
        for bad in [Array(vec![]), Nil, Array(vec![range(0, 16_384, Nil, 7)]), Array(vec![Int(1)])] {
            assert!(Map::read(&bad, "asked").is_err(), "{bad:?}");
        }
    }

    #[test]
    fn an_heir_has_everything() {
        let map = |split: i64, one: &str, two: &str| {
            let ranges = vec![range(0, split, host(one), 1), range(split + 1, 16_383, host(two), 1)];
            Map::read(&Array(ranges), "").unwrap()
        };
        let old = map(8_000, "a", "b");
        assert_eq!(old.heir("a:1", &map(8_000, "c", "b")), Some("c:1"));
        assert_eq!(old.heir("a:1", &map(4_000, "c", "b")), None);
        assert_eq!(old.heir("b:1", &map(8_000, "c", "b")), None);
        assert!(old == map(8_000, "a", "b") && old != map(8_001, "a", "b"));
    }

    #[test]
    fn redirections_are_read() {
        let read = |code: &str, details: &str| {
            Redirection::read(&Refusal { code: code.to_string(), details: details.to_string() })
        };
        let redirection =
            |slot, address: &str, asks| Some(Redirection { slot, address: address.into(), asks });
        assert_eq!(read("MOVED", "3999 127.0.0.1:6381"), redirection(3_999, "127.0.0.1:6381", false));
        assert_eq!(read("ASK", "1 ::1:6381"), redirection(1, "[::1]:6381", true));
        assert_eq!(read("MOVED", "1 :6381"), redirection(1, ":6381", false));
        for (code, details) in [("ERR", "1 a:1"), ("MOVED", "16384 a:1"), ("MOVED", "1 a"), ("ASK", "")] {
            assert_eq!(read(code, details), None, "{code} {details}");
        }
    }
}
