//! Taking a lock, entering it again, handing it on.

use super::*;

/// reply, hash, what `mode` becomes, lease keys written, the key's expiry
type Taken = (Reply, KeyChange, Option<Mode>, Option<(i64, i64, UnixMs)>, Option<UnixMs>);

/// Others read, or did.
fn all_dead() -> View {
    View { others: Others::Dead, ..reading(0, 3) }
}

const DENIED: Taken = (Reply::Denied, KeyChange::Keep, None, None, None);

fn taken(decision: Decision) -> Taken {
    let leases = decision.change.leases();
    let Change { key, becomes, expire_at, .. } = decision.change;
    assert_eq!(leases.gone, None, "no acquisition deletes lease keys");
    (decision.reply, key, becomes, leases.set, expire_at)
}

/// ACQUIRE; others that read are alive.
fn take(view: View, request: &Acquire<'_>, admission: Admission, kept_out: bool) -> Result<Decision, Error> {
    knowing(view, alive(1), |view| acquire(view, request, None, NOW, admission, kept_out))
}

fn check_acquire(wanted: Wanted, cases: Vec<(&str, View, i64, Option<i64>, Taken)>) {
    for (story, view, lease_ms, arrive_at, expected) in cases {
        let request = ask(wanted, lease_ms, arrive_at);
        let decision = take(view, &request, ANYBODY, false);
        assert_eq!(decision.map(taken), Ok(expected), "{wanted:?}: {story}");
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn readers_take_what_is_free_join_and_re_enter() {
    let set = |n| KeyChange::Set(holds(n));
    let read = Some(Mode::Read);
    let fifty = Some((1, 1, at(50)));
    check_acquire(
        Wanted::Read,
        vec![
            ("free", FREE, 50, None, (acquired(1, 50), set(1), read, fifty, Some(at(50)))),
            (
                "a key without holds",
                ABANDONED,
                50,
                None,
                (acquired(1, 50), KeyChange::Replace(Holds::ONE), read, fifty, Some(at(50))),
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
    let set = |n| KeyChange::Set(holds(n));
    let write = Some(Mode::Write);
    let replaced = (acquired(1, 50), KeyChange::Replace(Holds::ONE), write, None, Some(at(50)));
    check_acquire(
        Wanted::Write,
        vec![
            ("free", FREE, 50, None, (acquired(1, 50), set(1), write, None, Some(at(50)))),
            ("all readers are dead", all_dead(), 50, None, replaced),
            ("a key without holds", ABANDONED, 50, None, replaced),
            (
                "only its own dead reads are there",
                View { dead: Some(holds(2)), ..reading(0, 0) },
                50,
                None,
                replaced,
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
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn holds_says_where_to_arrive() {
    let keep = KeyChange::Keep;
    let set = |n| KeyChange::Set(holds(n));
    check_acquire(
        Wanted::Read,
        vec![
            ("the first is lost", FREE, 50, Some(2), DENIED),
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
        Wanted::Write,
        vec![
            ("the first is lost", all_dead(), 50, Some(2), DENIED),
            ("a repeat stays", writing(0, 2), 50, Some(2), (acquired(2, LEFT), keep, None, None, None)),
            ("less than n - 1: lost", writing(0, 1), 50, Some(3), DENIED),
        ],
    );
    let full = take(writing(0, 1 << 53), &ask(Wanted::Write, 50, None), ANYBODY, false);
    assert_eq!(full, Err(Error::TooManyHolds));
}

#[test]
fn a_reader_that_would_wait_for_itself_gets_an_error() {
    let wait = Some(Wait::Block(WaitMs::new(0).expect("a wait")));
    let request = Acquire { wait, ..ask(Wanted::Write, 50, None) };
    for (view, upgrade) in
        [(reading(1, 0), true), (reading(1, 2), true), (reading(0, 2), false), (writing(1, 1), false)]
    {
        let decision = take(view, &request, ANYBODY, false);
        assert_eq!(decision == Err(Error::Upgrade), upgrade, "{view:?}");
    }
}

#[test]
fn new_owners_do_not_overtake_waiters_but_holders_re_enter() {
    let all = [(FREE, false), (ABANDONED, false), (reading(0, 2), false), (reading(1, 0), true)];
    for (view, holder) in all {
        let awaited = take(view, &ask(Wanted::Read, 50, None), ANYBODY, true).expect("a decision");
        assert_eq!(awaited.reply != Reply::Denied, holder, "{view:?}");
        let closed = take(view, &ask(Wanted::Read, 50, None), Admission::HoldersOnly, false);
        assert_eq!(closed == Err(Error::NotAccepting), !holder, "{view:?}");
    }
    for view in [writing(0, 1), writing(1, 1)] {
        for wanted in [Wanted::Read, Wanted::Write] {
            let own = take(view, &ask(wanted, 50, None), Admission::HoldersOnly, true);
            assert!(own.is_ok_and(|own| own.reply != Reply::Denied), "{view:?} {wanted:?}");
        }
    }
}

#[test]
fn only_what_changes_the_holds_is_an_event() {
    let event = |view, wanted, n| {
        take(view, &ask(wanted, 20_000, n), ANYBODY, false).expect("a decision").change.event
    };
    assert_eq!(event(FREE, Wanted::Write, None), Some(LockEvent::Acquire));
    assert_eq!(event(reading(0, 1), Wanted::Read, None), Some(LockEvent::Acquire));
    assert_eq!(event(reading(1, 0), Wanted::Read, Some(1)), None);
    assert_eq!(event(writing(0, 1), Wanted::Write, Some(1)), None);
}

#[test]
fn a_hand_off_gives_the_waiter_its_own_lease() {
    let given = |view, wanted| {
        knowing(view, alive(1), |view| hand_off(view, wanted, lease(50), None, NOW)).expect("a decision")
    };
    let taken = |view, wanted| Some(taken(given(view, wanted))).filter(|taken| *taken != DENIED);
    let new = |key, mode, set| Some((acquired(1, 50), key, Some(mode), set, Some(at(50))));
    let (set, replace) = (KeyChange::Set(Holds::ONE), KeyChange::Replace(Holds::ONE));
    let key = Some((1, 1, at(50)));
    assert_eq!(taken(FREE, Wanted::Read), new(set, Mode::Read, key));
    assert_eq!(taken(FREE, Wanted::Write), new(set, Mode::Write, None));
    assert_eq!(taken(ABANDONED, Wanted::Write), new(replace, Mode::Write, None));
    assert_eq!(taken(all_dead(), Wanted::Write), new(replace, Mode::Write, None));
    assert_eq!(taken(reading(0, 2), Wanted::Read), Some((acquired(1, 50), set, None, key, None)));
    assert_eq!(taken(reading(0, 2), Wanted::Write), None);
    assert_eq!(taken(written(), Wanted::Read), None);
    assert_eq!(given(FREE, Wanted::Read).change.event, Some(LockEvent::HandOff));
}
