//! The wrong server, protocol, database, user or kind of lock: each error says what is wrong, then what to do.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::support::servers::{quiet_sentinel, replica, url_by};
use crate::support::{address, ask, at, url, url_of};
use rlock_testkit::{TestServer, answering_port};

/// Subcommands that ask in different ways: by the client crate once, for as long as it takes, and server by server.
pub(crate) const ALL: [&[&str]; 4] =
    [&["status", "job"], &["run", "job", "--no-wait", "--", "echo", "ran"], &["ls"], &["ping"]];

/// Every subcommand that asks a server, and must not do anything without it.
pub(crate) const EVERY: [&[&str]; 8] = [
    ALL[0],
    ALL[1],
    ALL[2],
    ALL[3],
    &["release", "job", "--owner", "alice:1"],
    &["force-release", "job", "--yes"],
    &["watch", "job"],
    &["top", "--once"],
];

/// An answer that needs no waiting has come within this time, on a busy machine too; a time-out takes 5 s.
const AT_ONCE: Duration = Duration::from_secs(4);

/// Shows that each of the commands fails at once, and says these words.
#[track_caller]
pub(crate) fn all_fail(commands: &[&[&str]], url: &str, words: &[&str]) {
    for arguments in commands {
        let begin = Instant::now();
        let ended = at("", &[&["--url", url], *arguments].concat());
        assert!(begin.elapsed() < AT_ONCE, "{arguments:?} at {url}: {:?} {ended:?}", begin.elapsed());
        assert_eq!(ended.stdout, "", "{arguments:?} at {url}: {ended:?}");
        ended.fails(125, &[words, &["\n  → "]].concat());
        assert!(ended.stderr.lines().count() == 2, "what is wrong, then what to do: {ended:?}");
    }
}

/// It said that the module is not loaded, and `ping` of a server by the URL of a Sentinel said `ok`.
#[test]
fn servers_and_sentinels_are_distinguished() {
    let server = TestServer::start();
    let sentinel = quiet_sentinel(&server);
    let (at, by) = (address(&server), address(&sentinel));
    let not = format!("{at} is not a Sentinel");
    all_fail(&ALL, &format!("redis+sentinel://{at}/app"), &[&not, &format!("write redis://{at} ")]);
    let is = format!("{by} is a Sentinel, which has no locks");
    let right = format!("write redis+sentinel://{by}/app");
    // `ls` and `ping` find the servers by any Sentinel.
    all_fail(&ALL[..2], &format!("redis://{by}"), &[&is, &right]);
    all_fail(&ALL, &format!("redis+cluster://{by}"), &[&is, &right]);
    let unknown = format!("the Sentinel {by} watches no primary called other");
    all_fail(&ALL, &format!("redis+sentinel://{by}/other"), &[&unknown, "end of the URL: app"]);
}

/// `ping` reports one wrong address among the Sentinels, though the others lead to the servers.
#[test]
fn ping_names_a_server_that_is_not_a_sentinel() {
    let server = TestServer::start();
    let sentinel = quiet_sentinel(&server);
    let ended = at(&url_by(&[&sentinel, &server]), &["ping"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stdout.contains("is not a Sentinel") && ended.stdout.contains("→ write"), "{ended:?}");
}

/// Errors name the server that is down, and not the Sentinels, which are well.
#[test]
fn what_a_sentinel_names_may_be_wrong_itself() {
    let without = TestServer::builder().without_module().start();
    let by = quiet_sentinel(&without);
    let missing = format!("the module rlock is not loaded on {}", address(&without));
    all_fail(&ALL[..3], &url_by(&[&by]), &[&missing, "loadmodule"]);
    let refused = format!("rlock: no answer from {}: Connection refused", address(&without));
    let advice = format!("check that a server runs at {},", address(&without));
    drop(without);
    all_fail(&ALL[..3], &url_by(&[&by]), &[&refused, &advice]);
}

#[test]
fn servers_and_clusters_are_distinguished() {
    let server = TestServer::start();
    let at = address(&server);
    let not = format!("{at} is not a node of a cluster");
    all_fail(&ALL, &format!("redis+cluster://{at}"), &[&not, "write redis:// in place of redis+cluster://"]);
    let node = TestServer::builder().conf("cluster-enabled", "yes").start();
    let at = address(&node);
    for kind in ["redis", "redis+cluster"] {
        all_fail(&ALL[..2], &format!("{kind}://{at}"), &["CLUSTERDOWN", "give every slot to a node"]);
    }
    let right = format!("write redis+cluster://{at} ");
    all_fail(&ALL, &format!("redis+sentinel://{at}/app"), &["is not a Sentinel", &right]);
}

/// It said `no answer`, though the server had answered.
#[test]
fn databases_that_are_not_there() {
    let server = TestServer::start();
    let at = address(&server);
    all_fail(
        &ALL,
        &format!("redis://{at}/99"),
        &[&format!("{at} has no database 99"), "redis://host:port/0"],
    );
    let sentinel = quiet_sentinel(&server);
    let url = format!("{}/99", url_by(&[&sentinel]));
    all_fail(&ALL[..3], &url, &["has no database 99", "redis://host:port/0"]);
    // Valkey 9 has databases in a cluster too, if configured.
    let node = TestServer::builder().conf("cluster-enabled", "yes").start();
    ask::<String>(&mut node.connect(), "CLUSTER ADDSLOTSRANGE 0 16383");
    for kind in ["redis", "redis+cluster"] {
        all_fail(&ALL, &format!("{kind}://{}/1", address(&node)), &["has no database 1"]);
    }
}

/// A server without TLS never answers a TLS handshake: the error took 5 s, and blamed the load.
#[test]
fn tls_that_is_not_there() {
    let server = TestServer::start();
    let at = address(&server);
    let words = [&format!("{at} accepts no TLS connections")[..], "write redis:// in place of rediss://"];
    all_fail(&ALL, &format!("rediss://{at}"), &words);
    all_fail(&ALL, &format!("rediss+cluster://{at}"), &words);
    all_fail(&ALL[..3], &format!("rediss+sentinel://{at}/app"), &words);
}

/// Answers each connection so, as soon as it has said something, or at once.
fn other_server(listens: bool, answer: &'static [u8]) -> u16 {
    answering_port(move |mut stream: TcpStream| {
        if listens {
            let _ = stream.read(&mut [0; 4096]);
        }
        let _ = stream.write_all(answer);
        // Until the client has gone.
        let _ = stream.read_to_end(&mut Vec::new());
    })
}

#[test]
fn ports_of_other_servers() {
    let http = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
    let cases: [(bool, &'static [u8], &str); 3] = [
        (true, http, "is a web server, not a Redis or Valkey server"),
        (false, b"SSH-2.0-OpenSSH_9.2\r\n", "is not a Redis or Valkey server"),
        (false, b"J\0\0\0\n8.0.36\0", "is not a Redis or Valkey server"),
    ];
    for (listens, answer, what) in cases {
        let port = other_server(listens, answer);
        let words = [&format!("127.0.0.1:{port} {what}")[..], "correct the host and the port"];
        all_fail(&ALL, &format!("redis://127.0.0.1:{port}"), &words);
        all_fail(&ALL, &format!("rediss://127.0.0.1:{port}"), &words);
    }
}

#[test]
fn addresses_without_a_server() {
    let refused = "no answer from 127.0.0.1:1: Connection refused";
    let words = [refused, "check that a server runs at 127.0.0.1:1", "--url or REDIS_URL"];
    all_fail(&EVERY, "redis://127.0.0.1:1", &words);
    all_fail(&ALL, "redis+cluster://127.0.0.1:1", &["Connection refused", "check that a server runs"]);
    all_fail(&ALL, "redis+sentinel://127.0.0.1:1/app", &["Connection refused", "check that a server runs"]);
    all_fail(&ALL, "redis://no-such-host.invalid", &["no-such-host.invalid", "check the host name"]);
    all_fail(&ALL, "unix:///no/such/socket", &["No such file", "check the path"]);
}

#[test]
fn servers_that_answer_but_do_not_serve() {
    let server = TestServer::start();
    let replica = replica(&server);
    let words =
        [&format!("{} is a replica", address(&replica))[..], "the URL of the primary, ", &address(&server)];
    all_fail(&ALL[1..2], &url(&replica), &words);
    let stale = TestServer::builder().conf("replica-serve-stale-data", "no").start();
    ask::<String>(&mut stale.connect(), "REPLICAOF 127.0.0.1 1");
    let stale = url(&stale);
    all_fail(&ALL[..2], &stale, &["is a replica without its primary", "the URL of the primary, 127.0.0.1:1"]);
    // The primary has the locks.
    all_fail(&ALL[2..3], &stale, &["no answer from 127.0.0.1:1", "check that a server runs"]);
    let full = TestServer::start();
    // The one connection that there may be.
    let only = &mut full.connect();
    ask::<String>(only, "CONFIG SET maxclients 1");
    all_fail(&ALL, &url(&full), &["max number of clients", "raise the server's option `maxclients`"]);
}

/// Users and what they may: told apart by what is missing.
#[test]
fn users_that_may_not() {
    let server = TestServer::builder().conf("requirepass", "top-secret").start();
    let admin = &mut server.connect();
    let locks = "-@all +rlock.acquire +rlock.release +rlock.renew +rlock.cancel +rlock.info";
    for rules in [
        format!("locks on >pass ~* {locks}"),
        format!("keys on >pass ~other {locks}"),
        "nothing on >pass ~* -@all +info".to_string(),
        "noscan on >pass ~* +@all -scan".to_string(),
        "nodb on >pass ~* +@all -select".to_string(),
        "off off >pass ~* +@all".to_string(),
    ] {
        ask::<String>(admin, &format!("ACL SETUSER {rules}"));
    }
    let url_of = |login: &str| url_of(login, &server);
    all_fail(&ALL, &url(&server), &["NOAUTH Authentication required.", "write redis://user:password@host"]);
    for login in [":wrong", "nobody:pass", "locks:wrong", "off:pass"] {
        all_fail(&ALL, &url_of(login), &["WRONGPASS", "correct the user and the password"]);
    }
    // Locking needs no INFO; `ls` and `ping` do, and say so.
    let waiting: &[&str] = &["ls", "--waiting"];
    all_fail(
        &[ALL[2], ALL[3], waiting],
        &url_of("locks:pass"),
        &["'info'", "+info for `rlock ping` and `rlock ls`"],
    );
    all_fail(&ALL[2..3], &url_of("noscan:pass"), &["'scan'", "+scan +hlen +hexists"]);
    all_fail(&ALL[..1], &url_of("nothing:pass"), &["'rlock.info'", "+@rlock"]);
    all_fail(&ALL[1..2], &url_of("nothing:pass"), &["'rlock.acquire'", "+@rlock"]);
    all_fail(&ALL[..2], &url_of("keys:pass"), &["NOPERM", "allow the user the lock's key"]);
    all_fail(&ALL, &format!("{}/2", url_of("nodb:pass")), &["'select'", "+select"]);
}

/// What `run` asks for by the wrong word.
#[test]
fn locks_of_the_other_kind() {
    let (server, client) = &mut TestServer::builder().start_and_connect();
    ask::<redis::Value>(client, "RLOCK.ACQUIRE pages a:1 100000 READ");
    ask::<redis::Value>(client, "RLOCK.ACQUIRE job a:1 100000");
    for (words, advice) in [
        (&["run", "pages"][..], "add --read or --write"),
        (&["run", "pages", "--fair"], "add --read or --write"),
        (&["run", "pages", "--no-wait"], "add --read or --write"),
        (&["run", "job", "--read"], "leave out --read and --write"),
        (&["run", "job", "--write"], "leave out --read and --write"),
    ] {
        all_fail(&[&[words, &["--", "echo", "ran"]].concat()], &url(server), &["WRONGLOCK", advice]);
    }
}

/// A module that is older than this command. No server here has one: the test sends its answers.
#[test]
fn a_module_that_is_older() {
    let port = answering_port(|mut stream: TcpStream| {
        let mut buffer = [0; 4096];
        while let Ok(length @ 1..) = stream.read(&mut buffer) {
            let words = String::from_utf8_lossy(&buffer[..length]).to_ascii_uppercase();
            // Commands begin with the number of their words.
            for command in words.split('*').skip(1) {
                let answer = match command {
                    _ if command.contains("HELLO") => "%1\r\n+proto\r\n:3\r\n",
                    _ if command.contains("RLOCK.LIST") => "-ERR unknown command 'RLOCK.LIST'\r\n",
                    _ if command.contains("INFO") => "$21\r\nrlock_version:0.0.1\r\n\r\n",
                    _ if command.contains("RLOCK.RENEW") => "-ERR wrong number of arguments\r\n",
                    _ => "+OK\r\n",
                };
                if stream.write_all(answer.as_bytes()).is_err() {
                    return;
                }
            }
        }
    });
    let words = ["is older than this command (rlock 0.0.1)", "update the module to"];
    all_fail(&[&["ls", "--waiting"]], &format!("redis://127.0.0.1:{port}"), &words);
}
