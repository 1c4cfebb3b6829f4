//! The sentences of a file, without its code: of Markdown, of comments, of Rust's documentation and string literals.

use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::markdown::{Line, pattern, separate, without_comments};
use super::source::comments_and_names;

/// Stands where a sentence cannot reach across: an empty line, a code block.
const BREAK: &str = "¶";

/// The sentences of a file; each stands in the line in which it stands in the file.
#[derive(Debug)]
pub struct Prose {
    text: String,
}

impl Prose {
    /// Of a Markdown document: without code, HTML comments, the targets of links, and what a program writes between
    /// `<!-- name -->` and `<!-- end of name -->`.
    #[must_use]
    pub fn markdown(document: &str) -> Prose {
        let document = without_comments(&blank_generated(document));
        let (lines, _) = separate(&document);
        let lines = lines.into_iter().map(|(_, line)| match line {
            Line::Text(line) => line.to_string(),
            Line::Code => String::new(),
        });
        Prose::of(lines)
    }

    /// Of comments that begin with `mark` (`#`), which stand in lines of their own.
    #[must_use]
    pub fn comments(file: &str, mark: &str) -> Prose {
        Prose::of(
            file.lines().map(|line| line.trim_start().strip_prefix(mark).unwrap_or_default().to_string()),
        )
    }

    /// Of what a Makefile prints: the help of its targets, and `echo "…"`.
    #[must_use]
    pub fn makefile(file: &str) -> Prose {
        let printed = |line: &str| match line.split_once(": ").or(line.split_once(":")) {
            Some((_, help)) if line.starts_with(|c: char| c.is_ascii_lowercase()) && help.contains("## ") => {
                help.split_once("## ").map(|(_, help)| help.to_string())
            }
            _ => line
                .split_once("echo \"")
                .map(|(_, said)| said.trim_end_matches(['"', ';', '}', ' ']).to_string()),
        };
        Prose::of(file.lines().map(|line| printed(line).unwrap_or_default()))
    }

    /// Of the public documentation of a Rust file: that of its module, and of each public item.
    #[must_use]
    pub fn rustdoc(file: &str) -> Prose {
        let mut lines: Vec<String> = Vec::new();
        // The lines of a comment whose item has not come yet.
        let mut pending: Vec<usize> = Vec::new();
        let mut inside_public = false;
        for line in file.lines() {
            let content = line.trim_start();
            if line.starts_with("mod tests") {
                break;
            }
            lines.push(String::new());
            let number = lines.len() - 1;
            if let Some(comment) = content.strip_prefix("//!") {
                lines[number] = comment.to_string();
            } else if let Some(comment) = content.strip_prefix("///") {
                lines[number] = comment.to_string();
                pending.push(number);
            } else if !content.starts_with("#[") {
                inside_public |= line.starts_with("pub enum ") || line.starts_with("pub trait ");
                inside_public &= line != "}";
                if !content.starts_with("pub ") && !inside_public {
                    pending.iter().for_each(|number| lines[*number].clear());
                }
                pending.clear();
            }
        }
        Prose::markdown(&lines.join("\n"))
    }

    /// Of the string literals of a Rust file, as far as they have more than a word; without those of its unit tests.
    #[must_use]
    pub fn literals(file: &str) -> Prose {
        Prose::of(literals(without_tests(file), |_| true).lines().map(String::from))
    }

    /// The same of those alone that are strings of C, such as log lines.
    #[must_use]
    pub fn c_literals(file: &str) -> Prose {
        Prose::of(literals(without_tests(file), |prefix| prefix == "c").lines().map(String::from))
    }

    /// Of a whole Rust file, for the reader of its source: comments, names of tests, and string literals with more than a word.
    #[must_use]
    pub fn source(file: &str) -> [Prose; 2] {
        [Prose::of(comments_and_names(file)), Prose::of(literals(file, |_| true).lines().map(String::from))]
    }

    pub(super) fn of(lines: impl Iterator<Item = String>) -> Prose {
        let mut text = String::new();
        for line in lines {
            let line = line.trim().trim_start_matches('>').trim_start().to_string();
            text.push_str(if line.is_empty() { BREAK } else { &line });
            text.push('\n');
        }
        Prose { text: without_code(&text) }
    }

    /// All of it; [`BREAK`] is in the lines that have none.
    pub(super) fn text(&self) -> &str {
        &self.text
    }
}

/// Clears everything but the ends of lines.
fn blank(text: &str) -> String {
    text.chars().filter(|c| *c == '\n').collect()
}

fn without_tests(file: &str) -> &str {
    file.split("\n#[cfg(test)]\nmod ").next().unwrap_or_default()
}

/// Clears what stands between `<!-- name -->` and `<!-- end of name -->`, each in a line of its own.
fn blank_generated(text: &str) -> String {
    let mut kept = String::new();
    let mut end: Option<String> = None;
    for line in text.lines() {
        let mark = line.strip_prefix("<!-- ").and_then(|mark| mark.strip_suffix(" -->"));
        if end.is_some() && mark == end.as_deref() {
            end = None;
        } else if let Some(name) = mark.filter(|_| end.is_none()) {
            end = Some(format!("end of {name}")).filter(|end| text.contains(&format!("\n<!-- {end} -->")));
        }
        if end.is_none() {
            kept.push_str(line);
        }
        kept.push('\n');
    }
    kept
}

/// Puts one word for what is between backticks, and nothing for the target of a link.
fn without_code(text: &str) -> String {
    static MARKS: LazyLock<Regex> =
        LazyLock::new(|| pattern(r"\]\([^)¶]*\)|```[^¶]*?```|``[^¶]+?``|`[^`¶]+`|`"));
    let word = |found: &Captures<'_>| match &found[0] {
        "`" => String::new(),
        target if target.starts_with(']') => format!("]{}", blank(target)),
        code => format!("code{}", blank(code)),
    };
    MARKS.replace_all(text, word).into_owned()
}

/// Literals, and comments and characters too, which may hold a quote.
static TOKENS: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r###"//[^\n]*|'(?:\\.[^']*|[^'\\])'|r##"(.*?)"##|r#"(.*?)"#|r"([^"]*)"|(c?)"((?:\\.|[^"\\])*)""###,
    )
});

/// A Rust file without its comments and literals.
pub(super) fn without_comments_and_literals(file: &str) -> String {
    TOKENS.replace_all(file, |found: &Captures<'_>| blank(&found[0])).into_owned()
}

/// A file in which only its string literals are left, each in its lines. `wanted` is given what stands before the
/// opening quote.
fn literals(file: &str, wanted: fn(&str) -> bool) -> String {
    let (mut kept, mut end) = (String::new(), 0);
    for found in TOKENS.captures_iter(file) {
        let (token, prefix) = (found.get_match(), found.get(4).map_or("", |prefix| prefix.as_str()));
        let inside = [1, 2, 3, 5].into_iter().find_map(|group| found.get(group));
        kept += &blank(&file[end..token.start()]);
        kept += &match inside.map(|inside| inside.as_str()) {
            Some(inside) if wanted(prefix) && inside.trim().contains(' ') => shown(inside),
            _ => blank(token.as_str()),
        };
        end = token.end();
    }
    kept + &blank(&file[end..])
}

/// A literal's text: one word for what is put in, a break after it.
fn shown(inside: &str) -> String {
    let mut text = String::new();
    let mut rest = inside;
    while let Some((before, put_in)) = rest.split_once('{') {
        text.push_str(before);
        text.push_str("code");
        rest = put_in.split_once('}').map_or("", |(_, after)| after);
    }
    text.push_str(rest);
    let text = text.replace("\\n", " ¶ ").replace("\\\n", "\n").replace('\\', "");
    text + " ¶"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_without_its_code() {
        let text = "a `b\nc` [d](e.md#f)\n\n```sh\nso many\n```\n<!-- so\nmany --> g\n<!-- x -->\nso\n<!-- end of x -->\nh\n";
        assert_eq!(Prose::markdown(text).text(), "a code\n [d]\n¶\n¶\n¶\n¶\n¶\ng\n¶\n¶\n¶\nh\n");
    }

    #[test]
    fn comments_and_help() {
        assert_eq!(Prose::comments("# a b\nc # 1\n", "#").text(), "a b\n¶\n");
        let makefile = "run: free build ## Run it\n\t@echo \"a b\"; }\nrun:\n# no\n";
        assert_eq!(Prose::makefile(makefile).text(), "Run it\na b\n¶\n¶\n");
    }

    #[test]
    fn documentation_of_public_items() {
        let file = "//! a\n/// b\npub(crate) fn f() {}\n/// c\n#[must_use]\npub fn g() {}\npub enum E {\n    /// d\n    F,\n}\n/// e\nfn h() {}\nmod tests {\n/// f\npub fn i() {}\n";
        assert_eq!(Prose::rustdoc(file).text(), "a\n¶\n¶\nc\n¶\n¶\n¶\nd\n¶\n¶\n¶\n");
    }

    #[test]
    fn literals_of_rust() {
        let file = "f(\"a b\", 'c', '\"', &'d e, \"g\"); // \"no no\"\nh(c\"i {j} k \\\n   l\", r#\"m \"n\" o\"#);\n";
        assert_eq!(Prose::literals(file).text(), "a b ¶\ni code k\nl ¶m \"n\" o ¶\n");
        assert_eq!(Prose::c_literals(file).text(), "¶\ni code k\nl ¶\n");
    }
}
