//! The rules as tables. Time stands at `NOW`; a key that is there ends 10,000 ms later, the owner's own read leases 8,000 ms
//! later, unless a case says otherwise.

mod end_session;
mod give_back;
mod permits;
mod plain;
mod take;

use super::*;
use crate::decision::{Admission, KeyChange, LockEvent};
use crate::request::{Acquire, Release, Wait};
use crate::types::{LeaseMs, Owner, WaitMs, Wanted};
use crate::view::{Need, Others};

const NOW: UnixMs = UnixMs(1_000_000);
const LEFT: i64 = 10_000;
const READS_LEFT: i64 = 8_000;
const ENDS: Expiry = Expiry::At(UnixMs(1_010_000));
const ANYBODY: Admission = Admission::Open;

/// The key does not exist.
const FREE: View = View {
    kind: Kind::Free,
    sole: None,
    shared: None,
    dead: None,
    others: Others::None,
    key_end: Expiry::Never,
};

/// The hash exists without a hold.
const ABANDONED: View = View { kind: Kind::Abandoned, ..FREE };

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

fn ask(wanted: Wanted, lease_ms: i64, arrive_at: Option<i64>) -> Acquire<'static> {
    let arrive_at = arrive_at.map(holds);
    Acquire {
        owner: owner(),
        lease: lease(lease_ms),
        wanted,
        fair: false,
        arrive_at,
        fenced: false,
        session: None,
        wait: None,
    }
}

fn acquired(count: i64, lease_ms: i64) -> Reply {
    Reply::Acquired { holds: holds(count), lease_ms, token: 0 }
}

fn give(mode: Option<Mode>, down_to: DownTo, lease_ms: Option<i64>) -> Release<'static> {
    Release { owner: owner(), mode, down_to, lease: lease_ms.map(lease) }
}

fn prolong(mode: Option<Mode>, ms: i64) -> Renew<'static> {
    Renew { owner: owner(), lease: lease(ms), mode, session: None }
}

/// The decision of a rule that needs to know nothing besides.
fn done(step: Step) -> Decision {
    match step {
        Step::Done(decision) => decision,
        Step::Look(need) => panic!("no decision without {need:?}"),
    }
}

/// The decision of a rule. A rule that asks for the others is asked again with these.
fn knowing(
    view: View,
    others: Others,
    rule: impl Fn(&View) -> Result<Step, Error>,
) -> Result<Decision, Error> {
    Ok(match rule(&view)? {
        Step::Done(decision) => decision,
        Step::Look(_) => done(rule(&View { others, ..view })?),
    })
}

fn let_go(view: View, request: &Release<'_>, others: Others) -> Decision {
    knowing(view, others, |view| release(view, request, NOW)).expect("a decision")
}

#[test]
fn a_call_without_a_mode_means_the_holds_that_there_are() {
    let both = release(&writing(1, 1), &give(None, DownTo::OneLess, None), NOW);
    assert_eq!(both, Err(Error::WhichMode));
    assert_eq!(renew(&writing(1, 1), &prolong(None, 5), NOW), Err(Error::WhichMode));
    let cases = [
        (reading(1, 0), Mode::Read),
        (reading(0, 1), Mode::Read),
        (writing(0, 1), Mode::Write),
        (FREE, Mode::Mutex),
        (own(1), Mode::Mutex),
    ];
    for (view, mode) in cases {
        assert_eq!(meant(&view, None), Ok(mode), "{view:?}");
        let asked = if view.kind == Kind::Mutex { Err(Error::Mutex) } else { Ok(Mode::Write) };
        assert_eq!(meant(&view, Some(Mode::Write)), asked, "{view:?}");
    }
}

#[test]
fn renew_never_ends_the_key_before_anybodys_read_lease() {
    type Case<'a> = (&'a str, View, Option<Mode>, i64, Reply, Option<(i64, i64, UnixMs)>, Option<UnixMs>);
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
        ("free", FREE, read, 50, Reply::NotRenewed, None, None),
    ];
    for (story, view, mode, ms, reply, set, expire_at) in cases {
        let renewed = renew(&view, &prolong(mode, ms), NOW).map(done);
        let Decision { reply: answer, change } = renewed.expect("a decision");
        assert_eq!((answer, change.leases().set, change.expire_at), (reply, set, expire_at), "{story}");
        assert_eq!((change.key, change.event), (KeyChange::Keep, None), "{story}");
    }
}

#[test]
fn one_call_touches_a_thousand_lease_keys_at_most() {
    let many = reading(5_000, 0);
    let renewed = renew(&many, &prolong(None, 9_000), NOW).map(done).expect("a decision").change.leases().set;
    assert_eq!(renewed, Some((4_001, 5_000, at(9_000))));
    let gone = let_go(many, &give(None, DownTo::AtMost(0), None), Others::None).change.leases().gone;
    assert_eq!(gone, Some((4_001, 5_000)));
}

#[test]
fn a_mode_must_fit_the_lock() {
    let plain = |view: &View| acquire(view, &ask(Wanted::Mutex, 50, None), None, NOW, ANYBODY, false);
    let read = |view: &View| acquire(view, &ask(Wanted::Read, 50, None), None, NOW, ANYBODY, false);
    for view in [reading(0, 1), reading(1, 0), written()] {
        assert_eq!(plain(&view), Err(Error::ReadWriteLock), "{view:?}");
        assert_eq!(
            hand_off(&view, Wanted::Mutex, lease(50), None, NOW),
            Err(Error::ReadWriteLock),
            "{view:?}"
        );
    }
    for view in [HELD_BY_OTHER, own(1)] {
        assert_eq!(read(&view), Err(Error::Mutex), "{view:?}");
        assert_eq!(hand_off(&view, Wanted::Write, lease(50), None, NOW), Err(Error::Mutex), "{view:?}");
        let write = Some(Mode::Write);
        assert_eq!(release(&view, &give(write, DownTo::OneLess, None), NOW), Err(Error::Mutex), "{view:?}");
        assert_eq!(renew(&view, &prolong(write, 50), NOW), Err(Error::Mutex), "{view:?}");
    }
}

#[test]
fn a_rule_asks_for_other_owners_only_if_the_answer_depends_on_them() {
    let any = Ok(Step::Look(Need::AnyOther));
    let last = Ok(Step::Look(Need::LastOther));
    let take = |view, wanted| acquire(&view, &ask(wanted, 50, None), None, NOW, ANYBODY, true);
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
    let give_all = |view| release(&view, &give(Some(Mode::Read), DownTo::AtMost(0), None), NOW);
    assert_eq!(give_all(reading(2, 3)), last);
    assert_eq!(Ok(force_release(&reading(1, 3), true)), last);
    assert_eq!(revoke(&reading(1, 3), Mode::Read, at(READS_LEFT)), last);
    for view in [reading(1, 0), reading(0, 3), held(Kind::Writing, 1, 1, 1)] {
        assert!(matches!(give_all(view), Ok(Step::Done(_))), "{view:?}");
    }
    assert!(matches!(force_release(&reading(1, 3), false), Step::Done(_)));
}
