//! The cases of the rules that no history, scene or server test reaches, and what a rule may ask for. Time stands at `NOW`; a key that
//! is there ends 10,000 ms later, the owner's own read leases 8,000 ms later, unless a case says otherwise.

mod end_session;

use super::*;
use crate::decision::{Admission, KeyChange};
use crate::request::{Acquire, Release};
use crate::types::{LeaseMs, Owner, PermitLimit, Wanted};
use crate::view::{Need, Others};

const NOW: UnixMs = UnixMs(1_000_000);
const LEFT: i64 = 10_000;
const READS_LEFT: i64 = 8_000;
const ENDS: Expiry = Expiry::At(UnixMs(1_010_000));

/// The key does not exist.
const FREE: View = View {
    kind: Kind::Free,
    sole: None,
    shared: None,
    dead: None,
    others: Others::None,
    key_end: Expiry::Never,
};

/// Another owner holds a plain lock.
const HELD_BY_OTHER: View = View {
    kind: Kind::Mutex,
    others: Others::Live { until: ENDS, last_end: Some(ENDS) },
    key_end: ENDS,
    ..FREE
};

fn holds(count: i64) -> Holds {
    Holds::new(count).expect("a count of holds")
}

fn owner() -> Owner<'static> {
    Owner::new(b"me").expect("an owner")
}

fn lease(ms: i64) -> LeaseMs {
    LeaseMs::new(ms).expect("a lease")
}

fn at(ms_from_now: i64) -> UnixMs {
    UnixMs(NOW.0 + ms_from_now)
}

fn count(others: usize) -> Others {
    if others == 0 { Others::None } else { Others::NotAsked(others) }
}

/// The owner holds a plain lock.
fn own(count: i64) -> View {
    held_until(count, ENDS)
}

fn held_until(count: i64, key_end: Expiry) -> View {
    View { kind: Kind::Mutex, sole: Some(Hold { holds: holds(count), until: key_end }), key_end, ..FREE }
}

/// A read/write lock with the owner's holds, and this number of fields of others.
fn held(kind: Kind, own_reads: i64, own_writes: i64, others: usize) -> View {
    let until = |holds, until| Hold { holds, until };
    View {
        kind,
        sole: Holds::new(own_writes).map(|holds| until(holds, ENDS)),
        shared: Holds::new(own_reads).map(|holds| until(holds, Expiry::At(at(READS_LEFT)))),
        others: count(others),
        key_end: ENDS,
        ..FREE
    }
}

fn reading(own: i64, others: usize) -> View {
    held(Kind::Reading, own, 0, others)
}

fn writing(own_reads: i64, own_writes: i64) -> View {
    held(Kind::Writing, own_reads, own_writes, 0)
}

/// Another owner writes.
fn written() -> View {
    held(Kind::Writing, 0, 0, 1)
}

fn for_ever(view: View) -> View {
    let sole = view.sole.map(|hold| Hold { until: Expiry::Never, ..hold });
    View { sole, key_end: Expiry::Never, ..view }
}

/// The others are alive, and their last lease ends at this time.
fn alive(last_end: i64) -> Others {
    let until = Expiry::At(at(last_end));
    Others::Live { until, last_end: Some(until) }
}

fn ask(wanted: Wanted) -> Acquire<'static> {
    Acquire {
        owner: owner(),
        lease: lease(50),
        wanted,
        fair: false,
        arrive_at: None,
        fenced: false,
        session: None,
        wait: None,
    }
}

fn give(mode: Option<Mode>, down_to: DownTo) -> Release<'static> {
    Release { owner: owner(), mode, down_to, lease: None }
}

/// The decision of a rule that needs to know nothing besides.
fn done(step: Step) -> Decision {
    match step {
        Step::Done(decision) => decision,
        Step::Look(need) => panic!("no decision without {need:?}"),
    }
}

#[test]
fn one_call_touches_a_thousand_lease_keys_at_most() {
    let many = reading(5_000, 0);
    let leases = |step: Result<Step, Error>| done(step.expect("a decision")).change.leases();
    let request = Renew { owner: owner(), lease: lease(9_000), mode: None, session: None };
    assert_eq!(leases(renew(&many, &request, NOW)).set, Some((4_001, 5_000, at(9_000))));
    assert_eq!(leases(release(&many, &give(None, DownTo::AtMost(0)), NOW)).gone, Some((4_001, 5_000)));
}

#[test]
fn a_rule_asks_for_other_owners_only_if_the_answer_depends_on_them() {
    let any = Ok(Step::Look(Need::AnyOther));
    let last = Ok(Step::Look(Need::LastOther));
    let take = |view, wanted| acquire(&view, &ask(wanted), None, NOW, Admission::Open, true);
    assert_eq!(take(reading(0, 3), Wanted::Write), any);
    assert_eq!(hand_off(&reading(0, 3), Wanted::Write, lease(50), None, NOW), any);
    for (view, wanted) in [
        (reading(0, 3), Wanted::Read),
        (reading(1, 3), Wanted::Write),
        (written(), Wanted::Write),
        (written(), Wanted::Read),
    ] {
        assert!(matches!(take(view, wanted), Ok(Step::Done(_))), "{view:?} {wanted:?}");
    }
    let out = |members| View {
        kind: Kind::Permits,
        others: Others::Permits { members, living: None, first_end: at(1), last_end: at(LEFT) },
        key_end: ENDS,
        ..FREE
    };
    let one_of_three = Wanted::Permit(PermitLimit::new(3).expect("a limit"));
    let ask_for_one = |view| acquire(&view, &ask(one_of_three), None, NOW, Admission::Open, false);
    assert!(matches!(ask_for_one(out(2)), Ok(Step::Done(_))));
    assert_eq!(ask_for_one(out(3)), Ok(Step::Look(Need::Room)));
    let give_all = |view| release(&view, &give(Some(Mode::Read), DownTo::AtMost(0)), NOW);
    assert_eq!(give_all(reading(2, 3)), last);
    assert_eq!(Ok(force_release(&reading(1, 3), true)), last);
    assert_eq!(revoke(&reading(1, 3), Mode::Read, at(READS_LEFT)), last);
    for view in [reading(1, 0), reading(0, 3), held(Kind::Writing, 1, 1, 1)] {
        assert!(matches!(give_all(view), Ok(Step::Done(_))), "{view:?}");
    }
    assert!(matches!(force_release(&reading(1, 3), false), Step::Done(_)));
}

#[test]
fn a_departing_reader_never_lengthens_the_key() {
    for (last_end, expire_at) in [(3_000, Some(at(3_000))), (LEFT, None), (60_000, None)] {
        let view = View { others: alive(last_end), ..reading(1, 2) };
        let decision = done(release(&view, &give(None, DownTo::OneLess), NOW).expect("a decision"));
        assert_eq!((decision.reply, decision.change.key), (Reply::Released, KeyChange::Remove));
        assert_eq!(decision.change.expire_at, expire_at, "{last_end}");
    }
}

#[test]
fn only_an_untouched_grant_is_revoked_and_only_its_own_hold() {
    let back = |view, mode, ends| {
        let decision = done(revoke(&view, mode, at(ends)).expect("a decision"));
        (decision.reply == Reply::Released).then_some((decision.change.key, decision.change.becomes))
    };
    let read = |view| back(view, Mode::Read, READS_LEFT);
    assert_eq!(read(reading(1, 0)), Some((KeyChange::Delete, None)));
    assert_eq!(read(writing(1, 1)), Some((KeyChange::Remove, None)), "it writes still");
    let write = |view| back(view, Mode::Write, LEFT);
    assert_eq!(write(writing(0, 1)), Some((KeyChange::Delete, None)));
    assert_eq!(write(writing(1, 1)), Some((KeyChange::Remove, Some(Mode::Read))), "it reads still");
    for view in [reading(2, 0), reading(0, 1), writing(0, 2), written(), FREE] {
        assert_eq!((read(view), write(view)), (None, None), "{view:?}");
    }
    assert_eq!(back(reading(1, 0), Mode::Read, READS_LEFT + 1), None, "another lease");
    assert_eq!(write(for_ever(writing(0, 1))), None, "another lease");
}
