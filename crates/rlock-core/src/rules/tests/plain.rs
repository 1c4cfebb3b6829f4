//! Plain locks.

use super::*;

fn ask(lease_ms: i64, arrive_at: Option<i64>) -> Acquire<'static> {
    super::ask(Wanted::Mutex, lease_ms, arrive_at)
}

fn give(down_to: DownTo, lease_ms: Option<i64>) -> Release<'static> {
    super::give(None, down_to, lease_ms)
}

fn at(ms_from_now: i64) -> Option<UnixMs> {
    Some(super::at(ms_from_now))
}

fn take(
    view: View,
    request: &Acquire<'_>,
    token: Option<Token>,
    admission: Admission,
) -> Result<Decision, Error> {
    acquire(&view, request, token, NOW, admission, false).map(done)
}

fn let_go(view: View, request: &Release<'_>) -> Decision {
    super::let_go(view, request, Others::None)
}

/// reply, hash, expiry
type Outcome = (Reply, KeyChange, Option<UnixMs>);

fn outcome(decision: Decision) -> Outcome {
    (decision.reply, decision.change.key, decision.change.expire_at)
}

#[test]
fn acquire_takes_what_is_free_re_enters_and_is_denied() {
    let denied: Outcome = (Reply::Denied, KeyChange::Keep, None);
    let forever = held_until(1, Expiry::Never);
    let ended = held_until(1, Expiry::At(UnixMs(NOW.0 - 5)));
    let cases: Vec<(&str, View, Acquire<'_>, Outcome)> = vec![
        ("free", FREE, ask(50, None), (acquired(1, 50), KeyChange::Set(holds(1)), at(50))),
        (
            "only mode is left",
            ABANDONED,
            ask(50, None),
            (acquired(1, 50), KeyChange::Replace(holds(1)), at(50)),
        ),
        ("held by another", HELD_BY_OTHER, ask(50, None), denied),
        (
            "re-entry, longer",
            own(1),
            ask(20_000, None),
            (acquired(2, 20_000), KeyChange::Set(holds(2)), at(20_000)),
        ),
        (
            "re-entry never shortens",
            own(1),
            ask(50, None),
            (acquired(2, LEFT), KeyChange::Set(holds(2)), None),
        ),
        ("re-entry, same end", own(1), ask(LEFT, None), (acquired(2, LEFT), KeyChange::Set(holds(2)), None)),
        ("no expiry, keeps none", forever, ask(50, None), (acquired(2, -1), KeyChange::Set(holds(2)), None)),
        (
            "end passed, still there",
            ended,
            ask(50, None),
            (acquired(2, 50), KeyChange::Set(holds(2)), at(50)),
        ),
    ];
    for (story, state, request, expected) in cases {
        assert_eq!(take(state, &request, None, ANYBODY).map(outcome), Ok(expected), "{story}");
    }
}

#[test]
fn holds_says_where_to_arrive() {
    let denied: Outcome = (Reply::Denied, KeyChange::Keep, None);
    let cases: Vec<(&str, View, i64, Outcome)> = vec![
        ("0 to 1", FREE, 1, (acquired(1, 50), KeyChange::Set(holds(1)), at(50))),
        ("0 to 1 after mode only", ABANDONED, 1, (acquired(1, 50), KeyChange::Replace(holds(1)), at(50))),
        ("the first hold is lost", FREE, 2, denied),
        ("the first hold is lost, mode only", ABANDONED, 2, denied),
        ("held by another", HELD_BY_OTHER, 1, denied),
        ("n - 1 to n", own(2), 3, (acquired(3, LEFT), KeyChange::Set(holds(3)), None)),
        ("a repeat stays", own(3), 3, (acquired(3, LEFT), KeyChange::Keep, None)),
        ("more stay", own(5), 3, (acquired(5, LEFT), KeyChange::Keep, None)),
        ("less than n - 1: lost", own(1), 3, denied),
        (
            "the largest",
            own((1 << 53) - 1),
            1 << 53,
            (acquired(1 << 53, LEFT), KeyChange::Set(holds(1 << 53)), None),
        ),
    ];
    for (story, state, wanted, expected) in cases {
        let decision = take(state, &ask(50, Some(wanted)), None, ANYBODY);
        assert_eq!(decision.map(outcome), Ok(expected), "{story}");
    }
}

#[test]
fn a_repeat_is_a_re_entry_for_the_lease() {
    let longer = take(own(1), &ask(20_000, Some(1)), None, ANYBODY);
    assert_eq!(longer.map(outcome), Ok((acquired(1, 20_000), KeyChange::Keep, at(20_000))));
    let shorter = take(own(1), &ask(50, Some(1)), None, ANYBODY);
    assert_eq!(shorter.map(|d| d.change), Ok(Change::default()), "nothing changes");
}

#[test]
fn holds_cannot_be_counted_beyond_two_to_the_53() {
    let full = own(1 << 53);
    assert_eq!(take(full, &ask(50, None), None, ANYBODY), Err(Error::TooManyHolds));
    assert!(take(full, &ask(50, Some(1 << 53)), None, ANYBODY).is_ok());
}

#[test]
fn while_nothing_is_accepted_holders_still_re_enter() {
    let closed = Admission::HoldersOnly;
    for state in [FREE, ABANDONED, HELD_BY_OTHER] {
        assert_eq!(take(state, &ask(50, None), None, closed), Err(Error::NotAccepting));
    }
    assert_eq!(take(own(1), &ask(50, None), None, closed).map(|d| d.reply), Ok(acquired(2, LEFT)));
}

#[test]
fn release_takes_holds_away() {
    let gone: Outcome = (Reply::Released, KeyChange::Delete, None);
    let not_held: Outcome = (Reply::NotHeld, KeyChange::Keep, None);
    let still = |key, expire_at| (Reply::StillHeld, key, expire_at);
    let cases: Vec<(&str, View, Release<'_>, Outcome)> = vec![
        ("the last", own(1), give(DownTo::OneLess, None), gone),
        ("one of two", own(2), give(DownTo::OneLess, None), still(KeyChange::Set(holds(1)), None)),
        (
            "one of two, LEASE longer",
            own(2),
            give(DownTo::OneLess, Some(20_000)),
            still(KeyChange::Set(holds(1)), at(20_000)),
        ),
        (
            "one of two, LEASE shorter",
            own(2),
            give(DownTo::OneLess, Some(5)),
            still(KeyChange::Set(holds(1)), at(5)),
        ),
        (
            "one of two, LEASE the same",
            own(2),
            give(DownTo::OneLess, Some(LEFT)),
            still(KeyChange::Set(holds(1)), None),
        ),
        ("the last with LEASE", own(1), give(DownTo::OneLess, Some(5)), gone),
        ("all", own(7), give(DownTo::AtMost(0), None), gone),
        ("down to 2", own(7), give(DownTo::AtMost(2), None), still(KeyChange::Set(holds(2)), None)),
        ("already there", own(2), give(DownTo::AtMost(2), None), still(KeyChange::Keep, None)),
        ("already below", own(1), give(DownTo::AtMost(2), None), still(KeyChange::Keep, None)),
        ("already there, LEASE", own(2), give(DownTo::AtMost(2), Some(5)), still(KeyChange::Keep, at(5))),
        ("free", FREE, give(DownTo::OneLess, None), not_held),
        ("only mode is left", ABANDONED, give(DownTo::AtMost(0), None), not_held),
        ("another's", HELD_BY_OTHER, give(DownTo::AtMost(0), Some(5)), not_held),
    ];
    for (story, state, request, expected) in cases {
        assert_eq!(outcome(let_go(state, &request)), expected, "{story}");
    }
}

#[test]
fn renew_counts_the_lease_from_now() {
    let forever = held_until(1, Expiry::Never);
    let cases = [
        ("longer", own(1), 20_000, Reply::Renewed, at(20_000)),
        ("shorter", own(1), 5, Reply::Renewed, at(5)),
        ("the same end", own(1), LEFT, Reply::Renewed, None),
        ("had none", forever, 5, Reply::Renewed, at(5)),
        ("free", FREE, 5, Reply::NotRenewed, None),
        ("only mode is left", ABANDONED, 5, Reply::NotRenewed, None),
        ("another's", HELD_BY_OTHER, 5, Reply::NotRenewed, None),
    ];
    for (story, state, ms, reply, expire_at) in cases {
        let decision = renew(&state, &prolong(None, ms), NOW).map(done).expect("a decision");
        assert_eq!(decision.change.event, None, "{story}");
        assert_eq!(outcome(decision), (reply, KeyChange::Keep, expire_at), "{story}");
    }
}

#[test]
fn force_release_removes_anybodys_or_only_the_given_owners() {
    let (by_anybody, only_own) = (false, true);
    let cases = [
        (HELD_BY_OTHER, by_anybody, Reply::Forced),
        (HELD_BY_OTHER, only_own, Reply::NothingToForce),
        (own(3), only_own, Reply::Forced),
        (FREE, by_anybody, Reply::NothingToForce),
        (FREE, only_own, Reply::NothingToForce),
        (ABANDONED, by_anybody, Reply::NothingToForce),
    ];
    for (state, of_owner, reply) in cases {
        let decision = done(force_release(&state, of_owner));
        assert_eq!(decision.reply, reply, "{state:?} {of_owner}");
        let deleted = decision.change.key == KeyChange::Delete;
        assert_eq!(deleted, reply == Reply::Forced);
    }
}

#[test]
fn only_what_frees_the_lock_is_published() {
    let freeing = [
        let_go(own(1), &give(DownTo::OneLess, None)),
        let_go(own(9), &give(DownTo::AtMost(0), None)),
        done(force_release(&HELD_BY_OTHER, false)),
    ];
    for decision in freeing {
        assert_eq!(decision.change.unlock_message, Some(UnlockMessage::Free));
        assert_eq!(decision.change.key, KeyChange::Delete);
    }
    let others = [
        take(FREE, &ask(5, None), None, ANYBODY),
        take(HELD_BY_OTHER, &ask(5, None), None, ANYBODY),
        take(own(1), &ask(5, None), None, ANYBODY),
        Ok(let_go(own(2), &give(DownTo::OneLess, None))),
        renew(&own(1), &prolong(None, 5), NOW).map(done),
    ];
    for decision in others {
        assert_eq!(decision.map(|d| d.change.unlock_message), Ok(None));
    }
}

#[test]
fn holds_raise_events_when_acquired_and_released() {
    let event = |decision: Decision| decision.change.event;
    let taken = take(FREE, &ask(5, None), None, ANYBODY).map(event);
    let again = take(own(1), &ask(5, None), None, ANYBODY).map(event);
    let repeat = take(own(1), &ask(5, Some(1)), None, ANYBODY).map(event);
    assert_eq!(
        (taken, again, repeat),
        (Ok(Some(LockEvent::Acquire)), Ok(Some(LockEvent::Acquire)), Ok(None))
    );
    let one = event(let_go(own(2), &give(DownTo::OneLess, None)));
    let last = event(let_go(own(1), &give(DownTo::OneLess, None)));
    let none = event(let_go(own(1), &give(DownTo::AtMost(1), Some(5))));
    assert_eq!((one, last, none), (Some(LockEvent::Release), Some(LockEvent::Release), None));
    let forced = event(done(force_release(&HELD_BY_OTHER, false)));
    assert_eq!(forced, Some(LockEvent::ForceRelease));
}

/// The change of a hand-off, if the waiter can have the lock.
fn given(view: View, token: Option<Token>) -> Option<Change> {
    let decision = hand_off(&view, Wanted::Mutex, lease(50), token, NOW).map(done).expect("a decision");
    (decision.reply != Reply::Denied).then_some(decision.change)
}

#[test]
fn a_hand_off_takes_only_what_is_free_with_the_waiters_own_lease() {
    let ends = at(50);
    let event = Some(LockEvent::HandOff);
    let change = |key| Some(Change { key, expire_at: ends, event, ..Change::default() });
    let cases = [
        (FREE, change(KeyChange::Set(Holds::ONE))),
        (ABANDONED, change(KeyChange::Replace(Holds::ONE))),
        (HELD_BY_OTHER, None),
        (own(1), None),
    ];
    for (state, expected) in cases {
        assert_eq!(given(state, None), expected, "{state:?}");
    }
}

#[test]
fn a_hand_off_is_announced_to_redisson_waiters_only_if_it_ends_sooner_than_they_know() {
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
fn every_acquisition_that_asks_for_a_token_gets_it_and_stores_it() {
    let token = Token::after(Some(41), UnixMs(0)).ok();
    let token_of = |state, wanted, token| {
        let decision = take(state, &ask(50, wanted), token, ANYBODY).expect("a decision");
        let answered = match decision.reply {
            Reply::Acquired { token, .. } => Some(token),
            _ => None,
        };
        (answered, decision.change.token)
    };
    // The last one changes nothing else: the last token may have been another owner's.
    for (state, wanted) in [(FREE, None), (ABANDONED, None), (own(2), None), (own(2), Some(1))] {
        assert_eq!(token_of(state, wanted, token), (Some(42), token), "{state:?}");
        assert_eq!(token_of(state, wanted, None), (Some(0), None), "{state:?}");
    }
    assert_eq!(token_of(HELD_BY_OTHER, None, token), (None, None), "a denied call uses no token");
    assert_eq!(token_of(own(1), Some(3), token), (None, None), "a denied call uses no token");
    assert_eq!(given(FREE, token).map(|change| change.token), Some(token));
}

#[test]
fn only_an_untouched_grant_is_revoked() {
    let ends = UnixMs(1_010_000);
    let back = |view| revoke(&view, Mode::Mutex, ends).map(done).expect("a decision");
    assert_eq!(outcome(back(own(1))), (Reply::Released, KeyChange::Delete, None));
    let touched = [
        own(2),
        held_until(1, Expiry::Never),
        held_until(1, Expiry::At(UnixMs(1_010_001))),
        HELD_BY_OTHER,
        FREE,
    ];
    for state in touched {
        assert_eq!(back(state), done(nothing(Reply::NotHeld)), "{state:?}");
    }
}

#[test]
fn a_release_without_a_lease_does_not_ask_when_the_lock_ends() {
    for (held, down_to) in
        [(1, DownTo::OneLess), (3, DownTo::OneLess), (3, DownTo::AtMost(0)), (3, DownTo::AtMost(7))]
    {
        let unknown = let_go(held_until(held, Expiry::Never), &give(down_to, None));
        assert_eq!(unknown, let_go(own(held), &give(down_to, None)), "{held}, {down_to:?}");
    }
}
