//! The documentation holds: its examples print what they show, its statements are tested.

use std::path::{Path, PathBuf};

use rlock_testkit::TestServer;
use rlock_testkit::docs::{check_examples, untraced_statements};

/// The workspace's root.
const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// README.md first, then docs/*.md.
fn documents() -> Vec<PathBuf> {
    let docs = Path::new(ROOT).join("docs");
    let mut documents: Vec<PathBuf> = std::fs::read_dir(docs)
        .expect("docs is a directory")
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .collect();
    documents.sort();
    documents.insert(0, Path::new(ROOT).join("README.md"));
    documents
}

#[test]
fn the_examples_print_what_they_show() {
    let mut failures = Vec::new();
    for (index, document) in documents().iter().enumerate() {
        let report = check_examples(document, TestServer::start);
        if index == 0 && report.blocks == 0 {
            failures.push("README.md has no ```console block that shows redis-cli".to_string());
        }
        failures.extend(report.failures);
    }
    assert!(failures.is_empty(), "{} failures:\n\n{}\n", failures.len(), failures.join("\n\n"));
}

#[test]
fn every_statement_about_the_commands_names_its_test() {
    let faults = untraced_statements(&Path::new(ROOT).join("docs/COMMANDS.md"), Path::new(ROOT));
    assert!(faults.is_empty(), "{} faults:\n{}\n", faults.len(), faults.join("\n"));
}
