//! The code that a document shows.

use std::path::Path;

use super::markdown::{read, separate};

/// All fenced code of `document` in `language`, one block after the other; panics where there is none.
#[must_use]
#[track_caller]
pub fn code(document: &Path, language: &str) -> String {
    let (name, text) = read(document);
    let (_, fences) = separate(&text);
    let blocks = fences.iter().filter(|fence| fence.language == language);
    let code: String = blocks.flat_map(|fence| &fence.lines).map(|line| format!("{line}\n")).collect();
    assert!(!code.is_empty(), "{name} shows no ```{language}");
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_one_language_are_joined() {
        let dir = crate::DataDir::temporary();
        let page = dir.path().join("page.md");
        std::fs::write(&page, "a\n```go\none\n```\nb\n```sh\ntwo\n```\n```go\nthree\n```\n").unwrap();
        assert_eq!(code(&page, "go"), "one\nthree\n");
    }
}
