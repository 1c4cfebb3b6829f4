//! Running the examples of the documentation.
//!
//! A fenced block marked `console` shows the client: it is opened by `$ redis-cli -p 6399`, each `127.0.0.1:6399> …` is run,
//! and the lines below must be what the client prints. `  # …` at the end of a line is a comment; `~N` stands for N or
//! up to 20,000 less, as in [`agrees`]. Every command has a connection of its own, so a transaction cannot be shown.

use std::path::Path;

use super::markdown::{Fence, read, separate};
use crate::commands::agrees;
use crate::server::TestServer;

/// How a session begins.
const OPENED: &str = "$ redis-cli -p 6399";

/// How the client asks for a command.
const PROMPT: &str = "127.0.0.1:6399> ";

/// What running the examples of one document came to.
#[derive(Debug)]
pub struct ExampleReport {
    /// How many blocks have been run.
    pub blocks: usize,
    /// One readable text for each command that printed something else.
    pub failures: Vec<String>,
}

/// Runs the blocks of `document`, each against a server of its own from `start`.
#[must_use]
#[track_caller]
pub fn check_examples(document: &Path, start: impl Fn() -> TestServer) -> ExampleReport {
    let (name, text) = read(document);
    let mut report = ExampleReport { blocks: 0, failures: Vec::new() };
    let (_, fences) = separate(&text);
    let marks = ["redis-cli", "valkey-cli", "127.0.0.1:"];
    let shows_the_client =
        |fence: &&Fence| fence.lines.iter().any(|line| marks.iter().any(|mark| line.contains(mark)));
    for fence in fences.iter().filter(|fence| fence.language == "console").filter(shows_the_client) {
        report.blocks += 1;
        let server = start();
        let failures = steps(fence).into_iter().filter_map(|step| step.run(&server));
        report.failures.extend(failures.map(|failure| format!("{name}:{failure}")));
    }
    report
}

/// A command, or what cannot be run, with the lines below it.
struct Step<'a> {
    line: usize,
    source: &'a str,
    expected: Vec<&'a str>,
}

impl Step<'_> {
    /// Runs the step; returns a description if the output differs.
    fn run(&self, server: &TestServer) -> Option<String> {
        let Some(command) = self.source.strip_prefix(PROMPT).filter(|line| !line.contains(['"', '\'', '\\']))
        else {
            return Some(format!(
                "{}: {}: neither {OPENED} nor plain words at the prompt",
                self.line, self.source
            ));
        };
        let printed = server.cli(&command.split_whitespace().collect::<Vec<_>>());
        let actual = trimmed(printed.lines());
        let expected = trimmed(self.expected.iter().copied());
        let same = actual.len() == expected.len()
            && expected.iter().zip(&actual).all(|(expected, actual)| agrees(actual, expected));
        let shown = |lines: &[&str]| lines.iter().map(|line| format!("\n    {line}")).collect::<String>();
        (!same).then(|| {
            let (expected, actual) = (shown(&expected), shown(&actual));
            format!("{}: {}\n  documented:{expected}\n  printed:{actual}", self.line, self.source)
        })
    }
}

/// Takes a block apart: each command with the lines below it.
fn steps(fence: &Fence) -> Vec<Step<'_>> {
    let mut steps: Vec<Step<'_>> = Vec::new();
    for (line, text) in (fence.line..).zip(&fence.lines) {
        // Without a comment at its end.
        let source = text.rfind("  # ").map_or(text.as_str(), |start| &text[..start]).trim_end();
        match steps.last_mut() {
            None if source == OPENED => {}
            Some(step) if !source.starts_with(PROMPT) => step.expected.push(source),
            _ => steps.push(Step { line, source, expected: Vec::new() }),
        }
    }
    steps
}

/// Without white space at the ends of lines, and empty lines at the end.
fn trimmed<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut lines: Vec<_> = lines.map(str::trim_end).collect();
    while lines.pop_if(|line| line.is_empty()).is_some() {}
    lines
}
