//! What a Rust file says to its reader: its comments, the names of its tests, and its messages.

/// Comments of full lines and the names of tests, each in the line in which it stands.
pub(super) fn comments_and_names(file: &str) -> impl Iterator<Item = String> {
    let mut is_test = false;
    file.lines().map(move |line| {
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
    })
}

/// The words of a function's name: a sentence of its own.
fn name(line: &str) -> String {
    let name = line.split_once("fn ").and_then(|(_, rest)| rest.split('(').next());
    name.map_or(String::new(), |name| format!("{} ¶", name.replace('_', " ")))
}

#[cfg(test)]
mod tests {
    use super::super::prose::Prose;
    use super::*;

    #[test]
    fn comments_test_names_and_nothing_else() {
        let file = "//! a\nfn f() {} // b\n    /// c `d`\n#[test]\n#[ignore = \"e\"]\nfn a_b_c() {\n// g\n}\nfn h_i() {}\n";
        assert_eq!(Prose::of(comments_and_names(file)).text(), "a\n¶\nc code\n¶\n¶\na b c ¶\ng\n¶\n¶\n");
    }
}
