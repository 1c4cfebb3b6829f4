//! Versions of Valkey, and what differs between them.

/// A version of Valkey, in its own numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Valkey {
    major: u32,
    minor: u32,
    patch: u32,
}

impl Valkey {
    /// Reads the field `valkey_version` of INFO, which other servers lack.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let text = str::from_utf8(text).ok()?;
        let mut numbers = text.split(|c: char| !c.is_ascii_digit()).map(str::parse);
        let mut next = || numbers.next()?.ok();
        Some(Self { major: next()?, minor: next()?, patch: next()? })
    }

    /// Whether the server moves slots as a whole.
    pub fn moves_whole_slots(self) -> bool {
        self.major >= 9
    }

    /// Whether a key event that a module receives leaves the executing client in the database of the event: valkey#1819 began it
    /// in 8.1.0, and #4024 ended it in the releases of July 2026. MOVE and COPY … DB then reach replicas and the AOF with the
    /// wrong SELECT, and the client's next commands go to the wrong database.
    pub fn stays_in_database_of_event(self) -> bool {
        match (self.major, self.minor) {
            (8, 1) => self.patch < 9,
            (9, 0) => self.patch < 5,
            (9, 1) => self.patch < 1,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read() {
        let read = |text: &str| Valkey::parse(text.as_bytes());
        assert_eq!(read("8.1.1"), Some(Valkey { major: 8, minor: 1, patch: 1 }));
        assert_eq!(read("9.1.0-rc2"), Some(Valkey { major: 9, minor: 1, patch: 0 }));
        for text in ["", "8", "8.1", "8.1.", "x.1.1", "8.1.x", "8.1.99999999999"] {
            assert_eq!(read(text), None, "{text}");
        }
        assert_eq!(Valkey::parse(&[0xff]), None);
    }

    #[test]
    fn the_versions_that_leave_a_client_in_another_database() {
        let rows = [
            ("7.2.4", false),
            ("7.2.14", false),
            ("8.0.0", false),
            ("8.0.10", false),
            ("8.1.0", true),
            ("8.1.1", true),
            ("8.1.8", true),
            ("8.1.9", false),
            ("8.1.10", false),
            ("8.2.0", false),
            ("9.0.0", true),
            ("9.0.4", true),
            ("9.0.5", false),
            ("9.1.0", true),
            ("9.1.1", false),
            ("9.1.2", false),
            ("9.2.0", false),
            ("10.0.0", false),
            // The development branch has no number of its own.
            ("255.255.255", false),
        ];
        for (text, expected) in rows {
            let version = Valkey::parse(text.as_bytes());
            assert_eq!(version.map(Valkey::stays_in_database_of_event), Some(expected), "{text}");
        }
    }

    #[test]
    fn the_versions_that_move_whole_slots() {
        for (text, expected) in [("7.2.4", false), ("8.1.9", false), ("9.0.0", true), ("10.0.0", true)] {
            let version = Valkey::parse(text.as_bytes());
            assert_eq!(version.map(Valkey::moves_whole_slots), Some(expected), "{text}");
        }
    }
}
