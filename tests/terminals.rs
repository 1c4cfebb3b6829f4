//! The sessions in two terminals that the documentation shows run as they are written.
//!
//! `one$ …` and `two$ …` are commands; `...` under a command says that it is still waiting, and
//! `two...` that its answer comes now. A comment starts with `  #`.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use rlock_testkit::{TestServer, eventually};

const PAGES: [(&str, &str); 2] =
    [("README.md", include_str!("../README.md")), ("docs/COMMANDS.md", include_str!("../docs/COMMANDS.md"))];

/// The lines of a page's session, without comments.
fn session(page: &'static str) -> Vec<&'static str> {
    let (_, block) = page.split_once("```terminals\n").expect("the page has a session in two terminals");
    let (block, _) = block.split_once("```").expect("the block ends");
    block.lines().map(|line| line.split("  #").next().unwrap_or_default().trim_end()).collect()
}

fn start(server: &TestServer, line: &str) -> Child {
    let words = line.strip_prefix("redis-cli -p 6399 ").expect("a line of redis-cli").split(' ');
    let mut command = Command::new(server.cli_path());
    command.args(["-p", &server.port().to_string(), "--no-raw"]).args(words).stdout(Stdio::piped());
    command.spawn().expect("redis-cli starts")
}

fn output(mut child: Child) -> Vec<String> {
    eventually("redis-cli to answer", Duration::from_secs(20), || child.try_wait().expect("a child"));
    let mut text = String::new();
    child.stdout.take().expect("its output").read_to_string(&mut text).expect("text");
    text.lines().map(str::to_owned).collect()
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
    let (mut waiting, mut waits): (Option<Child>, usize) = (None, 0);
    while let Some(line) = lines.next() {
        let child = match line.split_once("$ ") {
            Some((_, command)) => start(&server, command),
            None => {
                assert_eq!(line, "two...", "{page}: a line that is neither command nor answer");
                waits += 1;
                waiting.take().expect("somebody waits")
            }
        };
        if lines.next_if_eq(&"...").is_some() {
            thread::sleep(Duration::from_millis(300));
            let child = waiting.insert(child);
            assert!(child.try_wait().expect("a child").is_none(), "{page}: it does not wait");
            continue;
        }
        let is_answer = |next: &&str| !next.contains("$ ") && *next != "two...";
        let expected: Vec<_> = std::iter::from_fn(|| lines.next_if(is_answer)).collect();
        assert_eq!(output(child), expected, "{page}: {line}");
    }
    assert_eq!((waits, waiting.is_none()), (1, true), "{page} shows a wait and its end");
}
