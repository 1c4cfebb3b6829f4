//! What RLOCK.INFO tells.

use std::time::Duration;

use redis::Value;

use crate::error::Error;

/// The fields of RLOCK.INFO that the client uses.
#[derive(Debug, Default)]
pub(crate) struct Info {
    lease: i64,
    holders: Vec<(Vec<u8>, u64)>,
}

impl Info {
    /// Reads a reply; fields that are not known are skipped.
    pub(crate) fn read(value: Value) -> Result<Info, Error> {
        let mut info = Info { lease: -2, holders: Vec::new() };
        for (field, value) in pairs(value) {
            match (field.as_slice(), value) {
                (b"lease-ms", Value::Int(lease)) => info.lease = lease,
                (b"holders", Value::Array(holders)) => {
                    info.holders = holders.into_iter().map(holder).collect();
                }
                (b"kind", Value::BulkString(_) | Value::SimpleString(_)) => (),
                _ => (),
            }
        }
        Ok(info)
    }

    pub(crate) fn is_locked(&self) -> bool {
        self.lease != -2
    }

    pub(crate) fn holds_of(&self, owner: &[u8]) -> u64 {
        self.holders.iter().find(|(name, _)| name == owner).map_or(0, |(_, holds)| *holds)
    }

    pub(crate) fn remaining(&self) -> Option<Duration> {
        match self.lease {
            -2 => None,
            lease => Some(u64::try_from(lease).map_or(Duration::MAX, Duration::from_millis)),
        }
    }
}

fn holder(value: Value) -> (Vec<u8>, u64) {
    let mut holder = (Vec::new(), 0);
    for (field, value) in pairs(value) {
        match (field.as_slice(), value) {
            (b"owner", Value::BulkString(owner)) => holder.0 = owner,
            (b"holds", Value::Int(holds)) => holder.1 = u64::try_from(holds).unwrap_or(0),
            _ => (),
        }
    }
    holder
}

fn pairs(value: Value) -> Vec<(Vec<u8>, Value)> {
    let Value::Map(pairs) = value else { return Vec::new() };
    let text = |value| match value {
        Value::BulkString(bytes) => bytes,
        Value::SimpleString(text) => text.into_bytes(),
        _ => Vec::new(),
    };
    pairs.into_iter().map(|(field, value)| (text(field), value)).collect()
}
