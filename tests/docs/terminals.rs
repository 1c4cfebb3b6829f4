//! The sessions in several terminals that the documentation shows run as they are written.
//!
//! `one$ …` and `two$ …` are commands; `...` under a command says that it is still waiting, and `two...` that its next lines
//! come now. A comment starts with `  #`.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;

use rlock_testkit::prelude::*;

const PAGES: [(&str, &str); 3] = [
    ("README.md", include_str!("../../README.md")),
    ("docs/COMMANDS.md", include_str!("../../docs/COMMANDS.md")),
    ("docs/clients/other.md", include_str!("../../docs/clients/other.md")),
];

const DEADLINE: Duration = Duration::from_secs(20);

/// A subscription begins so. From 8.0 on, redis-cli prints this on a terminal only.
const GREETING: &str = "Reading messages...";

/// The lines of a page's session, without comments.
fn session(page: &'static str) -> Vec<&'static str> {
    let (_, block) = page.split_once("```terminals\n").expect("the page has a session in several terminals");
    let (block, _) = block.split_once("```").expect("the block ends");
    block.lines().map(|line| line.split("  #").next().unwrap_or_default().trim_end()).collect()
}

/// A command that runs in a terminal, and what it has printed.
struct Terminal {
    child: Child,
    lines: Receiver<String>,
}

impl Terminal {
    fn start(server: &TestServer, line: &str) -> Terminal {
        let words = line.strip_prefix("redis-cli -p 6399 ").expect("a line of redis-cli").split(' ');
        let mut command = Command::new(server.cli_path());
        command.args(["-p", &server.port().to_string(), "--no-raw"]).args(words).stdout(Stdio::piped());
        let mut child = command.spawn().expect("redis-cli starts");
        let (output, (sender, lines)) = (child.stdout.take().expect("its output"), mpsc::channel());
        thread::spawn(move || {
            let lines = BufReader::new(output).lines().map_while(Result::ok);
            lines.filter(|line| !line.starts_with(GREETING)).try_for_each(|line| sender.send(line))
        });
        Terminal { child, lines }
    }

    /// Checks the next lines.
    #[track_caller]
    fn prints(&self, expected: &[&str], story: &str) {
        for line in expected.iter().filter(|line| !line.starts_with(GREETING)) {
            let printed = self.lines.recv_timeout(DEADLINE);
            assert_eq!(printed.as_deref(), Ok(*line), "{story}");
        }
    }

    #[track_caller]
    fn is_silent(&mut self, story: &str) {
        thread::sleep(Duration::from_millis(300));
        assert!(self.child.try_wait().expect("a child").is_none(), "{story}: it has ended");
        assert!(self.lines.try_recv().is_err(), "{story}: it prints something");
    }

    #[track_caller]
    fn ends(mut self, story: &str) {
        eventually("redis-cli to end", DEADLINE, || self.child.try_wait().expect("a child"));
        assert_eq!(self.lines.recv_timeout(DEADLINE).ok(), None, "{story}: it prints more");
    }
}

#[test]
fn sessions_in_two_terminals_run_as_they_are_written() {
    for (name, page) in PAGES {
        run(name, session(page));
    }
}

fn run(page: &str, lines: Vec<&str>) {
    let server = TestServer::start();
    let mut lines = lines.into_iter().peekable();
    let (mut waiting, mut waits) = (BTreeMap::new(), 0);
    while let Some(line) = lines.next() {
        let story = format!("{page}: {line}");
        let (name, mut terminal) = match line.split_once("$ ") {
            Some((name, command)) => (name, Terminal::start(&server, command)),
            None => {
                let name = line.strip_suffix("...").expect("neither a command nor what it prints later");
                waits += 1;
                (name, waiting.remove(name).unwrap_or_else(|| panic!("{story}: nothing waits there")))
            }
        };
        let is_printed = |next: &&str| !next.contains("$ ") && !next.ends_with("...");
        let expected: Vec<_> = std::iter::from_fn(|| lines.next_if(is_printed)).collect();
        terminal.prints(&expected, &story);
        if lines.next_if_eq(&"...").is_some() {
            terminal.is_silent(&story);
            waiting.insert(name, terminal);
        } else {
            terminal.ends(&story);
        }
    }
    // A subscription has no end of its own.
    for terminal in waiting.values_mut() {
        terminal.child.kill().expect("it still runs");
        terminal.child.wait().expect("a child");
    }
    assert_eq!(waits, 1, "{page} shows a wait and its end");
}
