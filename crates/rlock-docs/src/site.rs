//! The site: the pages that docs/SUMMARY.md lists, put together for mdBook.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use pulldown_cmark::{Event, LinkType, Options, Parser, Tag, TagEnd};

const CONTENTS: &str = "docs/SUMMARY.md";

/// The pictures that only the site shows: the benchmarks draw them from stored results.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plots {
    Shown,
    LeftOut,
}

/// Puts the pages and the files that they link to into a new folder for mdBook: under the same names, so that the
/// same links lead to the same places. Anchors are those of a repository's host; the browser checks those of the site.
pub(crate) fn stage(root: &Path, folder: &Path, repository: &str, plots: Plots) -> Result<(), String> {
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    let mut contents = read(&root.join(CONTENTS))?;
    let (mut pages, mut faults) = (Vec::new(), Vec::new());
    for link in links(&contents).into_iter().rev() {
        let page = resolve(CONTENTS, &contents[link.target.clone()]).unwrap_or_default();
        contents.replace_range(link.target, &as_index(&page));
        pages.push(page);
    }
    write(&folder.join("src/SUMMARY.md"), &contents)?;
    let beside = fs::read_dir(root).into_iter().flatten().flatten();
    let beside = beside.map(|entry| entry.file_name().display().to_string());
    for path in files(&root.join("docs"), "docs/")?.into_iter().chain(beside) {
        if path.ends_with(".md") && path != CONTENTS && !pages.contains(&path) {
            faults.push(format!("{path} is not in {CONTENTS}"));
        }
    }
    let site = Site { root, source: folder.join("src"), repository, pages: &pages };
    for page in &pages {
        let mut text = read(&root.join(page))?;
        if plots == Plots::Shown {
            text = with_pictures(&text);
        }
        for link in links(&text).into_iter().rev() {
            match site.changed(page, &text, link) {
                Ok(Some((place, instead))) => text.replace_range(place, &instead),
                Ok(None) => {}
                Err(fault) => faults.push(format!("{page}: {fault}")),
            }
        }
        write(&site.source.join(as_index(page)), &text)?;
    }
    if !faults.is_empty() {
        return Err(format!("links of pages:\n{}", faults.join("\n")));
    }
    copy(&root.join("docs/book.toml"), &folder.join("book.toml"))?;
    copy(&root.join("docs/site.css"), &folder.join("site.css"))
}

struct Site<'a> {
    root: &'a Path,
    source: PathBuf,
    repository: &'a str,
    pages: &'a [String],
}

impl Site<'_> {
    /// The text that replaces a part of the page, if a link differs on the site. A linked file is copied.
    fn changed(&self, page: &str, text: &str, link: Link) -> Result<Option<(Range<usize>, String)>, String> {
        let Some(goal) = resolve(page, &text[link.target.clone()]) else { return Ok(None) };
        let from = self.root.join(&goal);
        if from.is_dir() {
            // A folder has no page on the site: its link leads to the repository, or becomes plain text.
            let shown = &text[link.text];
            let instead = match self.repository {
                "" => shown.to_string(),
                repository => format!("[{shown}]({repository}/tree/HEAD/{goal})"),
            };
            Ok(Some((link.whole, instead)))
        } else if self.pages.contains(&goal) {
            let target = &text[link.target.clone()];
            match target.split_once('#') {
                Some((_, anchor)) if !anchors(&read(&from)?).iter().any(|known| known == anchor) => {
                    Err(format!("{goal} has no heading #{anchor}"))
                }
                _ => Ok(Some((link.target, as_index(target)))),
            }
        } else if goal.ends_with(".md") {
            Err(format!("{goal} is not in {CONTENTS}"))
        } else {
            copy(&from, &self.source.join(&goal)).map(|()| None)
        }
    }
}

/// The paths of all files below a folder, behind this prefix.
pub(crate) fn files(folder: &Path, prefix: &str) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    let listing = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for entry in listing.flatten() {
        let path = format!("{prefix}{}", entry.file_name().display());
        if entry.path().is_dir() {
            found.extend(files(&entry.path(), &format!("{path}/"))?);
        } else {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// A link of a page, or one of its pictures: places in the page's text.
struct Link {
    /// From `[` (or `!`) to `)`.
    whole: Range<usize>,
    text: Range<usize>,
    target: Range<usize>,
}

/// All inline links and pictures.
fn links(page: &str) -> Vec<Link> {
    let link = |(event, whole): (Event<'_>, Range<usize>)| {
        let Event::Start(tag) = event else { return None };
        let (Tag::Link { link_type, .. } | Tag::Image { link_type, .. }) = tag else { return None };
        let middle =
            whole.start + page[whole.clone()].rfind("](").filter(|_| link_type == LinkType::Inline)?;
        let begin = if matches!(tag, Tag::Image { .. }) { 2 } else { 1 };
        Some(Link { text: whole.start + begin..middle, target: middle + 2..whole.end - 1, whole })
    };
    Parser::new_ext(page, Options::ENABLE_TABLES).into_offset_iter().filter_map(link).collect()
}

/// The anchors of a page's headings, as hosts of repositories name them: a repeated one has a number.
fn anchors(page: &str) -> Vec<String> {
    let (mut names, mut heading): (Vec<String>, Option<String>) = (Vec::new(), None);
    for event in Parser::new_ext(page, Options::ENABLE_TABLES) {
        match (event, &mut heading) {
            (Event::Start(Tag::Heading { .. }), _) => heading = Some(String::new()),
            (Event::Text(text) | Event::Code(text), Some(heading)) => heading.push_str(&text),
            (Event::End(TagEnd::Heading(_)), Some(_)) => {
                let name = heading.take().unwrap_or_default().to_lowercase().replace(' ', "-");
                names.push(name.replace(|one: char| !one.is_alphanumeric() && !"-_".contains(one), ""));
            }
            _ => {}
        }
    }
    let numbered =
        |(at, name): (usize, &String)| match names[..at].iter().filter(|known| *known == name).count() {
            0 => name.clone(),
            count => format!("{name}-{count}"),
        };
    names.iter().enumerate().map(numbered).collect()
}

/// The path from the root to which a link of a page leads, without its anchor; nothing for links that leave the repository.
fn resolve(page: &str, target: &str) -> Option<String> {
    let path = target.split('#').next().unwrap_or_default();
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    if path.is_empty() {
        return Some(page.to_string());
    }
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// The page with the pictures that only the site shows. They are drawn for it and not stored, so elsewhere they are comments.
fn with_pictures(text: &str) -> String {
    let shown = |line: &str| match line.strip_prefix("<!-- site: ").and_then(|rest| rest.strip_suffix(" -->"))
    {
        Some(picture) => format!("{picture}\n"),
        None => format!("{line}\n"),
    };
    text.lines().map(shown).collect()
}

/// A folder's README is its index on the site.
fn as_index(path: &str) -> String {
    path.replace("README.md", "index.md")
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    let parent = path.parent().unwrap_or(path);
    let written = fs::create_dir_all(parent).and_then(|()| fs::write(path, text));
    written.map_err(|error| format!("{}: {error}", path.display()))
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let parent = to.parent().unwrap_or(to);
    let copied = fs::create_dir_all(parent).and_then(|()| fs::copy(from, to));
    copied.map(drop).map_err(|error| format!("{}: {error}", from.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn staged(name: &str, root: &Path) -> Result<String, String> {
        let folder = std::env::temp_dir().join(format!("rlock-{name}-{}", std::process::id()));
        let staged = stage(root, &folder, "https://a.example", Plots::LeftOut);
        let page = read(&folder.join("src/index.md"));
        fs::remove_dir_all(&folder).unwrap();
        staged.and(page)
    }

    #[test]
    fn every_link_of_a_page_leads_somewhere() {
        staged("site", &crate::root()).unwrap();
    }

    #[test]
    fn what_leads_nowhere_is_a_fault() {
        let root = std::env::temp_dir().join(format!("rlock-pages-{}", std::process::id()));
        let page = "# A `b` [c](docs/d.md)\n[x](docs/d.md#y) [y](docs/d.md#the-d-1) [f](docs) ![p](docs/q.svg) `[no](no.md)` <!-- [no](no) -->\n\
                    [`k`\nl](m) [n](n.md) [o](https://o.example/)\n```text\n[no](no)\n```\n";
        for (path, text) in [
            ("README.md", page),
            ("docs/SUMMARY.md", "- [A](../README.md)\n- [D](d.md)"),
            ("docs/d.md", "# D\n[a](../README.md#a-b-c)\n## The `d`\n## The d"),
            ("docs/e.md", ""),
        ] {
            write(&root.join(path), text).unwrap();
        }
        let fault = staged("faults", &root).unwrap_err().replace(root.to_str().unwrap(), "");
        // Without the system's own words.
        let faults: Vec<&str> = fault.lines().skip(1).filter_map(|line| line.split(": No ").next()).collect();
        let expected = [
            "docs/e.md is not in docs/SUMMARY.md",
            "README.md: n.md is not in docs/SUMMARY.md",
            "README.md: /m",
            "README.md: /docs/q.svg",
            "README.md: docs/d.md has no heading #y",
        ];
        assert_eq!(faults, expected);
        write(&root.join("README.md"), "# A b c\n[f](docs) [x](docs/d.md#d)\n").unwrap();
        fs::remove_file(root.join("docs/e.md")).unwrap();
        for name in ["docs/book.toml", "docs/site.css"] {
            write(&root.join(name), "").unwrap();
        }
        let page = staged("links", &root);
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(page.unwrap(), "# A b c\n[f](https://a.example/tree/HEAD/docs) [x](docs/d.md#d)\n");
    }

    #[test]
    fn pictures_of_the_site_are_shown() {
        let page = "a\n<!-- site: ![b](c.svg) -->\n<!-- test: d -->\n";
        assert_eq!(with_pictures(page), "a\n![b](c.svg)\n<!-- test: d -->\n");
    }
}
