//! The spans and events that a subscriber of `tracing` receives.
//!
//! A program of its own: `tracing` keeps for the whole process whether a place in the code has subscribers, as the first thread found it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use rlock_client::{Client, Lost};
use rlock_testkit::TestServer;
use rlock_testkit::clients::{connect_with, eventually, within};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Writes down every span when it begins, and every event, with their fields.
#[derive(Clone, Default)]
struct Diary(Arc<Mutex<Vec<String>>>);

struct Line<'a>(&'a mut String);

impl Visit for Line<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0.push_str(&format!(" {field}={value:?}"));
    }
}

impl Diary {
    fn has(&self, line: &str) -> bool {
        self.0.lock().unwrap().iter().any(|one| one == line)
    }
}

impl Subscriber for Diary {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("rlock_client")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut line = span.metadata().name().to_string();
        span.record(&mut Line(&mut line));
        let mut lines = self.0.lock().unwrap();
        lines.push(line);
        Id::from_u64(lines.len() as u64)
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = event.metadata().level().to_string();
        event.record(&mut Line(&mut line));
        self.0.lock().unwrap().push(line);
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[tokio::test]
async fn spans_tell_what_is_done_and_events_what_went_wrong() {
    let server = TestServer::start();
    let diary = Diary::default();
    // The runtime of this test has no other thread.
    let _default = tracing::subscriber::set_default(diary.clone());
    let client = connect_with(&server, Client::builder().lease(Duration::from_secs(3))).await;
    let guard = client.lock("a").acquire().await.unwrap();
    assert!(diary.has("acquire lock=a"), "{:?}", diary.0);
    eventually("a renewal", || diary.has("renew locks=1").then_some(())).await;
    // What is due at about the same time goes in one piece: most of these, however busy the machine is.
    let mut others = Vec::new();
    for number in 0..20 {
        others.push(client.lock(format!("other{number}")).acquire().await.unwrap());
    }
    eventually("renewals in one piece", || {
        (3..=21).any(|count| diary.has(&format!("renew locks={count}"))).then_some(())
    })
    .await;
    drop(others);
    guard.release().await.unwrap();
    assert!(diary.has("release lock=a"), "{:?}", diary.0);
    drop(client.lock("b").acquire().await.unwrap());
    eventually("the release", || diary.has("release lock=b").then_some(())).await;
    let guard = client.lock("c").acquire().await.unwrap();
    client.lock("c").force_release().await.unwrap();
    assert_eq!(within("the loss", guard.lost()).await, Lost::Taken);
    let line = format!("WARN message=a lock was lost lock=\"c\" why={}", Lost::Taken);
    assert!(diary.has(&line), "{:?}", diary.0);
    drop(server.kill9());
    eventually("the end of the connection", || {
        diary
            .0
            .lock()
            .unwrap()
            .iter()
            .any(|line| line.contains("the connection to the server was lost"))
            .then_some(())
    })
    .await;
}
