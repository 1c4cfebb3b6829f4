//! Back to the version before, and forward again: a server restarted with an older module serves the locks that it
//! knows, refuses the others, and loses nothing. `make older` builds one that knows neither READ, WRITE, FAIR nor PERMITS.

use std::env;
use std::path::PathBuf;

use redis::Connection;
use rlock_testkit::commands::{say, state, story};
use rlock_testkit::held::{Awaited, acquisition, hold};
use rlock_testkit::{ServerBuilder, TestServer};

/// The locks that the older module refuses: the key, a holder, and the error.
const UNKNOWN: [(&str, &str, &str); 3] =
    [("page", "n:1", "!WRONGLOCK "), ("book", "n:1", "!WRONGLOCK "), ("slots", "n:1", "!WRONGTYPE ")];

fn older() -> PathBuf {
    PathBuf::from(env::var_os("RLOCK_OLDER_MODULE").expect("RLOCK_OLDER_MODULE: run `make older`"))
}

/// Asserts that the older module serves the locks of [`hold`] that it knows, with a fair list of former waiters.
#[track_caller]
fn serves_what_it_knows(client: &mut Connection, token: i64) {
    for key in ["plain", "fair", "fenced"] {
        let (ask, renew) =
            (format!("RLOCK.ACQUIRE {key} c:1 50000"), format!("RLOCK.RENEW {key} n:1 900000"));
        story(client, &[(&ask, "null"), (&renew, "1")]);
    }
    story(client, &[("RLOCK.RELEASE fenced n:1", "1")]);
    let [_, _, later] = acquisition(&say(client, "RLOCK.ACQUIRE fenced n:1 900000 FENCED"));
    assert!(later > token, "{later} after {token}");
    for (key, owner, error) in UNKNOWN {
        let before = state(client, key);
        for line in [
            format!("RLOCK.ACQUIRE {key} c:1 50000"),
            format!("RLOCK.RENEW {key} {owner} 50000"),
            format!("RLOCK.RELEASE {key} {owner}"),
        ] {
            let refused = say(client, &line);
            assert!(refused.starts_with(error), "{line}: {refused}");
        }
        assert_eq!(state(client, key), before, "{key}");
    }
}

#[test]
#[ignore = "needs an older module: make older"]
fn an_older_module_and_then_the_newer_one_keep_every_lock() {
    let with_aof = || TestServer::builder().conf("appendonly", "yes").conf("appendfsync", "always");
    let ways: [(&str, &dyn Fn() -> ServerBuilder); 2] = [("SAVE", &TestServer::builder), ("PING", &with_aof)];
    for (keep, build) in ways {
        let server = build().start();
        let client = &mut server.connect();
        let token = hold(client, "");
        let _awaited = Awaited::start(&server, "");
        assert!(!say(client, keep).starts_with('!'));
        let server = build().module(older()).dir(server.kill9()).start();
        let client = &mut server.connect();
        serves_what_it_knows(client, token);
        assert!(!say(client, keep).starts_with('!'));
        let server = build().dir(server.kill9()).start();
        let client = &mut server.connect();
        // The waiters from before are still in the fair lock's list, and are passed like dead ones.
        let lowered = [("CONFIG SET rlock.fair-turn-ms 100", "OK")];
        story(client, &lowered);
        Awaited::start(&server, "").are_served(client, token);
    }
}
