//! The server under test, and its version.

/// A server of the Redis family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerName {
    /// Redis itself.
    Redis,
    /// Valkey, which reports 7.2.4 as its Redis version.
    Valkey,
    /// Redict, which reports 7.2.4 as its Redis version.
    Redict,
}

/// The name and the version of a server, in its own numbering.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerVersion {
    /// Which server it is.
    pub name: ServerName,
    /// First number.
    pub major: u32,
    /// Second number.
    pub minor: u32,
    /// Third number.
    pub patch: u32,
}

impl ServerVersion {
    /// Whether this is `name` in version `major.minor` or a later one.
    pub fn is_at_least(&self, name: ServerName, major: u32, minor: u32) -> bool {
        self.name == name && (self.major, self.minor) >= (major, minor)
    }

    /// Parses the first line of `<server> --version`: `Valkey server v=9.1.2 sha=…`.
    pub(crate) fn from_banner(banner: &str) -> Option<ServerVersion> {
        let (name, rest) = banner.split_once(" server v=")?;
        let name = match name.trim() {
            "Redis" => ServerName::Redis,
            "Valkey" => ServerName::Valkey,
            "Redict" => ServerName::Redict,
            _ => return None,
        };
        Self::with_numbers(name, rest.split_whitespace().next()?)
    }

    fn with_numbers(name: ServerName, numbers: &str) -> Option<ServerVersion> {
        // A pre-release has more after the third number: 8.0.0-rc1.
        let mut parts = numbers.split(|c: char| !c.is_ascii_digit()).map(str::parse);
        let mut next = || parts.next()?.ok();
        Some(ServerVersion { name, major: next()?, minor: next()?, patch: next()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn banners() {
        let version = ServerVersion::from_banner("Valkey server v=9.1.2 sha=0:0 bits=64").unwrap();
        assert_eq!((version.major, version.minor, version.patch), (9, 1, 2));
        assert!(version.is_at_least(ServerName::Valkey, 8, 1));
        assert!(!version.is_at_least(ServerName::Redis, 8, 1));
        assert!(ServerVersion::from_banner("Redis server v=8.0.0-rc1 sha=0").is_some());
        assert_eq!(ServerVersion::from_banner("bash 5"), None);
    }
}
