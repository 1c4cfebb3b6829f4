//! The documentation holds: its examples print what they show, its statements are tested.

use std::path::{Path, PathBuf};
use std::process::Command;

use rlock_testkit::docs::{check_examples, code, untraced_statements};
use rlock_testkit::prelude::*;

/// The workspace's root.
const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// README.md first, then docs/*.md and docs/clients/*.md.
fn documents() -> Vec<PathBuf> {
    let docs = Path::new(ROOT).join("docs");
    let mut documents: Vec<PathBuf> = [docs.clone(), docs.join("clients")]
        .iter()
        .flat_map(|folder| std::fs::read_dir(folder).expect("a directory"))
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
    let pages = ["docs/COMMANDS.md", "docs/REDISSON.md", "docs/ERRORS.md"];
    let faults = pages.map(|page| untraced_statements(&Path::new(ROOT).join(page), Path::new(ROOT))).concat();
    assert!(faults.is_empty(), "{} faults:\n{}\n", faults.len(), faults.join("\n"));
}

/// What stands between backticks in a cell of a table.
fn quoted(cell: &str) -> &str {
    cell.split('`').nth(1).expect("code in the cell")
}

/// Each package runs the code of its own page: `make clients`, and `cargo test` for Rust.
#[test]
fn the_readme_shows_each_language_as_its_page_does() {
    let text = |path: &str| std::fs::read_to_string(Path::new(ROOT).join(path)).expect(path);
    let readme = text("README.md");
    let (_, section) = readme.split_once("## In your language\n").expect("the section of the languages");
    let rows: Vec<&str> = section.lines().take_while(|line| !line.starts_with('#')).collect();
    let rows: Vec<&&str> = rows.iter().filter(|line| line.starts_with("| [")).collect();
    assert_eq!(rows.len(), 6, "{rows:#?}");
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").collect();
        let [name, install, line] = cells[..] else { panic!("three cells in {row}") };
        let (_, page) = name.split_once("](").expect("a link to the page");
        let page = text(page.split_once(')').expect("a link to the page").0);
        for code in [quoted(install), quoted(line)] {
            assert!(page.contains(code), "{name}: its page has no {code}");
        }
    }
    let python = code(&Path::new(ROOT).join("README.md"), "python");
    assert!(text("clients/python/README.md").contains(&format!("```python\n{python}```")), "{python}");
}

/// Runs the statements of a page in SQLite, and prints the rows that each write has changed: growing tokens, a repeated
/// token with the same state, a late token, a missing token.
const FENCED_WRITES: &str = r#"
import re, sqlite3, sys
sql = re.sub(r'--[^\n]*', '', sys.argv[1])
alter, update, begin, insert, commit = [part.strip() for part in sql.split(';') if part.strip()]
db = sqlite3.connect(':memory:', isolation_level=None)
db.execute('CREATE TABLE invoices (id INTEGER PRIMARY KEY, state TEXT)')
db.execute("INSERT INTO invoices VALUES (7, 'open')")
db.execute('CREATE TABLE fences (lock TEXT PRIMARY KEY, token BIGINT NOT NULL)')
db.execute(alter)
def changed(statement, token):
    before = db.total_changes
    db.execute(statement, {'token': token})
    return db.total_changes - before
print([changed(update, token) for token in (33, 101, 101, 33, None, 102)])
def fenced(token):
    db.execute(begin)
    rows = changed(insert, token)
    db.execute(commit if rows else 'ROLLBACK')
    return rows
print([fenced(token) for token in (33, 101, 101, 33, 102)])
print(db.execute('SELECT fence FROM invoices').fetchall(), db.execute('SELECT * FROM fences').fetchall())
"#;

#[test]
fn the_sql_for_a_fence_refuses_late_writes() {
    let sql = code(&Path::new(ROOT).join("docs/FENCING.md"), "sql");
    let Ok(ran) = Command::new("python3").args(["-c", FENCED_WRITES, &sql]).output() else {
        eprintln!("not shown: there is no python3, whose SQLite this needs");
        return;
    };
    let (said, failed) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    if failed.contains("No module named") {
        eprintln!("not shown: this python3 has no SQLite");
        return;
    }
    let expected = "[1, 1, 1, 0, 0, 1]\n[1, 1, 1, 0, 1]\n[(102,)] [('invoice:7', 102)]\n";
    assert_eq!(said, expected, "{failed}");
}
