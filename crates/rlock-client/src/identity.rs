//! Names of a client: on its connections, and in its owners.

use std::path::Path;

/// Whose the owners of a client are.
///
/// A child of a fork has a copy of it, so the process is compared before each use.
pub(crate) struct Identity {
    /// `<name>@<host>:<pid>:<16 random characters>`: the owners begin with it.
    pub(crate) text: String,
    process: u32,
}

impl Identity {
    /// Of a new client that the user gave this name.
    pub(crate) fn new(name: Option<&str>) -> Identity {
        let random = uuid::Uuid::new_v4().simple().to_string();
        let text = format!("{}:{random:.16}", called(name));
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

/// `<name>@<host>:<pid>`, as connections are called; the name is the program's unless the user gave one.
pub(crate) fn called(name: Option<&str>) -> String {
    let program = std::env::current_exe().ok();
    let program =
        program.as_deref().and_then(Path::file_stem).map(|stem| stem.to_string_lossy().into_owned());
    let name = name.map(str::to_string).or(program).unwrap_or_default();
    format!("{}@{}:{}", word(&name, "rlock-client"), word(&host(), "localhost"), std::process::id())
}

fn host() -> String {
    let kernels = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    kernels
        .or_else(|| std::env::var("HOSTNAME").or_else(|_| std::env::var("COMPUTERNAME")).ok())
        .unwrap_or_default()
}

/// At most 64 characters that have no meaning to servers, in channels, or to code that splits an owner.
fn word(text: &str, default: &str) -> String {
    let plain =
        |letter: char| if letter.is_ascii_alphanumeric() || "-._".contains(letter) { letter } else { '_' };
    let word: String = text.trim().chars().take(64).map(plain).collect();
    if word.is_empty() { default.to_string() } else { word }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_words() {
        assert!(called(Some("two words: {a}@b")).starts_with("two_words___a__b@"));
        assert!(called(Some(" ")).starts_with("rlock-client@"));
        assert!(called(Some(&"x".repeat(1_000))).starts_with(&("x".repeat(64) + "@")));
        let (one, other) = (Identity::new(Some("job")), Identity::new(Some("job")));
        assert_ne!(one.text, other.text);
        assert!(
            one.is_at_home()
                && one.is_mine(other.text.as_bytes()) == (one.text == other.text)
                && one.text.contains(&format!(":{}:", std::process::id()))
        );
    }
}
