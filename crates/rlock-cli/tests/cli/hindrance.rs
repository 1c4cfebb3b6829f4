//! Primaries that answer and give no locks: they refuse writes, are full or drained. Each command for operators shows it.

use rlock_testkit::clients::cluster::Cluster;
use rlock_testkit::{TestServer, eventually, wait_for_replicas_in_sync};
use serde_json::Value;

use crate::support::metrics::{address, printed};
use crate::support::terminal::Terminal;
use crate::support::{Ended, Running, SOON, ask, bare, rlock, url};

/// A command that makes a server refuse locks, the first word of its error, and what is said of it.
pub(crate) const CASES: [(&str, &str, &str); 5] = [
    // As before a fail-over by Sentinels.
    ("CLIENT PAUSE 600000 WRITE", "PAUSE", "answers no writes: they are paused (CLIENT PAUSE)"),
    ("CONFIG SET min-replicas-to-write 1", "NOREPLICAS", "refuses writes: NOREPLICAS"),
    ("CONFIG SET maxmemory 1", "OOM", "refuses new locks: its memory is full (maxmemory)"),
    ("CONFIG SET rlock.accept no", "DRAIN", "refuses new locks: it is drained (rlock.accept is no)"),
    ("", "MISCONF", "refuses writes: MISCONF"),
];

/// A server in that state, with a lock that another owner holds.
pub(crate) fn hindered(command: &str) -> TestServer {
    let server = TestServer::builder().conf("save", "3600 1").conf("dbfilename", "missing.rdb").start();
    let client = &mut server.connect();
    ask::<redis::Value>(client, "RLOCK.ACQUIRE job alice:1 600000");
    if command.is_empty() {
        // A snapshot cannot be written, as with a full disk.
        let dir: Vec<String> = ask(client, "CONFIG GET dir");
        std::fs::create_dir(format!("{}/missing.rdb", dir[1])).expect("a directory in its place");
        std::fs::write(format!("{}/missing.rdb/file", dir[1]), "").expect("a file in it");
        eventually("a snapshot that fails", SOON, || {
            let _: redis::RedisResult<()> = redis::cmd("BGSAVE").exec(client);
            (server.info("persistence")["rdb_last_bgsave_status"] == "err").then_some(())
        });
    } else {
        ask::<redis::Value>(client, command);
    }
    server
}

#[track_caller]
fn counters(server: &TestServer) -> Vec<(String, String)> {
    let mut fields: Vec<_> = server.info("rlock").into_iter().collect();
    fields.sort();
    fields
}

#[test]
fn ping_top_status_and_the_exporter_show_why_a_server_gives_no_locks() {
    for (command, code, text) in CASES {
        let server = hindered(command);
        let (place, before) = (address(&server), counters(&server));
        let ended = rlock(&server, &["ping"]);
        assert_eq!(ended.code, Some(1), "{ended:?}");
        let mut lines = ended.stdout.lines();
        let line = lines.next().expect("a line");
        assert!(
            line.starts_with(&format!("NO  {place}  primary")) && line.contains(&format!("; it {text}")),
            "{line}"
        );
        assert!(
            lines.next().is_some_and(|advice| advice.starts_with("→ ") && advice.contains(&place)),
            "{ended:?}"
        );
        let report: Value = rlock(&server, &["ping", "--json"]).json().remove(0);
        assert_eq!(report["ok"], false);
        assert!(report["servers"][0]["refuses"].as_str().expect("a reason").starts_with(text), "{report}");
        let status = rlock(&server, &["status", "job"]).stdout;
        assert!(status.starts_with("job  held") && status.contains(&format!("{place} {text}")), "{status}");
        let top = rlock(&server, &["top", "--once", "--interval", "100ms"]).stdout;
        assert!(top.lines().any(|line| line.starts_with(&place) && line.contains(text)), "{top}");
        let top: Value = rlock(&server, &["top", "--once", "--interval", "100ms", "--json"]).json().remove(0);
        assert!(top["refuses"].as_str().expect("a reason").starts_with(text), "{top}");
        let (_, metrics) = printed(&url(&server), &[]);
        let sample = format!("rlock_writes_refused{{server=\"{place}\",code=\"{code}\"}}");
        assert_eq!(metrics.get(&sample), Some(1.0), "{}", metrics.0);
        // To look changes nothing and counts nothing.
        assert_eq!(counters(&server), before, "{code}");
    }
}

#[test]
fn the_live_table_shows_it_in_the_line_of_the_server() {
    let server = hindered("CONFIG SET rlock.accept no");
    let size = (100, 24);
    let mut terminal = Terminal::sized(size, &server, &["top", "--interval", "100ms"], &[]);
    let screen = &mut vt100::Parser::new(size.1, size.0, 0);
    let place = address(&server);
    let lines = terminal.screen(screen, |lines| lines[0].contains("1 without new locks"));
    assert!(lines[2].starts_with(&place) && lines[2].contains("rlock.accept is no"), "{lines:#?}");
    ask::<redis::Value>(&mut server.connect(), "CONFIG SET rlock.accept yes");
    terminal.screen(screen, |lines| !lines[0].contains("without") && lines[2].starts_with(&place));
}

#[test]
fn a_server_that_gives_locks_is_well_and_each_node_of_a_cluster_is_asked() {
    let server = TestServer::start();
    assert_eq!(rlock(&server, &["ping"]).code, Some(0));
    let (_, metrics) = printed(&url(&server), &[]);
    assert_eq!(
        metrics.get(&format!("rlock_writes_refused{{server=\"{}\",code=\"\"}}", address(&server))),
        Some(0.0)
    );
    let cluster = Cluster::start(3);
    let ping = || {
        let mut command = bare();
        command.env("REDIS_URL", cluster.url()).arg("ping");
        Running::start(command).ended()
    };
    assert_eq!(ping().code, Some(0));
    ask::<redis::Value>(&mut cluster.primaries[1].connect(), "CONFIG SET min-replicas-to-write 1");
    let ended: Ended = ping();
    let refuses: Vec<&str> = ended.stdout.lines().filter(|line| line.contains("NOREPLICAS")).collect();
    assert!(ended.code == Some(1) && refuses.len() == 1, "{ended:?}");
    assert!(refuses[0].contains(&address(&cluster.primaries[1])), "{ended:?}");
}

/// A missing permission does not make a server a NO, and is not asked again: each refusal is an entry in ACL LOG.
#[test]
fn a_user_that_may_not_ask_learns_the_rest() {
    let server = TestServer::start();
    let client = &mut server.connect();
    ask::<redis::Value>(client, "ACL SETUSER app on >secret -@all +info +rlock.hot");
    let url = url(&server).replace("redis://", "redis://app:secret@");
    let mut command = bare();
    command.env("REDIS_URL", &url).arg("ping");
    assert_eq!(Running::start(command).ended().code, Some(0));
    let exporter = crate::support::metrics::Exporter::start(&url);
    ask::<redis::Value>(client, "ACL LOG RESET");
    (0..3).for_each(|_| drop(exporter.scrape()));
    let log: Vec<redis::Value> = ask(client, "ACL LOG");
    // One entry counts all refusals of a minute.
    let text = format!("{log:?}");
    assert!(log.len() <= 1 && !text.contains("int(2)") && !text.contains("int(3)"), "{text}");
}

/// By a replica's URL the table showed the replica, on which nothing is acquired.
#[test]
fn top_by_the_url_of_a_replica_shows_the_primary() {
    let primary = TestServer::start();
    let replica = TestServer::builder().conf("replicaof", format!("127.0.0.1 {}", primary.port())).start();
    wait_for_replicas_in_sync(&primary, &replica);
    let ended = rlock(&replica, &["top", "--once", "--interval", "100ms", "--json"]);
    let servers: Vec<String> = ended
        .json()
        .iter()
        .map(|server| server["server"].as_str().expect("an address").to_string())
        .collect();
    assert_eq!(servers, [address(&primary)]);
}

/// An ACL file, or one line with the commands of the module, leaves no user where the module is missing: the exporter was
/// refused, and the alert said that the server does not answer.
#[test]
fn a_user_that_is_made_in_two_steps_sees_that_the_module_is_missing() {
    let server = TestServer::builder().without_module().start();
    let client = &mut server.connect();
    ask::<redis::Value>(client, "ACL SETUSER exporter on >secret -@all +info ~rlock:probe*");
    let second = redis::cmd("ACL").arg(&["SETUSER", "exporter", "+rlock.hot", "+rlock.cancel"]).exec(client);
    assert!(second.is_err(), "a server without the module knows these commands");
    let url = url(&server).replace("redis://", "redis://exporter:secret@");
    let (_, metrics) = printed(&url, &[]);
    assert_eq!(metrics.of(&server, ["rlock_up", "rlock_module_loaded"]), [1.0, 0.0]);
}
