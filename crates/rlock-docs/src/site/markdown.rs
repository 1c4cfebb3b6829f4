//! The links and the anchors of a page.

use std::collections::HashMap;
use std::ops::Range;

/// A link of a page, or one of its pictures.
#[derive(Debug, PartialEq)]
pub(crate) struct Link {
    /// What the link goes to, in the page's text.
    pub(crate) target: Range<usize>,
    /// From `[` (or `!`) to `)`, in the page's text.
    pub(crate) whole: Range<usize>,
    /// The text that is shown.
    pub(crate) text: Range<usize>,
    pub(crate) is_picture: bool,
}

/// All inline links and pictures outside of code.
pub(crate) fn links(page: &str) -> Vec<Link> {
    let masked = without_code(page);
    let mut links = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    let mut at = 0;
    while let Some(byte) = masked.as_bytes().get(at) {
        match byte {
            b'\\' => at += 1,
            b'[' => open.push(at),
            b']' => {
                let end = masked[at..].starts_with("](").then(|| masked[at..].find(')')).flatten();
                if let (Some(begin), Some(length)) = (open.pop(), end) {
                    let is_picture = begin > 0 && masked.as_bytes()[begin - 1] == b'!';
                    links.push(Link {
                        target: at + 2..at + length,
                        whole: begin - usize::from(is_picture)..at + length + 1,
                        text: begin + 1..at,
                        is_picture,
                    });
                }
            }
            _ => {}
        }
        at += 1;
    }
    links.sort_by_key(|link| link.whole.start);
    links
}

/// The anchors of a page's headings, as repository hosts name them.
pub(crate) fn anchors(page: &str) -> Vec<String> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut anchors = Vec::new();
    let code = fences(page);
    for (start, line) in lines(page) {
        let level = line.bytes().take_while(|byte| *byte == b'#').count();
        if !(1..=6).contains(&level) || code.iter().any(|fence| fence.contains(&start)) {
            continue;
        }
        let Some(heading) = line[level..].strip_prefix(' ') else { continue };
        let anchor = anchor(&shown(heading));
        let count = seen.entry(anchor.clone()).or_default();
        anchors.push(if *count == 0 { anchor } else { format!("{anchor}-{count}") });
        *count += 1;
    }
    anchors
}

/// The text of the first heading.
pub(crate) fn title(page: &str) -> Option<String> {
    lines(page).find_map(|(_, line)| line.strip_prefix("# ").map(shown))
}

fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// A heading without its markup.
fn shown(heading: &str) -> String {
    let mut text = heading.to_string();
    for link in links(heading).iter().rev() {
        let shown = heading[link.text.clone()].to_string();
        text.replace_range(link.whole.clone(), &shown);
    }
    text.replace(['`', '*'], "")
}

/// Each line, and where it begins.
fn lines(page: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut start = 0;
    page.split_inclusive('\n').map(move |line| {
        let here = start;
        start += line.len();
        (here, line.trim_end())
    })
}

/// Fenced blocks of code, and comments.
fn fences(page: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut open: Option<(usize, usize, char)> = None;
    for (start, line) in lines(page) {
        let content = line.trim_start();
        let Some(mark) = content.chars().next().filter(|c| "`~".contains(*c)) else { continue };
        let length = content.chars().take_while(|c| *c == mark).count();
        match open {
            None if length >= 3 => open = Some((start, length, mark)),
            Some((begin, least, other)) if mark == other && length >= least && content.len() == length => {
                found.push(begin..start + line.len());
                open = None;
            }
            _ => {}
        }
    }
    found
}

/// The page with spaces where it has code and comments.
fn without_code(page: &str) -> String {
    let mut bytes = page.as_bytes().to_vec();
    let mut blank = |range: Range<usize>| {
        for byte in bytes.get_mut(range).into_iter().flatten().filter(|byte| **byte != b'\n') {
            *byte = b' ';
        }
    };
    let fences = fences(page);
    for fence in &fences {
        blank(fence.clone());
    }
    let mut at = 0;
    while at < page.len() {
        if let Some(fence) = fences.iter().find(|fence| fence.contains(&at)) {
            at = fence.end;
            continue;
        }
        let rest = &page[at..];
        let end = if rest.starts_with("<!--") {
            rest.find("-->").map(|end| end + 3)
        } else if rest.starts_with('`') {
            code_span(rest)
        } else {
            None
        };
        if let Some(end) = end {
            blank(at..at + end);
        }
        let ticks = rest.bytes().take_while(|byte| *byte == b'`').count();
        at += end.unwrap_or(ticks.max(rest.chars().next().map_or(1, char::len_utf8)));
    }
    String::from_utf8(bytes).unwrap_or_default()
}

/// How long the code span is that the text begins with, if it is closed in its paragraph.
fn code_span(text: &str) -> Option<usize> {
    let ticks = text.bytes().take_while(|byte| *byte == b'`').count();
    let paragraph = text.find("\n\n").unwrap_or(text.len());
    let mut at = ticks;
    while let Some(found) = text[at..paragraph].find('`') {
        let run = text[at + found..].bytes().take_while(|byte| *byte == b'`').count();
        at += found + run;
        if run == ticks {
            return Some(at);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# A `b` [c](d.md)\n\n[x](y.md#z), ![p](q.svg) `[no](no.md)` <!-- [no](no) -->\n\
                        [`k`\nl](m)\n```text\n# no\n[no](no)\n```\n\n## Née: *a*\n## Née a\n";

    #[test]
    fn links_outside_of_code_are_found() {
        let found = links(PAGE);
        let targets: Vec<&str> = found.iter().map(|link| &PAGE[link.target.clone()]).collect();
        assert_eq!(targets, ["d.md", "y.md#z", "q.svg", "m"]);
        assert!(found[2].is_picture && &PAGE[found[2].whole.clone()] == "![p](q.svg)");
        assert_eq!(&PAGE[found[3].text.clone()], "`k`\nl");
    }

    #[test]
    fn anchors_are_those_of_repository_hosts() {
        assert_eq!(anchors(PAGE), ["a-b-c", "née-a", "née-a-1"]);
        assert_eq!(title(PAGE).as_deref(), Some("A b c"));
    }
}
