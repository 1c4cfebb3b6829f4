//! The words of identifiers: what stands in `snake_case` and `CamelCase` names is checked as prose is.

use std::sync::LazyLock;

use regex::Regex;

use super::prose::without_comments_and_literals;
use super::style::Finding;

/// Words that no identifier has, and the better ones. A public name, such as that of an option, is a literal, which is not read.
const WORDS: [(&[&str], &str); 10] = [
    (&["foreign"], "redisson, or \"other\" for other clients"),
    (&["party", "parties"], "owner, reader, writer, claim"),
    (&["told", "untold"], "reply, announced, notified, promised"),
    (&["came"], "arrived, restored"),
    (&["went"], "departed, disconnected"),
    (&["hear", "hears", "heard", "unheard", "ears"], "listens, subscribed, received, notified"),
    (&["mine", "ours", "theirs"], "own, native, other"),
    (&["elsewhere"], "moved, migrating"),
    (&["trouble"], "the fault"),
    (&["whoever", "somebody"], "owner, waiter, client"),
];

/// Every place in a Rust file where an identifier has a word that is not used.
#[must_use]
pub fn identifier_findings(file: &str) -> Vec<Finding> {
    static NAME: LazyLock<Regex> = LazyLock::new(|| Regex::new("[A-Za-z_][A-Za-z0-9_]*").expect("a pattern"));
    let mut findings = Vec::new();
    for (line, text) in without_comments_and_literals(file).lines().enumerate() {
        for name in NAME.find_iter(text) {
            findings.extend(better(name.as_str()).map(|better| Finding {
                line: line + 1,
                words: name.as_str().to_string(),
                better,
            }));
        }
    }
    findings
}

/// The better words for an identifier, if one of its words is not used.
fn better(name: &str) -> Option<&'static str> {
    let words = words(name);
    let has = |unused: &[&str]| words.iter().any(|word| unused.contains(&word.as_str()));
    WORDS.iter().find(|(unused, _)| has(unused)).map(|(_, better)| *better)
}

/// The words of an identifier, in lower case.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for c in name.chars() {
        if c == '_' || c.is_uppercase() && was_lower {
            words.push(String::new());
        }
        was_lower = c.is_lowercase() || c.is_ascii_digit();
        if let Some(word) = words.last_mut().filter(|_| c != '_') {
            word.extend(c.to_lowercase());
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_snake_and_camel_case() {
        let cases = [
            ("is_elsewhere", vec!["is", "elsewhere"]),
            ("ForeignDelete", vec!["foreign", "delete"]),
            ("HEARS_CLIENTS", vec!["hears", "clients"]),
            ("_mine", vec!["", "mine"]),
            ("UnixMs", vec!["unix", "ms"]),
        ];
        for (name, expected) in cases {
            assert_eq!(words(name), expected, "{name}");
        }
    }

    #[test]
    fn identifiers_are_read_and_comments_and_literals_are_not() {
        let file = "// foreign\nlet told = party(\"went\", 'x');\nbecame(c\"foreign_turns\"); Need::Mine\n/* */ years";
        let found: Vec<(usize, String)> =
            identifier_findings(file).into_iter().map(|finding| (finding.line, finding.words)).collect();
        assert_eq!(found, [(2, "told".into()), (2, "party".into()), (3, "Mine".into())]);
    }
}
