use super::*;

#[test]
fn only_canonical_integers_are_read() {
    let cases: &[(&[u8], Option<i64>)] = &[
        (b"0", Some(0)),
        (b"1", Some(1)),
        (b"-7", Some(-7)),
        (b"9223372036854775807", Some(i64::MAX)),
        (b"-9223372036854775808", Some(i64::MIN)),
        (b"9223372036854775808", None),
        (b"", None),
        (b"-", None),
        (b"-0", None),
        (b"01", None),
        (b"+1", None),
        (b" 1", None),
        (b"1 ", None),
        (b"1.0", None),
        (b"1e3", None),
        (b"0x1", None),
        (b"1\0", None),
        (b"\xff", None),
    ];
    for (bytes, expected) in cases {
        assert_eq!(canonical_integer(bytes), *expected, "{}", bytes.escape_ascii());
    }
}

#[test]
fn owners_are_fields_that_redisson_does_not_use_itself() {
    let longest = [b'x'; MAX_OWNER_LEN];
    let too_long = [b'x'; MAX_OWNER_LEN + 1];
    let good: &[&[u8]] = &[b"a", b"\0", b"\xff\r\n", b"Mode", b"mode ", b":writes", &longest];
    for bytes in good {
        assert_eq!(Owner::new(bytes).map(Owner::bytes), Ok(*bytes));
    }
    let bad: &[&[u8]] = &[b"", b"mode", b":write", b"me:write", &too_long];
    for bytes in bad {
        assert_eq!(Owner::new(bytes), Err(Error::BadOwner), "{}", bytes.escape_ascii());
    }
}

#[test]
fn holds_stay_between_one_and_two_to_the_53() {
    assert_eq!(Holds::new(0), None);
    assert_eq!(Holds::new(-1), None);
    assert_eq!(Holds::new(MAX_HOLDS + 1), None);
    assert_eq!(Holds::ONE.one_less(), None);
    assert_eq!(Holds::new(MAX_HOLDS).and_then(Holds::one_more), None);
    assert_eq!(Holds::ONE.one_more(), Holds::new(2));
}

#[test]
fn what_is_left_is_never_negative_and_minus_one_without_an_expiry() {
    let now = UnixMs(1_000);
    assert_eq!(Expiry::Never.left(now), -1);
    assert_eq!(Expiry::At(UnixMs(1_250)).left(now), 250);
    assert_eq!(Expiry::At(UnixMs(990)).left(now), 0);
    assert_eq!(Expiry::At(UnixMs(i64::MIN)).left(now), 0);
}

#[test]
fn a_lease_is_one_to_two_to_the_43() {
    assert_eq!(LeaseMs::new(0), None);
    assert_eq!(LeaseMs::new(MAX_LEASE_MS + 1), None);
    let longest = LeaseMs::new(MAX_LEASE_MS).map(|lease| UnixMs(i64::MAX).after(lease));
    assert_eq!(longest, Some(UnixMs(i64::MAX)), "a lease never overflows");
}
