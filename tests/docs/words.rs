//! What users and operators read keeps to the words of the project: crates/rlock-testkit/src/docs/style.rs lists the
//! patterns that are not used, and what to write in their place. Comments, test names and messages of Rust files keep to
//! them as well, except for the places that tests/docs/words.txt counts: a file must not get more of them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use rlock_testkit::docs::{Finding, Prose, Style};

/// The workspace's root.
const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Places that keep a pattern: the file, the words that are found, and the reason.
const EXCEPTIONS: &[(&str, &str, &str)] =
    &[("crates/rlock-cli/src/advice.rs", "such", "the system's own words, which it searches")];

/// One file, and how to find what users read in it.
struct Source {
    path: String,
    read: fn(&str) -> Prose,
}

/// Every file below a folder with this extension.
fn below(folder: &str, extension: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::from(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(Path::new(ROOT).join(&folder)).expect("a directory") {
            let path = folder.join(entry.expect("an entry").file_name());
            if Path::new(ROOT).join(&path).is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|one| one == extension) {
                found.push(path.to_str().expect("UTF-8").to_string());
            }
        }
    }
    found.sort();
    found
}

/// The files of the client; without its simulated servers, whose texts have no readers.
fn client_code() -> Vec<String> {
    let mut files = below("crates/rlock-client/src", "rs");
    files.retain(|file| !file.contains("/virtual_tests/"));
    files
}

fn sources() -> Vec<Source> {
    let mut sources = Vec::new();
    let mut add = |paths: Vec<String>, read: fn(&str) -> Prose| {
        sources.extend(paths.into_iter().map(|path| Source { path, read }));
    };
    let named = |paths: &[&str]| paths.iter().map(ToString::to_string).collect();
    add(named(&["README.md", "ARCHITECTURE.md", "CHANGELOG.md"]), Prose::markdown);
    add(below("docs", "md"), Prose::markdown);
    add(below("crates/rlock-client/src", "md"), Prose::markdown);
    add(named(&["packaging/debian/control"]), Prose::markdown);
    add(named(&["redis.conf", "Dockerfile"]), |file| Prose::comments(file, "#"));
    add(named(&["Makefile"]), Prose::makefile);
    let packages = ["crates/rlock-cli", "crates/rlock-client", "crates/rlock-core"];
    add(packages.map(|package| format!("{package}/Cargo.toml")).into(), |file| {
        Prose::comments(file, "description = ")
    });
    add(named(&["crates/rlock-cli/src/args.rs"]), |file| Prose::comments(file, "///"));
    add(below("crates/rlock-cli/src", "rs"), Prose::literals);
    add(below("crates/rlock-client/src", "rs"), Prose::rustdoc);
    add(below("crates/rlock-core/src", "rs"), Prose::rustdoc);
    add(client_code(), Prose::literals);
    add(named(&["crates/rlock-core/src/error.rs", "crates/rlock-core/src/message.rs"]), Prose::literals);
    add(named(&["src/ffi/load_error.rs"]), Prose::literals);
    add(below("src", "rs"), Prose::c_literals);
    sources
}

#[test]
fn what_users_read_keeps_to_the_words() {
    let style = Style::new();
    let mut failures = Vec::new();
    let mut excepted = Vec::new();
    for Source { path, read } in sources() {
        let text =
            fs::read_to_string(Path::new(ROOT).join(&path)).unwrap_or_else(|error| panic!("{path}: {error}"));
        for Finding { line, words, better } in style.findings(&read(&text)) {
            let exception =
                EXCEPTIONS.iter().position(|(file, kept, _)| *file == path && words.contains(kept));
            if exception.is_some() {
                excepted.extend(exception);
            } else {
                failures.push(format!("{path}:{line}: \"{words}\"; better: {better}"));
            }
        }
    }
    for (number, (file, words, _)) in EXCEPTIONS.iter().enumerate() {
        let used = excepted.contains(&number);
        assert!(used, "{file} has no \"{words}\" any more: remove it from EXCEPTIONS");
    }
    assert!(failures.is_empty(), "{} places:\n{}\n", failures.len(), failures.join("\n"));
}

/// The number of places in each file, `COUNT FILE` in each line. The list only gets shorter.
const KNOWN: &str = "tests/docs/words.txt";

/// Where the project's own Rust files are.
const CODE: [&str; 8] = ["src", "crates", "tests", "integration", "model", "fuzz", "benches", "clients"];

/// The files that spell the patterns out.
const ABOUT_WORDS: &str = "crates/rlock-testkit/src/docs/";

fn known() -> BTreeMap<String, usize> {
    let text = fs::read_to_string(Path::new(ROOT).join(KNOWN)).unwrap_or_default();
    let entry = |line: &str| {
        let (count, path) = line.split_once(' ')?;
        Some((path.to_string(), count.parse().ok()?))
    };
    text.lines().filter_map(entry).collect()
}

/// Each file of code with the places where a pattern is found.
fn code_findings(style: &Style) -> Vec<(String, Vec<Finding>)> {
    let files = CODE.iter().flat_map(|folder| below(folder, "rs"));
    let files = files.filter(|file| !file.contains("/target/") && !file.starts_with(ABOUT_WORDS));
    let read = |path: String| {
        let text = fs::read_to_string(Path::new(ROOT).join(&path)).expect("a Rust file");
        let findings = Prose::source(&text).iter().flat_map(|prose| style.findings(prose)).collect();
        (path, findings)
    };
    files.map(read).collect()
}

#[test]
fn no_file_of_code_gets_more_places_that_do_not_keep_to_the_words() {
    let (known, mut lowered) = (known(), String::new());
    let mut failures = String::new();
    for (path, findings) in code_findings(&Style::new()) {
        let allowed = known.get(&path).copied().unwrap_or_default();
        let left = findings.len().min(allowed);
        if left > 0 {
            writeln!(lowered, "{left} {path}").expect("a string takes everything");
        }
        if findings.len() > allowed {
            let count = findings.len();
            writeln!(failures, "{path}: {count} places, {KNOWN} allows {allowed}:").expect("as above");
            for Finding { line, words, better } in findings {
                writeln!(failures, "  {line}: \"{words}\"; better: {better}").expect("as above");
            }
        }
    }
    // Lowers the list to what is left; it never raises a number.
    if std::env::var_os("RLOCK_WORDS_LOWER").is_some() {
        fs::write(Path::new(ROOT).join(KNOWN), lowered).expect("writing the list");
    }
    assert!(failures.is_empty(), "{failures}");
}
