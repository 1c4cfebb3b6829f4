//! Tables of argument vectors: written as a client types them, words parted by one blank.

use super::*;

const NAME: &[u8] = b"lock";

fn args(line: &str) -> Vec<&[u8]> {
    line.split(' ').filter(|word| !word.is_empty()).map(str::as_bytes).collect()
}

fn acquire(line: &str) -> Result<(i64, Option<i64>), Error> {
    let args = args(line);
    Acquire::parse(NAME, args.into_iter()).map(|a| (a.lease.get(), a.arrive_at.map(Holds::get)))
}

fn release(line: &str) -> Result<(DownTo, Option<i64>), Error> {
    let args = args(line);
    Release::parse(args.into_iter()).map(|r| (r.down_to, r.lease.map(LeaseMs::get)))
}

fn unknown(word: &str) -> Error {
    Error::UnknownOption(word.as_bytes().to_vec())
}

#[test]
fn acquire_takes_an_owner_a_lease_and_holds() {
    let bad_holds = Error::BadHolds { least: 1 };
    let cases = [
        ("me 30000", Ok((30_000, None))),
        ("me 1", Ok((1, None))),
        ("me 8796093022208", Ok((1 << 43, None))),
        ("me 1 HOLDS 1", Ok((1, Some(1)))),
        ("me 1 hOlDs 9007199254740992", Ok((1, Some(1 << 53)))),
        ("", Err(Error::Arity)),
        ("me", Err(Error::Arity)),
        ("mode 1", Err(Error::BadOwner)),
        ("me:write 1", Err(Error::BadOwner)),
        ("me 0", Err(Error::BadLease)),
        ("me -1", Err(Error::BadLease)),
        ("me 8796093022209", Err(Error::BadLease)),
        ("me 99999999999999999999", Err(Error::BadLease)),
        ("me 1.5", Err(Error::BadLease)),
        ("me 01", Err(Error::BadLease)),
        ("me HOLDS 1", Err(Error::BadLease)),
        ("me 1 HOLDS", Err(Error::MissingValue("HOLDS"))),
        ("me 1 HOLDS 0", Err(bad_holds.clone())),
        ("me 1 HOLDS x", Err(bad_holds.clone())),
        ("me 1 HOLDS 9007199254740993", Err(bad_holds)),
        ("me 1 HOLDS 1 HOLDS 1", Err(Error::RepeatedOption("HOLDS"))),
        ("me 1 ALL", Err(unknown("ALL"))),
        ("me 1 LEASE 5", Err(unknown("LEASE"))),
        ("me 1 HOLD 1", Err(unknown("HOLD"))),
        ("me 1 5", Err(unknown("5"))),
    ];
    for (line, expected) in cases {
        assert_eq!(acquire(line), expected, "{line}");
    }
}

#[test]
fn acquire_takes_fenced_once() {
    let parse = |line| {
        let args = args(line);
        Acquire::parse(NAME, args.into_iter()).map(|acquire| acquire.fenced)
    };
    assert_eq!(parse("me 1"), Ok(false));
    assert_eq!(parse("me 1 fenced"), Ok(true));
    assert_eq!(parse("me 1 BLOCK 5 FENCED HOLDS 1"), Ok(true));
    assert_eq!(parse("me 1 FENCED fenced"), Err(Error::RepeatedOption("FENCED")));
}

#[test]
fn acquire_takes_a_wait() {
    let parse = |line| {
        let args = args(line);
        Acquire::parse(NAME, args.into_iter())
            .map(|acquire| (acquire.wait.map(Wait::wait), acquire.arrive_at.is_some()))
    };
    let cases = [
        ("me 1", Ok((None, false))),
        ("me 1 block 0", Ok((WaitMs::new(0), false))),
        ("me 1 HOLDS 1 BLOCK 8796093022208", Ok((WaitMs::new(1 << 43), true))),
        ("me 1 BLOCK 5 HOLDS 1", Ok((WaitMs::new(5), true))),
        ("me 1 BLOCK", Err(Error::MissingValue("BLOCK"))),
        ("me 1 BLOCK -1", Err(Error::BadWait("BLOCK"))),
        ("me 1 BLOCK 8796093022209", Err(Error::BadWait("BLOCK"))),
        ("me 1 BLOCK forever", Err(Error::BadWait("BLOCK"))),
        ("me 1 BLOCK 1 BLOCK 1", Err(Error::RepeatedOption("BLOCK"))),
    ];
    for (line, expected) in cases {
        assert_eq!(parse(line), expected, "{line}");
    }
}

#[test]
fn acquire_takes_a_channel() {
    let parse = |line: &str| {
        let args = args(line);
        Acquire::parse(NAME, args.into_iter()).map(|acquire| match acquire.wait {
            Some(Wait::Enqueue(_, channel)) => String::from_utf8_lossy(channel).into_owned(),
            other => format!("{other:?}"),
        })
    };
    let longest = "c".repeat(MAX_CHANNEL_LEN);
    assert_eq!(parse("me 1 enqueue 5 news"), Ok("news".to_owned()));
    assert_eq!(parse(&format!("me 1 HOLDS 1 ENQUEUE 0 {longest}")), Ok(longest.clone()));
    let cases = [
        ("me 1 ENQUEUE", Error::MissingValue("ENQUEUE")),
        ("me 1 ENQUEUE news 5", Error::BadWait("ENQUEUE")),
        ("me 1 ENQUEUE 5", Error::BadChannel),
        ("me 1 ENQUEUE 5 a ENQUEUE 5 a", Error::RepeatedOption("ENQUEUE")),
        ("me 1 ENQUEUE 5 a BLOCK 5", Error::BlockAndEnqueue),
        ("me 1 BLOCK 5 ENQUEUE 5 a", Error::BlockAndEnqueue),
    ];
    for (line, expected) in cases {
        assert_eq!(parse(line), Err(expected), "{line}");
    }
    assert_eq!(parse(&format!("me 1 ENQUEUE 0 {longest}c")), Err(Error::BadChannel));
    let empty: [&[u8]; 5] = [b"me", b"1", b"ENQUEUE", b"5", b""];
    assert_eq!(Acquire::parse(NAME, empty.into_iter()), Err(Error::BadChannel));
}

#[test]
fn cancel_takes_an_owner() {
    let parse = |line| Cancel::parse(NAME, args(line).into_iter()).map(|_| ());
    assert_eq!(parse("me"), Ok(()));
    assert_eq!(parse(""), Err(Error::Arity));
    assert_eq!(parse("mode"), Err(Error::BadOwner));
    assert_eq!(parse("me ALL"), Err(Error::Arity));
}

#[test]
fn calls_that_may_wait_take_names_of_1_to_1024_bytes() {
    for (length, fits) in [(0, false), (1, true), (1_024, true), (1_025, false), (300_000, false)] {
        let (name, expected) = (vec![b'k'; length], if fits { Ok(()) } else { Err(Error::BadName) });
        assert_eq!(Acquire::parse(&name, args("me 1").into_iter()).map(|_| ()), expected, "{length}");
        assert_eq!(Cancel::parse(&name, args("me").into_iter()).map(|_| ()), expected, "{length}");
    }
}

#[test]
fn fair_is_taken_once_and_of_plain_locks() {
    let acquire = |line| Acquire::parse(NAME, args(line).into_iter()).map(|acquire| acquire.fair);
    assert_eq!(acquire("me 1"), Ok(false));
    assert_eq!(acquire("me 1 FENCED fair BLOCK 5"), Ok(true));
    assert_eq!(acquire("me 1 FAIR FAIR"), Err(Error::RepeatedOption("FAIR")));
    assert_eq!(acquire("me 1 FAIR READ"), Err(Error::FairMode));
    assert_eq!(acquire("me 1 WRITE FAIR"), Err(Error::FairMode));
}

#[test]
fn one_of_read_and_write_is_taken_once() {
    let acquire = |line| Acquire::parse(NAME, args(line).into_iter()).map(|acquire| acquire.wanted);
    assert_eq!(acquire("me 1"), Ok(Wanted::Mutex));
    assert_eq!(acquire("me 1 HOLDS 2 read"), Ok(Wanted::Read));
    assert_eq!(acquire("me 1 FENCED WRITE"), Ok(Wanted::Write));
    assert_eq!(acquire("me 1 READ READ"), Err(Error::RepeatedOption("READ")));
    assert_eq!(acquire("me 1 WRITE write"), Err(Error::RepeatedOption("WRITE")));
    assert_eq!(acquire("me 1 READ WRITE"), Err(Error::ReadAndWrite));
    assert_eq!(acquire("me 1 FENCED READ"), Err(Error::FencedRead));
    let release = |line| Release::parse(args(line).into_iter()).map(|release| release.mode);
    assert_eq!(release("me"), Ok(None));
    assert_eq!(release("me ALL write"), Ok(Some(Mode::Write)));
    assert_eq!(release("me WRITE READ"), Err(Error::ReadAndWrite));
    let renew = |line| Renew::parse(args(line).into_iter()).map(|renew| renew.mode);
    assert_eq!(renew("me 1"), Ok(None));
    assert_eq!(renew("me 1 Read"), Ok(Some(Mode::Read)));
    assert_eq!(renew("me 1 READ READ"), Err(Error::RepeatedOption("READ")));
}

#[test]
fn release_takes_all_or_holds_and_a_lease() {
    let bad_holds = Error::BadHolds { least: 0 };
    let cases = [
        ("me", Ok((DownTo::OneLess, None))),
        ("me ALL", Ok((DownTo::AtMost(0), None))),
        ("me HOLDS 0", Ok((DownTo::AtMost(0), None))),
        ("me HOLDS 9007199254740992", Ok((DownTo::AtMost(1 << 53), None))),
        ("me lease 5 holds 2", Ok((DownTo::AtMost(2), Some(5)))),
        ("me HOLDS 2 LEASE 5", Ok((DownTo::AtMost(2), Some(5)))),
        ("me ALL LEASE 5", Ok((DownTo::AtMost(0), Some(5)))),
        ("", Err(Error::Arity)),
        ("mode", Err(Error::BadOwner)),
        ("me ALL ALL", Err(Error::RepeatedOption("ALL"))),
        ("me ALL HOLDS 0", Err(Error::AllAndHolds)),
        ("me HOLDS 0 ALL", Err(Error::AllAndHolds)),
        ("me HOLDS -1", Err(bad_holds.clone())),
        ("me HOLDS ALL", Err(bad_holds)),
        ("me HOLDS", Err(Error::MissingValue("HOLDS"))),
        ("me LEASE", Err(Error::MissingValue("LEASE"))),
        ("me LEASE 0", Err(Error::BadLease)),
        ("me LEASE 1 LEASE 1", Err(Error::RepeatedOption("LEASE"))),
        ("me LIMIT 1", Err(unknown("LIMIT"))),
        ("me FAIR", Err(unknown("FAIR"))),
        ("me 30000", Err(unknown("30000"))),
    ];
    for (line, expected) in cases {
        assert_eq!(release(line), expected, "{line}");
    }
}

#[test]
fn renew_takes_an_owner_and_a_lease() {
    let cases = [
        ("me 5", Ok(5)),
        ("", Err(Error::Arity)),
        ("me", Err(Error::Arity)),
        ("mode 5", Err(Error::BadOwner)),
        ("me 0", Err(Error::BadLease)),
        ("me 5 HOLDS 1", Err(unknown("HOLDS"))),
    ];
    for (line, expected) in cases {
        assert_eq!(Renew::parse(args(line).into_iter()).map(|r| r.lease.get()), expected, "{line}");
    }
}

#[test]
fn info_takes_a_limit() {
    let cases = [
        ("", Ok(DEFAULT_LIMIT)),
        ("LIMIT 0", Ok(0)),
        ("LIMIT 10000", Ok(10_000)),
        ("LIMIT 10001", Ok(10_000)),
        ("limit 4294967295", Ok(10_000)),
        ("LIMIT 4294967296", Err(Error::BadLimit { least: 0 })),
        ("LIMIT -1", Err(Error::BadLimit { least: 0 })),
        ("LIMIT", Err(Error::MissingValue("LIMIT"))),
        ("LIMIT 1 LIMIT 1", Err(Error::RepeatedOption("LIMIT"))),
        ("HOLDS 1", Err(unknown("HOLDS"))),
    ];
    for (line, expected) in cases {
        assert_eq!(Info::parse(args(line).into_iter()).map(|i| i.limit), expected, "{line}");
    }
}

#[test]
fn list_takes_a_cursor_and_a_limit() {
    let cases = [
        ("0", Ok((Cursor::Bound, DEFAULT_LIMIT))),
        (">", Ok((Cursor::After(b""), DEFAULT_LIMIT))),
        (">a LIMIT 1", Ok((Cursor::After(b"a"), 1))),
        ("0 LIMIT 10001", Ok((Cursor::Bound, 10_000))),
        ("", Err(Error::Arity)),
        ("1", Err(Error::BadCursor)),
        ("00", Err(Error::BadCursor)),
        ("0 LIMIT 0", Err(Error::BadLimit { least: 1 })),
        ("0 HOLDS 1", Err(unknown("HOLDS"))),
    ];
    for (line, expected) in cases {
        let args = args(line);
        assert_eq!(List::parse(args.into_iter()).map(|list| (list.cursor, list.limit)), expected, "{line}");
    }
}

#[test]
fn force_release_takes_an_owner_or_nothing() {
    let parse = |line| ForceRelease::parse(args(line).into_iter()).map(|f| f.owner.is_some());
    assert_eq!(parse(""), Ok(false));
    assert_eq!(parse("me"), Ok(true));
    assert_eq!(parse("mode"), Err(Error::BadOwner));
    assert_eq!(parse("me ALL"), Err(Error::Arity));
}

#[test]
fn owners_of_any_bytes_are_taken() {
    for byte in 0..=u8::MAX {
        let owner = [byte, b'x', byte];
        let parsed = Acquire::parse(NAME, [&owner[..], b"5"].into_iter());
        assert_eq!(parsed.map(|a| a.owner.bytes().to_vec()), Ok(owner.to_vec()));
    }
}

#[test]
fn acquire_and_renew_take_a_session_of_which_zero_is_one() {
    let grace = |ms| Ok(LeaseMs::new(ms));
    let cases = [
        ("me 1", Ok(None)),
        ("me 1 SESSION 0", grace(1)),
        ("me 1 session 1000", grace(1_000)),
        ("me 1 SESSION 8796093022208", grace(1 << 43)),
        ("me 1 SESSION", Err(Error::MissingValue("SESSION"))),
        ("me 1 SESSION -1", Err(Error::BadGrace)),
        ("me 1 SESSION 8796093022209", Err(Error::BadGrace)),
        ("me 1 SESSION soon", Err(Error::BadGrace)),
        ("me 1 SESSION 1 SESSION 2", Err(Error::RepeatedOption("SESSION"))),
    ];
    for (line, expected) in cases {
        let args = || args(line).into_iter();
        assert_eq!(Acquire::parse(NAME, args()).map(|acquire| acquire.session), expected, "{line}");
        assert_eq!(Renew::parse(args()).map(|renew| renew.session), expected, "{line}");
    }
}
