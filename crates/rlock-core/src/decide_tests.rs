//! The rules as tables. Time stands at `NOW`; a lock that is held ends 10,000 ms later.

use super::*;
use crate::types::{LeaseMs, Owner};

const NOW: UnixMs = UnixMs(1_000_000);
const LEFT: i64 = 10_000;
const ENDS: Expiry = Expiry::At(UnixMs(1_010_000));
const ANYBODY: Admission = Admission::Open;

fn holds(count: i64) -> Holds {
    Holds::new(count).expect("a count of holds")
}

fn mine(count: i64) -> LockState {
    LockState::Mine { holds: holds(count), expiry: ENDS }
}

fn owner() -> Owner<'static> {
    Owner::new(b"me").expect("an owner")
}

fn lease(ms: i64) -> LeaseMs {
    LeaseMs::new(ms).expect("a lease")
}

fn ask(lease_ms: i64, arrive_at: Option<i64>) -> Acquire<'static> {
    Acquire {
        owner: owner(),
        lease: lease(lease_ms),
        mode: Mode::Mutex,
        fair: false,
        arrive_at: arrive_at.map(holds),
        fenced: false,
        wait: None,
    }
}

fn give(down_to: DownTo, lease_ms: Option<i64>) -> Release<'static> {
    Release { owner: owner(), mode: None, down_to, lease: lease_ms.map(lease) }
}

fn acquired(count: i64, lease_ms: i64) -> Reply {
    Reply::Acquired { holds: holds(count), lease_ms, token: 0 }
}

fn at(ms_from_now: i64) -> Option<UnixMs> {
    Some(UnixMs(NOW.0 + ms_from_now))
}

/// reply, hash, expiry
type Outcome = (Reply, HashChange, Option<UnixMs>);

fn outcome(decision: Decision) -> Outcome {
    (decision.reply, decision.change.hash, decision.change.expire_at)
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn acquire_takes_what_is_free_re_enters_and_is_denied() {
    let denied: Outcome = (Reply::Denied, HashChange::Keep, None);
    let forever = LockState::Mine { holds: holds(1), expiry: Expiry::Never };
    let ended = LockState::Mine { holds: holds(1), expiry: Expiry::At(UnixMs(NOW.0 - 5)) };
    let cases: Vec<(&str, LockState, Acquire<'_>, Outcome)> = vec![
        ("free", LockState::Free, ask(50, None), (acquired(1, 50), HashChange::Set(holds(1)), at(50))),
        (
            "only mode is left",
            LockState::Abandoned,
            ask(50, None),
            (acquired(1, 50), HashChange::Replace(holds(1)), at(50)),
        ),
        ("held by another", LockState::Theirs, ask(50, None), denied),
        (
            "re-entry, longer",
            mine(1),
            ask(20_000, None),
            (acquired(2, 20_000), HashChange::Set(holds(2)), at(20_000)),
        ),
        (
            "re-entry never shortens",
            mine(1),
            ask(50, None),
            (acquired(2, LEFT), HashChange::Set(holds(2)), None),
        ),
        (
            "re-entry, same end",
            mine(1),
            ask(LEFT, None),
            (acquired(2, LEFT), HashChange::Set(holds(2)), None),
        ),
        ("no expiry, keeps none", forever, ask(50, None), (acquired(2, -1), HashChange::Set(holds(2)), None)),
        (
            "end passed, still there",
            ended,
            ask(50, None),
            (acquired(2, 50), HashChange::Set(holds(2)), at(50)),
        ),
    ];
    for (story, state, request, expected) in cases {
        assert_eq!(acquire(state, &request, None, NOW, ANYBODY).map(outcome), Ok(expected), "{story}");
    }
}

#[test]
fn holds_says_where_to_arrive() {
    let denied: Outcome = (Reply::Denied, HashChange::Keep, None);
    let cases: Vec<(&str, LockState, i64, Outcome)> = vec![
        ("0 to 1", LockState::Free, 1, (acquired(1, 50), HashChange::Set(holds(1)), at(50))),
        (
            "0 to 1 after mode only",
            LockState::Abandoned,
            1,
            (acquired(1, 50), HashChange::Replace(holds(1)), at(50)),
        ),
        ("the first hold is lost", LockState::Free, 2, denied),
        ("the first hold is lost, mode only", LockState::Abandoned, 2, denied),
        ("held by another", LockState::Theirs, 1, denied),
        ("n - 1 to n", mine(2), 3, (acquired(3, LEFT), HashChange::Set(holds(3)), None)),
        ("a repeat stays", mine(3), 3, (acquired(3, LEFT), HashChange::Keep, None)),
        ("more stay", mine(5), 3, (acquired(5, LEFT), HashChange::Keep, None)),
        ("less than n - 1: lost", mine(1), 3, denied),
        (
            "the largest",
            mine((1 << 53) - 1),
            1 << 53,
            (acquired(1 << 53, LEFT), HashChange::Set(holds(1 << 53)), None),
        ),
    ];
    for (story, state, wanted, expected) in cases {
        let decision = acquire(state, &ask(50, Some(wanted)), None, NOW, ANYBODY);
        assert_eq!(decision.map(outcome), Ok(expected), "{story}");
    }
}

#[test]
fn a_repeat_is_a_re_entry_for_the_lease() {
    let longer = acquire(mine(1), &ask(20_000, Some(1)), None, NOW, ANYBODY);
    assert_eq!(longer.map(outcome), Ok((acquired(1, 20_000), HashChange::Keep, at(20_000))));
    let shorter = acquire(mine(1), &ask(50, Some(1)), None, NOW, ANYBODY);
    assert_eq!(shorter.map(|d| d.change), Ok(Change::default()), "nothing changes");
}

#[test]
fn holds_cannot_be_counted_beyond_two_to_the_53() {
    let full = mine(1 << 53);
    assert_eq!(acquire(full, &ask(50, None), None, NOW, ANYBODY), Err(Error::TooManyHolds));
    assert!(acquire(full, &ask(50, Some(1 << 53)), None, NOW, ANYBODY).is_ok());
}

#[test]
fn while_nothing_is_accepted_holders_still_re_enter() {
    let closed = Admission::HoldersOnly;
    for state in [LockState::Free, LockState::Abandoned, LockState::Theirs] {
        assert_eq!(acquire(state, &ask(50, None), None, NOW, closed), Err(Error::NotAccepting));
    }
    assert_eq!(acquire(mine(1), &ask(50, None), None, NOW, closed).map(|d| d.reply), Ok(acquired(2, LEFT)));
}

#[test]
fn release_takes_holds_away() {
    let gone: Outcome = (Reply::Released, HashChange::Delete, None);
    let not_held: Outcome = (Reply::NotHeld, HashChange::Keep, None);
    let still = |hash, expire_at| (Reply::StillHeld, hash, expire_at);
    let cases: Vec<(&str, LockState, Release<'_>, Outcome)> = vec![
        ("the last", mine(1), give(DownTo::OneLess, None), gone),
        ("one of two", mine(2), give(DownTo::OneLess, None), still(HashChange::Set(holds(1)), None)),
        (
            "one of two, LEASE longer",
            mine(2),
            give(DownTo::OneLess, Some(20_000)),
            still(HashChange::Set(holds(1)), at(20_000)),
        ),
        (
            "one of two, LEASE shorter",
            mine(2),
            give(DownTo::OneLess, Some(5)),
            still(HashChange::Set(holds(1)), at(5)),
        ),
        (
            "one of two, LEASE the same",
            mine(2),
            give(DownTo::OneLess, Some(LEFT)),
            still(HashChange::Set(holds(1)), None),
        ),
        ("the last with LEASE", mine(1), give(DownTo::OneLess, Some(5)), gone),
        ("all", mine(7), give(DownTo::AtMost(0), None), gone),
        ("down to 2", mine(7), give(DownTo::AtMost(2), None), still(HashChange::Set(holds(2)), None)),
        ("already there", mine(2), give(DownTo::AtMost(2), None), still(HashChange::Keep, None)),
        ("already below", mine(1), give(DownTo::AtMost(2), None), still(HashChange::Keep, None)),
        ("already there, LEASE", mine(2), give(DownTo::AtMost(2), Some(5)), still(HashChange::Keep, at(5))),
        ("free", LockState::Free, give(DownTo::OneLess, None), not_held),
        ("only mode is left", LockState::Abandoned, give(DownTo::AtMost(0), None), not_held),
        ("another's", LockState::Theirs, give(DownTo::AtMost(0), Some(5)), not_held),
    ];
    for (story, state, request, expected) in cases {
        assert_eq!(outcome(release(state, &request, NOW)), expected, "{story}");
    }
}

#[test]
fn renew_counts_the_lease_from_now() {
    let forever = LockState::Mine { holds: holds(1), expiry: Expiry::Never };
    let cases = [
        ("longer", mine(1), 20_000, Reply::Renewed, at(20_000)),
        ("shorter", mine(1), 5, Reply::Renewed, at(5)),
        ("the same end", mine(1), LEFT, Reply::Renewed, None),
        ("had none", forever, 5, Reply::Renewed, at(5)),
        ("free", LockState::Free, 5, Reply::NotRenewed, None),
        ("only mode is left", LockState::Abandoned, 5, Reply::NotRenewed, None),
        ("another's", LockState::Theirs, 5, Reply::NotRenewed, None),
    ];
    for (story, state, ms, reply, expire_at) in cases {
        let decision = renew(state, &Renew { owner: owner(), lease: lease(ms), mode: None }, NOW);
        assert_eq!(outcome(decision), (reply, HashChange::Keep, expire_at), "{story}");
        assert_eq!(decision.change.event, None, "{story}");
    }
}

#[test]
fn force_release_removes_anybodys_or_only_the_given_owners() {
    let by_anybody = ForceRelease { owner: None };
    let only_mine = ForceRelease { owner: Some(owner()) };
    let cases = [
        (LockState::Theirs, by_anybody, Reply::Forced),
        (LockState::Theirs, only_mine, Reply::NothingToForce),
        (mine(3), only_mine, Reply::Forced),
        (LockState::Free, by_anybody, Reply::NothingToForce),
        (LockState::Free, only_mine, Reply::NothingToForce),
        (LockState::Abandoned, by_anybody, Reply::NothingToForce),
    ];
    for (state, request, reply) in cases {
        let decision = force_release(state, &request);
        assert_eq!(decision.reply, reply, "{state:?} {request:?}");
        let deleted = decision.change.hash == HashChange::Delete;
        assert_eq!(deleted, reply == Reply::Forced);
    }
}

#[test]
fn only_what_frees_the_lock_is_published() {
    let freeing = [
        release(mine(1), &give(DownTo::OneLess, None), NOW),
        release(mine(9), &give(DownTo::AtMost(0), None), NOW),
        force_release(LockState::Theirs, &ForceRelease { owner: None }),
    ];
    for decision in freeing {
        assert_eq!(decision.change.unlock_message, Some(UnlockMessage::Free));
        assert_eq!(decision.change.hash, HashChange::Delete);
    }
    let others = [
        acquire(LockState::Free, &ask(5, None), None, NOW, ANYBODY),
        acquire(LockState::Theirs, &ask(5, None), None, NOW, ANYBODY),
        acquire(mine(1), &ask(5, None), None, NOW, ANYBODY),
        Ok(release(mine(2), &give(DownTo::OneLess, None), NOW)),
        Ok(renew(mine(1), &Renew { owner: owner(), lease: lease(5), mode: None }, NOW)),
    ];
    for decision in others {
        assert_eq!(decision.map(|d| d.change.unlock_message), Ok(None));
    }
}

#[test]
fn events_tell_of_holds_taken_and_given_back() {
    let event = |decision: Decision| decision.change.event;
    let taken = acquire(LockState::Free, &ask(5, None), None, NOW, ANYBODY).map(event);
    let again = acquire(mine(1), &ask(5, None), None, NOW, ANYBODY).map(event);
    let repeat = acquire(mine(1), &ask(5, Some(1)), None, NOW, ANYBODY).map(event);
    assert_eq!(
        (taken, again, repeat),
        (Ok(Some(LockEvent::Acquire)), Ok(Some(LockEvent::Acquire)), Ok(None))
    );
    let one = event(release(mine(2), &give(DownTo::OneLess, None), NOW));
    let last = event(release(mine(1), &give(DownTo::OneLess, None), NOW));
    let none = event(release(mine(1), &give(DownTo::AtMost(1), Some(5)), NOW));
    assert_eq!((one, last, none), (Some(LockEvent::Release), Some(LockEvent::Release), None));
    let forced = event(force_release(LockState::Theirs, &ForceRelease { owner: None }));
    assert_eq!(forced, Some(LockEvent::ForceRelease));
}

#[test]
fn a_hand_off_takes_only_what_is_free_with_the_waiters_own_lease() {
    let ends = at(50);
    let event = Some(LockEvent::HandOff);
    let given = |hash| Some(Change { hash, expire_at: ends, event, ..Change::default() });
    let cases = [
        (LockState::Free, given(HashChange::Set(Holds::ONE))),
        (LockState::Abandoned, given(HashChange::Replace(Holds::ONE))),
        (LockState::Theirs, None),
        (mine(1), None),
    ];
    for (state, expected) in cases {
        assert_eq!(hand_off(state, lease(50), None, NOW), expected, "{state:?}");
    }
}

#[test]
fn a_hand_off_is_told_to_foreign_waiters_only_when_it_ends_sooner_than_they_were_told() {
    let ends = UnixMs(NOW.0 + 50);
    assert_eq!(
        message_on_hand_off(ENDS, ends, Mode::Mutex),
        Some(UnlockMessage::Free),
        "they would sleep too long"
    );
    assert_eq!(message_on_hand_off(Expiry::At(ends), ends, Mode::Mutex), None);
    assert_eq!(
        message_on_hand_off(Expiry::At(UnixMs(NOW.0 - 1)), ends, Mode::Mutex),
        None,
        "the old lease has ended"
    );
    assert_eq!(message_on_hand_off(Expiry::Never, ends, Mode::Mutex), Some(UnlockMessage::Free));
}

#[test]
fn every_acquisition_that_asks_for_a_token_is_told_it_and_stores_it() {
    let token = Token::after(Some(41), UnixMs(0)).ok();
    let told = |state, wanted, token| {
        let decision = acquire(state, &ask(50, wanted), token, NOW, ANYBODY).expect("a decision");
        let told = match decision.reply {
            Reply::Acquired { token, .. } => Some(token),
            _ => None,
        };
        (told, decision.change.token)
    };
    // The last one changes nothing else: the last token may have been another owner's.
    for (state, wanted) in
        [(LockState::Free, None), (LockState::Abandoned, None), (mine(2), None), (mine(2), Some(1))]
    {
        assert_eq!(told(state, wanted, token), (Some(42), token), "{state:?}");
        assert_eq!(told(state, wanted, None), (Some(0), None), "{state:?}");
    }
    assert_eq!(told(LockState::Theirs, None, token), (None, None), "a denied call uses no token");
    assert_eq!(told(mine(1), Some(3), token), (None, None), "a denied call uses no token");
    assert_eq!(hand_off(LockState::Free, lease(50), token, NOW).map(|change| change.token), Some(token));
}

#[test]
fn only_an_untouched_grant_is_taken_back() {
    let ends = UnixMs(1_010_000);
    assert_eq!(revoke(mine(1), ends).map(|change| change.hash), Some(HashChange::Delete));
    let touched = [
        mine(2),
        LockState::Mine { holds: holds(1), expiry: Expiry::Never },
        LockState::Mine { holds: holds(1), expiry: Expiry::At(UnixMs(1_010_001)) },
        LockState::Theirs,
        LockState::Free,
    ];
    for state in touched {
        assert_eq!(revoke(state, ends), None, "{state:?}");
    }
}
