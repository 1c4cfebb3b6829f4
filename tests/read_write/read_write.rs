//! READ and WRITE: readers together, writers alone, on Redisson's hash and lease keys.

use rlock_testkit::prelude::*;

#[test]
fn readers_share_and_a_writer_is_alone() {
    let (_server, client) = &mut TestServer::start_and_connect();
    client.story(&[
        ("RLOCK.ACQUIRE lock a 100000 READ", "[1, 100000, 0]"),
        ("RLOCK.ACQUIRE lock b 200000 read", "[1, 200000, 0]"),
        ("RLOCK.ACQUIRE lock w 100000 WRITE", "null"),
        // Redisson's layout: a hash, and a lease key for each hold.
        ("HMGET lock mode a b", r#"["read", "1", "1"]"#),
        ("HLEN lock", "3"),
        ("PTTL lock", "~200000"),
        ("GET {lock}:a:rwlock_timeout:1", r#""1""#),
        ("PTTL {lock}:a:rwlock_timeout:1", "~100000"),
        ("PTTL {lock}:b:rwlock_timeout:1", "~200000"),
        ("RLOCK.RELEASE lock a READ", "1"),
        ("EXISTS {lock}:a:rwlock_timeout:1", "0"),
        ("RLOCK.ACQUIRE lock w 100000 WRITE", "null"),
        ("RLOCK.RELEASE lock b", "1"),
        ("DBSIZE", "0"),
        ("RLOCK.ACQUIRE lock w 100000 WRITE", "[1, 100000, 0]"),
        ("HMGET lock mode w:write", r#"["write", "1"]"#),
        ("HLEN lock", "2"),
        ("RLOCK.ACQUIRE lock a 100000 READ", "null"),
        ("RLOCK.ACQUIRE lock x 100000 WRITE", "null"),
        ("RLOCK.RELEASE lock a READ", "null"),
        ("RLOCK.RELEASE lock w WRITE", "1"),
        ("DBSIZE", "0"),
    ]);
}

#[test]
fn both_sides_are_re_entered() {
    let (_server, client) = &mut TestServer::start_and_connect();
    client.story(&[
        ("RLOCK.ACQUIRE lock a 100000 READ", "[1, 100000, 0]"),
        // Never a shorter lease, and the lock's key lasts as long as the longest.
        ("RLOCK.ACQUIRE lock a 50000 READ", "[2, ~100000, 0]"),
        ("RLOCK.ACQUIRE lock a 300000 READ HOLDS 3", "[3, 300000, 0]"),
        ("RLOCK.ACQUIRE lock a 300000 READ HOLDS 3", "[3, ~300000, 0]"),
        ("RLOCK.ACQUIRE lock a 300000 READ HOLDS 5", "null"),
        ("HGET lock a", r#""3""#),
        ("PTTL lock", "~300000"),
        ("PTTL {lock}:a:rwlock_timeout:2", "~100000"),
        // What is left keeps the lease that all had.
        ("RLOCK.RELEASE lock a", "0"),
        ("PTTL {lock}:a:rwlock_timeout:2", "~300000"),
        ("EXISTS {lock}:a:rwlock_timeout:3", "0"),
        ("RLOCK.RELEASE lock a HOLDS 1 LEASE 50000", "0"),
        ("PTTL {lock}:a:rwlock_timeout:1", "~50000"),
        ("RLOCK.RELEASE lock a READ ALL", "1"),
        ("DBSIZE", "0"),
        ("RLOCK.ACQUIRE lock w 100000 WRITE", "[1, 100000, 0]"),
        ("RLOCK.ACQUIRE lock w 50000 WRITE", "[2, ~100000, 0]"),
        ("RLOCK.ACQUIRE lock w 200000 WRITE HOLDS 3", "[3, 200000, 0]"),
        ("RLOCK.RELEASE lock w HOLDS 1", "0"),
        ("HGET lock w:write", r#""1""#),
        ("RLOCK.RELEASE lock w", "1"),
        ("DBSIZE", "0"),
    ]);
}

#[test]
fn a_writer_may_read_and_keeps_that() {
    let (_server, client) = &mut TestServer::start_and_connect();
    client.story(&[
        ("RLOCK.ACQUIRE lock w 100000 WRITE", "[1, 100000, 0]"),
        ("RLOCK.ACQUIRE lock w 50000 READ", "[1, 50000, 0]"),
        ("PTTL lock", "~100000"),
        ("HMGET lock mode w w:write", r#"["write", "1", "1"]"#),
        ("RLOCK.ACQUIRE lock a 50000 READ", "null"),
        // The caller must say which of the two holds it means.
        ("RLOCK.RELEASE lock w", "!ERR the owner holds both READ and WRITE; pass the one that you mean"),
        ("RLOCK.RENEW lock w 5", "!ERR the owner holds both READ and WRITE; pass the one that you mean"),
        ("RLOCK.RENEW lock w 10 WRITE", "1"),
        // The key is there for as long as the owner's own read lease.
        ("PTTL lock", "~50000"),
        ("RLOCK.RELEASE lock w WRITE", "1"),
        ("HMGET lock mode w w:write", r#"["read", "1", null]"#),
        ("RLOCK.ACQUIRE lock a 50000 READ", "[1, 50000, 0]"),
        ("RLOCK.RELEASE lock w", "1"),
        ("RLOCK.RELEASE lock a", "1"),
        ("DBSIZE", "0"),
        // The other way round: the read first.
        ("RLOCK.ACQUIRE lock w 100000 WRITE", "[1, 100000, 0]"),
        ("RLOCK.ACQUIRE lock w 200000 READ", "[1, 200000, 0]"),
        ("RLOCK.RELEASE lock w READ", "1"),
        ("HMGET lock mode w w:write", r#"["write", null, "1"]"#),
        ("RLOCK.ACQUIRE lock a 50000 READ", "null"),
        ("RLOCK.RELEASE lock w", "1"),
        ("DBSIZE", "0"),
    ]);
}

#[test]
fn a_reader_that_asks_to_write_is_denied() {
    let (_server, client) = &mut TestServer::start_and_connect();
    let waits_for_itself = "!ERR the owner is a reader and would wait for itself; release READ first, or acquire WRITE before READ";
    client.story(&[
        ("RLOCK.ACQUIRE lock a 100000 READ", "[1, 100000, 0]"),
        ("RLOCK.ACQUIRE lock a 100000 WRITE", "null"),
        ("RLOCK.ACQUIRE lock a 100000 WRITE BLOCK 0", waits_for_itself),
        ("RLOCK.ACQUIRE lock a 100000 WRITE ENQUEUE 0 grants", waits_for_itself),
        ("RLOCK.RELEASE lock a", "1"),
        ("RLOCK.ACQUIRE lock a 100000 WRITE", "[1, 100000, 0]"),
    ]);
}

#[test]
fn a_plain_lock_and_a_read_write_lock_are_not_taken_for_each_other() {
    let (_server, client) = &mut TestServer::start_and_connect();
    let plain = "!WRONGLOCK the key holds a plain lock; leave READ and WRITE out, or use another key";
    let read_write = "!WRONGLOCK the key holds a read/write lock; pass READ or WRITE, or use another key";
    client.story(&[
        ("RLOCK.ACQUIRE plain a 100000", "[1, 100000, 0]"),
        ("RLOCK.ACQUIRE plain a 100000 READ", plain),
        ("RLOCK.ACQUIRE plain b 100000 WRITE BLOCK 0", plain),
        ("RLOCK.RELEASE plain a READ", plain),
        ("RLOCK.RENEW plain a 5 WRITE", plain),
        ("RLOCK.ACQUIRE shared a 100000 READ", "[1, 100000, 0]"),
        ("RLOCK.ACQUIRE shared a 100000", read_write),
        ("RLOCK.ACQUIRE shared b 100000 BLOCK 0", read_write),
        ("RLOCK.RELEASE shared b", "null"),
        ("RLOCK.RENEW shared b 5", "0"),
    ]);
}

#[test]
fn renew_is_for_the_holds_that_are_meant() {
    let (_server, client) = &mut TestServer::start_and_connect();
    client.story(&[
        ("RLOCK.ACQUIRE lock a 100000 READ", "[1, 100000, 0]"),
        ("RLOCK.ACQUIRE lock b 300000 READ", "[1, 300000, 0]"),
        ("RLOCK.RENEW lock a 200000", "1"),
        ("PTTL {lock}:a:rwlock_timeout:1", "~200000"),
        // Another's lease is longer, and the key's.
        ("PTTL lock", "~300000"),
        ("RLOCK.RENEW lock a 400000 READ", "1"),
        ("PTTL lock", "~400000"),
        // Every lease key of the owner's is there again.
        ("RLOCK.ACQUIRE lock a 1000 READ", "[2, ~400000, 0]"),
        ("DEL {lock}:a:rwlock_timeout:1", "1"),
        ("RLOCK.RENEW lock a 500000", "1"),
        ("PTTL {lock}:a:rwlock_timeout:1", "~500000"),
        ("PTTL {lock}:a:rwlock_timeout:2", "~500000"),
        ("RLOCK.RENEW lock a 5 WRITE", "0"),
        ("RLOCK.RENEW lock c 5", "0"),
    ]);
}

#[test]
fn force_release_ends_holds_of_every_kind() {
    let (_server, client) = &mut TestServer::start_and_connect();
    client.story(&[
        ("RLOCK.ACQUIRE lock a 100000 READ", "[1, 100000, 0]"),
        ("RLOCK.ACQUIRE lock b 100000 READ", "[1, 100000, 0]"),
        ("RLOCK.FORCERELEASE lock c", "0"),
        ("RLOCK.FORCERELEASE lock a", "1"),
        ("HMGET lock mode a b", r#"["read", null, "1"]"#),
        ("EXISTS {lock}:a:rwlock_timeout:1", "0"),
        ("RLOCK.FORCERELEASE lock b", "1"),
        ("DBSIZE", "0"),
        ("RLOCK.ACQUIRE lock a 100000 READ", "[1, 100000, 0]"),
        ("RLOCK.ACQUIRE lock b 100000 READ", "[1, 100000, 0]"),
        ("RLOCK.FORCERELEASE lock", "1"),
        ("EXISTS lock", "0"),
        // Their lease keys end later, and hold nothing.
        ("RLOCK.RENEW lock a 100000", "0"),
        ("RLOCK.ACQUIRE lock w 100000 WRITE", "[1, 100000, 0]"),
        ("RLOCK.ACQUIRE lock w 100000 READ", "[1, 100000, 0]"),
        ("RLOCK.FORCERELEASE lock w", "1"),
        ("EXISTS lock {lock}:w:rwlock_timeout:1", "0"),
    ]);
}

#[test]
fn a_writer_may_have_a_fencing_token() {
    let (_server, client) = &mut TestServer::start_and_connect();
    let first = say(client, "RLOCK.ACQUIRE lock w 100000 WRITE FENCED");
    let token =
        |answer: &str| answer.trim_end_matches(']').rsplit(' ').next().unwrap().parse::<i64>().unwrap();
    assert!(token(&first) > 1_700_000_000_000, "{first}");
    say(client, "RLOCK.RELEASE lock w");
    let second = say(client, "RLOCK.ACQUIRE lock x 100000 WRITE FENCED");
    assert!(token(&second) > token(&first), "{first}, then {second}");
    let refused = "!ERR READ and FENCED exclude each other; leave FENCED out";
    client.story(&[("RLOCK.ACQUIRE other a 5 READ FENCED", refused)]);
}

#[test]
fn info_shows_readers_and_writers() {
    let (_server, client) = &mut TestServer::start_and_connect();
    for line in [
        "RLOCK.ACQUIRE lock a 100000 READ",
        "RLOCK.ACQUIRE lock a 100000 READ",
        "RLOCK.ACQUIRE lock b 50000 READ",
    ] {
        say(client, line);
    }
    let info = say(client, "RLOCK.INFO lock");
    for part in [
        r#"["kind", "readwrite", "mode", "read", "lease-ms", "#,
        r#""holder-count", 2"#,
        r#"["owner", "a", "mode", "read", "holds", 2, "lease-ms", "#,
        r#"["owner", "b", "mode", "read", "holds", 1, "lease-ms", "#,
    ] {
        assert!(info.contains(part), "{part} in {info}");
    }
    say(client, "RLOCK.RELEASE lock a ALL");
    say(client, "RLOCK.RELEASE lock b");
    say(client, "RLOCK.ACQUIRE lock w 100000 WRITE");
    say(client, "RLOCK.ACQUIRE lock w 100000 READ");
    let info = say(client, "RLOCK.INFO lock");
    assert!(info.contains(r#"["kind", "readwrite", "mode", "write", "lease-ms", "#), "{info}");
    assert!(info.contains(r#"["owner", "w", "mode", "write", "holds", 1, "#), "{info}");
    assert!(info.contains(r#"["owner", "w", "mode", "read", "holds", 1, "#), "{info}");
    let info = say(client, "RLOCK.INFO lock LIMIT 0");
    assert!(info.contains(r#""holder-count", 2"#) && info.contains(r#""holders", []"#), "{info}");
}

/// Each dead reader has a thousand holds, of which none has a lease: to look for the lease keys of all of them took 0.1 s.
#[test]
fn info_counts_dead_readers_that_it_does_not_check() {
    let (_server, client) = &mut TestServer::start_and_connect();
    let dead = "for reader = 1, 300 do redis.call('HSET', KEYS[1], 'mode', 'read', 'dead' .. reader, 1000) end \
        return redis.call('PEXPIRE', KEYS[1], 3600000)";
    assert_eq!(say_words(client, &["EVAL", dead, "1", "lock"]), "1");
    assert_eq!(say(client, "RLOCK.ACQUIRE lock alice 100000 READ"), "[1, 100000, 0]");
    // Of Redisson the newest hold may have the shortest lease.
    client.story(&[("HSET lock bob 3", "1"), ("SET {lock}:bob:rwlock_timeout:2 1 PX 100000", "OK")]);
    let info = fields(ask(client, &["RLOCK.INFO", "lock", "LIMIT", "1000"]));
    let of = |name: &str| info.iter().find(|(field, _)| field == name).map(|(_, value)| text(value)).unwrap();
    let holders = of("holders");
    assert!(holders.contains(r#"["owner", "alice", "mode", "read""#), "{holders}");
    assert!(!holders.contains("dead"), "{holders}");
    let count: usize = of("holder-count").parse().unwrap();
    // At most eleven were checked.
    assert!((290..=302).contains(&count), "{count}");
    // All of few are.
    client.story(&[
        ("RLOCK.ACQUIRE few carol 100000 READ", "[1, 100000, 0]"),
        ("HSET few dead 1000 bob 3", "2"),
    ]);
    client.story(&[("SET {few}:bob:rwlock_timeout:2 1 PX 100000", "OK")]);
    let info = say(client, "RLOCK.INFO few");
    assert!(
        info.contains(r#""holder-count", 2"#) && info.contains(r#"["owner", "bob", "mode", "read""#),
        "{info}"
    );
}

#[test]
fn a_users_own_hash_is_not_a_read_write_lock() {
    let (_server, client) = &mut TestServer::start_and_connect();
    let no_lock = "!WRONGLOCK the key holds a hash that is not a lock; use another key";
    for maker in ["mode read title War", "mode write a:write 0", "mode read a -1", "mode read a 1 b x"] {
        say(client, "DEL book");
        say(client, &format!("HSET book {maker}"));
        let before = state(client, "book");
        client.story(&[
            ("RLOCK.ACQUIRE book me 100000 READ", no_lock),
            ("RLOCK.ACQUIRE book me 100000 WRITE", no_lock),
            ("RLOCK.FORCERELEASE book", no_lock),
            ("RLOCK.INFO book", no_lock),
        ]);
        assert_eq!(state(client, "book"), before, "{maker}");
    }
}

#[test]
fn words_that_exclude_each_other_are_refused() {
    let (_server, client) = &mut TestServer::start_and_connect();
    for start in ["ACQUIRE lock me 5", "RELEASE lock me", "RENEW lock me 5"] {
        client.story(&[
            (&format!("RLOCK.{start} READ WRITE"), "!ERR READ and WRITE exclude each other; use one"),
            (&format!("RLOCK.{start} write read"), "!ERR READ and WRITE exclude each other; use one"),
            (&format!("RLOCK.{start} READ READ"), "!ERR READ appears twice; use it once"),
        ]);
    }
    assert_eq!(say(client, "DBSIZE"), "0");
}

#[test]
fn many_readers_are_kept_in_a_table() {
    // The server would search a list of up to 128 fields from its start for each of them.
    let (_server, client) = &mut TestServer::start_and_connect();
    let reader = |index: i32| format!("owner-{index}");
    let encoding = |client: &mut _| say(client, "OBJECT ENCODING lock");
    for index in 1..15 {
        say(client, &format!("RLOCK.ACQUIRE lock {} 100000 READ", reader(index)));
    }
    assert_eq!(encoding(client), r#""listpack""#);
    say(client, &format!("RLOCK.ACQUIRE lock {} 100000 READ", reader(15)));
    let table =
        [("OBJECT ENCODING lock", r#""hashtable""#), ("HGET lock mode", r#""read""#), ("HLEN lock", "16")];
    client.story(&table);
    // It stays one, and comes back as a list from a file, until some more readers have come.
    client.story(&[("RLOCK.RELEASE lock owner-15 READ", "1"), ("OBJECT ENCODING lock", r#""hashtable""#)]);
    client.story(&[("DEBUG RELOAD", "OK"), ("OBJECT ENCODING lock", r#""listpack""#)]);
    say(client, "RLOCK.ACQUIRE lock owner-15 100000 READ");
    client.story(&table);
    for index in 1..15 {
        assert_eq!(say(client, &format!("RLOCK.RELEASE lock {} READ", reader(index))), "1");
    }
    client.story(&[("RLOCK.RELEASE lock owner-15 READ", "1"), ("DBSIZE", "0")]);
}
