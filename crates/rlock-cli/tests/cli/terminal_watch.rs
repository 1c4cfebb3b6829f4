//! `rlock watch` on terminals of any size.

use crate::support::terminal::Terminal;
use crate::support::{ask, url};
use rlock_testkit::{Subscriber, TestServer};

/// What a picture begins and ends with: no wrapping, the first line, nothing left of the last picture.
const FRAME: (&str, &str) = ("\x1b[?7l\x1b[H\x1b[J", "\x1b[?7h");

#[test]
fn watch_redraws() {
    let server = TestServer::start();
    let mut terminal = Terminal::start(&server, &["watch", "job"], &[]);
    terminal.shows("\x1b[H\x1b[Jjob  \x1b[32mfree");
    ask::<redis::Value>(&mut server.connect(), "RLOCK.ACQUIRE job alice:1 100000");
    terminal.shows("\x1b[H\x1b[Jjob  \x1b[31mheld");
    terminal.shows("alice:1  1 hold");
    // The time left is updated without any change of the lock.
    terminal.shows("left");
    terminal.shows("left");
}

/// Owners of 46 characters made lines wrap, and the first lines left the terminal.
#[test]
fn every_picture_fits_the_terminal() {
    let (server, client) = &mut TestServer::builder().start_and_connect();
    let _listener = Subscriber::channel(server, "news");
    let owner = |number: u32| format!("0f8fad5b-d9cb-469f-a165-{number:012}:1234567");
    // Twenty waiters, and more changes than a picture shows.
    ask::<redis::Value>(client, &format!("RLOCK.ACQUIRE job {} 1000000", owner(0)));
    for number in 1..=20 {
        ask::<redis::Value>(client, &format!("RLOCK.ACQUIRE job {} 1000000 ENQUEUE 0 news", owner(number)));
    }
    for (columns, rows) in [(80, 24), (50, 10), (20, 5), (200, 60)] {
        let mut terminal = Terminal::at((columns, rows), &url(server), &["watch", "job"], &[]);
        for lease in (2_000_000..).step_by(1_000_000).take(9) {
            fits(&terminal.picture(FRAME, |_| true), (columns, rows));
            ask::<redis::Value>(client, &format!("RLOCK.RENEW job {} {lease}", owner(0)));
        }
        for lines in (0..4).map(|_| terminal.picture(FRAME, |_| true)) {
            fits(&lines, (columns, rows));
        }
    }
}

#[test]
fn a_terminal_that_is_resized_is_drawn_anew() {
    let (server, client) = &mut TestServer::builder().start_and_connect();
    let owner = "0f8fad5b-d9cb-469f-a165-70867728950e:1234567";
    ask::<redis::Value>(client, &format!("RLOCK.ACQUIRE job {owner} 1000000"));
    let mut terminal = Terminal::at((100, 24), &url(server), &["watch", "job"], &[]);
    let shortened = |lines: &[String]| lines[1].contains('…') && lines[1].contains(":1234567");
    terminal.picture(FRAME, |lines| lines.len() > 5 && shortened(lines));
    for size in [(50, 10), (160, 30), (30, 8)] {
        terminal.resize(size);
        let whole = size.0 > 140;
        let lines = terminal.picture(FRAME, |lines| {
            let widest = lines.iter().map(|line| line.chars().count()).max().unwrap_or_default();
            widest <= usize::from(size.0)
                && lines.len() < usize::from(size.1)
                && if whole { lines[1].contains(owner) } else { !lines[1].contains(owner) }
        });
        fits(&lines, size);
    }
}

/// A lock's name is as long as its user likes, and so is the list of readers.
#[test]
fn long_names_and_many_holders_fit() {
    let (server, client) = &mut TestServer::builder().start_and_connect();
    let key = format!("invoices:{}:7", "x".repeat(300));
    for number in 0..30 {
        ask::<redis::Value>(client, &format!("RLOCK.ACQUIRE {key} reader:{number} 1000000 READ"));
    }
    let mut terminal = Terminal::at((50, 10), &url(server), &["watch", &key], &[]);
    let lines = terminal.picture(FRAME, |lines| lines.len() > 5);
    assert!(lines.iter().all(|line| line.chars().count() <= 50) && lines.len() < 10, "{lines:#?}");
    assert!(lines[0].starts_with("invoices:") && lines[0].contains("…"), "{lines:#?}");
    assert!(lines[0].contains(":7  held, 16m") && lines[0].ends_with(" left"), "{lines:#?}");
}

/// No line is wider than the terminal, the last row is free for the cursor, and the first line is the lock's.
#[track_caller]
fn fits(lines: &[String], (columns, rows): (u16, u16)) {
    assert!(lines.len() < usize::from(rows), "{} of {rows} rows: {lines:#?}", lines.len());
    for line in lines {
        assert!(line.chars().count() <= usize::from(columns), "{columns} columns: {line:?} in {lines:#?}");
    }
    assert!((lines[0].starts_with('j') || columns < 50) && lines[0].contains("  held, "), "{lines:#?}");
    assert!(lines.iter().any(|line| line.starts_with("  holder  0f8f")), "{lines:#?}");
    assert_eq!(lines.last().map(String::as_str), Some("Ctrl-C ends this."), "{lines:#?}");
}
