//! The rules of the read/write lock as tables. Time stands at `NOW`; a key that is there ends 10,000 ms later, the
//! owner's own read leases 8,000 ms later, unless a case says otherwise.

use super::*;
use crate::request::{DownTo, Wait};
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

/// reply, hash, what `mode` becomes, lease keys written, the key's expiry
type Taken = (Reply, HashChange, Option<Mode>, Option<(i64, i64, UnixMs)>, Option<UnixMs>);

const DENIED: Taken = (Reply::Denied, HashChange::Keep, None, None, None);

fn taken(decision: Decision) -> Taken {
    let Change { hash, becomes, leases, expire_at, .. } = decision.change;
    assert_eq!(leases.gone, None, "no acquisition deletes lease keys");
    (decision.reply, hash, becomes, leases.set, expire_at)
}

fn check_acquire(mode: Mode, cases: Vec<(&str, State, i64, Option<i64>, Taken)>) {
    for (story, state, lease_ms, arrive_at, expected) in cases {
        let request = ask(mode, lease_ms, arrive_at);
        let decision = acquire(state, &request, None, NOW, ANYBODY, false);
        assert_eq!(decision.map(taken), Ok(expected), "{mode:?}: {story}");
    }
}

#[test]
fn readers_take_what_is_free_join_and_re_enter() {
    let set = |n| HashChange::Set(holds(n));
    let read = Some(Mode::Read);
    let fifty = Some((1, 1, at(50)));
    check_acquire(
        Mode::Read,
        vec![
            ("free", State::Free, 50, None, (acquired(1, 50), set(1), read, fifty, Some(at(50)))),
            (
                "nobody holds what is there",
                State::Abandoned,
                50,
                None,
                (acquired(1, 50), HashChange::Replace(Holds::ONE), read, fifty, Some(at(50))),
            ),
            ("joins others", reading(0, 3), 50, None, (acquired(1, 50), set(1), None, fifty, None)),
            (
                "joins others, and stays longer than they",
                reading(0, 3),
                20_000,
                None,
                (acquired(1, 20_000), set(1), None, Some((1, 1, at(20_000))), Some(at(20_000))),
            ),
            (
                "joins where the key has no end",
                for_ever(reading(0, 1)),
                50,
                None,
                (acquired(1, 50), set(1), None, fifty, None),
            ),
            (
                "re-enters, longer than before: the newest lease key",
                reading(1, 1),
                9_000,
                None,
                (acquired(2, 9_000), set(2), None, Some((2, 2, at(9_000))), None),
            ),
            (
                "re-entry never shortens",
                reading(2, 0),
                50,
                None,
                (acquired(3, READS_LEFT), set(3), None, Some((3, 3, at(READS_LEFT))), None),
            ),
            (
                "re-entry beyond the key's end",
                reading(1, 0),
                30_000,
                None,
                (acquired(2, 30_000), set(2), None, Some((2, 2, at(30_000))), Some(at(30_000))),
            ),
            ("another writes", written(), 50, None, DENIED),
            ("the writer reads too", writing(0, 1), 50, None, (acquired(1, 50), set(1), None, fifty, None)),
            (
                "the writer re-enters its read",
                writing(1, 1),
                50,
                None,
                (acquired(2, READS_LEFT), set(2), None, Some((2, 2, at(READS_LEFT))), None),
            ),
        ],
    );
}

#[test]
fn a_writer_takes_what_is_free_and_re_enters_and_no_reader_becomes_one() {
    let set = |n| HashChange::Set(holds(n));
    let write = Some(Mode::Write);
    check_acquire(
        Mode::Write,
        vec![
            ("free", State::Free, 50, None, (acquired(1, 50), set(1), write, None, Some(at(50)))),
            (
                "all readers are dead",
                State::Abandoned,
                50,
                None,
                (acquired(1, 50), HashChange::Replace(Holds::ONE), write, None, Some(at(50))),
            ),
            ("others read", reading(0, 1), 50, None, DENIED),
            ("upgrade", reading(1, 0), 50, None, DENIED),
            ("another writes", written(), 50, None, DENIED),
            ("re-entry", writing(0, 1), 50, None, (acquired(2, LEFT), set(2), None, None, None)),
            (
                "re-entry, longer",
                writing(0, 1),
                20_000,
                None,
                (acquired(2, 20_000), set(2), None, None, Some(at(20_000))),
            ),
            (
                "re-entry where the key has no end",
                for_ever(writing(0, 1)),
                50,
                None,
                (acquired(2, -1), set(2), None, None, None),
            ),
        ],
    );
}

#[test]
fn holds_says_where_to_arrive() {
    let keep = HashChange::Keep;
    let set = |n| HashChange::Set(holds(n));
    check_acquire(
        Mode::Read,
        vec![
            ("the first is lost", State::Free, 50, Some(2), DENIED),
            ("the first is lost, others read", reading(0, 1), 50, Some(2), DENIED),
            (
                "a repeat changes nothing",
                reading(2, 0),
                50,
                Some(2),
                (acquired(2, READS_LEFT), keep, None, None, None),
            ),
            (
                "a repeat lengthens",
                reading(2, 0),
                9_000,
                Some(2),
                (acquired(2, 9_000), keep, None, Some((2, 2, at(9_000))), None),
            ),
            (
                "n - 1 to n",
                reading(1, 0),
                50,
                Some(2),
                (acquired(2, READS_LEFT), set(2), None, Some((2, 2, at(READS_LEFT))), None),
            ),
            ("less than n - 1: lost", reading(1, 0), 50, Some(3), DENIED),
        ],
    );
    check_acquire(
        Mode::Write,
        vec![
            ("the first is lost", State::Abandoned, 50, Some(2), DENIED),
            ("a repeat stays", writing(0, 2), 50, Some(2), (acquired(2, LEFT), keep, None, None, None)),
            ("less than n - 1: lost", writing(0, 1), 50, Some(3), DENIED),
        ],
    );
    let full = acquire(writing(0, 1 << 53), &ask(Mode::Write, 50, None), None, NOW, ANYBODY, false);
    assert_eq!(full, Err(Error::TooManyHolds));
}

#[test]
fn a_reader_that_would_wait_for_itself_is_told_so() {
    let wait = Some(Wait::Block(WaitMs::new(0).expect("a wait")));
    let request = Acquire { wait, ..ask(Mode::Write, 50, None) };
    for (state, upgrade) in
        [(reading(1, 0), true), (reading(1, 2), true), (reading(0, 2), false), (writing(1, 1), false)]
    {
        let decision = acquire(state, &request, None, NOW, ANYBODY, false);
        assert_eq!(decision == Err(Error::Upgrade), upgrade, "{state:?}");
    }
}

#[test]
fn nobody_overtakes_those_who_wait_but_holders_re_enter() {
    let all =
        [(State::Free, false), (State::Abandoned, false), (reading(0, 2), false), (reading(1, 0), true)];
    for (state, holder) in all {
        let awaited =
            acquire(state, &ask(Mode::Read, 50, None), None, NOW, ANYBODY, true).expect("a decision");
        assert_eq!(awaited.reply != Reply::Denied, holder, "{state:?}");
        let closed = acquire(state, &ask(Mode::Read, 50, None), None, NOW, Admission::HoldersOnly, false);
        assert_eq!(closed == Err(Error::NotAccepting), !holder, "{state:?}");
    }
    for state in [writing(0, 1), writing(1, 1)] {
        for mode in [Mode::Read, Mode::Write] {
            let own = acquire(state, &ask(mode, 50, None), None, NOW, Admission::HoldersOnly, true);
            assert!(own.is_ok_and(|own| own.reply != Reply::Denied), "{state:?} {mode:?}");
        }
    }
}

#[test]
fn only_what_changes_the_holds_is_an_event() {
    let event = |state, mode, n| {
        acquire(state, &ask(mode, 20_000, n), None, NOW, ANYBODY, false).expect("a decision").change.event
    };
    assert_eq!(event(State::Free, Mode::Write, None), Some(LockEvent::Acquire));
    assert_eq!(event(reading(0, 1), Mode::Read, None), Some(LockEvent::Acquire));
    assert_eq!(event(reading(1, 0), Mode::Read, Some(1)), None);
    assert_eq!(event(writing(0, 1), Mode::Write, Some(1)), None);
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

/// reply, hash, what `mode` becomes, lease keys written, and deleted, the key's expiry, the message
type Given = (
    Reply,
    HashChange,
    Option<Mode>,
    Option<(i64, i64, UnixMs)>,
    Option<(i64, i64)>,
    Option<UnixMs>,
    Option<UnlockMessage>,
);

fn given(decision: Decision) -> Given {
    let Change { hash, becomes, leases, expire_at, unlock_message, .. } = decision.change;
    (decision.reply, hash, becomes, leases.set, leases.gone, expire_at, unlock_message)
}

const NOT_HELD: Given = (Reply::NotHeld, HashChange::Keep, None, None, None, None, None);

#[test]
fn a_reader_releases() {
    let (one, all) = (DownTo::OneLess, DownTo::AtMost(0));
    let gone = Some(UnlockMessage::ReadersGone);
    let set = |n| HashChange::Set(holds(n));
    let (delete, remove, keep) = (HashChange::Delete, HashChange::Remove, HashChange::Keep);
    let still = Reply::StillHeld;
    let kept = |n| Some((n, n, at(READS_LEFT)));
    let cases: Vec<(&str, State, Release<'_>, Others, Given)> = vec![
        (
            "the only one",
            reading(1, 0),
            give(None, one, None),
            Others::default(),
            (Reply::Released, delete, None, None, Some((1, 1)), None, gone),
        ),
        (
            "all of three holds",
            reading(3, 0),
            give(None, all, None),
            Others::default(),
            (Reply::Released, delete, None, None, Some((1, 3)), None, gone),
        ),
        (
            "the others are dead",
            reading(1, 2),
            give(None, one, None),
            Others { dead: 2, latest: None },
            (Reply::Released, delete, None, None, Some((1, 1)), None, gone),
        ),
        (
            "not all others are known to be dead",
            reading(1, 20),
            give(None, one, None),
            Others { dead: 9, latest: None },
            (Reply::Released, remove, None, None, Some((1, 1)), None, None),
        ),
        (
            "others live for less long than the key",
            reading(1, 2),
            give(None, one, None),
            alive(3_000),
            (Reply::Released, remove, None, None, Some((1, 1)), Some(at(3_000)), None),
        ),
        (
            "others live for as long as the key",
            reading(1, 2),
            give(None, one, None),
            alive(LEFT),
            (Reply::Released, remove, None, None, Some((1, 1)), None, None),
        ),
        (
            "others' leases are longer than the key: it is not lengthened",
            reading(1, 2),
            give(None, one, None),
            alive(60_000),
            (Reply::Released, remove, None, None, Some((1, 1)), None, None),
        ),
        (
            "not all others were looked at",
            reading(1, 20),
            give(None, one, None),
            Others::default(),
            (Reply::Released, remove, None, None, Some((1, 1)), None, None),
        ),
        (
            "one of three: the next lease key gets the newest's end",
            reading(3, 1),
            give(None, one, None),
            alive(1),
            (still, set(2), None, kept(2), Some((3, 3)), None, None),
        ),
        (
            "down to 1",
            reading(3, 1),
            give(None, DownTo::AtMost(1), None),
            alive(1),
            (still, set(1), None, kept(1), Some((2, 3)), None, None),
        ),
        (
            "already there",
            reading(2, 0),
            give(None, DownTo::AtMost(2), None),
            alive(1),
            (still, keep, None, None, None, None, None),
        ),
        (
            "already there, LEASE",
            reading(2, 0),
            give(None, DownTo::AtMost(2), Some(50)),
            alive(1),
            (still, keep, None, Some((1, 2, at(50))), None, None, None),
        ),
        (
            "one of two, a shorter LEASE does not end the key",
            reading(2, 0),
            give(None, one, Some(50)),
            alive(1),
            (still, set(1), None, Some((1, 1, at(50))), Some((2, 2)), None, None),
        ),
        (
            "one of two, LEASE beyond the key's end",
            reading(2, 0),
            give(None, one, Some(20_000)),
            alive(1),
            (still, set(1), None, Some((1, 1, at(20_000))), Some((2, 2)), Some(at(20_000)), None),
        ),
        (
            "the writer stops reading",
            writing(1, 1),
            give(Some(Mode::Read), one, None),
            alive(1),
            (Reply::Released, remove, None, None, Some((1, 1)), None, None),
        ),
        ("reads nothing", reading(0, 1), give(None, all, None), alive(1), NOT_HELD),
        ("reads nothing, writes", writing(0, 1), give(Some(Mode::Read), all, None), alive(1), NOT_HELD),
        ("free", State::Free, give(None, all, None), alive(1), NOT_HELD),
        ("another writes", written(), give(None, all, None), alive(1), NOT_HELD),
    ];
    for (story, state, request, others, expected) in cases {
        assert_eq!(given(let_go(state, &request, others)), expected, "{story}");
    }
}

#[test]
fn a_writer_releases_and_downgrades() {
    let (one, all) = (DownTo::OneLess, DownTo::AtMost(0));
    let gone = Some(UnlockMessage::WriterGone);
    let set = |n| HashChange::Set(holds(n));
    let (delete, remove, keep) = (HashChange::Delete, HashChange::Remove, HashChange::Keep);
    let still = Reply::StillHeld;
    let write = Some(Mode::Write);
    let cases: Vec<(&str, State, Release<'_>, Given)> = vec![
        (
            "the last hold",
            writing(0, 1),
            give(None, one, None),
            (Reply::Released, delete, None, None, None, None, gone),
        ),
        (
            "downgrade: the key ends with the read lease",
            writing(1, 2),
            give(write, all, None),
            (Reply::Released, remove, Some(Mode::Read), None, None, Some(at(READS_LEFT)), gone),
        ),
        ("one of two", writing(0, 2), give(None, one, None), (still, set(1), None, None, None, None, None)),
        (
            "one of two, shorter LEASE",
            writing(0, 2),
            give(None, one, Some(50)),
            (still, set(1), None, None, None, Some(at(50)), None),
        ),
        (
            "one of two, LEASE shorter than the own read's",
            writing(1, 2),
            give(write, one, Some(50)),
            (still, set(1), None, None, None, Some(at(READS_LEFT)), None),
        ),
        (
            "already there, the same LEASE",
            writing(0, 2),
            give(None, DownTo::AtMost(2), Some(LEFT)),
            (still, keep, None, None, None, None, None),
        ),
        ("writes nothing", reading(1, 0), give(write, all, None), NOT_HELD),
    ];
    for (story, state, request, expected) in cases {
        assert_eq!(given(let_go(state, &request, alive(1))), expected, "{story}");
    }
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

#[test]
fn force_release_removes_everything_or_one_owners_holds() {
    let (delete, remove) = (HashChange::Delete, HashChange::Remove);
    let none = HashChange::Keep;
    type Case<'a> = (&'a str, State, bool, Option<Holds>, Others, Reply, HashChange, Option<(i64, i64)>);
    let forced = Reply::Forced;
    let cases: Vec<Case<'_>> = vec![
        ("anybody's reads", reading(0, 3), false, None, alive(1), forced, delete, None),
        ("anybody's write", written(), false, None, alive(1), forced, delete, None),
        (
            "one of several readers",
            reading(2, 1),
            true,
            Some(holds(2)),
            alive(1),
            forced,
            remove,
            Some((1, 2)),
        ),
        ("the only reader", reading(2, 0), true, Some(holds(2)), alive(1), forced, delete, Some((1, 2))),
        ("a dead reader", reading(0, 1), true, Some(holds(2)), alive(1), forced, remove, Some((1, 2))),
        ("the last that lives", reading(1, 1), true, Some(holds(1)), DEAD, forced, delete, Some((1, 1))),
        (
            "the writer, with what it reads",
            writing(1, 1),
            true,
            Some(holds(1)),
            alive(1),
            forced,
            delete,
            Some((1, 1)),
        ),
        ("one who holds nothing", reading(0, 2), true, None, alive(1), Reply::NothingToForce, none, None),
        ("nothing there", State::Free, false, None, alive(1), Reply::NothingToForce, none, None),
        (
            "nobody holds what is there",
            State::Abandoned,
            false,
            None,
            alive(1),
            Reply::NothingToForce,
            none,
            None,
        ),
    ];
    for (story, state, of_owner, own, others, reply, hash, gone) in cases {
        let Decision { reply: told, change } = force_release(state, of_owner, own, |_| others);
        assert_eq!((told, change.hash, change.leases.gone), (reply, hash, gone), "{story}");
        assert_eq!(change.unlock_message.is_some(), hash == delete, "{story}");
    }
}

/// The only other reader is dead.
const DEAD: Others = Others { dead: 1, latest: None };

#[test]
fn a_hand_off_gives_the_waiter_its_own_lease() {
    let taken = |state, mode| hand_off(state, mode, lease(50), None, NOW).map(taken);
    let new = |hash, mode, set| Some((acquired(1, 50), hash, Some(mode), set, Some(at(50))));
    let (set, replace) = (HashChange::Set(Holds::ONE), HashChange::Replace(Holds::ONE));
    let key = Some((1, 1, at(50)));
    assert_eq!(taken(State::Free, Mode::Read), new(set, Mode::Read, key));
    assert_eq!(taken(State::Free, Mode::Write), new(set, Mode::Write, None));
    assert_eq!(taken(State::Abandoned, Mode::Write), new(replace, Mode::Write, None));
    assert_eq!(taken(reading(0, 2), Mode::Read), Some((acquired(1, 50), set, None, key, None)));
    assert_eq!(taken(reading(0, 2), Mode::Write), None);
    assert_eq!(taken(written(), Mode::Read), None);
    let event = hand_off(State::Free, Mode::Read, lease(50), None, NOW).and_then(|given| given.change.event);
    assert_eq!(event, Some(LockEvent::HandOff));
}

#[test]
fn only_an_untouched_grant_is_taken_back_and_only_its_own() {
    let back = |state, mode, ends, others| {
        take_back(state, mode, at(ends), |_| others)
            .map(|change| (change.hash, change.becomes, change.leases.gone))
    };
    let gone = Some((1, 1));
    let read = |state, others| back(state, Mode::Read, READS_LEFT, others);
    assert_eq!(read(reading(1, 0), alive(1)), Some((HashChange::Delete, None, gone)));
    assert_eq!(
        read(reading(1, 2), alive(1)),
        Some((HashChange::Remove, None, gone)),
        "the others keep theirs"
    );
    assert_eq!(read(reading(1, 1), DEAD), Some((HashChange::Delete, None, gone)), "nobody holds it then");
    assert_eq!(read(writing(1, 1), alive(1)), Some((HashChange::Remove, None, gone)), "it writes still");
    for state in [reading(2, 0), reading(0, 1), State::Free, State::Abandoned, written()] {
        assert_eq!(read(state, alive(1)), None, "{state:?}");
    }
    assert_eq!(back(reading(1, 0), Mode::Read, READS_LEFT + 1, alive(1)), None, "another lease");
    let write = |state| back(state, Mode::Write, LEFT, alive(1));
    assert_eq!(write(writing(0, 1)), Some((HashChange::Delete, None, None)));
    assert_eq!(write(writing(1, 1)), Some((HashChange::Remove, Some(Mode::Read), None)), "it reads still");
    for state in [writing(0, 2), written(), reading(1, 0), State::Free, for_ever(writing(0, 1))] {
        assert_eq!(write(state), None, "{state:?}");
    }
}
