//! The sessions in the README and on the page of the command print what they show.

use std::path::Path;

use crate::support::{RLOCK, Running, file, program, url};
use rlock_testkit::TestServer;

/// The lines of the block of a page that begins with the command.
fn session(page: &str) -> Vec<String> {
    let text = file(page);
    let blocks = text.split("```console\n").skip(1).filter_map(|rest| rest.split("\n```").next());
    let block = blocks.into_iter().find(|block| block.starts_with("$ rlock run")).expect("a session");
    block
        .lines()
        .map(|line| line.rfind("  # ").map_or(line, |end| &line[..end]).trim_end().to_string())
        .collect()
}

/// Whether a line is as shown, where `…` stands for anything.
fn is_as_shown(line: &str, shown: &str) -> bool {
    let mut parts = shown.split('…');
    let Some(mut rest) = parts.next().and_then(|first| line.strip_prefix(first)) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        let Some(place) = rest.find(part) else { return false };
        rest = &rest[place + part.len()..];
    }
    rest.ends_with(last)
}

#[test]
fn the_sessions_print_what_they_show() {
    prints_what_it_shows("README.md");
    prints_what_it_shows("crates/rlock-cli/README.md");
}

#[track_caller]
fn prints_what_it_shows(page: &str) {
    let lines = session(page);
    let server = TestServer::start();
    // One shell for all of it, since commands use the exit code of the one before; between them a mark.
    let mut script = "exec 2>&1\n".to_string();
    let mut steps: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in &lines {
        match (line.strip_prefix("$ "), steps.last_mut()) {
            (Some(command), _) => {
                script.push_str(&format!("{command}\ncode=$?; echo '<end>'; (exit $code)\n"));
                steps.push((command, Vec::new()));
            }
            (None, Some((_, shown))) => shown.push(line),
            (None, None) => panic!("no command before {line:?}"),
        }
    }
    let programs = Path::new(RLOCK).parent().expect("a directory").display().to_string();
    let mut command = program(&["sh"]);
    command.args(["-c", &script]).env("REDIS_URL", url(&server));
    command.env("PATH", format!("{programs}:{}", std::env::var("PATH").unwrap_or_default()));
    let ended = Running::start(command).ended();
    let mut printed = ended.stdout.split("<end>\n");
    for (command, shown) in steps {
        let lines: Vec<&str> = printed.next().expect("an output").lines().collect();
        let same = lines.len() == shown.len()
            && lines.iter().zip(&shown).all(|(line, shown)| is_as_shown(line, shown));
        assert!(same, "{page}: $ {command}\nshown: {shown:#?}\nprinted: {lines:#?}");
    }
}
