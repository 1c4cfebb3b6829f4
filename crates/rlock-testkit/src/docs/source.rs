//! What a Rust file says to its reader: its comments, the names of its tests, and its messages.

use super::prose::Prose;

/// Comments of full lines and the names of tests.
pub(super) fn comments_and_names(file: &str) -> Prose {
    let mut is_test = false;
    let lines = file.lines().map(|line| {
        let line = line.trim_start();
        if let Some(comment) = ["///", "//!", "//"].iter().find_map(|mark| line.strip_prefix(mark)) {
            return comment.to_string();
        }
        if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            is_test = true;
        } else if !line.starts_with("#[") && std::mem::take(&mut is_test) {
            return name(line);
        }
        String::new()
    });
    Prose::of(lines)
}

/// The words of a function's name: a sentence of its own.
fn name(line: &str) -> String {
    let name = line.split_once("fn ").and_then(|(_, rest)| rest.split('(').next());
    name.map_or(String::new(), |name| format!("{} ¶", name.replace('_', " ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_test_names_and_nothing_else() {
        let file = "//! a\nfn f() {} // b\n    /// c `d`\n#[test]\n#[ignore = \"e\"]\nfn a_b_c() {\n// g\n}\nfn h_i() {}\n";
        assert_eq!(comments_and_names(file).text(), "a\n¶\nc code\n¶\n¶\na b c ¶\ng\n¶\n¶\n");
    }
}
