//! The pages: the list of them, their order on the site, and a check of their links.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::markdown::{anchors, links, title};

/// The parts of the site's contents. A page that is not named comes at the end of its folder's part.
const PARTS: [(&str, &[&str]); 3] = [
    (
        "Use",
        &["docs/INSTALL.md", "docs/COMMANDS.md", "docs/ERRORS.md", "docs/FENCING.md", "docs/REDISSON.md"],
    ),
    ("Run", &["docs/JOBS.md", "docs/OPERATIONS.md", "docs/SCALE.md", "docs/SAFETY.md", "docs/SECURITY.md"]),
    (
        "Inside",
        &[
            "ARCHITECTURE.md",
            "docs/PROOF.md",
            "docs/CHAOS.md",
            "docs/BENCHMARKS.md",
            "docs/RELEASING.md",
            "CHANGELOG.md",
        ],
    ),
];

/// A page of the repository.
#[derive(Debug)]
pub(crate) struct Page {
    /// Where it is, from the root, with slashes.
    pub(crate) path: String,
    pub(crate) text: String,
}

/// README.md, the other pages beside it, all below docs, and the pages of other folders that these link to.
pub(crate) fn all(root: &Path) -> Result<Vec<Page>, String> {
    let mut paths = BTreeSet::new();
    collect(root, "", false, &mut paths)?;
    collect(root, "docs", true, &mut paths)?;
    let mut pages: Vec<Page> = Vec::new();
    let mut unread: Vec<String> = paths.iter().cloned().collect();
    while let Some(path) = unread.pop() {
        let text = fs::read_to_string(root.join(&path)).map_err(|error| format!("{path}: {error}"))?;
        for link in links(&text) {
            let Some((goal, _)) = resolve(&path, &text[link.target]) else { continue };
            if goal.ends_with(".md") && root.join(&goal).is_file() && paths.insert(goal.clone()) {
                unread.push(goal);
            }
        }
        pages.push(Page { path, text });
    }
    pages.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(pages)
}

fn collect(root: &Path, folder: &str, deep: bool, paths: &mut BTreeSet<String>) -> Result<(), String> {
    let listing = fs::read_dir(root.join(folder)).map_err(|error| format!("{folder}: {error}"))?;
    for entry in listing.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
        if entry.path().is_dir() && deep {
            collect(root, &path, deep, paths)?;
        } else if path.ends_with(".md") {
            paths.insert(path);
        }
    }
    Ok(())
}

/// The site's contents, as mdBook reads them.
pub(crate) fn summary(pages: &[Page]) -> String {
    let mut rest: BTreeSet<&str> = pages.iter().map(|page| page.path.as_str()).collect();
    let mut text = String::from("# Summary\n\n");
    let mut entry = |text: &mut String, path: &str, mark: &str| {
        if let Some(page) = pages.iter().find(|page| page.path == path && rest.remove(path)) {
            let title = title(&page.text).unwrap_or_else(|| path.to_string());
            *text += &format!("{mark}[{title}]({path})\n");
        }
    };
    entry(&mut text, "README.md", "");
    for (name, paths) in PARTS {
        text += &format!("\n# {name}\n\n");
        for path in paths {
            entry(&mut text, path, "- ");
        }
        if name == PARTS[0].0 {
            let of_clients =
                |folder: &'static str| pages.iter().filter(move |page| page.path.starts_with(folder));
            let folders = [
                "docs/clients/",
                "crates/rlock-cli/",
                "crates/rlock-client/",
                "crates/rlock-multi/",
                "clients/",
            ];
            folders.into_iter().flat_map(of_clients).for_each(|page| entry(&mut text, &page.path, "- "));
        }
    }
    let others: Vec<String> = rest.iter().map(ToString::to_string).collect();
    for path in others {
        if let Some(page) = pages.iter().find(|page| page.path == path) {
            text += &format!("- [{}]({path})\n", title(&page.text).unwrap_or_else(|| path.clone()));
        }
    }
    text
}

/// Where a link of a page leads: a path from the root, and an anchor. Nothing for links that leave the repository.
pub(crate) fn resolve(page: &str, target: &str) -> Option<(String, Option<String>)> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = match target.split_once('#') {
        Some((path, anchor)) => (path, Some(anchor.to_string())),
        None => (target, None),
    };
    if path.is_empty() {
        return Some((page.to_string(), anchor));
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
    Some((parts.join("/"), anchor))
}

/// Links of pages that lead nowhere, pictures without a description, and pages without a title.
pub(crate) fn faults(root: &Path, pages: &[Page]) -> Vec<String> {
    let mut faults = Vec::new();
    for page in pages {
        let Page { path, text } = page;
        if title(text).is_none() {
            faults.push(format!("{path}: no title"));
        }
        for link in links(text) {
            let line = text[..link.whole.start].matches('\n').count() + 1;
            let target = &text[link.target.clone()];
            let at = format!("{path}:{line}: {target}");
            if link.is_picture && link.text.is_empty() {
                faults.push(format!("{at}: a picture without a description"));
            }
            let Some((goal, anchor)) = resolve(path, target) else { continue };
            if !root.join(&goal).exists() {
                faults.push(format!("{at}: there is no {goal}"));
            } else if let Some(anchor) = anchor {
                let goal = pages.iter().find(|page| page.path == goal);
                if !goal.is_some_and(|goal| anchors(&goal.text).contains(&anchor)) {
                    faults.push(format!("{at}: there is no heading of this name"));
                }
            }
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root;

    #[test]
    fn every_link_of_a_page_leads_somewhere() {
        let pages = all(&root()).unwrap();
        let faults = faults(&root(), &pages);
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }

    #[test]
    fn the_contents_name_every_page_once() {
        let pages = all(&root()).unwrap();
        let summary = summary(&pages);
        for page in &pages {
            let links = summary.matches(&format!("]({})", page.path)).count();
            assert_eq!(links, 1, "{} in\n{summary}", page.path);
        }
    }

    #[test]
    fn links_that_lead_nowhere_are_faults() {
        let text = "# A\n[a](B.md) [b](#a) [c](#b) ![](A.md) [d](https://b.example/)\n".to_string();
        let pages = [Page { path: "A.md".into(), text }];
        let expected = [
            "A.md:2: B.md: there is no B.md",
            "A.md:2: #b: there is no heading of this name",
            "A.md:2: A.md: a picture without a description",
        ];
        let here = std::env::temp_dir().join(format!("rlock-docs-{}", std::process::id()));
        fs::create_dir_all(&here).unwrap();
        fs::write(here.join("A.md"), &pages[0].text).unwrap();
        assert_eq!(faults(&here, &pages), expected);
        fs::remove_dir_all(&here).unwrap();
    }
}
