//! `rlock top` on a terminal: what it shows, and its keys.

use redis::Connection;
use rlock_testkit::TestServer;

use crate::support::terminal::Terminal;
use crate::support::{Signal, ask, url};

const SIZE: (u16, u16) = (80, 24);

/// A wait for this lock that took this long, while this owner held it. The lock stays held.
fn wait(client: &mut Connection, key: &str, owner: &str, ms: u64) {
    ask::<redis::Value>(client, &format!("RLOCK.ACQUIRE {key} {owner} 1000000 HOLDS 1"));
    ask::<redis::Value>(client, &format!("RLOCK.ACQUIRE {key} bob:1 1000 BLOCK {ms}"));
}

fn line<'a>(lines: &'a [String], begins: &str) -> Option<&'a str> {
    lines.iter().map(String::as_str).find(|line| line.starts_with(begins))
}

#[test]
fn the_table_shows_servers_locks_and_holders() {
    let (server, client) = &mut TestServer::builder().start_and_connect();
    wait(client, "invoice:7", "web@app-3:4711:0f8fad5bd9cb469f:5", 300);
    wait(client, "stock", "0f8fad5b-d9cb-469f-a165-70867728950e:42", 100);
    ask::<redis::Value>(client, "RLOCK.ACQUIRE invoice:7 carol:1 1000");
    let mut terminal = Terminal::at(SIZE, &url(server), &["top", "--interval", "200ms"], &[]);
    let lines = terminal.screen(|lines| lines.iter().any(|line| line.starts_with("stock ")));
    assert!(
        lines[0].starts_with("rlock top  1 server, 0 waiters") && lines[0].ends_with("by waited"),
        "{lines:#?}"
    );
    assert!(lines[1].starts_with("SERVER") && lines[1].ends_with("WAITERS"), "{lines:#?}");
    assert!(lines[2].starts_with(&format!("127.0.0.1:{}  ", server.port())), "{lines:#?}");
    let titles = lines.iter().position(|line| line.starts_with("LOCK")).expect("titles");
    let words: Vec<&str> = lines[titles].split_whitespace().collect();
    assert_eq!(words, ["LOCK", "WAITED", "WAITERS", "LONGEST", "WAITS", "DENIED", "HOLDER"]);
    // Most waiting first; a long owner loses its middle.
    let invoice: Vec<&str> = lines[titles + 1].split_whitespace().collect();
    assert_eq!(
        (invoice[0], invoice[2], invoice[4], invoice[5], invoice[6]),
        ("invoice:7", "0", "1", "1", "web@app-3:4711")
    );
    assert!(lines[titles + 2].starts_with("stock ") && lines[titles + 2].contains("0f8fad5b"), "{lines:#?}");
    assert!(lines[titles + 2].ends_with(":42"), "{lines:#?}");
    assert!(lines[23].starts_with("q quit"), "{lines:#?}");
    // Then a waiter, and rates.
    let waiter = client;
    ask::<redis::Value>(waiter, "RLOCK.ACQUIRE invoice:7 dave:1 1000 ENQUEUE 0 news");
    terminal.screen(|lines| lines[0].contains("1 server, 1 waiter "));
    let mut number = 0;
    terminal.screen(|lines| {
        // Before each screen, since a rate is that of one interval.
        for _ in 0..20 {
            number += 1;
            ask::<redis::Value>(waiter, &format!("RLOCK.ACQUIRE free:{number} a 100000"));
        }
        let rate = lines[2].split_whitespace().nth(1).and_then(|rate| rate.parse::<f64>().ok());
        rate.is_some_and(|rate| rate > 1.0)
    });
    terminal.type_text("q");
    assert_eq!(terminal.ended().0, Some(0));
}

#[test]
fn keys_sort_filter_pause_and_quit() {
    let (server, client) = &mut TestServer::builder().start_and_connect();
    wait(client, "a", "anna:1", 300);
    wait(client, "b", "berta:1", 50);
    wait(client, "b", "berta:1", 50);
    let mut terminal = Terminal::at(SIZE, &url(server), &["top", "--interval", "100ms"], &[]);
    let order = |lines: &[String]| {
        let of = |lock: &str| lines.iter().position(|line| line.starts_with(lock));
        Some((of("a ")?, of("b ")?))
    };
    terminal.screen(|lines| order(lines).is_some_and(|(a, b)| a < b));
    // Waited, waiters, longest, waits.
    for (key, sorted) in [("s", "by waiters"), ("s", "by longest"), ("s", "by waits")] {
        terminal.type_text(key);
        terminal.screen(|lines| lines[0].ends_with(sorted));
    }
    terminal.screen(|lines| order(lines).is_some_and(|(a, b)| b < a));
    terminal.type_text("/berta");
    terminal.screen(|lines| {
        line(lines, "a ").is_none() && line(lines, "b ").is_some() && lines[23].starts_with("filter: berta")
    });
    terminal.type_text("x\x7f\r");
    terminal.screen(|lines| lines[23].contains("/ filter: berta"));
    terminal.type_text("\x1b");
    terminal.screen(|lines| order(lines).is_some());
    terminal.type_text("/nothing\r");
    terminal.screen(|lines| line(lines, "No lock matches.").is_some());
    terminal.type_text("\x1b");
    terminal.screen(|lines| order(lines).is_some());
    // While it is paused nothing changes; afterwards all is new.
    terminal.type_text("p");
    terminal.screen(|lines| lines[0].ends_with("paused") && order(lines).is_some());
    wait(client, "c", "clara:1", 50);
    std::thread::sleep(std::time::Duration::from_millis(500));
    terminal.type_text("j");
    terminal.screen(|lines| line(lines, "c ").is_none());
    terminal.type_text("p");
    terminal.screen(|lines| line(lines, "c ").is_some() && lines[0].ends_with("by waits"));
    terminal.type_text("\x03");
    let (code, text) = terminal.ended();
    // The user's own screen is back, and what was typed before is seen.
    assert!(code == Some(0) && text.contains("\x1b[?1049l") && text.contains("\x1b[?25h"), "{text:?}");
}

#[test]
fn it_fits_terminals_of_any_size() {
    let (server, client) = &mut TestServer::builder().start_and_connect();
    for number in 0..60 {
        let key = format!("{}:{number:02}", "x".repeat(number));
        ask::<redis::Value>(
            client,
            &format!("RLOCK.ACQUIRE {key} 0f8fad5b-d9cb-469f-a165-70867728950e:1 1000000"),
        );
        ask::<redis::Value>(client, &format!("RLOCK.ACQUIRE {key} b 1"));
    }
    let mut terminal =
        Terminal::at(SIZE, &url(server), &["top", "--interval", "100ms", "--sort", "name"], &[]);
    terminal.screen(|lines| line(lines, ":00").is_some());
    for size in [(50, 10), (20, 5), (200, 60), (1, 1), (80, 24)] {
        terminal.resize(size);
        // After another size everything is drawn anew.
        terminal.shows("\x1b[2J");
    }
    terminal.screen(|lines| line(lines, ":00").is_some());
    // The last one is in the last line of the table.
    terminal.type_text(&"\x1b[6~".repeat(9));
    let lines = terminal.screen(|lines| lines[22].contains(":59 "));
    assert!(lines[22].contains('…') && lines[22].ends_with("28950e:1"), "{lines:#?}");
    terminal.type_text("\x1b[H");
    terminal.screen(|lines| line(lines, ":00").is_some());
}

#[test]
fn a_signal_restores_the_terminal() {
    let server = TestServer::start();
    let mut terminal = Terminal::start(&server, &["top"], &[("NO_COLOR", "1")]);
    terminal.screen(|lines| line(lines, "No lock has cost any waiting.").is_some());
    terminal.signal(Signal::TERM);
    let (code, text) = terminal.ended();
    assert!(code == Some(0) && text.contains("\x1b[?1049l"), "{code:?} {text:?}");
}
