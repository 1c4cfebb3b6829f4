//! The end of a session that holds a read lock for which a writer waits: how often it opens a key.

use std::fs;
use std::time::Duration;

use rlock_testkit::{Frame, TestServer, Wire, module_path};

use crate::idle::until_idle;
use crate::profile::{self, FILE, Profile};

/// As for hand-offs: ROLE ends a file and begins the next.
const OPTIONS: &str = "--toggle-collect=serverCron --collect-atstart=yes --dump-before=roleCommand";

/// A server in valgrind is slow.
const SOON: Duration = Duration::from_secs(20);

/// The sessions that end, each at a lock of its own.
const SESSIONS: usize = 50;

/// How long a hold lasts after the end of its connection: longer than the measurement.
const GRACE: Duration = Duration::from_secs(20);

/// How often the end of one opens a key: the lock's and the reader's lease key, to look, to write, and to look for the writer that
/// waits. On a slow machine a check by the timer comes in between.
const MOST_OPENS: f64 = 10.0;

/// Sends a command, and waits until the server has done all its work.
#[track_caller]
fn ask(server: &TestServer, wire: &mut Wire, words: &str) -> Frame {
    let words: Vec<&str> = words.split(' ').collect();
    until_idle(server.pid(), || wire.send(&words).unwrap());
    wire.frame(SOON).unwrap().expect("a reply")
}

/// The cost of the end of one of many equal sessions; each has a lock of its own.
#[track_caller]
fn end_of_session(prepare: impl Fn(&mut dyn FnMut(bool, &str), usize)) -> Profile {
    let builder = TestServer::builder().conf("hz", 1).module(module_path());
    let server = profile::start(builder, OPTIONS);
    let connect = || Wire::connect(server.port(), SOON).expect("a connection");
    let (mut others, mut messages) = (connect(), connect());
    ask(&server, &mut messages, "SUBSCRIBE news");
    let sessions: Vec<Wire> = (0..SESSIONS)
        .map(|lock| {
            let mut session = connect();
            let mut say = |by_session: bool, words: &str| {
                let reply = ask(&server, if by_session { &mut session } else { &mut others }, words);
                assert!(matches!(reply, Frame::Array(_)), "{words}: {reply:?}");
            };
            prepare(&mut say, lock);
            session
        })
        .collect();
    ask(&server, &mut others, "ROLE");
    for session in sessions {
        until_idle(server.pid(), || drop(session));
    }
    ask(&server, &mut others, "ROLE");
    let file = format!("{FILE}.2");
    let text = fs::read_to_string(server.shutdown().data.path().join(file)).unwrap();
    let end = Profile::of(&text).per(SESSIONS);
    println!("\nthe end of a session: {:.1} key opens, {:.0} instructions", end.key_opens, end.all);
    end
}

#[test]
#[ignore = "needs valgrind: make cost"]
fn the_end_of_a_readers_session_opens_few_keys() {
    let grace = GRACE.as_millis();
    let end = end_of_session(|say, lock| {
        say(true, &format!("RLOCK.ACQUIRE lock:{lock} reader 30000 READ SESSION {grace}"));
        say(false, &format!("RLOCK.ACQUIRE lock:{lock} writer 30000 WRITE ENQUEUE 0 news"));
    });
    assert!(end.key_opens.round() <= MOST_OPENS, "{} key opens", end.key_opens);
}

/// A writer's session once read all lease keys of the writer's own reads too: 250 of these ends in one cycle of the event loop read
/// 250,000 keys.
#[test]
#[ignore = "needs valgrind: make cost"]
fn the_end_of_a_writers_session_does_not_read_its_reads() {
    let grace = GRACE.as_millis();
    let end = end_of_session(|say, lock| {
        say(true, &format!("RLOCK.ACQUIRE lock:{lock} writer 30000 WRITE SESSION {grace}"));
        for _ in 0..20 {
            say(false, &format!("RLOCK.ACQUIRE lock:{lock} writer 30000 READ"));
        }
    });
    assert!(end.key_opens.round() <= MOST_OPENS, "{} key opens", end.key_opens);
}
