//! The end of a connection: the lease becomes the shorter one, and never a longer one.

use super::*;

/// The lease keys' end, the key's expiry.
fn ended(view: View, mode: Mode, latest: Option<Expiry>, grace: i64) -> (Option<UnixMs>, Option<UnixMs>) {
    match end_session(&view, mode, latest, at(grace)) {
        Ok(Step::Done(decision)) => {
            assert_eq!((decision.change.key, decision.change.event), (KeyChange::Keep, None));
            (decision.change.leases().set.map(|(_, _, until)| until), decision.change.expire_at)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_lease_of_an_exclusive_hold_gets_shorter_and_never_longer() {
    let cases = [
        ("shorter", own(2), Mode::Mutex, 50, Some(at(50))),
        ("as long", own(1), Mode::Mutex, LEFT, None),
        ("longer", own(1), Mode::Mutex, LEFT + 1, None),
        ("without an expiry", held_until(1, Expiry::Never), Mode::Mutex, 50, Some(at(50))),
        ("held by another", HELD_BY_OTHER, Mode::Mutex, 50, None),
        ("free", FREE, Mode::Mutex, 50, None),
        ("a writer", writing(0, 1), Mode::Write, 50, Some(at(50))),
        ("a writer that reads longer", writing(1, 1), Mode::Write, 50, Some(at(READS_LEFT))),
        ("a reader, not a writer", reading(1, 0), Mode::Write, 50, None),
    ];
    for (case, view, mode, grace, expire_at) in cases {
        assert_eq!(ended(view, mode, None, grace), (None, expire_at), "{case}");
    }
    assert!(end_session(&reading(1, 0), Mode::Mutex, None, at(50)).is_err(), "another kind");
}

#[test]
fn the_key_of_a_read_lock_follows_the_longest_lease_that_remains() {
    let reads = Some(Expiry::At(at(READS_LEFT)));
    let beside = |others| View { others, ..reading(2, 1) };
    let cases = [
        ("alone", reading(2, 0), 50, (Some(at(50)), Some(at(50)))),
        ("never longer", reading(2, 0), READS_LEFT, (None, None)),
        ("beside a longer reader", beside(alive(9_000)), 50, (Some(at(50)), Some(at(9_000)))),
        ("beside a shorter reader", beside(alive(20)), 50, (Some(at(50)), Some(at(50)))),
        ("beside the dead", beside(Others::Dead), 50, (Some(at(50)), Some(at(50)))),
        ("beside many", beside(Others::InDoubt), 50, (Some(at(50)), None)),
        ("beside its own write", writing(1, 1), 50, (Some(at(50)), None)),
        ("dead", View { shared: None, ..reading(1, 0) }, 50, (None, None)),
    ];
    for (case, view, grace, outcome) in cases {
        assert_eq!(ended(view, Mode::Read, reads, grace), outcome, "{case}");
    }
    let older = Some(Expiry::At(at(9_000)));
    assert_eq!(
        ended(reading(2, 0), Mode::Read, older, READS_LEFT).0,
        Some(at(READS_LEFT)),
        "an older lease is longer"
    );
    assert_eq!(end_session(&reading(1, 3), Mode::Read, reads, at(50)), Ok(Step::Look(Need::LastOther)));
}
