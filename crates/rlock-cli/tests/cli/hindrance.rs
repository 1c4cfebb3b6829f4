//! Primaries that answer and give no locks: they refuse writes, are full or drained. Each command for operators shows it.

use rlock_testkit::{TestServer, eventually};
use serde_json::Value;

use crate::containers::Check;
use crate::support::metrics::{Exporter, printed};
use crate::support::terminal::Terminal;
use crate::support::{SOON, address, ask, at, rlock, url, url_of};

/// A command that makes a server refuse locks, the first word of its error, and what is said of it.
const CASES: [(&str, &str, &str); 5] = [
    // As before a fail-over by Sentinels.
    ("CLIENT PAUSE 600000 WRITE", "PAUSE", "answers no writes: they are paused (CLIENT PAUSE)"),
    ("CONFIG SET min-replicas-to-write 1", "NOREPLICAS", "refuses writes: NOREPLICAS"),
    ("CONFIG SET maxmemory 1", "OOM", "refuses new locks: its memory is full (maxmemory)"),
    ("CONFIG SET rlock.accept no", "DRAIN", "refuses new locks: it is drained (rlock.accept is no)"),
    ("", "MISCONF", "refuses writes: MISCONF"),
];

/// A server in that state, with a lock that another owner holds.
fn hindered(command: &str) -> TestServer {
    let server = TestServer::start();
    let client = &mut server.connect();
    ask::<redis::Value>(client, "RLOCK.ACQUIRE job alice:1 600000");
    if command.is_empty() {
        fill_disk(&server);
    } else {
        ask::<redis::Value>(client, command);
    }
    server
}

/// A snapshot cannot be written, as with a full disk.
#[track_caller]
pub(crate) fn fill_disk(server: &TestServer) {
    let client = &mut server.connect();
    redis::cmd("CONFIG").arg("SET").arg("save").arg("3600 1").exec(client).expect("snapshots");
    let file = server.dir().join("dump.rdb");
    let _ = std::fs::remove_file(&file);
    std::fs::create_dir(&file).expect("a directory in its place");
    std::fs::write(file.join("file"), "").expect("a file in it");
    eventually("a snapshot that fails", SOON, || {
        let _: redis::RedisResult<()> = redis::cmd("BGSAVE").exec(client);
        (server.info("persistence")["rdb_last_bgsave_status"] == "err").then_some(())
    });
}

/// `ping`, `status`, `top`, `doctor` and the exporter show it, each in its way.
#[track_caller]
fn operators_see(server: &TestServer, code: &str, text: &str) {
    let place = address(server);
    let ended = rlock(server, &["ping"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let mut lines = ended.stdout.lines();
    let line = lines.next().expect("a line");
    assert!(line.starts_with(&format!("NO  {place}  primary")) && line.contains(&format!("; it {text}")));
    let has_advice = |advice: &str| advice.starts_with("→ ") && advice.contains(&place);
    assert!(lines.next().is_some_and(has_advice), "{ended:?}");
    let report: Value = rlock(server, &["ping", "--json"]).json().remove(0);
    assert_eq!(report["ok"], false);
    assert!(report["servers"][0]["refuses"].as_str().expect("a reason").starts_with(text), "{report}");
    let status = rlock(server, &["status", "job"]).stdout;
    assert!(status.starts_with("job  held") && status.contains(&format!("{place} {text}")), "{status}");
    let top = rlock(server, &["top", "--once", "--interval", "100ms"]).stdout;
    assert!(top.lines().any(|line| line.starts_with(&place) && line.contains(text)), "{top}");
    let top: Value = rlock(server, &["top", "--once", "--interval", "100ms", "--json"]).json().remove(0);
    assert!(top["refuses"].as_str().expect("a reason").starts_with(text), "{top}");
    let doctor = rlock(server, &["doctor"]);
    let finding = format!("WRONG  {place}: it {text}");
    assert!(doctor.code == Some(2) && doctor.stdout.contains(&finding), "{doctor:?}");
    let (_, metrics) = printed(&url(server), &[]);
    let sample = format!("rlock_writes_refused{{server=\"{place}\",code=\"{code}\"}}");
    assert_eq!(metrics.get(&sample), Some(1.0), "{}", metrics.0);
}

/// The health check asked for the state of a lock, and a server with a full disk was healthy. The image and Kubernetes call
/// `rlock health`, for which a drained server is well: an operator has drained it.
#[test]
fn each_command_and_check_shows_why_a_server_gives_no_locks() {
    let (health, liveness) = (Check::of_the_image(), Check::probe("livenessProbe:"));
    for (command, code, text) in CASES {
        let server = hindered(command);
        let (place, before) = (address(&server), server.info("rlock"));
        operators_see(&server, code, text);
        let ended = health.run(&server);
        if code == "DRAIN" {
            ended.is(0, &format!("ok  {place}  primary\n"));
        } else {
            assert_eq!(ended.code, Some(1), "{ended:?}");
            assert!(ended.stdout.starts_with(&format!("NO  {place}  primary; it {text}")), "{ended:?}");
            assert!(ended.stdout.lines().nth(1).is_some_and(|line| line.starts_with("→ ")), "{ended:?}");
        }
        assert_eq!(liveness.run(&server).code, Some(0), "{code}");
        // To look changes nothing and counts nothing.
        assert_eq!(server.info("rlock"), before, "{code}");
    }
}

#[test]
fn the_live_table_shows_it_in_the_line_of_the_server() {
    let server = hindered("CONFIG SET rlock.accept no");
    let mut terminal = Terminal::at((100, 24), &url(&server), &["top", "--interval", "100ms"], &[]);
    let place = address(&server);
    let lines = terminal.screen(|lines| lines[0].contains("1 without new locks"));
    assert!(lines[2].starts_with(&place) && lines[2].contains("rlock.accept is no"), "{lines:#?}");
    ask::<redis::Value>(&mut server.connect(), "CONFIG SET rlock.accept yes");
    terminal.screen(|lines| !lines[0].contains("without") && lines[2].starts_with(&place));
}

/// A missing permission does not make a server a NO, and is not asked again: each refusal is an entry in ACL LOG.
#[test]
fn a_user_that_may_not_ask_learns_the_rest() {
    let (server, client) = &mut TestServer::builder().start_and_connect();
    ask::<redis::Value>(client, "ACL SETUSER app on >secret -@all +info +rlock.hot");
    let url = url_of("app:secret", server);
    assert_eq!(at(&url, &["ping"]).code, Some(0));
    let exporter = Exporter::start(&url, &[]);
    ask::<redis::Value>(client, "ACL LOG RESET");
    (0..3).for_each(|_| drop(exporter.scrape()));
    let log: Vec<redis::Value> = ask(client, "ACL LOG");
    // One entry counts all refusals of a minute.
    let text = format!("{log:?}");
    assert!(log.len() <= 1 && !text.contains("int(2)") && !text.contains("int(3)"), "{text}");
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
    let (_, metrics) = printed(&url_of("exporter:secret", &server), &[]);
    assert_eq!(metrics.of(&server, ["rlock_up", "rlock_module_loaded"]), [1.0, 0.0]);
}
