//! TLS: servers and clients that prove their identity, and the errors where they cannot.

use std::path::Path;
use std::process::Command;

use rlock_client::{Builder, Client, Error, blocking};
use rlock_testkit::clients::process::Process;
use rlock_testkit::clients::{chain, eventually, holder, run, url, waiters, within};
use rlock_testkit::{DataDir, ServerBuilder, TestServer, certificates, tls_server};

/// An authority of a test's own, and its certificates.
struct Authority(DataDir);

impl Authority {
    fn new(variables: &[(&str, &str)]) -> Authority {
        let folder = DataDir::temporary();
        certificates(folder.path(), variables);
        Authority(folder)
    }

    fn pem(&self) -> String {
        self.read("ca.crt")
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.path().join(name)).expect("reading a certificate")
    }

    /// A server with TLS, and its port for that.
    fn start(&self, builder: ServerBuilder) -> (TestServer, u16) {
        tls_server(builder, self.0.path())
    }
}

fn lenient() -> ServerBuilder {
    TestServer::builder().conf("tls-auth-clients", "no")
}

/// The client's connections to a server, as it lists them: those of the tests do not ask for RESP3.
fn clients(server: &TestServer) -> Vec<String> {
    let list: String = run(&mut server.connect(), "CLIENT LIST");
    list.lines().filter(|line| line.contains("resp=3")).map(str::to_string).collect()
}

async fn refused(builder: Builder, url: &str) -> Error {
    within("an error", builder.connect(url)).await.unwrap_err()
}

/// Acquires the lock, waits for it, and releases it.
async fn use_it(client: &Client, server: &TestServer) {
    let lock = client.lock("locks:1");
    let guard = within("the lock", lock.acquire()).await.unwrap();
    assert_eq!(holder(&mut server.connect(), "locks:1").unwrap().0.as_bytes(), guard.owner());
    let next = lock.clone();
    let waiting = tokio::spawn(async move { next.acquire().await });
    eventually("a waiter", || (waiters(server) == 1).then_some(())).await;
    guard.release().await.unwrap();
    within("the lock", waiting).await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_with_a_password_locks_over_tls() {
    let authority = Authority::new(&[]);
    let (server, port) = authority.start(lenient());
    let may = "+rlock.acquire +rlock.release +rlock.renew +rlock.cancel +rlock.info +pttl +subscribe";
    let user = format!("ACL SETUSER app on >se@cret ~locks:* resetchannels &rlock:grants:* {may}");
    run::<()>(&mut server.connect(), &user);
    let url = format!("rediss://app:se%40cret@127.0.0.1:{port}");
    let client = Client::builder().root_certificates(authority.pem());
    let client = within("a client", client.clone().connect(&url)).await.unwrap();
    use_it(&client, &server).await;
    let clients = clients(&server);
    assert!(clients.len() == 1 && clients[0].contains(" user=app "), "{clients:?}");
    let laddr = format!("laddr=127.0.0.1:{port} ");
    assert!(clients[0].contains(&laddr), "{clients:?}");
    let wrong = url.replace("se%40cret", "wrong");
    let error = refused(Client::builder().root_certificates(authority.pem()), &wrong).await;
    assert!(matches!(error, Error::Permission { .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_trusted_is_refused_with_advice() {
    let (authority, other) = (Authority::new(&[("NAMES", "DNS:redis.example")]), Authority::new(&[]));
    let (server, port) = authority.start(lenient());
    let here = format!("rediss://127.0.0.1:{port}");
    let trusting = |authority: &Authority| Client::builder().root_certificates(authority.pem());
    let cases = [
        (trusting(&other), "UnknownIssuer"),
        (Client::builder(), "UnknownIssuer"),
        (trusting(&authority), "certificate not valid for name"),
    ];
    for (builder, why) in cases {
        let error = refused(builder, &here).await;
        assert!(matches!(error, Error::Tls { .. }), "{error:?}");
        assert!(chain(&error).contains(why), "{}", chain(&error));
        let advice = error.advice().unwrap();
        assert!(advice.contains("SSL_CERT_FILE") && advice.contains("TLS port"), "{advice}");
    }
    assert_eq!(clients(&server), [""; 0]);
    let error = refused(Client::builder().root_certificates("not PEM"), &here).await;
    assert!(matches!(error, Error::Tls { .. } | Error::Invalid { .. }), "{error:?}");
    let error = refused(trusting(&authority), &url(&server)).await;
    assert!(matches!(error, Error::Invalid { .. }) && error.to_string().contains("rediss://"), "{error}");
}

/// The README of the crate shows this function.
async fn connect(folder: &Path) -> Result<Client, Box<dyn std::error::Error>> {
    let read = |name: &str| std::fs::read(folder.join(name));
    let client = Client::builder()
        .root_certificates(read("ca.crt")?) // the authority of the server's certificate
        .client_certificate(read("client.crt")?, read("client.key")?);
    Ok(client.connect(std::fs::read_to_string(folder.join("url"))?.trim()).await?) // rediss://app:…@redis.example:6380
}

#[tokio::test(flavor = "multi_thread")]
async fn the_readme_shows_how_to_connect() {
    let source = include_str!("tls.rs");
    let (_, shown) = include_str!("../../README.md").split_once("```rust,ignore\n").unwrap();
    let (shown, _) = shown.split_once("```").unwrap();
    assert!(source.contains(shown), "{shown}");

    let authority = Authority::new(&[]);
    let (server, port) = authority.start(TestServer::builder().conf("tls-auth-clients", "yes"));
    run::<()>(&mut server.connect(), "ACL SETUSER app on >se@cret ~* &* +@all");
    let folder = authority.0.path();
    std::fs::write(folder.join("url"), format!("rediss://app:se%40cret@127.0.0.1:{port}\n")).unwrap();
    let client = within("a client", connect(folder)).await.unwrap();
    use_it(&client, &server).await;
}

/// By default, a server asks each client for a certificate.
#[tokio::test(flavor = "multi_thread")]
async fn clients_prove_their_identity() {
    let authority = Authority::new(&[]);
    let (server, port) = authority.start(TestServer::builder());
    let url = format!("rediss://127.0.0.1:{port}");
    let error = refused(Client::builder().root_certificates(authority.pem()), &url).await;
    assert!(error.advice().is_some_and(|advice| advice.contains("client_certificate")), "{error}");
    let builder = Client::builder().root_certificates(authority.pem());
    let builder = builder.client_certificate(authority.read("client.crt"), authority.read("client.key"));
    let client = within("a client", builder.connect(&url)).await.unwrap();
    use_it(&client, &server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_servers_of_a_cluster_are_found_at_their_tls_ports() {
    let authority = Authority::new(&[]);
    let node = lenient().conf("cluster-enabled", "yes").conf("tls-cluster", "yes");
    let (server, port) = authority.start(node);
    run::<()>(&mut server.connect(), "CLUSTER ADDSLOTSRANGE 0 16383");
    let builder = Client::builder().root_certificates(authority.pem());
    let url = format!("rediss+cluster://127.0.0.1:{port}");
    let client = within("a client", builder.connect(&url)).await.unwrap();
    eventually("the cluster to begin", || {
        run::<String>(&mut server.connect(), "CLUSTER INFO").contains("cluster_state:ok").then_some(())
    })
    .await;
    use_it(&client, &server).await;
    let clients = clients(&server);
    let over_tls = |client: &String| client.contains(&format!("laddr=127.0.0.1:{port} "));
    assert!(clients.len() == 2 && clients.iter().all(over_tls), "{clients:?}");
}

/// The next test runs this in a process of its own, whose environment it can set.
#[test]
fn in_a_process_of_its_own() {
    if let Ok(url) = std::env::var("RLOCK_TEST_URL") {
        blocking::Client::connect(&url).unwrap().lock("lock").acquire().unwrap().release().unwrap();
        println!("it was locked");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_environment_names_authorities_to_trust() {
    let authority = Authority::new(&[]);
    let (_server, port) = authority.start(lenient());
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "tls::in_a_process_of_its_own", "--nocapture"]);
    command.env("SSL_CERT_FILE", authority.0.path().join("ca.crt"));
    command.env("RLOCK_TEST_URL", format!("rediss://127.0.0.1:{port}"));
    Process::start(&mut command).says("it was locked");
}
