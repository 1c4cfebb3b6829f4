//! MOVE of any key while the module listens to key events: Valkey 8.1.1 left the client in the database of the last event, so
//! that replicas and the AOF got the command, and the next ones, for the wrong database.

use rlock_testkit::prelude::*;

/// Everything in all databases, one line for each key.
fn contents(client: &mut Connection) -> Vec<String> {
    let mut lines = Vec::new();
    for db in 0..16 {
        client.story(&[(&format!("SELECT {db}"), "OK")]);
        let Value::Array(keys) = ask(client, &["KEYS", "*"]) else { panic!("no array") };
        let mut keys: Vec<_> = keys.iter().map(|key| text(key).trim_matches('"').to_owned()).collect();
        keys.sort_unstable();
        lines.extend(keys.iter().map(|key| format!("{db} {key} {}", say(client, &format!("DUMP {key}")))));
    }
    client.story(&[("SELECT 0", "OK")]);
    lines
}

/// Makes the module listen: by a waiter, by a reader, by a tie.
const LISTEN: [&str; 3] = [
    "RLOCK.ACQUIRE lock bob 100000 ENQUEUE 0 grants",
    "RLOCK.ACQUIRE read alice 100000 READ",
    "RLOCK.ACQUIRE tied alice 100000 SESSION 100000",
];

/// The key moves from database 2 to 3, and commands follow in database 2.
fn moves(client: &mut Connection, name: &str) {
    client.story(&[("SELECT 2", "OK"), (&format!("SET {name} x"), "OK")]);
    let (moves, after) = (format!("MOVE {name} 3"), format!("SET {name}-after x"));
    client.story(&[(&moves, "1"), (&after, "OK")]);
    let in_multi = [format!("SET {name}-m x"), format!("MOVE {name}-m 3"), format!("SET {name}-m-after x")];
    transaction(client, &in_multi.each_ref().map(String::as_str));
    let script =
        "redis.call('SET',KEYS[1],'x')redis.call('MOVE',KEYS[1],3)return(redis.call('SET',KEYS[2],'x'))";
    let eval = ["EVAL", script, "2", &format!("{name}-e"), &format!("{name}-e-after")];
    assert_eq!(say_words(client, &eval), "OK");
    // A lock, and one that is there already.
    client.story(&[
        (&format!("RLOCK.ACQUIRE {name}-lock alice 1000000"), "[1, 1000000, 0]"),
        (&format!("MOVE {name}-lock 3"), "1"),
        (&format!("RLOCK.ACQUIRE {name}-lock carol 1000000"), "[1, 1000000, 0]"),
        (&format!("MOVE {name}-lock 3"), "0"),
        ("SELECT 0", "OK"),
    ]);
}

#[test]
fn a_key_that_moves_is_the_same_in_replica_and_aof() {
    let primary = TestServer::builder().with_aof().start();
    let replica = TestServer::start();
    replica.replicate_from(&primary);
    let client = &mut primary.connect();
    moves(client, "before");
    client.story(&[("RLOCK.ACQUIRE lock alice 1000000", "[1, 1000000, 0]")]);
    for (number, line) in LISTEN.into_iter().enumerate() {
        assert!(!say(client, line).starts_with('!'), "{line}");
        moves(client, &format!("k{number}"));
    }
    let expected = contents(client);
    for name in ["before", "k0", "k2"] {
        let is_in =
            |db: u32, key: &str| expected.iter().any(|line| line.starts_with(&format!("{db} {name}{key} ")));
        assert!(["", "-m", "-e", "-lock"].iter().all(|key| is_in(3, key)), "{expected:#?}");
        assert!(["-after", "-m-after", "-e-after", "-lock"].iter().all(|key| is_in(2, key)), "{expected:#?}");
    }
    wait_for_replicas_in_sync(&primary, &replica);
    assert_eq!(contents(&mut replica.connect()), expected);
    let restarted = TestServer::builder().dir(primary.kill9()).with_aof().start();
    assert_eq!(contents(&mut restarted.connect()), expected);
}

/// Where the server has the fault: COPY raises no event that tells where its client was, and keeps it.
#[test]
fn a_server_with_the_fault_is_warned_of() {
    let server = TestServer::start();
    let version = server.version();
    let numbers = (version.major, version.minor, version.patch);
    let is_faulty =
        version.name == ServerName::Valkey && matches!(numbers, (8, 1, 0..=8) | (9, 0, 0..=4) | (9, 1, 0));
    let warns =
        "rlock: this Valkey version writes COPY with DB to replicas and the AOF for the wrong database";
    assert_eq!(server.log().matches(warns).count(), usize::from(is_faulty));
    assert_eq!(server.info("rlock").contains_key("rlock_server_warning"), is_faulty);
}
