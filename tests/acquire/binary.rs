//! Keys and owners of any bytes.

use rlock_testkit::prelude::*;

/// All bytes there are, each once.
fn every_byte() -> Vec<u8> {
    (0..=u8::MAX).collect()
}

/// Acquires and releases `key` for `owner` with every command.
#[track_caller]
fn lock_and_unlock(client: &mut Connection, key: &[u8], owner: &[u8]) {
    let stranger = [owner, &b"?"[..]].concat();
    let stranger = if stranger.len() > 512 { b"?".to_vec() } else { stranger };
    let steps: [(&[&[u8]], &str); 16] = [
        (&[b"RLOCK.ACQUIRE", key, owner, b"100000"], "[1, 100000, 0]"),
        (&[b"RLOCK.ACQUIRE", key, owner, b"100000", b"HOLDS", b"2"], "[2, ~100000, 0]"),
        (&[b"RLOCK.ACQUIRE", key, &stranger, b"100000"], "null"),
        (&[b"HGET", key, owner], r#""2""#),
        (&[b"HLEN", key], "1"),
        (&[b"RLOCK.RENEW", key, owner, b"300000"], "1"),
        (&[b"RLOCK.RENEW", key, &stranger, b"900000"], "0"),
        (&[b"PTTL", key], "~300000"),
        (&[b"RLOCK.RELEASE", key, owner], "0"),
        (&[b"RLOCK.RELEASE", key, &stranger], "null"),
        (&[b"RLOCK.FORCERELEASE", key, &stranger], "0"),
        (&[b"RLOCK.FORCERELEASE", key, owner], "1"),
        (&[b"RLOCK.ACQUIRE", key, &stranger, b"100000"], "[1, 100000, 0]"),
        (&[b"RLOCK.FORCERELEASE", key], "1"),
        (&[b"RLOCK.ACQUIRE", key, owner, b"100000"], "[1, 100000, 0]"),
        (
            &[b"RLOCK.INFO", key, b"LIMIT", b"0"],
            "[\"kind\", \"mutex\", \"mode\", null, \"lease-ms\", ~100000, \"token\", 0, \"holder-count\", 1, \"waiter-count\", 0, \"holders\", [], \"queue\", []]",
        ),
    ];
    for (words, expected) in steps {
        let answer = say_words(client, words);
        assert!(agrees(&answer, expected), "{}: {answer}", words.join(&b' ').escape_ascii());
    }
    assert_eq!(owner_told(client, key), owner, "the owner in INFO");
    assert_eq!(say_words(client, &[b"RLOCK.RELEASE", key, owner, b"ALL"]), "1");
    assert_eq!(say_words(client, &["DBSIZE"]), "0");
}

/// The bytes that INFO tells for the one holder.
#[track_caller]
fn owner_told(client: &mut Connection, key: &[u8]) -> Vec<u8> {
    let info = ask(client, &[b"RLOCK.INFO", key]);
    let told = info.as_sequence().and_then(|fields| fields[13].as_sequence()?[0].as_sequence()?.get(1));
    match told {
        Some(Value::BulkString(owner)) => owner.clone(),
        _ => panic!("{}", text(&info)),
    }
}

#[test]
fn every_byte_value_works_in_key_and_owner() {
    let (_server, client) = &mut TestServer::start_and_connect();
    for byte in every_byte() {
        lock_and_unlock(client, &[byte], &[byte]);
        lock_and_unlock(client, &[b'k', byte, b'k'], &[b'o', byte, b'o']);
        lock_and_unlock(client, &[byte, byte], b"owner");
        lock_and_unlock(client, b"key", &[byte, byte]);
    }
    lock_and_unlock(client, &every_byte(), &every_byte());
}

#[test]
fn keys_may_be_long_or_look_like_protocol() {
    let (_server, client) = &mut TestServer::start_and_connect();
    let long = vec![b'k'; 1_024];
    let keys: [&[u8]; 8] = [
        b"\0",
        b"\0\r\n",
        b"\r\n",
        b"*1\r\n$4\r\nPING\r\n",
        b"{}",
        b"}{",
        "\u{1f512} Schl\u{fc}ssel".as_bytes(),
        &long,
    ];
    for key in keys {
        for owner in [&b"owner"[..], b"\0\r\n", key] {
            if (1..=512).contains(&owner.len()) {
                lock_and_unlock(client, key, owner);
            }
        }
    }
}

#[test]
fn names_that_differ_after_a_nul_differ() {
    let (_server, client) = &mut TestServer::start_and_connect();
    let steps: [(&[&[u8]], &str); 5] = [
        (&[b"RLOCK.ACQUIRE", b"a\0b", b"o\0p", b"100000"], "[1, 100000, 0]"),
        (&[b"RLOCK.ACQUIRE", b"a\0b", b"o\0q", b"100000"], "null"),
        (&[b"RLOCK.ACQUIRE", b"a\0b", b"o", b"100000"], "null"),
        (&[b"RLOCK.ACQUIRE", b"a\0c", b"o", b"100000"], "[1, 100000, 0]"),
        (&[b"RLOCK.ACQUIRE", b"a", b"o", b"100000"], "[1, 100000, 0]"),
    ];
    for (words, expected) in steps {
        assert_eq!(say_words(client, words), expected, "{}", words.join(&b' ').escape_ascii());
    }
}

#[test]
fn an_owner_of_512_bytes_is_taken() {
    let (_server, client) = &mut TestServer::start_and_connect();
    // From 65 bytes on the server keeps a hash in another encoding.
    for length in [1, 63, 64, 65, 255, 256, 511, 512] {
        lock_and_unlock(client, b"lock", &vec![b'o'; length]);
        lock_and_unlock(client, b"lock", &vec![0; length]);
    }
    let too_long: [&[u8]; 4] = [b"RLOCK.ACQUIRE", b"lock", &[b'o'; 513], b"100000"];
    let answer = say_words(client, &too_long);
    assert!(answer.starts_with("!ERR invalid owner: use 1 to 512 bytes"), "{answer}");
}

#[test]
fn owners_may_look_like_numbers_and_like_words_of_commands() {
    let (_server, client) = &mut TestServer::start_and_connect();
    let numbers = ["0", "1", "-1", "01", "1.0", "9223372036854775807", "-9223372036854775808", "1e5"];
    let words = ["HOLDS", "ALL", "LEASE", "LIMIT", "READ", "read", "Mode", "MODE", "modes", ":", "write"];
    let almost = [":WRITE", ":write ", "x:writes", " ", "mode\0"];
    for owner in numbers.iter().chain(&words).chain(&almost) {
        lock_and_unlock(client, owner.as_bytes(), owner.as_bytes());
    }
}

#[test]
fn the_unlock_message_goes_out_for_any_key() {
    let (server, client) = &mut TestServer::start_and_connect();
    let mut messages = Subscriber::pattern(server, "*");
    let keys = [b"\0\r\n".to_vec(), b"a\0b".to_vec(), (0..=b'z').collect(), every_byte()];
    for key in &keys {
        let acquire: [&[u8]; 4] = [b"RLOCK.ACQUIRE", key, b"owner", b"100000"];
        let release: [&[u8]; 3] = [b"RLOCK.RELEASE", key, b"owner"];
        assert_eq!(say_words(client, &acquire), "[1, 100000, 0]");
        assert_eq!(say_words(client, &release), "1");
    }
    let sent: Vec<_> = keys
        .iter()
        .map(|key| match key.contains(&b'{') {
            true => [b"redisson_lock__channel:", &key[..]].concat(),
            false => [b"redisson_lock__channel:{", &key[..], b"}"].concat(),
        })
        .map(|channel| (channel, b"0".to_vec()))
        .collect();
    assert_eq!(messages.drain(), sent);
}

#[test]
fn an_owner_that_commands_refuse_still_holds() {
    let (_server, client) = &mut TestServer::start_and_connect();
    let long = "o".repeat(600);
    for owner in [long.as_str(), "", "you:write"] {
        say_words(client, &["HSET", "lock", owner, "2"]);
        let before = state(client, "lock");
        let told = format!(r#"["owner", "{owner}", "mode", null, "holds", 2, "lease-ms", -1]"#);
        let info = say(client, "RLOCK.INFO lock");
        assert!(info.contains(&told), "{info}");
        client.story(&[
            ("RLOCK.ACQUIRE lock me 100000", "null"),
            ("RLOCK.RELEASE lock me ALL", "null"),
            ("RLOCK.RENEW lock me 100000", "0"),
            ("RLOCK.FORCERELEASE lock me", "0"),
        ]);
        for words in [
            &["RLOCK.ACQUIRE", "lock", owner, "100000"][..],
            &["RLOCK.RELEASE", "lock", owner],
            &["RLOCK.RENEW", "lock", owner, "100000"],
            &["RLOCK.FORCERELEASE", "lock", owner],
        ] {
            let answer = say_words(client, words);
            assert!(answer.starts_with("!ERR invalid owner"), "{answer}");
        }
        assert_eq!(state(client, "lock"), before);
        client.story(&[("RLOCK.FORCERELEASE lock", "1"), ("EXISTS lock", "0")]);
    }
}
