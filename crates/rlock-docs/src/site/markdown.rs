//! The links and the anchors of a page.

use std::collections::HashMap;
use std::ops::Range;

use pulldown_cmark::{Event, HeadingLevel, LinkType, Options, Parser, Tag, TagEnd};

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

/// All inline links and pictures.
pub(crate) fn links(page: &str) -> Vec<Link> {
    let link = |(event, whole): (Event<'_>, Range<usize>)| {
        let Event::Start(tag) = event else { return None };
        let (Tag::Link { link_type, .. } | Tag::Image { link_type, .. }) = tag else { return None };
        let middle =
            whole.start + page[whole.clone()].rfind("](").filter(|_| link_type == LinkType::Inline)?;
        let is_picture = matches!(tag, Tag::Image { .. });
        let text = whole.start + if is_picture { 2 } else { 1 }..middle;
        Some(Link { target: middle + 2..whole.end - 1, whole, text, is_picture })
    };
    parser(page).into_offset_iter().filter_map(link).collect()
}

/// The anchors of a page's headings, as repository hosts name them.
pub(crate) fn anchors(page: &str) -> Vec<String> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut anchors = Vec::new();
    for (_, heading) in headings(page) {
        let anchor = anchor(&heading);
        let count = seen.entry(anchor.clone()).or_default();
        anchors.push(if *count == 0 { anchor } else { format!("{anchor}-{count}") });
        *count += 1;
    }
    anchors
}

/// The text of the first heading of the first level.
pub(crate) fn title(page: &str) -> Option<String> {
    headings(page).into_iter().find(|(level, _)| *level == HeadingLevel::H1).map(|(_, text)| text)
}

fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// The headings, without their markup.
fn headings(page: &str) -> Vec<(HeadingLevel, String)> {
    let mut headings = Vec::new();
    let mut open = None;
    for event in parser(page) {
        match (event, &mut open) {
            (Event::Start(Tag::Heading { level, .. }), _) => open = Some((level, String::new())),
            (Event::End(TagEnd::Heading(_)), _) => headings.extend(open.take()),
            (Event::Text(text) | Event::Code(text), Some((_, heading))) => heading.push_str(&text),
            _ => {}
        }
    }
    headings
}

fn parser(page: &str) -> Parser<'_> {
    Parser::new_ext(page, Options::ENABLE_TABLES)
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
