//! Names that must not be used side by side: the keys of their locks have the same names, as in Redisson.

use rlock_testkit::prelude::*;

#[test]
fn a_name_and_the_same_in_braces_share_what_belongs_to_them() {
    let (_server, client) = &mut TestServer::start_and_connect();
    client.story(&[
        // They are two locks.
        ("SET redisson_lock_token:{x} 9007199254740000", "OK"),
        ("RLOCK.ACQUIRE x alice 100000 FENCED", "[1, 100000, 9007199254740001]"),
        ("RLOCK.ACQUIRE {x} bob 100000 FENCED", "[1, 100000, 9007199254740002]"),
        ("RLOCK.RELEASE {x} bob", "1"),
        // A fair waiter for one of them keeps other owners from the other.
        ("RLOCK.ACQUIRE x carol 100000 FAIR ENQUEUE 0 news", "[0, 0, 0]"),
        ("RLOCK.ACQUIRE {x} bob 100000 FAIR", "null"),
        ("RLOCK.ACQUIRE {y} bob 100000 FAIR", "[1, 100000, 0]"),
        // An owner that reads both loses both when it releases one of them.
        ("RLOCK.ACQUIRE r alice:1 100000 READ", "[1, 100000, 0]"),
        ("RLOCK.ACQUIRE {r} alice:1 100000 READ", "[1, 100000, 0]"),
        ("RLOCK.ACQUIRE {r} bob:1 100000 WRITE", "null"),
        ("RLOCK.RELEASE r alice:1", "1"),
        ("RLOCK.ACQUIRE {r} bob:1 100000 WRITE", "[1, 100000, 0]"),
    ]);
}

/// An owner reads a lock; another reads and releases a lock whose name is the first lock's, a colon and more. Returns
/// whether a writer can acquire the first lock beside its reader.
#[track_caller]
fn a_writer_comes_in(client: &mut Connection, read: [&str; 2], also_read: [&str; 2]) -> bool {
    let say = |client: &mut Connection, verb: &str, [name, owner]: [&str; 2], rest: &str| {
        say(client, &format!("RLOCK.{verb} {name} {owner} {rest}"))
    };
    assert_eq!(say(client, "ACQUIRE", read, "100000 READ"), "[1, 100000, 0]");
    assert_eq!(say(client, "ACQUIRE", also_read, "100000 READ"), "[1, 100000, 0]");
    assert_eq!(say(client, "RELEASE", also_read, ""), "1");
    let came_in = say(client, "ACQUIRE", [read[0], "writer"], "100000 WRITE") != "null";
    say(client, "FORCERELEASE", read, "");
    say(client, "FORCERELEASE", [read[0], "writer"], "");
    came_in
}

#[test]
fn a_name_with_a_brace_and_the_same_with_a_colon_and_more_share_leases() {
    let (_server, client) = &mut TestServer::start_and_connect();
    for name in ["h", "{h}"] {
        assert!(a_writer_comes_in(client, [name, "b:c"], ["{h}:b", "c"]), "{name}");
        // Names and owners with random parts do not match by chance.
        assert!(!a_writer_comes_in(client, [name, "b:c"], ["{h}:b", "d"]), "{name}");
        assert!(!a_writer_comes_in(client, [name, "c"], ["{h}:b", "c"]), "{name}");
        assert!(!a_writer_comes_in(client, [name, "8d9e1f:1"], ["{h}:b", "2c7a04:1"]), "{name}");
    }
    assert!(!a_writer_comes_in(client, ["h", "b:c"], ["h:b", "c"]));
    assert!(!a_writer_comes_in(client, ["a:{h}", "b:c"], ["a:b:{h}", "c"]));
    assert!(!a_writer_comes_in(client, ["{h}:b", "b:c"], ["{h}:c", "c"]));
}

#[test]
fn the_name_of_a_key_that_belongs_to_a_lock_is_not_a_name_for_another() {
    let (_server, client) = &mut TestServer::start_and_connect();
    let wrong_type = "!WRONGTYPE Operation against a key holding the wrong kind of value";
    client.story(&[
        ("RLOCK.ACQUIRE h alice 100000 READ", "[1, 100000, 0]"),
        ("RLOCK.ACQUIRE {h}:alice:rwlock_timeout:1 bob 100000", wrong_type),
        ("RLOCK.ACQUIRE redisson_lock_token:{i} bob 100000", "[1, 100000, 0]"),
    ]);
    assert!(say(client, "RLOCK.ACQUIRE i alice 100000 FENCED").starts_with("!WRONGTYPE "));
}

/// A user's patterns must end where all names that they allow are its own: `{h}:b*` allows the lease keys of `{h}`
/// that belong to `b…`.
#[test]
fn a_user_of_names_beneath_a_lock_reaches_its_readers() {
    let (server, admin) = &mut TestServer::start_and_connect();
    let commands = "+rlock.acquire +rlock.release +rlock.renew +rlock.cancel +rlock.info";
    let rules = format!("ACL SETUSER app on >secret resetchannels ~{{h}}:b* {commands}");
    assert_eq!(say(admin, &rules), "OK");
    let app = &mut server.connect_as("app", "secret");
    assert_eq!(say(admin, "RLOCK.ACQUIRE {h} b:c 100000 READ"), "[1, 100000, 0]");
    assert!(say(app, "RLOCK.RELEASE {h} b:c").starts_with("!NOPERM "));
    assert_eq!(say(admin, "RLOCK.ACQUIRE {h} writer 100000 WRITE"), "null");
    assert_eq!(say(app, "RLOCK.ACQUIRE {h}:b c 100000 READ"), "[1, 100000, 0]");
    assert_eq!(say(app, "RLOCK.RELEASE {h}:b c"), "1");
    assert_eq!(say(admin, "RLOCK.ACQUIRE {h} writer 100000 WRITE"), "[1, 100000, 0]");
}
