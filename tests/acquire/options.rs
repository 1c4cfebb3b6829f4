//! The options `rlock.*`: in the configuration file, by CONFIG, and as arguments at load.

use std::fs;

use rlock_testkit::prelude::*;

#[track_caller]
fn accept(server: &TestServer) -> String {
    say(&mut server.connect(), "CONFIG GET rlock.accept")
}

const YES: &str = r#"["rlock.accept", "yes"]"#;
const NO: &str = r#"["rlock.accept", "no"]"#;

#[test]
fn accept_no_lets_only_holders_in() {
    let (_server, client) = &mut TestServer::start_and_connect();
    let drained = "!ERR this server is drained (rlock.accept is no); \
        ask another server or an operator";
    client.story(&[
        ("RLOCK.ACQUIRE lock alice 100000", "[1, 100000, 0]"),
        ("HSET rest mode read", "1"),
        ("CONFIG SET rlock.accept no", "OK"),
        // An owner without a hold: of a free lock, of a held one, of an abandoned one.
        ("RLOCK.ACQUIRE free bob 100000", drained),
        ("RLOCK.ACQUIRE free bob 100000 HOLDS 1", drained),
        ("RLOCK.ACQUIRE free bob 100000 HOLDS 2", drained),
        ("RLOCK.ACQUIRE lock bob 100000", drained),
        ("RLOCK.ACQUIRE rest bob 100000", drained),
        ("EXISTS free", "0"),
        ("HGETALL rest", r#"["mode", "read"]"#),
        // Holders still re-enter, renew and release.
        ("RLOCK.ACQUIRE lock alice 100000", "[2, 100000, 0]"),
        ("RLOCK.ACQUIRE lock alice 100000 HOLDS 3", "[3, ~100000, 0]"),
        ("RLOCK.RENEW lock alice 200000", "1"),
        ("RLOCK.RELEASE lock alice", "0"),
        ("RLOCK.RELEASE lock alice ALL", "1"),
        ("RLOCK.ACQUIRE lock alice 100000", drained),
        ("RLOCK.FORCERELEASE lock", "0"),
        ("CONFIG SET rlock.accept yes", "OK"),
        ("RLOCK.ACQUIRE lock bob 100000", "[1, 100000, 0]"),
    ]);
}

#[test]
fn the_configuration_file_is_read() {
    assert_eq!(accept(&TestServer::start()), YES, "the default");
    for (value, expected) in [("yes", YES), ("no", NO), ("NO", NO)] {
        let server = TestServer::builder().conf("rlock.accept", value).start();
        assert_eq!(accept(&server), expected, "{value}");
        assert_eq!(server.info("rlock")["rlock_accept"], if expected == NO { "0" } else { "1" });
    }
    let drained = TestServer::builder().conf("rlock.accept", "no").start();
    assert!(say(&mut drained.connect(), "RLOCK.ACQUIRE lock alice 1").starts_with("!ERR "));
}

#[test]
fn a_wrong_option_in_the_configuration_file_stops_the_server() {
    for (name, value) in [("rlock.accept", "maybe"), ("rlock.accept", ""), ("rlock.bogus", "1")] {
        let failure = TestServer::builder().conf(name, value).try_start().expect_err(name);
        assert!(failure.status.is_some(), "{name} {value}: {failure}");
        assert!(failure.log.contains("rlock.") || failure.log.contains("Module Configuration"), "{failure}");
    }
}

#[test]
fn config_set_get_and_rewrite_know_them() {
    let server = TestServer::start();
    let client = &mut server.connect();
    client.story(&[
        ("CONFIG GET rlock.accept", YES),
        ("CONFIG SET rlock.accept no", "OK"),
        ("CONFIG GET rlock.accept", NO),
        ("CONFIG SET RLOCK.ACCEPT YES", "OK"),
        ("CONFIG GET rlock.accept", YES),
        ("CONFIG SET rlock.accept no", "OK"),
        ("CONFIG REWRITE", "OK"),
    ]);
    for wrong in ["maybe", "1", "yesno"] {
        client.story(&[(&format!("CONFIG SET rlock.accept {wrong}"), "!ERR …")]);
    }
    assert!(say(client, "CONFIG SET rlock.bogus 1").starts_with("!ERR "));
    assert_eq!(accept(&server), NO);
    // The next server reads what this one has rewritten: the module's line is in there as well.
    let rewritten = server.dir().join("rewritten.conf");
    fs::copy(server.dir().join("test.conf"), &rewritten).unwrap();
    let builder = TestServer::builder().without_module().conf("include", rewritten.display());
    let server = builder.dir(server.shutdown()).start();
    assert_eq!(accept(&server), NO);
}

#[test]
fn options_with_numbers_have_ranges() {
    let server =
        TestServer::builder().conf("rlock.max-waiters", 7).module_args(&["foreign-turn-ms", "9"]).start();
    let client = &mut server.connect();
    for (name, value, most) in [
        ("max-waiters", 7, 10_000_000_i64),
        ("max-waiters-per-key", 50_000, 10_000_000),
        ("grant-confirm-ms", 5_000, 1 << 43),
        ("foreign-turn-grants", 100, i64::MAX >> 32),
        ("foreign-turn-ms", 9, 1 << 43),
        ("foreign-window-ms", 20, 60_000),
        ("fair-turn-ms", 5_000, 1 << 43),
        ("max-ties", 1_000_000, 10_000_000),
        ("max-share-per-user", 50, 100),
        ("hot-locks", 128, 1_024),
    ] {
        let shown = |value: i64| format!(r#"["rlock.{name}", "{value}"]"#);
        assert_eq!(say(client, &format!("CONFIG GET rlock.{name}")), shown(value));
        assert_eq!(say(client, &format!("CONFIG SET rlock.{name} {most}")), "OK", "{name}");
        assert_eq!(say(client, &format!("CONFIG GET rlock.{name}")), shown(most));
        for wrong in [most + 1, -1] {
            client.story(&[(&format!("CONFIG SET rlock.{name} {wrong}"), "!ERR …")]);
        }
        assert_eq!(say(client, &format!("CONFIG GET rlock.{name}")), shown(most));
    }
}

#[test]
fn load_time_arguments_are_read() {
    for (arguments, expected) in
        [(["accept", "yes"], YES), (["accept", "no"], NO), (["ACCEPT", "No"], NO), (["Accept", "YES"], YES)]
    {
        let server = TestServer::builder().module_args(&arguments).start();
        assert_eq!(accept(&server), expected, "{arguments:?}");
    }
    let plain = TestServer::builder().without_module().start();
    let loaded = load(&mut plain.connect(), "LOAD", &["accept", "no"]);
    assert_eq!((loaded.as_str(), accept(&plain).as_str()), ("OK", NO));
}

/// `MODULE LOAD` or `LOADEX` of rlock, with the arguments after the path.
#[track_caller]
fn load(client: &mut Connection, how: &str, arguments: &[&str]) -> String {
    let path = module_path().to_str().unwrap();
    say_words(client, &[&["MODULE", how, path], arguments].concat())
}

#[test]
fn module_loadex_takes_options_and_arguments() {
    for (arguments, expected) in [
        (&["CONFIG", "rlock.accept", "no"][..], NO),
        (&["ARGS", "accept", "no"], NO),
        (&["CONFIG", "rlock.accept", "yes", "ARGS", "accept", "no"], YES),
        (&["CONFIG", "rlock.accept", "no", "ARGS", "accept", "yes"], NO),
        (&[], YES),
    ] {
        let server = TestServer::builder().without_module().start();
        assert_eq!(load(&mut server.connect(), "LOADEX", arguments), "OK", "{arguments:?}");
        assert_eq!(accept(&server), expected, "{arguments:?}");
    }
}

#[test]
fn the_configuration_file_goes_before_load_time_arguments() {
    for (file, argument, expected) in [("yes", "no", YES), ("no", "yes", NO)] {
        let builder = TestServer::builder().conf("rlock.accept", file);
        let server = builder.module_args(&["accept", argument]).start();
        assert_eq!(accept(&server), expected, "{file} in the file, {argument} as an argument");
    }
}

#[test]
fn bad_load_time_arguments_keep_the_module_out() {
    let plain = TestServer::builder().without_module().start();
    for (arguments, reason) in [
        (&["bogus"][..], "unknown argument 'bogus'"),
        (&["bogus", "yes"], "unknown argument 'bogus'"),
        (&["rlock.accept", "no"], "unknown argument 'rlock.accept'"),
        (&["accept", "no", "bogus", "1"], "unknown argument 'bogus'"),
        (&["accept"], "'accept' needs a value"),
        (&["accept", "maybe"], "'accept' must be yes or no"),
        (&["accept", ""], "'accept' must be yes or no"),
        (&["accept", "no", "accept", "no"], "'accept' appears twice; use it once"),
        (&["max-waiters"], "'max-waiters' needs a value"),
        (&["max-waiters", "many"], "'max-waiters' must be from 0 to 10000000"),
        (&["grant-confirm-ms", "0"], "'grant-confirm-ms' must be from 1 to 8796093022208"),
    ] {
        let reason = format!("not loaded: {reason}");
        let builder: ServerBuilder = TestServer::builder().module_args(arguments);
        let failure = builder.try_start().expect_err("a bad argument");
        assert!(failure.status.is_some() && failure.log.contains(&reason), "{arguments:?}: {failure}");
        // A running server continues without the module.
        let before = plain.log().matches(&reason).count();
        let refused = load(&mut plain.connect(), "LOAD", arguments);
        assert!(refused.starts_with("!ERR "), "{arguments:?}: {refused}");
        assert_eq!(plain.log().matches(&reason).count(), before + 1, "{arguments:?}");
    }
    let client = &mut plain.connect();
    for arguments in [["CONFIG", "rlock.accept", "maybe"], ["CONFIG", "rlock.bogus", "1"]] {
        let refused = load(client, "LOADEX", &arguments);
        assert!(refused.starts_with("!ERR "), "{arguments:?}: {refused}");
    }
    assert_eq!(say(client, "CONFIG GET rlock.*"), "[]");
    // Nothing of the attempts is left in the way.
    assert_eq!(load(client, "LOAD", &[]), "OK");
    assert_eq!(say(client, "RLOCK.ACQUIRE lock alice 100000"), "[1, 100000, 0]");
}
