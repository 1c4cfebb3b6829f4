//! The site that mdBook made: looks up each of its links, pictures and anchors.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::pages::resolve;

/// The pages of a site, by their paths below it.
pub(crate) struct Built {
    folder: PathBuf,
    pages: BTreeMap<String, String>,
}

impl Built {
    /// Reads all pages.
    pub(crate) fn read(folder: &Path) -> Result<Self, String> {
        let mut built = Self { folder: folder.to_path_buf(), pages: BTreeMap::new() };
        built.collect("")?;
        Ok(built)
    }

    /// The paths of all pages that readers see.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        // The contents are a frame within others.
        self.pages.keys().map(String::as_str).filter(|path| *path != "toc.html")
    }

    fn collect(&mut self, folder: &str) -> Result<(), String> {
        let fault = |error: std::io::Error| format!("{folder}: {error}");
        for entry in fs::read_dir(self.folder.join(folder)).map_err(fault)?.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
            if entry.path().is_dir() {
                self.collect(&path)?;
            } else if path.ends_with(".html") {
                self.pages.insert(path, fs::read_to_string(entry.path()).map_err(fault)?);
            }
        }
        Ok(())
    }
}

/// Checks the links of the site; returns how many there are, and the faults.
pub(crate) fn check(built: &Built) -> (usize, Vec<String>) {
    let ids: BTreeMap<&str, BTreeSet<&str>> =
        built.pages.iter().map(|(path, html)| (path.as_str(), values(html, "id").collect())).collect();
    let (mut count, mut faults) = (0, Vec::new());
    for (path, html) in &built.pages {
        if html.contains("&lt;!-- test") {
            faults.push(format!("{path}: a comment is visible"));
        }
        for target in values(html, "src").filter(|target| target.contains("://")) {
            faults.push(format!("{path}: {target} is fetched from elsewhere"));
        }
        for target in values(html, "href").chain(values(html, "src")) {
            let Some((goal, anchor)) = resolve(path, target) else { continue };
            count += 1;
            if !built.folder.join(&goal).is_file() {
                faults.push(format!("{path}: {target}: the site has no {goal}"));
            } else if let Some(anchor) = anchor.filter(|anchor| !anchor.is_empty())
                && !ids.get(goal.as_str()).is_some_and(|ids| ids.contains(anchor.as_str()))
            {
                faults.push(format!("{path}: {target}: {goal} does not have this anchor"));
            }
        }
    }
    (count, faults)
}

/// The values of an attribute.
fn values<'a>(html: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let begin = format!(" {name}=\"");
    let mut rest = html;
    std::iter::from_fn(move || {
        let (_, after) = rest.split_once(&begin)?;
        let (value, after) = after.split_once('"')?;
        rest = after;
        Some(value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leads_nowhere_is_found() {
        let folder = std::env::temp_dir().join(format!("rlock-built-{}", std::process::id()));
        fs::create_dir_all(folder.join("docs")).unwrap();
        let html =
            r##"<p id="x"><a href="#x"></a><a href="docs/b.html#y"></a><img src="no.svg">&lt;!-- test"##;
        fs::write(folder.join("index.html"), html).unwrap();
        fs::write(folder.join("docs/b.html"), r#"<img src="https://b.example/"><a href="../index.html">"#)
            .unwrap();
        let (count, faults) = check(&Built::read(&folder).unwrap());
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(count, 4);
        let expected = [
            "docs/b.html: https://b.example/ is fetched from elsewhere",
            "index.html: a comment is visible",
            "index.html: docs/b.html#y: docs/b.html does not have this anchor",
            "index.html: no.svg: the site has no no.svg",
        ];
        assert_eq!(faults, expected);
    }
}
