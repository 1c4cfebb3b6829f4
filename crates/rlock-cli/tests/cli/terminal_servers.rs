//! `rlock top` on a terminal, with several servers: fail-overs while it runs, a server that hangs, a user without permissions.

use rlock_testkit::TestServer;
use rlock_testkit::clients::cluster::Cluster;

use crate::incidents::contended;
use crate::support::metrics::Exporter;
use crate::support::servers::{await_replica, replica, sentinel, url_by};
use crate::support::terminal::Terminal;
use crate::support::{Signal, address, ask, url_of};

fn top(url: &str) -> Terminal {
    Terminal::at((80, 24), url, &["top", "--interval", "200ms"], &[])
}

fn has(lines: &[String], begins: &str) -> bool {
    lines.iter().any(|line| line.starts_with(begins))
}

/// The table follows the Sentinels to the new primary, and so does the exporter, which still shows the old one as down.
#[test]
fn a_fail_over_by_sentinels_is_followed() {
    let primary = TestServer::start();
    let (replica, sentinel) = (replica(&primary), sentinel(&primary, 1, 2_000));
    ask::<()>(&mut sentinel.connect(), "SENTINEL SET app failover-timeout 10000");
    await_replica(&sentinel);
    let (old, new, url) = (address(&primary), address(&replica), url_by(&[&sentinel]));
    let exporter = Exporter::start(&url, &[]);
    exporter.scrape();
    contended(&primary, "invoice:7", "alice:1", 1);
    let mut terminal = top(&url);
    terminal.screen(|lines| has(lines, &format!("{old}  ")) && has(lines, "invoice:7 "));
    primary.kill9();
    let lines = terminal.screen(|lines| has(lines, &format!("no answer from {old}: ")));
    assert!(lines[0].starts_with("rlock top  1 server, 0 waiters, 1 without an answer"), "{lines:#?}");
    assert!(!has(&lines, "invoice:7 "), "{lines:#?}");
    let lines = terminal.screen(|lines| has(lines, &format!("{new}  ")));
    assert!(!lines[0].contains("without an answer") && !has(&lines, "no answer"), "{lines:#?}");
    contended(&replica, "invoice:7", "alice:1", 1);
    terminal.screen(|lines| lines[0].contains("1 waiter ") && has(lines, "invoice:7 "));
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
    contended(&cluster.primaries[0], &cluster.lock_on(0, 'a'), "alice:1", 1);
    let mut terminal = top(&format!("redis+cluster://{old}"));
    let shows = |lines: &[String], server: &str| has(lines, &format!("{server}  "));
    terminal.screen(|lines| [&old, &others[0], &others[1]].iter().all(|server| shows(lines, server)));
    cluster.kill(2);
    terminal.screen(|lines| {
        let dead = lines[2].starts_with(&format!("no answer from {old}"));
        dead && others.iter().all(|server| shows(lines, server)) && lines[0].contains("3 servers, 1 waiter")
    });
    // Between, the other nodes refuse writes as long as the cluster is down.
    terminal.screen(|lines| {
        shows(lines, &new) && lines[0].starts_with("rlock top  3 servers, 1 waiter ") && has(lines, "a:")
    });
}

/// The other servers are shown and the keys work, also in a terminal of another size.
#[test]
fn a_server_that_hangs_is_a_line_of_the_table() {
    let cluster = Cluster::start(2);
    let (lock, hung) = (cluster.lock_on(0, 'a'), &cluster.primaries[1]);
    contended(&cluster.primaries[0], &lock, "alice:1", 1);
    let mut terminal = top(&cluster.url());
    let row = format!("{lock} ");
    terminal.screen(|lines| has(lines, &row) && has(lines, &format!("{}  ", address(hung))));
    hung.signal(Signal::STOP.as_raw());
    let line = format!("no answer from {}: no reply within 5.0s", address(hung));
    let lines = terminal.screen(|lines| has(lines, &line) && has(lines, &row));
    assert!(
        lines[2].trim_end() == line
            && lines[0].starts_with("rlock top  2 servers, 1 waiter, 1 without an answer"),
        "{lines:#?}"
    );
    let colour = terminal.cells().cell(2, 0).expect("a cell").fgcolor();
    assert_eq!(colour, vt100::Color::Idx(1), "red");
    terminal.type_text("s");
    terminal.screen(|lines| lines[0].ends_with("by waiters"));
    terminal.resize((60, 12));
    terminal.shows("\x1b[2J");
    terminal.screen(|lines| has(lines, &line) && has(lines, &row) && lines[11].starts_with("q quit"));
    hung.signal(Signal::CONT.as_raw());
    terminal.screen(|lines| !has(lines, "no answer") && has(lines, &format!("{}  ", address(hung))));
}

/// A missing permission is named in its place, and the table is whole once it is granted.
#[test]
fn a_user_without_permissions_learns_which() {
    let (server, client) = &mut TestServer::builder().start_and_connect();
    contended(server, "invoice:7", "alice:1", 1);
    ask::<()>(client, "ACL SETUSER eye on >secret ~* +info +rlock.hot");
    let mut terminal = top(&url_of("eye:secret", server));
    let holder = |lines: &[String]| {
        let row = lines.iter().find(|line| line.starts_with("invoice:7 "))?;
        row.trim_end().rsplit_once(' ').map(|(_, holder)| holder.to_string())
    };
    terminal.screen(|lines| holder(lines).as_deref() == Some("NOPERM"));
    ask::<()>(client, "ACL SETUSER eye +rlock.info");
    terminal.screen(|lines| holder(lines).as_deref() == Some("alice:1"));
    ask::<()>(client, "ACL SETUSER eye resetkeys ~other:*");
    terminal.screen(|lines| holder(lines).as_deref() == Some("NOPERM"));
    ask::<()>(client, "ACL SETUSER eye ~* -rlock.hot");
    let lines = terminal.screen(|lines| lines[0].contains("1 without an answer"));
    assert!(
        lines[2].starts_with(&format!("{} refused: NOPERM", address(server)))
            && lines[2].ends_with("'rlock.hot' command"),
        "{lines:#?}"
    );
    ask::<()>(client, "ACL SETUSER eye +rlock.hot");
    terminal.screen(|lines| holder(lines).as_deref() == Some("alice:1"));
}
