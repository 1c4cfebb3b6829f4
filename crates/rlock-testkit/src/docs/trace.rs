//! Tracing the statements of a document to tests.
//!
//! Every paragraph, list item and body row of a table ends with
//! `<!-- test: file::test_name, other::test_name -->`, unless a heading above it holds
//! `<!-- no-test: reason -->`. `file` is the stem of a file below `tests` or `integration`, or
//! `core/<module>` for one of rlock-core.

use std::fs;
use std::path::{Path, PathBuf};

use super::markdown::{
    Line, heading_level, is_list_item, is_table_delimiter, read, separate, without_comments,
};

/// How many lines above a function its `#[test]` may be, other attributes being between.
const ATTRIBUTE_LINES: usize = 5;

/// Everything in `document` that names no test or one that does not exist, in readable lines.
///
/// `root` is the workspace's root, in which the tests are looked up.
#[must_use]
#[track_caller]
pub fn untraced_statements(document: &Path, root: &Path) -> Vec<String> {
    let (name, text) = read(document);
    let statements = statements(&text);
    let faults = statements.iter().flat_map(|statement| {
        let faults = statement.faults(|test| missing(test, root));
        faults.into_iter().map(|fault| format!("{name}:{}: {fault}", statement.line))
    });
    faults.collect()
}

/// A piece of a document that states something.
#[derive(Debug, Default, PartialEq)]
struct Statement {
    line: usize,
    text: String,
    exempt: bool,
}

impl Statement {
    /// What is wrong with it; `missing` tells why a test named `file::name` does not count.
    fn faults(&self, missing: impl Fn(&str) -> Option<String>) -> Vec<String> {
        let stated = without_comments(&self.text);
        let excerpt: String = stated.trim().chars().take(70).collect();
        let Some(tests) = tests_named(&self.text) else {
            let nothing_due = self.exempt || stated.trim().is_empty();
            return if nothing_due { vec![] } else { vec![format!("ends without a test: {excerpt}")] };
        };
        if stated.trim().is_empty() {
            return vec!["a test is named, but for nothing: no empty line before the comment".into()];
        }
        tests.iter().filter_map(|test| missing(test)).collect()
    }
}

/// The tests named in the comment a text ends with.
fn tests_named(text: &str) -> Option<Vec<&str>> {
    let (_, comment) = text.rsplit_once("<!--")?;
    let list = comment.trim_end().strip_suffix("-->")?.trim().strip_prefix("test:")?;
    Some(list.split(',').map(str::trim).collect())
}

/// Takes a document apart.
fn statements(text: &str) -> Vec<Statement> {
    let mut reader = Reader::default();
    let (lines, _) = separate(text);
    for (number, line) in lines {
        match line {
            Line::Code => reader.end(),
            Line::Text(line) => reader.read(number, line),
        }
    }
    reader.end();
    reader.statements
}

#[derive(Default)]
struct Reader {
    statements: Vec<Statement>,
    current: Option<Statement>,
    /// The level of the heading that exempts what is below it.
    exempt_below: Option<usize>,
    table_rows: usize,
}

impl Reader {
    fn end(&mut self) {
        self.statements.extend(self.current.take());
        self.table_rows = 0;
    }

    fn read(&mut self, number: usize, line: &str) {
        if line.trim_start().starts_with('|') {
            return self.table_row(number, line);
        }
        let is_rule = line.len() >= 3 && line.chars().all(|c| c == '-');
        let is_link = line.starts_with('[') && line.contains("]: ");
        if let Some(level) = heading_level(line) {
            self.end();
            self.heading(level, line);
        } else if line.trim().is_empty() || is_rule || is_link {
            self.end();
        } else if is_list_item(line) || self.current.is_none() || self.table_rows > 0 {
            self.start(number, line);
        } else if let Some(current) = &mut self.current {
            current.text.push('\n');
            current.text.push_str(line);
        }
    }

    fn start(&mut self, line: usize, text: &str) {
        self.end();
        let exempt = self.exempt_below.is_some();
        self.current = Some(Statement { line, text: text.to_string(), exempt });
    }

    fn heading(&mut self, level: usize, line: &str) {
        if self.exempt_below.is_some_and(|exempt| level > exempt) {
            return;
        }
        let reason = line.split_once("<!-- no-test:").map(|(_, rest)| rest.trim_end_matches("-->").trim());
        // Without a reason it exempts nothing.
        self.exempt_below = reason.filter(|reason| !reason.is_empty()).map(|_| level);
    }

    fn table_row(&mut self, number: usize, line: &str) {
        let row = self.table_rows;
        if row > 0 && !is_table_delimiter(line) {
            self.start(number, line.trim().trim_matches('|').trim());
        } else if row == 0 {
            self.end();
        }
        self.table_rows = row + 1;
    }
}

/// Why the test `file::name` does not count; `None` if it exists.
fn missing(test: &str, root: &Path) -> Option<String> {
    let Some((file, name)) = test.split_once("::") else {
        return Some(format!("`{test}` is not of the form file::test_name"));
    };
    let files = test_files(file, root);
    if files.is_empty() {
        return Some(format!("`{test}`: there is no test file `{file}`"));
    }
    let read = |path: &PathBuf| fs::read_to_string(path).unwrap_or_default();
    let found = files.iter().any(|path| has_test(&read(path), name));
    (!found).then(|| format!("`{test}`: no #[test] fn {name} in {}", files[0].display()))
}

fn test_files(file: &str, root: &Path) -> Vec<PathBuf> {
    let (bases, stem) = match file.strip_prefix("core/") {
        Some(module) => (["crates/rlock-core/src", "crates/rlock-core/tests"], module),
        None => (["tests", "integration"], file),
    };
    let mut files = Vec::new();
    bases.iter().for_each(|base| sources_below(&root.join(base), &mut files));
    files.retain(|path| path.file_stem().is_some_and(|found| found == stem));
    files
}

fn sources_below(directory: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        if path.is_dir() {
            sources_below(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// Whether the source holds a function `name` marked as a test.
fn has_test(source: &str, name: &str) -> bool {
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let start = format!("fn {name}(");
    let positions = lines.iter().enumerate().filter(|(_, line)| line.starts_with(&start));
    positions.into_iter().any(|(position, _)| {
        let above = lines[..position].iter().rev().take(ATTRIBUTE_LINES);
        above.take_while(|line| **line != "}").any(|line| *line == "#[test]")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = "\
# Commands <!-- no-test: introduction -->
Nothing due.
## Neither here
- nor there
# Rules
Stated over
two lines. <!-- test: a::b, c::d -->

```console
$ code
```
Unstated.
1. First <!-- test: a::b -->
2. Second
| h | i |
|---|---|
| x | y <!-- test: e::f --> |
| z | w |

<!-- a remark -->

<!-- test: a::b -->
";

    #[test]
    fn every_statement_needs_a_test() {
        let missing = |test: &str| (test == "c::d").then(|| "gone: c::d".to_string());
        let statements = statements(DOCUMENT);
        let faults: Vec<(usize, String)> =
            statements.iter().flat_map(|s| s.faults(missing).into_iter().map(|f| (s.line, f))).collect();
        let expected = [
            (6, "gone: c::d"),
            (12, "ends without a test: Unstated."),
            (14, "ends without a test: 2. Second"),
            (18, "ends without a test: z | w"),
            (22, "a test is named, but for nothing: no empty line before the comment"),
        ];
        assert_eq!(faults, expected.map(|(line, fault)| (line, fault.to_string())));
    }

    #[test]
    fn a_test_is_a_function_with_the_attribute() {
        let source = "#[test]\n#[should_panic]\nfn a() {\n}\nfn b() {}\n";
        assert!(has_test(source, "a"));
        assert!(!has_test(source, "b"));
        assert!(!has_test(source, "c"));
    }

    #[test]
    fn tests_are_looked_up_in_the_workspace() {
        let dir = crate::DataDir::temporary();
        let root = dir.path();
        fs::create_dir_all(root.join("tests/room")).unwrap();
        fs::create_dir_all(root.join("crates/rlock-core/src")).unwrap();
        fs::write(root.join("tests/room/deep.rs"), "#[test]\nfn one() {}").unwrap();
        fs::write(root.join("crates/rlock-core/src/lease.rs"), "    #[test]\n    fn two() {}").unwrap();
        assert_eq!(missing("deep::one", root), None);
        assert_eq!(missing("core/lease::two", root), None);
        assert!(missing("lease::two", root).unwrap().contains("no test file"));
        assert!(missing("deep::two", root).unwrap().contains("no #[test] fn two"));
        assert!(missing("one", root).unwrap().contains("file::test_name"));
    }
}
