//! The site: the repository's pages, put together for mdBook, and a check of mdBook's result.

mod built;
mod markdown;
mod pages;

use std::fs;
use std::path::Path;

pub(crate) use built::{Built, check};

/// The pictures that only the site shows: the benchmarks draw them from stored results.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plots {
    Shown,
    LeftOut,
}

/// Puts the pages and the files that they link to into a new folder for mdBook: under the same names, so that the
/// same links lead to the same places.
pub(crate) fn stage(root: &Path, folder: &Path, repository: &str, plots: Plots) -> Result<(), String> {
    let mut pages = pages::all(root)?;
    let faults = pages::faults(root, &pages);
    if !faults.is_empty() {
        return Err(format!("links of pages:\n{}", faults.join("\n")));
    }
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    if plots == Plots::Shown {
        for page in &mut pages {
            page.text = with_pictures(&page.text);
        }
    }
    write(&folder.join("src/SUMMARY.md"), &as_index(&pages::summary(&pages)))?;
    for page in &pages {
        write(&folder.join("src").join(as_index(&page.path)), &linked(root, folder, page, repository)?)?;
    }
    copy(&root.join("docs/book.toml"), &folder.join("book.toml"))?;
    copy(&root.join("docs/site.css"), &folder.join("site.css"))
}

/// The page's text. The files that it links to are copied. A folder has no page on the site: its link leads to the
/// repository's address, or becomes plain text if that address is not known.
fn linked(root: &Path, folder: &Path, page: &pages::Page, repository: &str) -> Result<String, String> {
    let mut text = page.text.clone();
    for link in markdown::links(&page.text).into_iter().rev() {
        let Some((goal, _)) = pages::resolve(&page.path, &page.text[link.target.clone()]) else { continue };
        let from = root.join(&goal);
        if from.is_dir() {
            let shown = &page.text[link.text.clone()];
            let instead = match repository {
                "" => shown.to_string(),
                repository => format!("[{shown}]({repository}/tree/HEAD/{goal})"),
            };
            text.replace_range(link.whole, &instead);
        } else if goal.ends_with(".md") {
            text.replace_range(link.target.clone(), &as_index(&page.text[link.target]));
        } else {
            copy(&from, &folder.join("src").join(&goal))?;
        }
    }
    Ok(text)
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
    use super::with_pictures;

    #[test]
    fn pictures_of_the_site_are_shown() {
        let page = "a\n<!-- site: ![b](c.svg) -->\n<!-- test: d -->\n";
        assert_eq!(with_pictures(page), "a\n![b](c.svg)\n<!-- test: d -->\n");
    }
}
