//! The name of a client, in its owners.

use rlock_links::connection_name;

/// The identity of a client, with which its owners begin.
///
/// A child of a fork has a copy of it, so the process is compared before each use.
pub(crate) struct Identity {
    /// `<name>@<host>:<pid>:<16 random characters>`: the owners begin with it.
    pub(crate) text: String,
    process: u32,
}

impl Identity {
    /// The identity of a new client. `name` is the one that the user gave it.
    pub(crate) fn new(name: Option<&str>) -> Identity {
        let random = uuid::Uuid::new_v4().simple().to_string();
        let text = format!("{}:{random:.16}", connection_name(name));
        Identity { text, process: std::process::id() }
    }

    /// Whether this client has made the owner.
    pub(crate) fn is_mine(&self, owner: &[u8]) -> bool {
        owner.starts_with(self.text.as_bytes())
    }

    /// Whether this is the process in which the client was made.
    pub(crate) fn is_at_home(&self) -> bool {
        std::process::id() == self.process
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_clients_of_one_name_have_two_identities() {
        let (one, other) = (Identity::new(Some("job")), Identity::new(Some("job")));
        assert_ne!(one.text, other.text);
        assert!(
            one.is_at_home()
                && one.is_mine(other.text.as_bytes()) == (one.text == other.text)
                && one.text.contains(&format!(":{}:", std::process::id()))
        );
    }
}
