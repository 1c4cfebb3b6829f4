//! The rules of the read/write lock as tables. Time stands at `NOW`; a key that is there ends 10,000 ms later, the
//! owner's own read leases 8,000 ms later, unless a case says otherwise.

mod give_back;
mod take;

use super::*;
use crate::decision::{Admission, HashChange, LockEvent, UnlockMessage};
use crate::request::{Acquire, DownTo, Release, Wait};
use crate::types::{Owner, WaitMs};

const NOW: UnixMs = UnixMs(1_000_000);
const LEFT: i64 = 10_000;
const READS_LEFT: i64 = 8_000;
const ANYBODY: Admission = Admission::Open;

fn holds(count: i64) -> Holds {
    Holds::new(count).expect("a count of holds")
}

fn lease(ms: i64) -> LeaseMs {
    LeaseMs::new(ms).expect("a lease")
}

fn at(ms_from_now: i64) -> UnixMs {
    UnixMs(NOW.0 + ms_from_now)
}

fn reads(count: i64) -> Option<Reads> {
    Some(Reads { holds: holds(count), until: Expiry::At(at(READS_LEFT)) })
}

/// What the owner reads and writes, and how many fields of others there are.
fn held(writing: bool, own_reads: i64, own_writes: i64, others: usize) -> Held {
    let expiry = Expiry::At(at(LEFT));
    let own = (own_reads > 0).then(|| reads(own_reads)).flatten();
    Held { writing, reads: own, writes: Holds::new(own_writes), others, expiry }
}

fn reading(own: i64, others: usize) -> State {
    State::Held(held(false, own, 0, others))
}

fn writing(own_reads: i64, own_writes: i64) -> State {
    State::Held(held(true, own_reads, own_writes, 0))
}

/// Somebody else writes.
fn written() -> State {
    State::Held(held(true, 0, 0, 1))
}

fn for_ever(state: State) -> State {
    let State::Held(held) = state else { return state };
    State::Held(Held { expiry: Expiry::Never, ..held })
}

fn ask(mode: Mode, lease_ms: i64, arrive_at: Option<i64>) -> Acquire<'static> {
    let owner = Owner::new(b"me").expect("an owner");
    let arrive_at = arrive_at.map(holds);
    Acquire { owner, lease: lease(lease_ms), mode, fair: false, arrive_at, fenced: false, wait: None }
}

fn acquired(count: i64, lease_ms: i64) -> Reply {
    Reply::Acquired { holds: holds(count), lease_ms, token: 0 }
}

fn give(mode: Option<Mode>, down_to: DownTo, lease_ms: Option<i64>) -> Release<'static> {
    let owner = Owner::new(b"me").expect("an owner");
    Release { owner, mode, down_to, lease: lease_ms.map(lease) }
}

fn alive(latest: i64) -> Others {
    Others { dead: 0, latest: Some(Expiry::At(at(latest))) }
}

fn let_go(state: State, request: &Release<'_>, others: Others) -> Decision {
    release(state, request, NOW, |_| others).expect("a decision")
}

#[test]
fn a_call_without_a_mode_means_the_holds_that_there_are() {
    let both = release(writing(1, 1), &give(None, DownTo::OneLess, None), NOW, |_| alive(1));
    assert_eq!(both, Err(Error::WhichMode));
    assert_eq!(renew(writing(1, 1), None, lease(5), NOW), Err(Error::WhichMode));
    for (state, mode) in
        [(reading(1, 0), Mode::Read), (writing(0, 1), Mode::Write), (State::Free, Mode::Read)]
    {
        assert_eq!(meant(state, None), Ok(mode), "{state:?}");
        assert_eq!(meant(state, Some(Mode::Write)), Ok(Mode::Write), "{state:?}");
    }
}

#[test]
fn renew_never_ends_the_key_before_anybodys_read_lease() {
    type Case<'a> = (&'a str, State, Option<Mode>, i64, Reply, Option<(i64, i64, UnixMs)>, Option<UnixMs>);
    let (read, write) = (Some(Mode::Read), Some(Mode::Write));
    let renewed = Reply::Renewed;
    let cases: Vec<Case<'_>> = vec![
        ("all lease keys", reading(3, 1), None, 9_000, renewed, Some((1, 3, at(9_000))), None),
        ("shorter: the key stays", reading(1, 1), None, 50, renewed, Some((1, 1, at(50))), None),
        (
            "longer: the key too",
            reading(1, 1),
            read,
            20_000,
            renewed,
            Some((1, 1, at(20_000))),
            Some(at(20_000)),
        ),
        (
            "a key without an end keeps none",
            for_ever(reading(1, 0)),
            None,
            50,
            renewed,
            Some((1, 1, at(50))),
            None,
        ),
        ("a writer, shorter", writing(0, 1), None, 50, renewed, None, Some(at(50))),
        ("a writer, the same end", writing(0, 1), None, LEFT, renewed, None, None),
        ("a writer that reads for longer", writing(1, 1), write, 50, renewed, None, Some(at(READS_LEFT))),
        ("the reads of a writer", writing(1, 1), read, 50, renewed, Some((1, 1, at(50))), None),
        ("holds nothing", reading(0, 1), None, 50, Reply::NotRenewed, None, None),
        ("reads, asked to write", reading(1, 0), write, 50, Reply::NotRenewed, None, None),
        ("free", State::Free, read, 50, Reply::NotRenewed, None, None),
    ];
    for (story, state, mode, ms, reply, set, expire_at) in cases {
        let Decision { reply: told, change } = renew(state, mode, lease(ms), NOW).expect("a decision");
        assert_eq!((told, change.leases.set, change.expire_at), (reply, set, expire_at), "{story}");
        assert_eq!((change.hash, change.event), (HashChange::Keep, None), "{story}");
    }
}

#[test]
fn one_call_touches_a_thousand_lease_keys_at_most() {
    let many = reading(5_000, 0);
    let renewed = renew(many, None, lease(9_000), NOW).expect("a decision").change.leases.set;
    assert_eq!(renewed, Some((4_001, 5_000, at(9_000))));
    let gone = let_go(many, &give(None, DownTo::AtMost(0), None), Others::default()).change.leases.gone;
    assert_eq!(gone, Some((4_001, 5_000)));
}
