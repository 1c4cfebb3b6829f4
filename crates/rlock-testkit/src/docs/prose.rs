//! The sentences of a file, without its code: of Markdown, of comments, of Rust's documentation and string literals.

use super::markdown::{Line, separate};
use super::source::comments_and_names;

/// Stands where a sentence cannot reach across: an empty line, a code block.
const BREAK: char = '¶';

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
        let document = blank_comments(&blank_generated(document));
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
        let file = file.split("\n#[cfg(test)]\nmod ").next().unwrap_or_default();
        Prose::of(literals(file, |_| true).lines().map(String::from))
    }

    /// The same of those alone that are strings of C, such as log lines.
    #[must_use]
    pub fn c_literals(file: &str) -> Prose {
        let file = file.split("\n#[cfg(test)]\nmod ").next().unwrap_or_default();
        Prose::of(literals(file, |prefix| prefix.ends_with('c')).lines().map(String::from))
    }

    /// Of a whole Rust file, for the reader of its source: comments, names of tests, and string literals with more than a word.
    #[must_use]
    pub fn source(file: &str) -> [Prose; 2] {
        [comments_and_names(file), Prose::of(literals(file, |_| true).lines().map(String::from))]
    }

    pub(super) fn of(lines: impl Iterator<Item = String>) -> Prose {
        let mut text = String::new();
        for line in lines {
            let line = line.trim().trim_start_matches('>').trim_start().to_string();
            text.push_str(if line.is_empty() { "¶" } else { &line });
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

fn blank_comments(text: &str) -> String {
    let (mut rest, mut kept) = (text, String::new());
    while let Some((before, comment)) = rest.split_once("<!--") {
        kept.push_str(before);
        let (comment, after) = comment.split_once("-->").unwrap_or((comment, ""));
        kept.push_str(&blank(comment));
        rest = after;
    }
    kept + rest
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
    let mut kept = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(['`', ']']) {
        let (before, from) = rest.split_at(start);
        kept.push_str(before);
        let end = match from.strip_prefix("](") {
            Some(target) => target.find([')', BREAK]).map(|end| (end + 3, "]")),
            None if from.starts_with('`') => {
                let marks = from.bytes().take_while(|byte| *byte == b'`').count();
                let inside = &from[marks..];
                let close = inside.find(&from[..marks]).filter(|end| !inside[..*end].contains(BREAK));
                close.map(|end| (end + 2 * marks, "code"))
            }
            None => None,
        };
        let (length, word) = end.unwrap_or((1, if from.starts_with(']') { "]" } else { "" }));
        kept.push_str(word);
        kept.push_str(&blank(&from[..length]));
        rest = &from[length..];
    }
    kept + rest
}

/// A file in which only its string literals are left, each in its lines. `wanted` is given what stands before the
/// opening quote.
fn literals(file: &str, wanted: fn(&str) -> bool) -> String {
    let mut kept = String::new();
    let mut rest = file;
    while let Some(start) = rest.find(['"', '/', '\'']) {
        let (before, from) = rest.split_at(start);
        kept.push_str(&blank(before));
        let length = if from.starts_with("//") {
            from.find('\n').unwrap_or(from.len())
        } else if from.starts_with('"') {
            let hashes = before.len() - before.trim_end_matches('#').len();
            let raw = before.trim_end_matches('#').ends_with('r');
            let length = literal_length(from, raw, hashes);
            let inside = from.get(1..length.saturating_sub(1 + hashes)).unwrap_or_default();
            let shown =
                if wanted(before) && inside.trim().contains(' ') { shown(inside) } else { blank(inside) };
            kept.push_str(&shown);
            length
        } else if from.starts_with('\'') {
            char_length(from)
        } else {
            1
        };
        rest = from.get(length..).unwrap_or_default();
    }
    kept + &blank(rest)
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

/// From the opening quote past the closing one, with its hashes.
fn literal_length(from: &str, raw: bool, hashes: usize) -> usize {
    let close = format!("\"{}", "#".repeat(if raw { hashes } else { 0 }));
    let mut at = 1;
    while let Some(c) = from.get(at..).and_then(|rest| rest.chars().next()) {
        if !raw && c == '\\' {
            at += 2;
        } else if from[at..].starts_with(&close) {
            return at + close.len();
        } else {
            at += c.len_utf8();
        }
    }
    from.len()
}

/// Of a character; a lifetime has no closing quote.
fn char_length(from: &str) -> usize {
    let mut chars = from.char_indices().skip(1);
    match chars.next() {
        Some((_, '\\')) => from.get(3..).and_then(|rest| rest.find('\'')).map_or(1, |end| end + 4),
        Some(_) => chars.next().filter(|(_, c)| *c == '\'').map_or(1, |(end, _)| end + 1),
        None => 1,
    }
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
