//! Acquiring, renewing and releasing without waiting.

use rlock_testkit::prelude::*;

mod acquire;
mod binary;
mod errors;
mod fenced;
mod forcerelease;
mod names;
mod options;
mod refusals;
mod release;
mod renew;
mod shapes;

/// Tells a story from an empty database in each protocol, and then shows what the server sends to some lines.
#[track_caller]
fn in_both_protocols(story: &[(&str, &str)], lines: &[&str], sent: [&str; 2]) {
    let server = TestServer::start();
    for mut client in [server.connect(), server.connect_resp3()] {
        client.story(&[("FLUSHALL", "OK")]);
        client.story(story);
        client.story(&[("FLUSHALL", "OK")]);
    }
    for (protocol, sent) in (2..).zip(sent) {
        assert_eq!(
            on_the_wire(&server, protocol, &[&["FLUSHALL"], lines].concat()),
            format!("+OK\r\n{sent}")
        );
    }
}
