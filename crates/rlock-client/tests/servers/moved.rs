//! Primaries that are replaced on purpose: the client leaves the old one at once, wherever its address came from.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rlock_client::{Client, Error};
use rlock_testkit::clients::{chain, connect_with, counter, eventually, run, url, within};
use rlock_testkit::{TestServer, answering_port, wait_for_replicas_in_sync};

use crate::sentinel::{
    LEASE, Watched, await_role, await_waiters, connect, eventually_async, fact, owner, wait_for, watched,
};

/// Only the Sentinels of the URL were asked: without them a client never found the next primary.
#[tokio::test(flavor = "multi_thread")]
async fn sentinels_that_the_others_list_are_asked_and_heard_as_well() {
    let Watched { primary, replica, sentinels } = watched().await;
    let client = connect(&sentinels[..1], Client::builder().lease(LEASE)).await;
    let held = client.lock("held").acquire().await.unwrap();
    wait_for_replicas_in_sync(&primary, &replica);
    sentinels[0].signal(libc::SIGSTOP);
    run::<()>(&mut sentinels[1].connect(), "SENTINEL FAILOVER main");
    await_role(&replica, "master").await;
    eventually("a renewal at the new primary", || (counter(&replica, "renewed") > 0).then_some(())).await;
    within("the release", held.release()).await.unwrap();
    sentinels[0].signal(libc::SIGCONT);
}

/// A Sentinel that answers as the test sets it, after some time.
struct Teller {
    port: u16,
    says: Arc<Mutex<(u64, u16, Duration)>>,
}

impl Teller {
    fn start(primary: u16) -> Teller {
        let says = Arc::new(Mutex::new((0, primary, Duration::ZERO)));
        let told = says.clone();
        Teller { port: answering_port(move |stream| serve(&stream, &told)), says }
    }
}

fn serve(mut stream: &TcpStream, says: &Mutex<(u64, u16, Duration)>) {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let bulks =
        |one: &str, other: &str| format!("*2\r\n${}\r\n{one}\r\n${}\r\n{other}\r\n", one.len(), other.len());
    while let Some(count) = lines.next() {
        let count: usize = count[1..].parse().unwrap();
        let words: Vec<String> =
            (0..count).filter_map(|_| lines.nth(1)).map(|word| word.to_uppercase()).collect();
        let (epoch, port, late) = *says.lock().unwrap();
        let reply = match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            ["SENTINEL", "MASTER", ..] => {
                std::thread::sleep(late);
                format!("%1\r\n$12\r\nconfig-epoch\r\n${}\r\n{epoch}\r\n", epoch.to_string().len())
            }
            ["SENTINEL", "SENTINELS", ..] => "*0\r\n".to_string(),
            ["SENTINEL", ..] => bulks("127.0.0.1", &port.to_string()),
            ["HELLO", ..] => "%1\r\n$5\r\nproto\r\n:3\r\n".to_string(),
            ["SUBSCRIBE", ..] => ">3\r\n$9\r\nsubscribe\r\n$14\r\n+switch-master\r\n:1\r\n".to_string(),
            _ => "+OK\r\n".to_string(),
        };
        if stream.write_all(reply.as_bytes()).is_err() {
            return;
        }
    }
}

/// Each second it said that there is another primary, and was too late when the client looked for that one.
#[tokio::test(flavor = "multi_thread")]
async fn a_sentinel_that_answers_late_is_heard() {
    let (old, new) = (TestServer::start(), TestServer::start());
    let tellers = [(); 3].map(|()| Teller::start(old.port()));
    let hosts = tellers.each_ref().map(|teller| format!("127.0.0.1:{}", teller.port));
    let url = format!("redis+sentinel://{}/main", hosts.join(","));
    let client = within("a client", Client::builder().lease(LEASE).connect(&url)).await.unwrap();
    let held = client.lock("held").acquire().await.unwrap();
    *tellers[2].says.lock().unwrap() = (1, new.port(), Duration::from_millis(400));
    within("the loss", held.lost()).await;
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    let guard = within("a lock", client.lock("held").acquire()).await.unwrap();
    assert_eq!(owner(&mut new.connect(), "held").unwrap(), guard.owner());
}

/// While an address leads to a replica, the server's READONLY was the answer.
#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_leads_to_a_replica_is_unreachable_and_says_why() {
    let server = TestServer::start();
    let (mut raw, address) = (server.connect(), format!("127.0.0.1:{}", server.port()));
    let quick = Client::builder().response_timeout(Duration::from_secs(2)).lease(LEASE);
    let client = connect_with(&server, quick.clone()).await;
    let held = client.lock("held").acquire().await.unwrap();
    let waiting = wait_for(&client, "held");
    await_waiters(&server, 1).await;
    run::<()>(&mut raw, "REPLICAOF 127.0.0.1 1");
    let is_replica = |error: Error| {
        let text = chain(&error);
        assert!(error.is_unreachable() && text.contains(&address), "{text}");
        (text.contains("it is a replica, not a primary")).then_some(())
    };
    eventually_async("the client to leave", async || {
        is_replica(client.lock("new").try_acquire().await.err()?)
    })
    .await;
    let connecting = within("an error", quick.connect(&url(&server))).await.unwrap_err();
    assert_eq!(is_replica(connecting), Some(()));
    let limited = client.lock("new").acquire_timeout(Duration::from_millis(100)).await.unwrap_err();
    assert!(limited.to_string().contains("it is a replica"), "{limited}");
    assert!(!waiting.is_finished());
    held.check().unwrap();
    run::<()>(&mut raw, "REPLICAOF NO ONE");
    await_waiters(&server, 1).await;
    within("the release", held.release()).await.unwrap();
    within("the lock", waiting).await.unwrap().unwrap();
}

/// A heartbeat that the ACL refuses fills ACL LOG, with one entry a second and client.
#[tokio::test(flavor = "multi_thread")]
async fn heartbeats_need_no_permission() {
    let server = TestServer::start();
    let mut raw = server.connect();
    run::<()>(
        &mut raw,
        "ACL SETUSER app on >secret ~* resetchannels &rlock:grants:* -@all +rlock.acquire +rlock.renew \
         +rlock.release +rlock.cancel +subscribe",
    );
    let url = url(&server).replace("redis://", "redis://app:secret@");
    let client = within("a client", Client::connect(&url)).await.unwrap();
    let held = client.lock("lock").session_grace(Duration::from_secs(1)).acquire().await.unwrap();
    let calls = || fact(&server, "commandstats", "cmdstat_hello").unwrap_or_default();
    let before = calls();
    eventually("heartbeats", || (calls() != before).then_some(())).await;
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    held.check().unwrap();
    let log: Vec<redis::Value> = run(&mut raw, "ACL LOG");
    let log = format!("{log:?}").to_lowercase();
    for word in ["hello", "ping", "role"] {
        assert!(!log.contains(&format!("\"{word}\"")) && !log.contains(&format!("'{word}'")), "{log}");
    }
    run::<()>(&mut raw, "REPLICAOF 127.0.0.1 1");
    eventually_async("the client to leave", async || {
        let error = client.lock("other").try_acquire().await.err()?;
        chain(&error).contains("it is a replica").then_some(())
    })
    .await;
}
