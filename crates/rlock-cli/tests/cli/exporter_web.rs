//! `rlock exporter --web-config`: TLS and logins, with a client of its own kind (curl).

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::support::metrics::{Exporter, send};
use crate::support::{Files, rlock, url};
use rlock_testkit::{TestServer, certificates};

/// The password is `open sesame`.
const ALICE: &str = "alice: $2y$05$abcdefghijklmnopqrstuupx2xBUC4954936wVIjyyPHmUBFu0wCW";

const TLS: &str = "tls_server_config: {cert_file: server.crt, key_file: server.key}\n";

#[track_caller]
fn write(files: &Files, text: &str) -> String {
    let path = files.path("web.yml");
    std::fs::write(&path, text).expect("the file");
    path.display().to_string()
}

/// An exporter with this configuration file.
#[track_caller]
fn exporter(files: &Files, text: &str) -> (TestServer, Exporter) {
    let server = TestServer::start();
    let exporter = Exporter::start(&url(&server), &["--web-config", &write(files, text)]);
    (server, exporter)
}

/// The status and the body of a page, by curl; the status is 0 where there is no answer.
#[track_caller]
fn curl(files: &Files, scheme: &str, exporter: &Exporter, arguments: &[&str]) -> (u16, String) {
    let output = Command::new("curl")
        .args(["--silent", "--max-time", "20", "--cacert", "ca.crt", "--write-out", "\n%{http_code}"])
        .args(arguments)
        .arg(format!("{scheme}://{}/metrics", exporter.address()))
        .current_dir(files.dir())
        .output()
        .expect("curl");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (body, status) = text.rsplit_once('\n').expect("a status");
    (status.parse().expect("a number"), body.to_string())
}

#[test]
fn it_serves_tls_and_reads_a_new_certificate_without_a_restart() {
    let files = Files::new();
    certificates(files.dir(), &[]);
    let (_server, exporter) = exporter(&files, TLS);
    let (status, body) = curl(&files, "https", &exporter, &[]);
    assert!(status == 200 && body.contains("\nrlock_up{"), "{status} {body}");
    assert_eq!(curl(&files, "http", &exporter, &[]).0, 0, "without encryption");
    let shown = || {
        let (status, said) =
            curl(&files, "https", &exporter, &["--output", "page", "--write-out", "%{certs}\n%{http_code}"]);
        assert_eq!(status, 200);
        said
    };
    let first = shown();
    assert_eq!(shown(), first);
    certificates(files.dir(), &[]);
    assert_ne!(shown(), first);
    // Half replaced, it refuses connections, says why once, and recovers.
    let key = std::fs::read(files.path("server.key")).expect("the key");
    std::fs::copy(files.path("client.key"), files.path("server.key")).expect("another key");
    (0..3).for_each(|_| assert_eq!(curl(&files, "https", &exporter, &[]).0, 0));
    exporter.running.tells("do not belong together");
    std::fs::write(files.path("server.key"), key).expect("the key");
    assert_eq!(curl(&files, "https", &exporter, &[]).0, 200);
    let told = exporter.running.told();
    assert_eq!(told.matches("do not belong together").count(), 1, "{told}");
}

/// Clients that begin a connection and say nothing, or half a word.
#[test]
fn slow_clients_at_the_handshake_hold_nothing_up() {
    let files = Files::new();
    certificates(files.dir(), &[]);
    let (_server, exporter) = exporter(&files, TLS);
    let slow: Vec<_> =
        (0..20).map(|_| TcpStream::connect(exporter.address()).expect("a connection")).collect();
    let began = Instant::now();
    assert_eq!(curl(&files, "https", &exporter, &[]).0, 200);
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    slow.into_iter().for_each(ends);
}

#[test]
fn clients_show_certificates_where_the_file_asks_for_them() {
    let files = Files::new();
    let asks = |policy: &str| {
        let tls = "cert_file: server.crt, key_file: server.key, client_ca_file: ca.crt";
        format!("tls_server_config: {{{tls}, client_auth_type: {policy}}}\n")
    };
    certificates(files.dir(), &[]);
    let (_server, exporter) = exporter(&files, &asks("RequireAndVerifyClientCert"));
    let own = ["--cert", "client.crt", "--key", "client.key"];
    assert_eq!(curl(&files, "https", &exporter, &own).0, 200);
    assert_eq!(curl(&files, "https", &exporter, &[]).0, 0);
    write(&files, &asks("VerifyClientCertIfGiven"));
    assert_eq!(curl(&files, "https", &exporter, &[]).0, 200);
    assert_eq!(curl(&files, "https", &exporter, &own).0, 200);
}

#[test]
fn users_log_in_and_those_that_are_removed_do_not() {
    let files = Files::new();
    let users = format!("basic_auth_users:\n  {ALICE}\n");
    let (_server, exporter) = exporter(&files, &users);
    let page = exporter.request("GET", "/metrics", "");
    assert!(page.status == 401 && page.head.contains("www-authenticate: basic realm=\"rlock\""), "{page:?}");
    assert!(!page.body.contains("rlock_"), "{page:?}");
    let status = |login: &str| curl(&files, "http", &exporter, &["--user", login]).0;
    for (login, expected) in [
        ("alice:open sesame", 200),
        ("alice:open sesame", 200),
        ("alice:open", 401),
        ("alice:", 401),
        ("bob:open sesame", 401),
        (":", 401),
    ] {
        assert_eq!(status(login), expected, "{login}");
    }
    write(&files, &users.replace("alice:", "bob:"));
    assert_eq!((status("alice:open sesame"), status("bob:open sesame")), (401, 200));
    write(&files, "basic_auth_users: {alice: secret}\n");
    assert_eq!(status("alice:secret"), 0, "a file with a fault admits no user");
    exporter.running.tells("basic_auth_users.alice is not a hash of bcrypt");
    assert!(!exporter.running.told().contains("secret"), "{}", exporter.running.told());
    write(&files, &users);
    assert_eq!(status("alice:open sesame"), 200);
}

/// Wrong passwords are verified one after the other; a login that was right before waits for none of them.
#[test]
fn guesses_do_not_hold_up_a_scrape() {
    let files = Files::new();
    // Their hash takes seconds each in this build.
    let slow = ALICE.replace("alice", "slow").replace("$05$", "$11$");
    let users = format!("basic_auth_users:\n  {ALICE}\n  {slow}\n");
    let (_server, exporter) = exporter(&files, &users);
    let scrape = || curl(&files, "http", &exporter, &["--user", "alice:open sesame"]).0;
    assert_eq!(scrape(), 200);
    let guess = "Authorization: Basic c2xvdzpndWVzcw==\r\n";
    let guesses: Vec<_> = (0..8).map(|_| send(exporter.address(), "GET", "/metrics", guess)).collect();
    let began = Instant::now();
    assert_eq!(scrape(), 200);
    let waiting = guesses.iter().filter(|stream| {
        stream.set_nonblocking(true).expect("a socket");
        stream.peek(&mut [0; 1]).is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    });
    assert!(waiting.count() > 0, "the guesses were over already, after {:?}", began.elapsed());
}

/// Strangers that open connections and say nothing, or half a word, filled all places for two minutes.
#[test]
fn strangers_keep_no_place() {
    let files = Files::new();
    let users = format!("basic_auth_users:\n  {ALICE}\n");
    let (_server, exporter) = exporter(&files, &users);
    let mut known = TcpStream::connect(exporter.address()).expect("a connection");
    let mut scrape = || {
        let login = "Authorization: Basic YWxpY2U6b3BlbiBzZXNhbWU=\r\n";
        write!(known, "GET / HTTP/1.1\r\nHost: exporter\r\n{login}\r\n").expect("a connection that stays");
        let mut answer = [0; 15];
        known.read_exact(&mut answer).expect("an answer");
        assert_eq!(&answer, b"HTTP/1.1 200 OK");
        // The rest of this answer, before the next one.
        while known.read(&mut [0; 1_024]).expect("the rest") == 1_024 {}
    };
    scrape();
    let strangers: Vec<_> = (0..200)
        .map(|number| {
            let mut stream = TcpStream::connect(exporter.address()).expect("a connection");
            let half: &[u8] = if number % 2 == 0 { b"" } else { b"GET /metrics HTT" };
            stream.write_all(half).expect("half a word");
            stream
        })
        .collect();
    let began = Instant::now();
    scrape();
    assert_eq!(curl(&files, "http", &exporter, &["--user", "alice:open sesame"]).0, 200);
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    // One that asks without a login gets an answer, and its connection ends.
    let refused = "GET /metrics HTTP/1.1\r\nHost: exporter\r\n\r\n";
    let mut stranger = TcpStream::connect(exporter.address()).expect("a connection");
    stranger.write_all(refused.as_bytes()).expect("a request");
    ends(stranger);
    strangers.into_iter().for_each(ends);
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    scrape();
}

/// Reads to the end of a connection, which its other side closes.
#[track_caller]
fn ends(mut stream: TcpStream) {
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a socket");
    let ended = stream.read_to_end(&mut Vec::new());
    let is_end = |error: &std::io::Error| error.kind() == ErrorKind::ConnectionReset;
    assert!(ended.is_ok() || ended.as_ref().is_err_and(is_end), "{ended:?}");
}

#[test]
fn a_file_that_it_cannot_follow_ends_the_start() {
    let (server, files) = (TestServer::start(), Files::new());
    for (text, expected) in [
        (
            format!("{TLS}http_server_config: {{http2: false}}\n"),
            "the key http_server_config is not supported",
        ),
        (TLS.to_string(), "os error 2"),
    ] {
        let arguments = ["exporter", "--listen", "127.0.0.1:0", "--web-config", &write(&files, &text)];
        rlock(&server, &arguments).fails(125, &["web.yml: ", expected, "man rlock-exporter"]);
    }
}
