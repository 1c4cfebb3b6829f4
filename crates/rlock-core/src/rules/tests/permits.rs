//! Permits: the limit is each caller's own, and the key expires with the last permit.

use super::*;
use crate::types::PermitLimit;

/// When the owner's permit ends, in ms from now.
const OWN: i64 = 8_000;
/// When the first and the last of the others end.
const FIRST: i64 = 3_000;
const LAST: i64 = 9_000;

/// A lock with permits: whether the owner has one, the number of others, and how many of these are alive.
fn permits(own: bool, members: u32, living: Option<u32>) -> View {
    let shared = own.then_some(Hold { holds: Holds::ONE, until: Expiry::At(at(OWN)) });
    let others = match members {
        0 => Others::None,
        _ => Others::Permits { members, living, first_end: at(FIRST), last_end: at(LAST) },
    };
    let key_end = Expiry::At(at(if members > 0 { LAST } else { OWN }));
    View { kind: Kind::Permits, sole: None, shared, dead: None, others, key_end }
}

fn limit(count: i64) -> PermitLimit {
    PermitLimit::new(count).expect("a limit")
}

fn wanted(count: i64, lease_ms: i64) -> Acquire<'static> {
    ask(Wanted::Permit(limit(count)), lease_ms, Some(1))
}

/// What an acquisition leads to: the reply, the end of the permit, the key's new expiry.
fn taken(view: View, request: &Acquire<'_>, kept_out: bool) -> (Reply, Option<UnixMs>, Option<UnixMs>) {
    match acquire(&view, request, None, NOW, Admission::Open, kept_out) {
        Ok(Step::Done(decision)) => {
            (decision.reply, decision.change.key.permit_end(), decision.change.expire_at)
        }
        other => panic!("{other:?}"),
    }
}

fn holds_for(lease_ms: i64) -> Reply {
    Reply::Acquired { holds: Holds::ONE, lease_ms, token: 0 }
}

#[test]
fn one_more_is_let_in_as_long_as_the_callers_limit_admits_it() {
    let new = |lease| (holds_for(lease), Some(at(lease)));
    let cases = [
        ("nobody", FREE, 1, 5_000, Some((new(5_000), Some(at(5_000))))),
        ("room without counting", permits(false, 2, None), 3, 5_000, Some((new(5_000), None))),
        ("longer than all", permits(false, 2, None), 3, 20_000, Some((new(20_000), Some(at(20_000))))),
        ("some have ended", permits(false, 5, Some(2)), 3, 5_000, Some((new(5_000), None))),
        ("none has ended", permits(false, 3, Some(3)), 3, 5_000, None),
        ("more than the limit are out", permits(false, 9, Some(9)), 3, 5_000, None),
    ];
    for (case, view, count, lease, expected) in cases {
        let expected = match expected {
            Some(((reply, end), expire_at)) => (reply, end, expire_at),
            None => (Reply::Denied, None, None),
        };
        assert_eq!(taken(view, &wanted(count, lease), false), expected, "{case}");
    }
    let uncounted = permits(false, 3, None);
    let step = acquire(&uncounted, &wanted(3, 1), None, NOW, Admission::Open, false);
    assert_eq!(step, Ok(Step::Look(Need::Room)));
}

#[test]
fn waiters_are_not_overtaken_and_holders_keep_their_permits() {
    assert_eq!(taken(permits(false, 1, None), &wanted(9, 1_000), true).0, Reply::Denied);
    assert_eq!(taken(permits(true, 9, Some(9)), &wanted(1, 1_000), true), (holds_for(OWN), None, None));
    let longer = taken(permits(true, 9, Some(9)), &wanted(1, 10_000), true);
    assert_eq!(longer, (holds_for(10_000), Some(at(10_000)), Some(at(10_000))));
    let drained = acquire(&permits(false, 1, None), &wanted(9, 1), None, NOW, Admission::HoldersOnly, false);
    assert_eq!(drained, Err(Error::NotAccepting));
}

#[test]
fn the_key_expires_with_the_last_permit() {
    let renewed = |view: View, ms| match renew(&view, &prolong(None, ms), NOW) {
        Ok(Step::Done(decision)) => (decision.change.key.permit_end(), decision.change.expire_at),
        other => panic!("{other:?}"),
    };
    assert_eq!(renewed(permits(true, 2, None), 1_000), (Some(at(1_000)), None));
    assert_eq!(renewed(permits(true, 2, None), 50_000), (Some(at(50_000)), Some(at(50_000))));
    assert_eq!(renewed(permits(true, 0, None), 1_000), (Some(at(1_000)), Some(at(1_000))));
    assert_eq!(renewed(permits(true, 2, None), OWN), (None, None));
    assert_eq!(renewed(permits(false, 2, None), 1_000), (None, None));
    // The owner's was the last.
    let last = View { key_end: Expiry::At(at(OWN)), ..permits(true, 2, None) };
    assert_eq!(renewed(last, 20_000), (Some(at(20_000)), Some(at(20_000))));
}

#[test]
fn a_key_that_outlasts_its_permits_is_cut_short() {
    let lowered = |view: View| match lower_expiry(&view) {
        Step::Done(Decision { change, .. }) => (change.expire_at, change.key.permit_end(), change.key),
        other => panic!("{other:?}"),
    };
    let key_ends = |ms| View { key_end: Expiry::At(at(ms)), ..permits(false, 2, None) };
    assert_eq!(lowered(key_ends(LAST)), (None, None, KeyChange::Keep));
    assert_eq!(lowered(key_ends(LAST + 9)), (Some(at(LAST)), None, KeyChange::Keep));
    let ended = View { others: Others::Dead, ..key_ends(LAST + 9) };
    assert_eq!(lowered(ended).0, None);
}

#[test]
fn a_permit_goes_alone_and_the_last_one_with_its_key() {
    let released = |view: View| match release(&view, &give(None, DownTo::OneLess, None), NOW) {
        Ok(Step::Done(Decision { reply, change })) => {
            (reply, change.key, change.expire_at, change.unlock_message)
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(released(permits(true, 2, None)), (Reply::Released, KeyChange::Remove, None, None));
    assert_eq!(released(permits(true, 0, None)), (Reply::Released, KeyChange::Delete, None, None));
    assert_eq!(released(permits(false, 2, None)), (Reply::NotHeld, KeyChange::Keep, None, None));
    let last = View { key_end: Expiry::At(at(20_000)), ..permits(true, 2, None) };
    assert_eq!(released(last), (Reply::Released, KeyChange::Remove, Some(at(LAST)), None));
    let ended = View { others: Others::Dead, ..permits(true, 2, None) };
    assert_eq!(released(ended).1, KeyChange::Delete, "no other holder is alive");
}

#[test]
fn a_grant_is_revoked_only_while_it_is_as_it_was_made() {
    let revoked = |ends| match revoke(&permits(true, 1, None), Mode::Permit, at(ends)) {
        Ok(Step::Done(decision)) => decision.reply,
        other => panic!("{other:?}"),
    };
    assert_eq!(revoked(OWN), Reply::Released);
    assert_eq!(revoked(OWN + 1), Reply::NotHeld, "it was renewed since");
}

#[test]
fn the_end_of_a_session_cuts_a_permit_short_and_never_lengthens_it() {
    let ended = |ends| match end_session(&permits(true, 1, None), Mode::Permit, None, at(ends)) {
        Ok(Step::Done(decision)) => decision.change.key.permit_end(),
        other => panic!("{other:?}"),
    };
    assert_eq!(ended(100), Some(at(100)));
    assert_eq!(ended(OWN), None);
    assert_eq!(ended(OWN + 1), None);
}

#[test]
fn kinds_are_not_taken_for_each_other() {
    let other = |view: View| acquire(&view, &wanted(2, 1), None, NOW, Admission::Open, false);
    assert_eq!(other(HELD_BY_OTHER), Err(Error::NoPermitsLock));
    assert_eq!(other(reading(1, 0)), Err(Error::NoPermitsLock));
    let plain =
        acquire(&permits(true, 1, None), &ask(Wanted::Mutex, 1, None), None, NOW, Admission::Open, false);
    assert_eq!(plain, Err(Error::PermitsLock));
    assert_eq!(renew(&permits(true, 1, None), &prolong(Some(Mode::Read), 1), NOW), Err(Error::PermitsLock));
}
