//! The names of connections.

use std::path::Path;

/// The name of a connection in CLIENT LIST, `<name>@<host>:<pid>`. The name is the program's unless the user gave one.
pub fn connection_name(name: Option<&str>) -> String {
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

/// At most 64 characters that have no meaning to servers, in channels, or to code that splits a name.
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
        assert!(connection_name(Some("two words: {a}@b")).starts_with("two_words___a__b@"));
        assert!(connection_name(Some(" ")).starts_with("rlock-client@"));
        assert!(connection_name(Some(&"x".repeat(1_000))).starts_with(&("x".repeat(64) + "@")));
    }
}
