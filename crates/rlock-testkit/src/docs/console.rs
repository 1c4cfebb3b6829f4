//! Running the examples of the documentation.
//!
//! In a fenced block marked `console`, `$ redis-cli …`, `127.0.0.1:6399> …` and `$ sleep <s>`
//! are run, and the lines below each must be what the client prints. `  # …` at the end of a line
//! is a comment; `(integer) ~N` stands for a number near N, `(1.05s)` for a duration of no
//! interest. Every command has a connection of its own, so a transaction cannot be shown.

use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use super::markdown::{Fence, separate};
use super::words::{Quoting, split};
use crate::server::TestServer;

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
    let text = fs::read_to_string(document)
        .unwrap_or_else(|error| panic!("cannot read {}: {error}", document.display()));
    let name = document.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut report = ExampleReport { blocks: 0, failures: Vec::new() };
    let (_, fences) = separate(&text);
    for fence in fences.iter().filter(|fence| fence.language == "console") {
        let steps = steps(fence);
        if !steps.iter().any(|step| matches!(step.action, Action::Client(_))) {
            continue;
        }
        report.blocks += 1;
        let server = start();
        let failures = steps.iter().filter_map(|step| step.run(&server));
        report.failures.extend(failures.map(|failure| format!("{name}:{failure}")));
    }
    report
}

#[derive(Debug, PartialEq)]
enum Action {
    /// The arguments of the client, or why they cannot be told.
    Client(Result<Vec<Vec<u8>>, String>),
    Sleep(Duration),
    /// A command that is not for a test to run; what it prints is not looked at.
    Skip,
}

#[derive(Debug)]
struct Step {
    line: usize,
    source: String,
    action: Action,
    expected: Vec<String>,
}

impl Step {
    /// Runs the step; returns a description if the output differs.
    fn run(&self, server: &TestServer) -> Option<String> {
        let arguments = match &self.action {
            Action::Skip => return None,
            Action::Sleep(duration) => {
                sleep(*duration);
                return None;
            }
            Action::Client(Err(error)) => return Some(format!("{}: {}: {error}", self.line, self.source)),
            Action::Client(Ok(arguments)) => arguments,
        };
        let output = server.cli(arguments);
        let actual = trimmed(output.lines().map(str::to_string).collect());
        let expected = trimmed(self.expected.clone());
        let same = actual.len() == expected.len()
            && expected.iter().zip(&actual).all(|(expected, actual)| matches(expected, actual));
        let shown = |lines: &[String]| lines.iter().map(|line| format!("\n    {line}")).collect::<String>();
        (!same).then(|| {
            let (expected, actual) = (shown(&expected), shown(&actual));
            format!("{}: {}\n  documented:{expected}\n  printed:{actual}", self.line, self.source)
        })
    }
}

/// Takes a block apart: each command with the lines below it.
fn steps(fence: &Fence) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut continued = false;
    for (line, text) in (fence.line..).zip(&fence.lines) {
        let text = without_remark(text);
        if let (true, Some(step)) = (continued, steps.last_mut()) {
            step.source = format!("{} {}", step.source.trim_end_matches('\\'), text.trim_start());
        } else if is_command(text) {
            steps.push(Step { line, source: text.into(), action: Action::Skip, expected: Vec::new() });
        } else if let Some(step) = steps.last_mut() {
            step.expected.push(text.to_string());
            continue;
        } else {
            // Nothing has been run yet, so this is a remark.
            continue;
        }
        continued = steps.last().is_some_and(|step| step.source.starts_with("$ ") && text.ends_with('\\'));
    }
    for step in &mut steps {
        step.action = action(&step.source);
    }
    steps
}

fn is_command(text: &str) -> bool {
    text.starts_with("$ ") || client_prompt(text).is_some()
}

/// What follows the prompt of the client.
fn client_prompt(text: &str) -> Option<&str> {
    let (prompt, command) = text.split_once("> ")?;
    let (host, port) = prompt.rsplit_once(':')?;
    (!host.contains(char::is_whitespace) && port.parse::<u16>().is_ok()).then_some(command)
}

fn action(source: &str) -> Action {
    if let Some(command) = client_prompt(source) {
        return Action::Client(split(command, Quoting::Client));
    }
    let words = match split(source.trim_start_matches("$ "), Quoting::Shell) {
        Ok(words) => words,
        Err(error) if source.contains("redis-cli") => return Action::Client(Err(error)),
        Err(_) => return Action::Skip,
    };
    let seconds = |word: &Vec<u8>| String::from_utf8_lossy(word).parse().ok();
    match words.first().map(Vec::as_slice) {
        Some(b"redis-cli" | b"valkey-cli") => Action::Client(Ok(client_arguments(&words[1..]))),
        Some(b"sleep") => match words.get(1).and_then(seconds) {
            Some(seconds) => Action::Sleep(Duration::from_secs_f64(seconds)),
            None => Action::Client(Err("sleep without a number of seconds".into())),
        },
        _ => Action::Skip,
    }
}

/// The arguments without those that say where the server of the example is.
fn client_arguments(words: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut arguments = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_slice() {
            // Only before the command: there, the arguments are its own.
            b"-p" | b"-h" => drop(words.next()),
            option if option.starts_with(b"-") => arguments.push(word.clone()),
            _ => {
                arguments.push(word.clone());
                break;
            }
        }
    }
    arguments.extend(words.cloned());
    arguments
}

/// The line without a comment at its end.
fn without_remark(line: &str) -> &str {
    line.rfind("  # ").map_or(line, |start| &line[..start]).trim_end()
}

/// Without durations, white space at the ends of lines, and empty lines at the end.
fn trimmed(mut lines: Vec<String>) -> Vec<String> {
    lines.retain(|line| !is_duration(line));
    for line in &mut lines {
        line.truncate(line.trim_end().len());
    }
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines
}

/// `(1.05s)`, as an interactive client prints below a slow command.
fn is_duration(line: &str) -> bool {
    let number = line.strip_prefix('(').and_then(|rest| rest.strip_suffix("s)"));
    number.is_some_and(|number| number.parse::<f64>().is_ok())
}

/// Whether a printed line is the documented one, `~N` being a number near N.
fn matches(expected: &str, actual: &str) -> bool {
    const INTEGER: &str = "(integer) ";
    let Some((prefix, about)) = expected.split_once("(integer) ~") else { return expected == actual };
    let printed = actual.strip_prefix(prefix).and_then(|rest| rest.strip_prefix(INTEGER));
    let numbers = about.parse::<i64>().ok().zip(printed.and_then(|printed| printed.parse::<i64>().ok()));
    numbers.is_some_and(|(about, printed)| {
        let tolerance = about / 20;
        (about - tolerance.max(1000)..=about + tolerance).contains(&printed)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Vec<Step> {
        let lines = text.lines().map(str::to_string).collect();
        steps(&Fence { line: 10, language: "console".into(), lines })
    }

    fn client(words: &[&str]) -> Action {
        Action::Client(Ok(words.iter().map(|word| word.as_bytes().to_vec()).collect()))
    }

    #[test]
    fn a_block_is_taken_apart() {
        let steps = parsed(
            "# first\n$ redis-cli -p 6399 -3 SET \"a b\" -p  # a remark\nOK  # fine\n\n\
             127.0.0.1:6399> GET 'a b'\n\"-p\"\n$ sleep 0.5\n$ make x\nnoise\n\
             $ redis-cli \\\n  PING\nPONG",
        );
        let actions: Vec<&Action> = steps.iter().map(|step| &step.action).collect();
        let sleep = Action::Sleep(Duration::from_millis(500));
        let expected = [
            client(&["-3", "SET", "a b", "-p"]),
            client(&["GET", "a b"]),
            sleep,
            Action::Skip,
            client(&["PING"]),
        ];
        assert_eq!(actions, expected.iter().collect::<Vec<_>>());
        assert_eq!(trimmed(steps[0].expected.clone()), ["OK"]);
        assert_eq!((steps[1].line, steps[4].expected.as_slice()), (14, &["PONG".to_string()][..]));
    }

    #[test]
    fn numbers_may_be_near() {
        assert!(matches("1) (integer) ~30000", "1) (integer) 28501"));
        assert!(matches("(integer) ~5000", "(integer) 4000"));
        assert!(!matches("(integer) ~30000", "(integer) 31501"));
        assert!(!matches("(integer) ~30000", "(integer) 28499"));
        assert!(!matches("(integer) ~30000", "30000"));
        assert!(is_duration("(1.05s)") && !is_duration("(nil)"));
    }
}
