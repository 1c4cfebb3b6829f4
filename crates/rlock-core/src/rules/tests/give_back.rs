//! Release, revocation and forced release of holds.

use super::*;

/// reply, hash, what `mode` becomes, lease keys written, and deleted, the key's expiry, the message
type Given = (
    Reply,
    KeyChange,
    Option<Mode>,
    Option<(i64, i64, UnixMs)>,
    Option<(i64, i64)>,
    Option<UnixMs>,
    Option<UnlockMessage>,
);

fn given(decision: Decision) -> Given {
    let leases = decision.change.leases();
    let Change { key, becomes, expire_at, unlock_message, .. } = decision.change;
    (decision.reply, key, becomes, leases.set, leases.gone, expire_at, unlock_message)
}

const NOT_HELD: Given = (Reply::NotHeld, KeyChange::Keep, None, None, None, None, None);

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn a_reader_releases() {
    let (one, all) = (DownTo::OneLess, DownTo::AtMost(0));
    let gone = Some(UnlockMessage::ReadersGone);
    let set = |n| KeyChange::Set(holds(n));
    let (delete, remove, keep) = (KeyChange::Delete, KeyChange::Remove, KeyChange::Keep);
    let still = Reply::StillHeld;
    let kept = |n| Some((n, n, at(READS_LEFT)));
    let cases: Vec<(&str, View, Release<'_>, Others, Given)> = vec![
        (
            "the only one",
            reading(1, 0),
            give(None, one, None),
            Others::None,
            (Reply::Released, delete, None, None, Some((1, 1)), None, gone),
        ),
        (
            "all of three holds",
            reading(3, 0),
            give(None, all, None),
            Others::None,
            (Reply::Released, delete, None, None, Some((1, 3)), None, gone),
        ),
        (
            "the others are dead",
            reading(1, 2),
            give(None, one, None),
            Others::Dead,
            (Reply::Released, delete, None, None, Some((1, 1)), None, gone),
        ),
        (
            "not all others are known to be dead",
            reading(1, 20),
            give(None, one, None),
            Others::InDoubt,
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
            "not all others were checked",
            reading(1, 20),
            give(None, one, None),
            Others::InDoubt,
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
        ("free", FREE, give(None, all, None), alive(1), NOT_HELD),
        ("another writes", written(), give(None, all, None), alive(1), NOT_HELD),
    ];
    for (story, view, request, others, expected) in cases {
        assert_eq!(given(let_go(view, &request, others)), expected, "{story}");
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn a_writer_releases_and_downgrades() {
    let (one, all) = (DownTo::OneLess, DownTo::AtMost(0));
    let gone = Some(UnlockMessage::WriterGone);
    let set = |n| KeyChange::Set(holds(n));
    let (delete, remove, keep) = (KeyChange::Delete, KeyChange::Remove, KeyChange::Keep);
    let still = Reply::StillHeld;
    let write = Some(Mode::Write);
    let cases: Vec<(&str, View, Release<'_>, Given)> = vec![
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
    for (story, view, request, expected) in cases {
        assert_eq!(given(let_go(view, &request, alive(1))), expected, "{story}");
    }
}

#[test]
fn force_release_removes_everything_or_one_owners_holds() {
    let (delete, remove) = (KeyChange::Delete, KeyChange::Remove);
    let none = KeyChange::Keep;
    type Case<'a> = (&'a str, View, bool, Others, Reply, KeyChange, Option<(i64, i64)>);
    let forced = Reply::Forced;
    let cases: Vec<Case<'_>> = vec![
        ("the reads of any owner", reading(0, 3), false, alive(1), forced, delete, None),
        ("the write of any owner", written(), false, alive(1), forced, delete, None),
        ("one of several readers", reading(2, 1), true, alive(1), forced, remove, Some((1, 2))),
        ("the only reader", reading(2, 0), true, alive(1), forced, delete, Some((1, 2))),
        ("a dead reader", dead_reads(1), true, alive(1), forced, remove, Some((1, 2))),
        ("a dead reader, the only one", dead_reads(0), true, alive(1), forced, delete, Some((1, 2))),
        ("the last that lives", reading(1, 1), true, Others::Dead, forced, delete, Some((1, 1))),
        ("the writer, with what it reads", writing(1, 1), true, alive(1), forced, delete, Some((1, 1))),
        ("an owner without holds", reading(0, 2), true, alive(1), Reply::NothingToForce, none, None),
        ("nothing there", FREE, false, alive(1), Reply::NothingToForce, none, None),
        ("a key without holds", ABANDONED, false, alive(1), Reply::NothingToForce, none, None),
    ];
    for (story, view, of_owner, others, reply, key, gone) in cases {
        let forced = knowing(view, others, |view| Ok(force_release(view, of_owner)));
        let Decision { reply: answer, change } = forced.expect("a decision");
        assert_eq!((answer, change.key, change.leases().gone), (reply, key, gone), "{story}");
        assert_eq!(change.unlock_message.is_some(), key == delete, "{story}");
    }
}

/// The owner's two read holds have ended; this number of others read.
fn dead_reads(others: usize) -> View {
    View { dead: Some(holds(2)), ..reading(0, others) }
}

#[test]
fn only_an_untouched_grant_is_revoked_and_only_its_own_hold() {
    let back = |view, mode, ends, others| {
        let decision = knowing(view, others, |view| revoke(view, mode, at(ends))).expect("a decision");
        let leases = decision.change.leases();
        let Change { key, becomes, .. } = decision.change;
        (decision.reply == Reply::Released).then_some((key, becomes, leases.gone))
    };
    let gone = Some((1, 1));
    let read = |view, others| back(view, Mode::Read, READS_LEFT, others);
    assert_eq!(read(reading(1, 0), alive(1)), Some((KeyChange::Delete, None, gone)));
    assert_eq!(
        read(reading(1, 2), alive(1)),
        Some((KeyChange::Remove, None, gone)),
        "the others keep theirs"
    );
    assert_eq!(
        read(reading(1, 1), Others::Dead),
        Some((KeyChange::Delete, None, gone)),
        "it leaves no holder"
    );
    assert_eq!(read(writing(1, 1), alive(1)), Some((KeyChange::Remove, None, gone)), "it writes still");
    for view in [reading(2, 0), reading(0, 1), FREE, ABANDONED, written()] {
        assert_eq!(read(view, alive(1)), None, "{view:?}");
    }
    assert_eq!(back(reading(1, 0), Mode::Read, READS_LEFT + 1, alive(1)), None, "another lease");
    let write = |view| back(view, Mode::Write, LEFT, alive(1));
    assert_eq!(write(writing(0, 1)), Some((KeyChange::Delete, None, None)));
    assert_eq!(write(writing(1, 1)), Some((KeyChange::Remove, Some(Mode::Read), None)), "it reads still");
    for view in [writing(0, 2), written(), reading(1, 0), FREE, for_ever(writing(0, 1))] {
        assert_eq!(write(view), None, "{view:?}");
    }
}
