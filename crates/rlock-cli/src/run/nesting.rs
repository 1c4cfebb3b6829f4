//! A run inside a run of the same lock: it would wait for itself for ever.
//!
//! Each run passes to its command, by a variable, the locks that it and the runs around it hold. An owner that is
//! listed there and holds the lock now proves the nesting, by whatever URL: a variable that outlives its run, or
//! another server's lock of the same name, does not.

use std::env::var_os;
use std::ffi::OsString;

use rlock_client::Info;

use super::kind::Kind;
use crate::names::{decoded, encoded};

/// The variable: holds that are separated by spaces, with fields that are separated by commas and percent-encoded.
pub(super) const VARIABLE: &str = "RLOCK_HELD";

/// A hold of a run around this one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hold {
    pub(super) owner: Vec<u8>,
    pub(super) kind: Kind,
    /// The servers and the database, as this run's URL names them.
    pub(super) server: String,
    pub(super) key: Vec<u8>,
}

/// The holds of the runs around this one.
pub(super) fn around() -> Vec<Hold> {
    let text = var_os(VARIABLE).unwrap_or_default();
    text.to_string_lossy().split(' ').filter_map(Hold::read).collect()
}

/// The variable for a command under `hold`.
pub(super) fn with(hold: &Hold) -> OsString {
    let holds = around().into_iter().chain([hold.clone()]);
    holds.map(|hold| hold.text()).collect::<Vec<_>>().join(" ").into()
}

impl Hold {
    fn read(text: &str) -> Option<Hold> {
        let mut fields = text.split(',');
        let (owner, kind, server, key) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
        let server = String::from_utf8(decoded(server)?).ok()?;
        Some(Hold { owner: decoded(owner)?, kind: Kind::named(kind)?, server, key: decoded(key)? })
    }

    fn text(&self) -> String {
        let Hold { owner, kind, server, key } = self;
        format!("{},{},{},{}", encoded(owner), kind.name(), encoded(server.as_bytes()), encoded(key))
    }

    /// Whether `wanted` may wait until this hold ends. Readers share, and a lock of another type is refused at once.
    pub(super) fn excludes(&self, wanted: &Hold) -> bool {
        let same_type = match (self.kind, wanted.kind) {
            (Kind::Plain | Kind::Fair, Kind::Plain | Kind::Fair) => true,
            (Kind::Read, Kind::Read) => false,
            (Kind::Read | Kind::Write, Kind::Read | Kind::Write) => true,
            (Kind::Permit(_), Kind::Permit(_)) => true,
            _ => false,
        };
        self.key == wanted.key && same_type
    }

    /// Whether this hold is one of those that `info` shows; by the name of the server where the user may not look, or
    /// where there are more holders than shown.
    pub(super) fn is_in(&self, info: Option<&Info>, server: &str) -> bool {
        let listed = |info: &Info| info.holders.iter().any(|holder| holder.owner == self.owner);
        let all =
            |info: &Info| usize::try_from(info.holder_count).is_ok_and(|count| count <= info.holders.len());
        match info {
            Some(info) if listed(info) => true,
            Some(info) if all(info) => false,
            _ => self.server == server,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hold(kind: Kind, key: &str) -> Hold {
        Hold { owner: b"a,b:1".to_vec(), kind, server: "h:1//0".to_string(), key: key.into() }
    }

    #[test]
    fn holds_survive_the_environment() {
        for kind in [Kind::Plain, Kind::Read, Kind::Write, Kind::Fair, Kind::Permit(1)] {
            let mut hold = hold(kind, "a b,c%2C");
            hold.key.extend([0, 255]);
            assert!(!hold.text().contains(' '));
            assert_eq!(Hold::read(&hold.text()), Some(hold));
        }
        for text in ["", "a", "a,plain,h", "a,other,h,k", "a,plain,h,%2", "%zz,plain,h,k"] {
            assert_eq!(Hold::read(text), None, "{text}");
        }
    }

    #[test]
    fn readers_share_and_others_exclude() {
        let cases = [
            (Kind::Plain, Kind::Plain, true),
            (Kind::Plain, Kind::Fair, true),
            (Kind::Fair, Kind::Plain, true),
            (Kind::Read, Kind::Read, false),
            (Kind::Read, Kind::Write, true),
            (Kind::Write, Kind::Read, true),
            (Kind::Write, Kind::Write, true),
            (Kind::Plain, Kind::Read, false),
            (Kind::Write, Kind::Plain, false),
            (Kind::Permit(1), Kind::Permit(2), true),
            (Kind::Permit(1), Kind::Plain, false),
        ];
        for (outer, inner, expected) in cases {
            assert_eq!(hold(outer, "a").excludes(&hold(inner, "a")), expected, "{inner:?} in {outer:?}");
            assert!(!hold(outer, "a").excludes(&hold(inner, "b")));
        }
    }
}
