//! The picture of `rlock top` in docs/OPERATIONS.md: three servers, one of them dead, with a stuck lock and a herd.

use std::fs;
use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::{Color, Modifier};
use rlock_testkit::screenshot::{Cell, Ink, svg};

use super::sample::{Counters, Holder, Lock, Sample};
use super::screen::draw;
use super::table::Servers;
use super::view::View;
use crate::args::Sort;
use crate::clock::Moment;
use crate::error::Error;
use crate::owners::Origin;
use crate::server::HotLock;

const STORED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/pictures/top.svg");
const SIZE: (u16, u16) = (80, 14);

/// A lock: name, waited, error, waits, longest, denied, waiters, owner.
type Hot<'a> = (&'a str, u64, u64, u64, u64, u64, u64, &'a str);

fn lock((key, waited_ms, error_ms, waits, longest_ms, denied, waiters, owner): Hot<'_>) -> Lock {
    let process = Origin::of(owner.as_bytes()).process().cloned();
    let holder = Holder { owner: owner.into(), process, lease_ms: 20_000, session: None };
    let (holders, holder) = if owner.is_empty() { (0, None) } else { (1, Some(holder)) };
    let hot = HotLock { db: 0, key: key.into(), waited_ms, error_ms, waits, longest_ms, denied, waiters };
    Lock { hot, holders: Some(holders), holder, holder_error: None }
}

/// A server whose counters have grown by these in a second.
fn add(servers: &mut Servers, address: &str, rates: Counters, waiters: u64, locks: &[Hot<'_>]) {
    let at = Moment::now();
    let server = servers.entry(address.to_string()).or_default();
    server.note(Sample { at, counters: Counters::default(), waiters, hindrance: None, locks: Vec::new() });
    let (at, locks) = (at.after(Duration::from_secs(1)), locks.iter().map(|hot| lock(*hot)).collect());
    server.note(Sample { at, counters: rates, waiters, hindrance: None, locks });
}

fn scene() -> Servers {
    let mut servers = Servers::new();
    let rates = Counters { acquired: 412.0, denied: 3.0, hand_offs: 96.0, timeouts: 0.0 };
    let stock = ("stock:42", 268_000, 0, 5_210, 1_900, 31, 24, "shop@web-2:318:4be17c9a03d25f86:80211");
    let import = ("import", 61_000, 0, 14, 9_400, 0, 0, "0f8fad5b-d9cb-469f-a165-70867728950e:57");
    add(&mut servers, "10.0.0.1:6379", rates, 24, &[stock, import]);
    let rates = Counters { acquired: 18.0, denied: 0.0, hand_offs: 0.0, timeouts: 2.0 };
    let stuck = ("report:daily", 3_127_000, 0, 26, 611_000, 0, 6, "batch@db-1:4711:9c02e6f7b1a84d35:3");
    let mail = ("mail:queue", 8_300, 4_100, 70, 240, 512, 0, "");
    add(&mut servers, "10.0.0.2:6379", rates, 6, &[stuck, mail]);
    let cause = "Connection refused (os error 111)".to_string();
    let error = Error::NoAnswer { address: "10.0.0.3:6379".to_string(), cause };
    servers.entry("10.0.0.3:6379".to_string()).or_default().fail(&error);
    servers
}

const DESCRIPTION: &str = "A terminal with three servers, one of which does not answer, and the four locks that cost most waiting: a stuck lock with six waiters, whose holder is process 4711 on db-1, a herd of 24 waiters for stock:42, a lock of a Redisson client, and a free one.";

fn cell(cell: &ratatui::buffer::Cell) -> Cell {
    let ink = match cell.fg {
        Color::Red => Ink::Red,
        Color::Yellow => Ink::Yellow,
        _ if cell.modifier.contains(Modifier::REVERSED) => Ink::Inverse,
        _ if cell.modifier.contains(Modifier::DIM) => Ink::Dim,
        _ => Ink::Plain,
    };
    Cell { symbol: cell.symbol().to_string(), ink, is_bold: cell.modifier.contains(Modifier::BOLD) }
}

/// `RLOCK_DRAW=1 cargo test -p rlock-cli picture` draws it anew.
#[test]
fn the_stored_picture_is_what_is_drawn() {
    let mut view = View::new(scene(), Sort::Waited, String::new(), true);
    let mut terminal = Terminal::new(TestBackend::new(SIZE.0, SIZE.1)).expect("a terminal");
    terminal.draw(|frame| draw(frame, &mut view)).expect("drawn");
    let rows = terminal.backend().buffer().content.chunks(SIZE.0.into());
    let rows: Vec<Vec<Cell>> = rows.map(|row| row.iter().map(cell).collect()).collect();
    let drawn = svg(&rows, "rlock top", DESCRIPTION);
    if std::env::var_os("RLOCK_DRAW").is_some() {
        fs::write(STORED, &drawn).expect("written");
    }
    let stored = fs::read_to_string(STORED).unwrap_or_default();
    assert!(stored == drawn, "docs/pictures/top.svg is stale: RLOCK_DRAW=1 cargo test -p rlock-cli picture");
}
