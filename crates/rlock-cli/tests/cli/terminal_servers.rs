//! `rlock top` on a terminal, with several servers: fail-overs while it runs, a server that hangs, a user without permissions.

use redis::Connection;
use rlock_testkit::clients::cluster::Cluster;
use rlock_testkit::{TestServer, eventually, wait_for_replicas_in_sync};

use crate::support::metrics::{Exporter, address};
use crate::support::terminal::Terminal;
use crate::support::{SOON, Signal, ask, url};

const SIZE: (u16, u16) = (80, 24);

fn top(url: &str) -> (Terminal, vt100::Parser) {
    let terminal = Terminal::at(SIZE, url, &["top", "--interval", "200ms"], &[]);
    (terminal, vt100::Parser::new(SIZE.1, SIZE.0, 0))
}

fn has(lines: &[String], begins: &str) -> bool {
    lines.iter().any(|line| line.starts_with(begins))
}

/// A lock that is held, with a waiter, and the denial that shows it at once.
fn held(client: &mut Connection, lock: &str) {
    ask::<redis::Value>(client, &format!("RLOCK.ACQUIRE {lock} alice:1 600000"));
    ask::<redis::Value>(client, &format!("RLOCK.ACQUIRE {lock} bob:1 1000"));
    ask::<redis::Value>(client, &format!("RLOCK.ACQUIRE {lock} carol:1 600000 ENQUEUE 0 news:{{{lock}}}"));
}

/// The table follows the Sentinels to the new primary, and so does the exporter, which still shows the old one as down.
#[test]
fn a_fail_over_by_sentinels_is_followed() {
    let primary = TestServer::start();
    let replica = TestServer::builder().conf("replicaof", format!("127.0.0.1 {}", primary.port())).start();
    wait_for_replicas_in_sync(&primary, &replica);
    let sentinel = TestServer::builder()
        .sentinel()
        .conf("sentinel", format!("monitor app 127.0.0.1 {} 1", primary.port()))
        .conf("sentinel", "down-after-milliseconds app 2000")
        .conf("sentinel", "failover-timeout app 10000")
        .start();
    eventually("the Sentinel to know the replica", SOON, || {
        let replicas: Vec<redis::Value> = ask(&mut sentinel.connect(), "SENTINEL REPLICAS app");
        (replicas.len() == 1).then_some(())
    });
    let (old, new) = (address(&primary), address(&replica));
    let url = format!("redis+sentinel://{}/app", address(&sentinel));
    let exporter = Exporter::start(&url);
    exporter.scrape();
    held(&mut primary.connect(), "invoice:7");
    let (mut terminal, mut screen) = top(&url);
    let screen = &mut screen;
    terminal.screen(screen, |lines| has(lines, &format!("{old}  ")) && has(lines, "invoice:7 "));
    primary.kill9();
    let lines = terminal.screen(screen, |lines| has(lines, &format!("no answer from {old}: ")));
    assert!(lines[0].starts_with("rlock top  1 server, 0 waiters, 1 without an answer"), "{lines:#?}");
    let lines = terminal.screen(screen, |lines| has(lines, &format!("{new}  ")));
    assert!(!lines[0].contains("without an answer") && !has(&lines, "no answer"), "{lines:#?}");
    held(&mut replica.connect(), "invoice:7");
    terminal.screen(screen, |lines| lines[0].contains("1 waiter ") && has(lines, "invoice:7 "));
    let metrics = exporter.scrape();
    let up = |server: &str| metrics.get(&format!("rlock_up{{server=\"{server}\"}}"));
    assert_eq!((up(&old), up(&new)), (Some(0.0), Some(1.0)));
    let role = format!("rlock_server_info{{server=\"{new}\",role=\"primary\"");
    assert!(metrics.0.contains(&role), "{}", metrics.0);
    let errors = format!("rlock_scrape_errors_total{{server=\"{old}\",question=\"info\"}}");
    assert!(metrics.get(&errors) >= Some(1.0), "{}", metrics.0);
}

/// The node that the URL names is the one that dies: the others lead to the new primary.
#[test]
fn a_fail_over_in_a_cluster_is_followed() {
    let mut cluster = Cluster::start_with_replicas(3);
    let (old, new) = (address(&cluster.primaries[2]), address(&cluster.replicas[2]));
    let others = [address(&cluster.primaries[0]), address(&cluster.primaries[1])];
    held(&mut cluster.primaries[0].connect(), &cluster.lock_on(0, 'a'));
    let (mut terminal, mut screen) = top(&format!("redis+cluster://{old}"));
    let screen = &mut screen;
    let shows = |lines: &[String], server: &str| has(lines, &format!("{server}  "));
    terminal.screen(screen, |lines| [&old, &others[0], &others[1]].iter().all(|server| shows(lines, server)));
    cluster.kill(2);
    terminal.screen(screen, |lines| {
        let dead = lines[2].starts_with(&format!("no answer from {old}"));
        dead && others.iter().all(|server| shows(lines, server)) && lines[0].contains("3 servers, 1 waiter")
    });
    // Between, the other nodes refuse writes as long as the cluster is down.
    terminal.screen(screen, |lines| {
        shows(lines, &new) && lines[0].starts_with("rlock top  3 servers, 1 waiter ") && has(lines, "a:")
    });
}

/// The other servers are shown and the keys work, also in a terminal of another size.
#[test]
fn a_server_that_hangs_is_a_line_of_the_table() {
    let cluster = Cluster::start(2);
    let (lock, hung) = (cluster.lock_on(0, 'a'), &cluster.primaries[1]);
    held(&mut cluster.primaries[0].connect(), &lock);
    let (mut terminal, mut screen) = top(&cluster.url());
    let screen = &mut screen;
    let row = format!("{lock} ");
    terminal.screen(screen, |lines| has(lines, &row) && has(lines, &format!("{}  ", address(hung))));
    hung.signal(Signal::STOP.as_raw());
    let line = format!("no answer from {}: no reply within 5.0s", address(hung));
    let lines = terminal.screen(screen, |lines| has(lines, &line) && has(lines, &row));
    assert!(
        lines[2].trim_end() == line
            && lines[0].starts_with("rlock top  2 servers, 1 waiter, 1 without an answer"),
        "{lines:#?}"
    );
    terminal.type_text("s");
    terminal.screen(screen, |lines| lines[0].ends_with("by waiters"));
    terminal.resize((60, 12));
    let small = &mut vt100::Parser::new(12, 60, 0);
    terminal.shows("\x1b[2J");
    terminal.screen(small, |lines| has(lines, &line) && has(lines, &row) && lines[11].starts_with("q quit"));
    hung.signal(Signal::CONT.as_raw());
    terminal.screen(small, |lines| !has(lines, "no answer") && has(lines, &format!("{}  ", address(hung))));
}

/// A missing permission is named in its place, and the table is whole once it is granted.
#[test]
fn a_user_without_permissions_learns_which() {
    let server = TestServer::start();
    let client = &mut server.connect();
    held(client, "invoice:7");
    ask::<()>(client, "ACL SETUSER eye on >secret ~* +info +rlock.hot");
    let (mut terminal, mut screen) = top(&url(&server).replace("redis://", "redis://eye:secret@"));
    let screen = &mut screen;
    let holder = |lines: &[String]| {
        let row = lines.iter().find(|line| line.starts_with("invoice:7 "))?;
        row.trim_end().rsplit_once(' ').map(|(_, holder)| holder.to_string())
    };
    terminal.screen(screen, |lines| holder(lines).as_deref() == Some("NOPERM"));
    ask::<()>(client, "ACL SETUSER eye +rlock.info");
    terminal.screen(screen, |lines| holder(lines).as_deref() == Some("alice:1"));
    ask::<()>(client, "ACL SETUSER eye resetkeys ~other:*");
    terminal.screen(screen, |lines| holder(lines).as_deref() == Some("NOPERM"));
    ask::<()>(client, "ACL SETUSER eye ~* -rlock.hot");
    let lines = terminal.screen(screen, |lines| lines[0].contains("1 without an answer"));
    assert!(
        lines[2].starts_with(&format!("{} refused: NOPERM", address(&server)))
            && lines[2].ends_with("'rlock.hot' command"),
        "{lines:#?}"
    );
    ask::<()>(client, "ACL SETUSER eye +rlock.hot");
    terminal.screen(screen, |lines| holder(lines).as_deref() == Some("alice:1"));
}
