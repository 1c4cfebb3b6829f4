//! The little of Markdown the tests of the documentation need.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use regex::{Captures, Regex};

/// The name and the text of a document.
#[track_caller]
pub(super) fn read(document: &Path) -> (String, String) {
    let text = fs::read_to_string(document)
        .unwrap_or_else(|error| panic!("cannot read {}: {error}", document.display()));
    (document.file_name().unwrap_or_default().to_string_lossy().into_owned(), text)
}

/// A fenced code block.
#[derive(Debug, PartialEq)]
pub(super) struct Fence {
    /// The number of its first line of content, from 1.
    pub(super) line: usize,
    /// What follows the opening fence, such as `console`.
    pub(super) language: String,
    /// Its content, without the indentation of the fence.
    pub(super) lines: Vec<String>,
}

/// A line of a document as far as code blocks are concerned.
pub(super) enum Line<'a> {
    Text(&'a str),
    Code,
}

/// Splits a document into the lines outside of code blocks and the code blocks themselves.
pub(super) fn separate(text: &str) -> (Vec<(usize, Line<'_>)>, Vec<Fence>) {
    let mut lines = Vec::new();
    let mut fences: Vec<Fence> = Vec::new();
    let mut open: Option<(&str, usize)> = None;
    for (number, line) in (1..).zip(text.lines()) {
        let content = line.trim_start();
        let indent = line.len() - content.len();
        match open {
            Some((mark, _)) if content.starts_with(mark) && content.trim_end().len() == mark.len() => {
                open = None;
            }
            Some((_, indent)) => {
                let outdented = line.get(indent.min(indent_of(line))..).unwrap_or_default();
                let fence = fences.last_mut().expect("pushed when opened");
                fence.lines.push(outdented.to_string());
            }
            None => match fence_mark(content) {
                Some(mark) => {
                    let language = content[mark.len()..].trim().to_string();
                    fences.push(Fence { line: number + 1, language, lines: Vec::new() });
                    open = Some((mark, indent));
                }
                None => {
                    lines.push((number, Line::Text(line)));
                    continue;
                }
            },
        }
        lines.push((number, Line::Code));
    }
    (lines, fences)
}

fn indent_of(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// The opening fence a line starts with, if any.
fn fence_mark(content: &str) -> Option<&str> {
    let mark = content.chars().next().filter(|c| "`~".contains(*c))?;
    let length = content.chars().take_while(|c| *c == mark).count();
    (length >= 3).then(|| &content[..length])
}

/// The level of a heading, 1 to 6; `None` for any other line.
pub(super) fn heading_level(line: &str) -> Option<usize> {
    let level = line.bytes().take_while(|byte| *byte == b'#').count();
    ((1..=6).contains(&level) && line[level..].starts_with(' ')).then_some(level)
}

/// Whether a line starts a list item.
pub(super) fn is_list_item(line: &str) -> bool {
    let content = line.trim_start();
    let digits = content.bytes().take_while(u8::is_ascii_digit).count();
    let marks: &[&str] = if digits > 0 { &[". ", ") "] } else { &["- ", "* ", "+ "] };
    marks.iter().any(|mark| content[digits..].starts_with(mark))
}

/// Whether a line separates a table's header from its body.
pub(super) fn is_table_delimiter(line: &str) -> bool {
    let content = line.trim();
    content.contains('-') && content.chars().all(|c| "|-: ".contains(c))
}

/// The text without its HTML comments, each line of which stays.
pub(super) fn without_comments(text: &str) -> String {
    static COMMENTS: LazyLock<Regex> = LazyLock::new(|| pattern("<!--.*?(?:-->|$)"));
    let ends_of_lines = |found: &Captures<'_>| "\n".repeat(found[0].matches('\n').count());
    COMMENTS.replace_all(text, ends_of_lines).into_owned()
}

/// A pattern in which `.` stands for the end of a line too.
pub(super) fn pattern(source: &str) -> Regex {
    Regex::new(&format!("(?s){source}")).expect("a pattern")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_separated() {
        let text = "a\n- b\n  ```console\n  $ x\n    y\n\n  ```\n````md\n```\n````\nc\n";
        let (lines, fences) = separate(text);
        assert_eq!(lines.iter().filter(|(_, line)| matches!(line, Line::Text(_))).count(), 3);
        assert_eq!(fences[0].lines, ["$ x", "  y", ""]);
        assert_eq!((fences[0].line, fences[0].language.as_str()), (4, "console"));
        assert_eq!(fences[1].lines, ["```"]);
    }

    #[test]
    fn kinds_of_lines() {
        assert_eq!(heading_level("## a"), Some(2));
        assert_eq!(heading_level("#a"), None);
        assert!(is_list_item("  - a") && is_list_item("12. a") && is_list_item("* a"));
        assert!(!is_list_item("---") && !is_list_item("1.5 a") && !is_list_item("**a**"));
        assert!(is_table_delimiter("|---|:-:|") && !is_table_delimiter("| a |"));
        assert_eq!(without_comments("a <!-- b -->c<!-- d"), "a c");
    }
}
