use std::collections::{BTreeMap, BTreeSet};

use super::*;

#[test]
fn names_are_redissons() {
    let cases: &[(&[u8], &[u8], &[u8])] = &[
        (b"orders", b"redisson_lock__channel:{orders}", b"redisson_lock_token:{orders}"),
        (b"{o}rders", b"redisson_lock__channel:{o}rders", b"redisson_lock_token:{o}rders"),
        (b"o{", b"redisson_lock__channel:o{", b"redisson_lock_token:o{"),
        (b"", b"redisson_lock__channel:{}", b"redisson_lock_token:{}"),
        (b"\0\xff", b"redisson_lock__channel:{\0\xff}", b"redisson_lock_token:{\0\xff}"),
    ];
    for (name, channel, token) in cases {
        assert_eq!(unlock_channel(name)[..], **channel);
        assert_eq!(token_key(name)[..], **token);
    }
    assert_eq!(read_write_channel(b"orders")[..], b"redisson_rwlock:{orders}"[..]);
    assert_eq!(read_lease_key(b"orders", b"w:1", 2)[..], b"{orders}:w:1:rwlock_timeout:2"[..]);
    assert_eq!(read_lease_key(b"{o}rders", b"w:1", 12)[..], b"{o}rders:w:1:rwlock_timeout:12"[..]);
    assert_eq!(write_field(b"w:1")[..], b"w:1:write"[..]);
    assert_eq!(fair_list_key(b"orders")[..], b"redisson_lock_queue:{orders}"[..]);
    assert_eq!(
        fair_channel(b"redisson_lock__channel:{orders}", b"w:1")[..],
        b"redisson_lock__channel:{orders}:w:1"[..]
    );
}

#[test]
fn names_made_in_one_place_are_the_same() {
    for name in
        [&b"orders"[..], b"{o}rders", b"o{", b"", &[b'x'; 103], &[b'x'; 104], &[b'{'; 105], &[b'x'; 600]]
    {
        let mut names = Prefixed::of(name);
        for _ in 0..2 {
            assert_eq!(names.fair_list_key(), &fair_list_key(name)[..]);
            assert_eq!(names.unlock_channel(), &unlock_channel(name)[..]);
        }
    }
}

#[test]
fn the_locks_of_a_fair_queue_are_known_by_its_name() {
    let names: &[&[u8]] = &[b"orders", b"{o}rders", b"o{", b"", b"a}b"];
    for name in names {
        for key in [fair_list_key(name), fair_deadlines_key(name)] {
            assert!(locks_of_fair_key(&key).contains(&Some(name)), "{}", key.escape_ascii());
        }
    }
    assert_eq!(locks_of_fair_key(b"redisson_lock_queue:{a}"), [Some(&b"{a}"[..]), Some(&b"a"[..])]);
    assert_eq!(locks_of_fair_key(b"orders"), [None, None]);
    for name in [&b"orders"[..], b"{o}rders"] {
        for key in [fair_list_key(name), fair_deadlines_key(name)] {
            assert_eq!(lock_of_fair_key(&key), Some(name));
        }
    }
}

#[test]
fn the_readers_of_a_lease_key_are_known_by_its_name() {
    let names: &[&[u8]] = &[b"orders", b"{o}rders", b"app:{o}:x", b"{o}", b"a:b", b"o{", b"", b"a}:b"];
    for name in names {
        for owner in [&b"w"[..], b"8a7b:1", b":", b"a}:b:rwlock_timeout:1"] {
            let key = read_lease_key(name, owner, 12);
            assert!(is_read_lease_key(&key));
            assert!(
                readers_of_lease_key(&key).any(|found| found == (*name, owner, 12)),
                "{}",
                key.escape_ascii()
            );
        }
    }
    let others: &[&[u8]] = &[
        b"orders",
        b"{o}:w:rwlock_timeout:",
        b"{o}:w:rwlock_timeout:x",
        b"7",
        b"{o}:w:7",
        b"",
        b"{o}:w:rwlock_timeout:9223372036854775808",
    ];
    for other in others {
        assert!(!is_read_lease_key(other) && readers_of_lease_key(other).next().is_none());
    }
    let many = [&b"{o}"[..], &[b':'; 1000], b":rwlock_timeout:1"].concat();
    assert_eq!(readers_of_lease_key(&many).count(), READERS_OF_A_KEY);
}

/// The same, slowly: each name that ends at a colon is searched for its braces.
fn readers_of_lease_key_by_search(key: &[u8]) -> Vec<(&[u8], &[u8], i64)> {
    let Some((rest, hold)) = reader_of(key) else { return Vec::new() };
    let colons = (0..rest.len()).filter(|at| rest[*at] == b':');
    let names = colons.flat_map(|at| tagged_or_plain(&rest[..at]).map(|name| (name, &rest[at + 1..])));
    names.filter_map(|(name, reader)| Some((name?, reader, hold))).take(READERS_OF_A_KEY).collect()
}

#[test]
fn a_lease_keys_readers_are_those_that_a_search_of_each_name_finds() {
    for rest in words(b"{}:a", 7) {
        let key = [&rest[..], b":rwlock_timeout:3"].concat();
        let found: Vec<_> = readers_of_lease_key(&key).collect();
        assert_eq!(found, readers_of_lease_key_by_search(&key), "{}", key.escape_ascii());
    }
}

/// A search of each of its names takes half an hour.
#[test]
fn a_lease_key_of_four_million_colons_has_no_readers() {
    let colons = vec![b':'; 4 << 20];
    assert_eq!(readers_of_lease_key(&[&colons[..], b":rwlock_timeout:1"].concat()).next(), None);
    // With a brace before them each of the names is a lock's.
    assert_eq!(readers_of_lease_key(&[&b"{"[..], &colons, b":rwlock_timeout:1"].concat()).count(), 16);
}

#[test]
fn the_slot_of_a_key_is_that_of_its_hash_tag() {
    assert_eq!((slot_of(b"123456789"), slot_of(b"lock"), slot_of(b"")), (12_739, 8_718, 0));
    assert_eq!((slot_of(b"grants:{lock}"), slot_of(b"grants:{42440}")), (8_718, 8_718));
    assert_ne!(slot_of(b"grants:lock"), 8_718);
}

#[test]
fn some_names_have_their_channel_in_another_slot() {
    let good: &[&[u8]] = &[b"orders", b"{a}b", b"x{a}b{c}", b"\0\xff"];
    for name in good {
        assert!(one_slot(name), "{}", name.escape_ascii());
    }
    let bad: &[&[u8]] = &[b"", b"a}b", b"}", b"a{}b", b"a{", b"a}{b"];
    for name in bad {
        assert!(!one_slot(name), "{}", name.escape_ascii());
    }
}

/// All words of at most `most` of these letters.
fn words(letters: &[u8], most: u32) -> Vec<Vec<u8>> {
    let longer = |words: &Vec<Vec<u8>>| {
        words
            .iter()
            .flat_map(|word| letters.iter().map(move |letter| [word, &[*letter][..]].concat()))
            .collect()
    };
    let by_length = std::iter::successors(Some(vec![Vec::new()]), |words| Some(longer(words)));
    by_length.skip(1).take(most as usize).flatten().collect()
}

/// Whether two locks are among those that docs/COMMANDS.md warns of: `x` and `{x}`, or a name with a brace, given
/// or put around it, and the same with a colon and more.
fn are_warned_of(one: &[u8], other: &[u8]) -> bool {
    let in_braces =
        |name: &[u8]| if name.contains(&b'{') { name.to_vec() } else { [b"{", name, b"}"].concat() };
    let (one, other) = (in_braces(one), in_braces(other));
    let is_beneath = |a: &[u8], b: &[u8]| a.strip_prefix(b).is_some_and(|rest| rest.starts_with(b":"));
    one == other || is_beneath(&one, &other) || is_beneath(&other, &one)
}

/// Whether names without a brace, or with one tag at their end, are meant by what docs/COMMANDS.md calls safe.
fn are_called_safe(one: &[u8], other: &[u8]) -> bool {
    let count = |name: &[u8], brace| name.iter().filter(|byte| **byte == brace).count();
    let ends_in_tag = |name: &[u8]| name.ends_with(b"}") && count(name, b'{') == 1 && count(name, b'}') == 1;
    let is_plain = |name: &[u8]| !name.contains(&b'{');
    is_plain(one) && is_plain(other) || ends_in_tag(one) && ends_in_tag(other)
}

#[test]
fn only_names_that_are_warned_of_share_what_belongs_to_them() {
    let (names, owners) = (words(b"{}:a", 5), words(b":a", 3));
    let mut locks_of: BTreeMap<Name, BTreeSet<&[u8]>> = BTreeMap::new();
    for name in &names {
        let of_all = [token_key, fair_list_key, fair_deadlines_key, unlock_channel, read_write_channel];
        let leases = owners.iter().map(|owner| read_lease_key(name, owner, 1));
        for key in of_all.iter().map(|key| key(name)).chain(leases) {
            locks_of.entry(key).or_default().insert(name);
        }
    }
    let mut pairs = BTreeSet::new();
    for locks in locks_of.values() {
        pairs.extend(
            locks.iter().flat_map(|one| locks.range(*one..).skip(1).map(move |other| (*one, *other))),
        );
    }
    for (one, other) in &pairs {
        let shown = [one, other].map(|name| name.escape_ascii().to_string());
        assert!(are_warned_of(one, other) && !are_called_safe(one, other), "{shown:?}");
    }
    let known: [(&[u8], &[u8]); 3] = [(b"a", b"{a}"), (b"a", b"{a}:a"), (b"{a}", b"{a}:a")];
    assert!(known.iter().all(|pair| pairs.contains(pair)), "{}", pairs.len());
}
