//! What users and operators read keeps to the words of the project: crates/rlock-testkit/src/docs/style.rs lists the
//! patterns that are not used, and what to write in their place. Comments, test names and messages of all Rust files keep to
//! them as well. Identifiers do so where names were made after the glossary: [`NAMED_BY_THE_GLOSSARY`].

use std::fs;
use std::path::{Path, PathBuf};

use rlock_testkit::docs::{Finding, Prose, Style, identifier_findings};

/// The workspace's root.
const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Places that keep a pattern: the file, the words that are found, and the reason.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    ("crates/rlock-cli/src/advice.rs", "such", "the system's own words, which it searches"),
    ("crates/rlock-cli/tests/cli/diagnosis.rs", "such", "the same words"),
];

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

/// The files of the client and its links; without its simulated servers, whose texts have no readers.
fn client_code() -> Vec<String> {
    let mut files = below("crates/rlock-client/src", "rs");
    files.extend(below("crates/rlock-links/src", "rs"));
    files.retain(|file| !file.contains("/virtual_tests/"));
    files
}

fn sources() -> Vec<Source> {
    let mut sources = Vec::new();
    let mut add = |paths: Vec<String>, read: fn(&str) -> Prose| {
        sources.extend(paths.into_iter().map(|path| Source { path, read }));
    };
    let named = |paths: &[&str]| paths.iter().map(ToString::to_string).collect();
    add(named(&["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "lab/README.md"]), Prose::markdown);
    add(below("docs", "md"), Prose::markdown);
    add(below("packaging", "md"), Prose::markdown);
    add(below("crates/rlock-client/src", "md"), Prose::markdown);
    add(named(&["packaging/debian/control"]), Prose::markdown);
    add(named(&["redis.conf", "Dockerfile"]), |file| Prose::comments(file, "#"));
    add(named(&["Makefile"]), Prose::makefile);
    let packages = ["crates/rlock-cli", "crates/rlock-client", "crates/rlock-core", "crates/rlock-links"];
    add(packages.map(|package| format!("{package}/Cargo.toml")).into(), |file| {
        Prose::comments(file, "description = ")
    });
    add(named(&["crates/rlock-cli/src/args.rs"]), |file| Prose::comments(file, "///"));
    add(below("crates/rlock-cli/src", "rs"), Prose::literals);
    add(below("crates/rlock-client/src", "rs"), Prose::rustdoc);
    add(below("crates/rlock-core/src", "rs"), Prose::rustdoc);
    add(below("crates/rlock-links/src", "rs"), Prose::rustdoc);
    add(client_code(), Prose::literals);
    add(named(&["crates/rlock-core/src/error.rs", "crates/rlock-core/src/message.rs"]), Prose::literals);
    add(named(&["src/ffi/load_error.rs"]), Prose::literals);
    add(below("src", "rs"), Prose::c_literals);
    sources
}

/// The places in these files, but for the exceptions.
fn places(sources: impl Iterator<Item = (String, Vec<Finding>)>) -> Vec<String> {
    let excepted = |path: &str, words: &str| {
        EXCEPTIONS.iter().any(|(file, kept, _)| *file == path && words.contains(kept))
    };
    let mut places = Vec::new();
    for (path, findings) in sources {
        for Finding { line, words, better } in findings {
            if !excepted(&path, &words) {
                places.push(format!("{path}:{line}: \"{words}\"; better: {better}"));
            }
        }
    }
    places
}

#[track_caller]
fn assert_none(places: &[String]) {
    assert!(places.is_empty(), "{} places:\n{}\n", places.len(), places.join("\n"));
}

fn text_of(path: &str) -> String {
    fs::read_to_string(Path::new(ROOT).join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn what_users_read_keeps_to_the_words() {
    let style = Style::new();
    let findings = |Source { path, read }: Source| {
        let findings = style.findings(&read(&text_of(&path)));
        (path, findings)
    };
    assert_none(&places(sources().into_iter().map(findings)));
}

/// Where the project's own Rust files are.
const CODE: [&str; 8] = ["src", "crates", "tests", "integration", "model", "fuzz", "lab", "clients"];

/// The files that spell the patterns out.
const ABOUT_WORDS: &str = "crates/rlock-testkit/src/docs/";

/// The places in a file of code where a pattern is found.
fn code_findings(style: &Style, path: &str) -> Vec<Finding> {
    Prose::source(&text_of(path)).iter().flat_map(|prose| style.findings(prose)).collect()
}

#[test]
fn all_code_keeps_to_the_words() {
    let style = Style::new();
    let files = CODE.iter().flat_map(|folder| below(folder, "rs"));
    let files = files.filter(|file| !file.contains("/target/") && !file.starts_with(ABOUT_WORDS));
    let findings = |path: String| {
        let findings = code_findings(&style, &path);
        (path, findings)
    };
    assert_none(&places(files.map(findings)));
}

/// The code whose identifiers keep to the glossary: the module and its core, which users trust with their locks, and the two crates
/// that name their parts. Clients, tests, the model and the tools have older names yet.
const NAMED_BY_THE_GLOSSARY: [&str; 4] =
    ["src", "crates/rlock-core/src", "crates/rlock-sim", "crates/rlock-oracle"];

#[test]
fn identifiers_keep_to_the_words() {
    let files = NAMED_BY_THE_GLOSSARY.iter().flat_map(|folder| below(folder, "rs"));
    let findings = |path: String| {
        let findings = identifier_findings(&text_of(&path));
        (path, findings)
    };
    assert_none(&places(files.filter(|file| !file.contains("/target/")).map(findings)));
}

#[test]
fn each_exception_is_needed() {
    let style = Style::new();
    for (file, words, _) in EXCEPTIONS {
        let used = code_findings(&style, file).iter().any(|finding| finding.words.contains(words));
        assert!(used, "{file} has no \"{words}\" any more: remove it from EXCEPTIONS");
    }
}
