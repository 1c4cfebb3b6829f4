//! Shows the site and the pictures in a real browser, at the width of a desk and of a phone, and checks them.

mod browser;

use std::fs;
use std::path::Path;

use base64::prelude::{BASE64_STANDARD, Engine};
use browser::Browser;

use crate::site::Built;

/// Width and height of the windows.
const DESK: [u32; 2] = [1280, 900];
const PHONE: [u32; 2] = [390, 844];

/// Words that readers search for first.
const SOUGHT: [&str; 2] = ["FENCED", "hand-off"];

/// Finds content beyond the right edge of a page that must not scroll sideways, and pictures that are missing.
const FAULTS: &str = r#"(async () => {
    const faults = [];
    const pictures = [...document.images];
    await Promise.all(pictures.map(picture => { picture.loading = 'eager'; return picture.decode().catch(() => {}); }));
    for (const picture of pictures)
        if (!picture.naturalWidth) faults.push('a picture is missing: ' + picture.getAttribute('src'));
    const width = WIDTH, wide = document.documentElement.scrollWidth;
    if (wide > width) faults.push('the page is ' + wide + ' wide');
    const scrolls = element => element && (['auto', 'scroll'].includes(getComputedStyle(element).overflowX) || scrolls(element.parentElement));
    for (const element of document.querySelectorAll('main *')) {
        const { right, width: own } = element.getBoundingClientRect();
        if (own && right > width + 1 && !scrolls(element))
            faults.push('goes out of the window: ' + element.outerHTML.slice(0, 120));
    }
    return faults.slice(0, 5).join('\n    ');
})()"#;

/// Opens the search, types a word, and returns the number of results.
const SEARCH: &str = r#"(async () => {
    const pause = () => new Promise(then => setTimeout(then, 50));
    const find = name => document.querySelector('#mdbook-' + name) || document.querySelector('#' + name);
    if (!find('search-toggle')) return 0;
    find('search-toggle').click();
    for (let tries = 0; tries < 200 && find('searchbar').disabled; tries++) await pause();
    const bar = find('searchbar');
    bar.value = 'WORD';
    for (let tries = 0; tries < 200; tries++) {
        for (const kind of ['input', 'keyup']) bar.dispatchEvent(new Event(kind, { bubbles: true }));
        await pause();
        const results = find('searchresults').querySelectorAll('li').length;
        if (results) return results;
    }
    return 0;
})()"#;

/// Finds texts of a picture that overlap each other or its edge.
const OVERLAPS: &str = r#"(() => {
    const faults = [], texts = [...document.querySelectorAll('text')].filter(text => text.textContent.trim());
    const places = texts.map(text => text.getBoundingClientRect());
    const { width, height } = document.documentElement.getBoundingClientRect();
    const inner = place => [place.left + 1, place.right - 1, place.top + place.height / 5, place.bottom - place.height / 5];
    for (let i = 0; i < places.length; i++) {
        const [left, right, top, bottom] = inner(places[i]), name = texts[i].textContent.trim();
        if (left < 0 || right > width || top < 0 || bottom > height) faults.push('leaves the picture: ' + name);
        for (let j = 0; j < i; j++) {
            const [l, r, t, b] = inner(places[j]);
            if (left < r && l < right && top < b && t < bottom) faults.push(name + ' overlaps ' + texts[j].textContent.trim());
        }
    }
    return faults.join('\n    ');
})()"#;

/// Checks every page and picture; returns how many, and the faults.
pub(crate) fn look(
    program: &str,
    root: &Path,
    site: &Path,
    shots: &Path,
) -> Result<(usize, Vec<String>), String> {
    let profile = shots.join("profile");
    let cleared = if shots.exists() { fs::remove_dir_all(shots) } else { Ok(()) };
    cleared
        .and_then(|()| fs::create_dir_all(&profile))
        .map_err(|error| format!("{}: {error}", shots.display()))?;
    let mut browser = Browser::start(program, &profile)?;
    let mut faults = Vec::new();
    let mut count = 0;
    for [width, height] in [DESK, PHONE] {
        browser.become_window(width, height, false)?;
        for path in Built::read(site)?.paths() {
            count += 1;
            browser.open(&site.join(path))?;
            let found = browser.evaluate(&FAULTS.replace("WIDTH", &width.to_string()))?;
            told(&mut faults, &format!("{path} at {width} px"), &found);
            save(&mut browser, shots, &format!("{path}-{width}"))?;
        }
        for word in SOUGHT {
            browser.open(&site.join("index.html"))?;
            let results = browser.evaluate(&SEARCH.replace("WORD", word))?;
            if results.as_u64().unwrap_or(0) == 0 {
                faults.push(format!("at {width} px: a search finds nothing for {word}"));
            }
            save(&mut browser, shots, &format!("search-{word}-{width}"))?;
        }
    }
    for folder in ["docs/pictures", "docs/bench"] {
        count += pictures(&mut browser, &root.join(folder), shots, &mut faults)?;
    }
    drop(browser);
    let _ = fs::remove_dir_all(profile);
    Ok((count, faults))
}

fn pictures(
    browser: &mut Browser,
    folder: &Path,
    shots: &Path,
    faults: &mut Vec<String>,
) -> Result<usize, String> {
    let mut count = 0;
    let listing = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for entry in listing.flatten().filter(|entry| entry.path().extension().is_some_and(|end| end == "svg")) {
        let name = entry.file_name().to_string_lossy().into_owned();
        for dark in [false, true] {
            count += 1;
            browser.become_window(920, 720, dark)?;
            browser.open(&entry.path())?;
            told(faults, &name, &browser.evaluate(OVERLAPS)?);
            save(browser, shots, &format!("{name}-{}", if dark { "dark" } else { "light" }))?;
        }
    }
    Ok(count)
}

fn told(faults: &mut Vec<String>, what: &str, found: &serde_json::Value) {
    if found != "" {
        faults.push(format!("{what}:\n    {}", found.as_str().unwrap_or("no answer")));
    }
}

/// Saves the window's content for people.
fn save(browser: &mut Browser, shots: &Path, name: &str) -> Result<(), String> {
    let path = shots.join(format!("{}.png", name.replace('/', "-")));
    let png = BASE64_STANDARD.decode(browser.screenshot()?).map_err(|error| format!("{name}: {error}"))?;
    fs::write(&path, png).map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The checks themselves: each fault is planted once. `make docs` installs a browser; without one, this test
    /// shows nothing.
    #[test]
    fn faults_of_pages_and_pictures_are_found() {
        let program = std::env::var("CHROMIUM").unwrap_or_else(|_| "chromium".into());
        if std::process::Command::new(&program).arg("--version").output().is_err() {
            eprintln!("not shown: there is no {program}");
            return;
        }
        let root = std::env::temp_dir().join(format!("rlock-look-{}", std::process::id()));
        let (site, bench) = (root.join("site"), root.join("docs/bench"));
        for folder in [&site, &bench, &root.join("docs/pictures")] {
            fs::create_dir_all(folder).unwrap();
        }
        let page = r#"<meta name="viewport" content="width=device-width"><main><img src="no.svg"><p style="width: 600px">a"#;
        fs::write(site.join("index.html"), page).unwrap();
        let svg = r#"<svg xmlns="http://www.w3.org/2000/svg" width="99" height="50"><text x="9" y="20">one</text>
            <text x="15" y="22">two</text><text x="90" y="40">three</text></svg>"#;
        fs::write(bench.join("a.svg"), svg).unwrap();
        let looked = look(&program, &root, &site, &root.join("shots"));
        fs::remove_dir_all(&root).unwrap();
        let (looks, faults) = looked.unwrap();
        let faults = faults.join("\n");
        assert_eq!(looks, 4, "a page at two widths, a picture in two schemes: {faults}");
        assert!(!faults.contains("1280 px:\n    the page is"), "{faults}");
        for fault in [
            "index.html at 1280 px:\n    a picture is missing: no.svg",
            "index.html at 390 px:\n    a picture is missing: no.svg\n    the page is 60",
            "goes out of the window: <p style",
            "at 1280 px: a search finds nothing for FENCED",
            "at 390 px: a search finds nothing for FENCED",
            "a.svg:\n    two overlaps one",
            "leaves the picture: three",
        ] {
            assert!(faults.contains(fault), "{fault} is not found: {faults}");
        }
    }
}
