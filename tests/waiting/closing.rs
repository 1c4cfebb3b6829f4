//! Clients that the server closes later: it marks them, answers the unblocked ones among them first, throws these
//! answers away, and never notifies the module again. A grant to one of these clients kept its lock for the whole
//! lease.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;

use rlock_testkit::prelude::*;

use crate::enqueue::pipelined;

const ALICE: (&str, &str) = ("RLOCK.ACQUIRE lock alice 600000", "[1, 600000, 0]");
const RELEASE: &str = "RLOCK.RELEASE lock alice";
const GRANTED: &str = "[1, 600000, 0]";
/// The same as it is sent.
const BOB_HOLDS: &[u8] = b"*3\r\n:1\r\n:600000\r\n:0\r\n";
const USER: &str = "on nopass ~* &* +@all";

/// With one thread for its connections, and with several.
fn servers(more: impl Fn(ServerBuilder) -> ServerBuilder) -> impl Iterator<Item = TestServer> {
    [1, 4].into_iter().map(move |threads| more(TestServer::builder().conf("io-threads", threads)).start())
}

fn block(server: &TestServer, connection: Connection, owner: &str) -> Waiting {
    Waiting::start_on(server, connection, &["RLOCK.ACQUIRE", "lock", owner, "600000", "BLOCK", "0"])
}

/// A connection that sends without reading what it is answered.
struct Deaf(TcpStream);

impl Deaf {
    fn send(server: &TestServer, bytes: &[u8]) -> Deaf {
        let mut stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        stream.write_all(bytes).unwrap();
        Deaf(stream)
    }

    /// All that it was sent until the server closed it.
    fn read_to_the_end(mut self) -> Vec<u8> {
        let mut all = Vec::new();
        // A reset ends it as well.
        let _ = self.0.read_to_end(&mut all);
        all
    }
}

fn waits(client: &mut Connection, owner: &str) {
    wait_for("it to wait", || queue(client, "lock").iter().any(|entry| entry.owner == owner));
}

#[test]
fn a_grant_to_a_client_that_is_being_closed_goes_to_the_next() {
    let set = format!("ACL SETUSER bob {USER}");
    for server in servers(|builder| builder) {
        let client = &mut server.connect();
        let close = "ACL DELUSER bob";
        for lines in [[close, RELEASE], [RELEASE, close]] {
            client.story(&[(&set, "OK"), ALICE]);
            let bob = block(&server, server.connect_as("bob", "x"), "bob");
            let carol = block(&server, server.connect(), "carol");
            let before = counter(&server, "revokes");
            let began = Instant::now();
            assert_eq!(transaction(client, &lines), "[1, 1]");
            assert_eq!(carol.answer(), GRANTED, "{lines:?}");
            assert!(began.elapsed() < SOON);
            assert!(bob.answer().starts_with("the connection ended"));
            assert_eq!(counter(&server, "revokes"), before + 1);
            client.story(&[("RLOCK.RELEASE lock carol", "1")]);
        }
        // Both in one read of the connection, and a lock without waiters after that.
        client.story(&[(&set, "OK"), ALICE]);
        let bob = block(&server, server.connect_as("bob", "x"), "bob");
        pipelined(client, ["ACL DELUSER bob", RELEASE].map(str::to_owned).into_iter());
        wait_for("the lock to be free", || say(client, "EXISTS lock") == "0");
        assert!(bob.answer().starts_with("the connection ended"));
        // Nothing is left of it.
        assert!(is_at_rest(client));
    }
}

#[test]
fn a_grant_to_a_client_whose_user_a_reload_removes_goes_to_the_next() {
    let dir = DataDir::temporary();
    let (file, default) = (dir.path().join("users.acl"), format!("user default {USER}\n"));
    let all = format!("{default}user bob {USER}\n");
    for lines in [["ACL LOAD", RELEASE], [RELEASE, "ACL LOAD"]] {
        fs::write(&file, &all).unwrap();
        for server in servers(|builder| builder.conf("aclfile", file.display())) {
            fs::write(&file, &all).unwrap();
            let client = &mut server.connect();
            client.story(&[("ACL LOAD", "OK"), ALICE]);
            let bob = block(&server, server.connect_as("bob", "x"), "bob");
            let carol = block(&server, server.connect(), "carol");
            fs::write(&file, &default).unwrap();
            transaction(client, &lines);
            assert_eq!(carol.answer(), GRANTED, "{lines:?}");
            assert!(bob.answer().starts_with("the connection ended"));
        }
    }
}

/// bob tracks a key, or listens to a channel, and reads nothing of what it is sent: the message about the key, or on the
/// channel, is too much.
#[test]
fn a_grant_to_a_client_over_its_output_limit_goes_to_the_next() {
    let limit = |bytes: u64| {
        let limits = format!("normal {bytes} 0 0 pubsub {bytes} 0 0");
        ["CONFIG", "SET", "client-output-buffer-limit", &limits].map(str::to_owned)
    };
    for server in servers(|builder| builder) {
        let client = &mut server.connect();
        // The name is a part of the message, which does not fit into what is left of the buffers of the values.
        let (key, large) = ("k".repeat(300_000), "x".repeat(1_000_000));
        ask(client, &["SET", "large", &large]);
        let (delete, publish) = (format!("DEL {key}"), format!("PUBLISH channel {key}"));
        let orders = [&delete, &publish].map(|line| [[line.as_str(), RELEASE], [RELEASE, line.as_str()]]);
        for lines in orders.as_flattened() {
            ask(client, &limit(0));
            ask(client, &["SET", &key, "value"]);
            client.story(&[ALICE]);
            let mut bytes = b"HELLO 3\r\n".to_vec();
            let tracks = lines.contains(&delete.as_str());
            if !tracks && server.version().is_at_least(ServerName::Valkey, 8, 1) {
                // It does not block a connection that has subscriptions.
                client.story(&[("RLOCK.RELEASE lock alice", "1")]);
                continue;
            }
            if tracks {
                bytes.extend(b"CLIENT TRACKING on\r\n");
                bytes.extend(redis::cmd("GET").arg(&key).get_packed_command());
            } else {
                bytes.extend(b"SUBSCRIBE channel\r\n");
            }
            bytes.extend(b"GET large\r\n".repeat(20));
            bytes.extend(b"RLOCK.ACQUIRE lock bob 600000 BLOCK 0\r\n");
            let bob = Deaf::send(&server, &bytes);
            waits(client, "bob");
            let carol = block(&server, server.connect(), "carol");
            ask(client, &limit(100_000));
            // The server may have found before that bob is over the limit, and have closed it.
            transaction(client, lines);
            assert_eq!(carol.answer(), GRANTED);
            assert!(!bob.read_to_the_end().ends_with(BOB_HOLDS));
            client.story(&[("RLOCK.RELEASE lock carol", "1")]);
        }
    }
}

/// The server evicts clients after it has sent the answers: bob has received its grant, so that no other owner may
/// hold. With several threads it may evict a client before (Redis 8.6).
#[test]
fn a_grant_that_was_sent_before_the_client_was_evicted_stands() {
    let evict = "CONFIG SET maxmemory-clients 1";
    for lines in [[evict, RELEASE], [RELEASE, evict]] {
        for (number, server) in servers(|builder| builder.conf("maxmemory-clients", "1gb")).enumerate() {
            let client = &mut server.connect();
            client.story(&[ALICE, ("CLIENT NO-EVICT on", "OK")]);
            let mut other = server.connect();
            other.story(&[("CLIENT NO-EVICT on", "OK")]);
            // A part of a command, which makes bob the largest client once the server has measured it.
            let part = format!(
                "RLOCK.ACQUIRE lock bob 600000 BLOCK 0\r\n*2\r\n$4\r\nECHO\r\n$2000000\r\n{}",
                "x".repeat(400_000)
            );
            let bob = Deaf::send(&server, part.as_bytes());
            waits(client, "bob");
            eventually("the server to measure it", SOON, || {
                let list = say(client, "CLIENT LIST TYPE normal");
                let sizes =
                    list.split("tot-mem=").skip(1).filter_map(|rest| rest.split(' ').next()?.parse().ok());
                sizes.max().is_some_and(|size: u64| size > 300_000).then_some(())
            });
            std::thread::sleep(Duration::from_millis(1_200));
            let carol = block(&server, other, "carol");
            transaction(client, &lines);
            let told = bob.read_to_the_end().ends_with(BOB_HOLDS);
            assert!(told || number > 0, "{lines:?}");
            if !told {
                continue;
            }
            carol.waits_on(Duration::from_millis(300));
            client.story(&[("HGETALL lock", r#"["bob", "1"]"#)]);
            assert_eq!(counter(&server, "revokes"), 0);
            carol.granted_by(client, "RLOCK.RELEASE lock bob");
        }
    }
}
