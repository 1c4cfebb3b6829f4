//! A history by hand for each rule that violates it, and ones that look like it and are in order.

use super::*;

/// An owner that asked for the lock, got it and released it, at these milliseconds.
pub(super) fn holder(owner: &str, requested: u64, known: u64, released: u64) -> Attempt {
    Attempt {
        answered: ms(known),
        outcome: Outcome::Held,
        confirms: vec![Confirm { replied: ms(known), ..confirm(requested) }],
        released: Some(ms(released)),
        gone: ms(released + 1),
        ..Attempt::new("test", 0, owner.into(), Line::Native, ms(requested))
    }
}

pub(super) fn confirm(sent: u64) -> Confirm {
    Confirm { sent: ms(sent), replied: ms(sent + 1), lease: ms(10_000), on_replica: false }
}

/// A waiter whose wait ended without the lock, at these milliseconds.
pub(super) fn waiter(owner: &str, requested: u64, limit: u64, answered: u64) -> Attempt {
    Attempt {
        limit: Some(ms(limit)),
        outcome: Outcome::TimedOut,
        confirms: Vec::new(),
        released: None,
        gone: 0,
        ..holder(owner, requested, answered, 0)
    }
}

pub(super) fn event(begin: u64, end: u64, harm: Harm) -> Event {
    Event { what: "a fault".into(), begin: ms(begin), end: ms(end), key: None, harm }
}

pub(super) const LOSS: Harm = Harm { holds: true, tokens: true, places: true, ..Harm::STALLS };

pub(super) fn judged(attempts: Vec<Attempt>, events: Vec<Event>) -> Verdict {
    let keys = vec!["lock".into()];
    check(&History { keys, attempts, events, fair_turn: ms(500), ..History::default() })
}

#[track_caller]
pub(super) fn violates(rule: &str, attempts: Vec<Attempt>, events: Vec<Event>) {
    let found: Vec<_> = judged(attempts, events).violations.iter().map(|violation| violation.rule).collect();
    assert_eq!(found, [rule]);
}

#[track_caller]
pub(super) fn is_in_order(attempts: Vec<Attempt>, events: Vec<Event>) -> Verdict {
    let verdict = judged(attempts, events);
    assert_eq!(verdict.violations, []);
    verdict
}

pub(super) fn read(mut attempt: Attempt) -> Attempt {
    attempt.mode = Mode::Shared;
    attempt
}

pub(super) fn with_permit(permits: u32, attempt: Attempt) -> Attempt {
    Attempt { mode: Mode::Permit(permits), ..attempt }
}

#[test]
fn two_do_not_have_it_at_once() {
    violates("exclusion", vec![holder("a", 0, 1, 20), holder("b", 5, 19, 30)], vec![]);
    is_in_order(vec![holder("a", 0, 1, 20), holder("b", 5, 21, 30)], vec![]);
    violates("exclusion", vec![read(holder("a", 0, 1, 20)), holder("b", 5, 19, 30)], vec![]);
    is_in_order(vec![read(holder("a", 0, 1, 20)), read(holder("b", 5, 19, 30))], vec![]);
}

#[test]
fn a_third_within_the_first_hold_is_found_behind_a_short_second() {
    let readers = vec![read(holder("a", 0, 1, 90)), read(holder("b", 2, 3, 4)), holder("c", 50, 60, 70)];
    violates("exclusion", readers, vec![]);
}

#[test]
fn a_belief_ends_with_the_lease_by_the_clients_clock() {
    let mut first = holder("a", 0, 1, 20_000);
    let second = || holder("b", 9_000, 10_000, 10_100);
    is_in_order(vec![first.clone(), second()], vec![]);
    first.confirms.push(confirm(5_000));
    violates("exclusion", vec![first.clone(), second()], vec![]);
    // A renewal that came too late does not revive it.
    first.confirms[1].sent = ms(9_950);
    assert_eq!(first.end(), ms(10_000) - margin(ms(10_000)));
}

#[test]
fn the_amnesty_is_for_holds_that_the_fault_could_lose() {
    let holders = || vec![holder("a", 0, 1, 200), holder("b", 50, 100, 150)];
    assert_eq!(is_in_order(holders(), vec![event(90, 95, LOSS)]).excused["exclusion"], 1);
    // Neither a fault before the first had the lock, nor one after the second did, nor one that loses nothing.
    violates("exclusion", holders(), vec![event(0, 0, LOSS)]);
    violates("exclusion", holders(), vec![event(110, 120, LOSS)]);
    violates("exclusion", holders(), vec![event(90, 95, Harm::STALLS)]);
    // The second holder may have had it before the fault, if its answer was on its way.
    let late = |told| vec![holder("a", 96, 97, 400), holder("b", 50, told, 450)];
    is_in_order(late(250), vec![event(90, 95, LOSS)]);
    violates("exclusion", late(300), vec![event(90, 95, LOSS)]);
    // Nor one before the last reply that confirmed the hold.
    let mut renewed = holders();
    renewed[0].confirms.push(confirm(96));
    violates("exclusion", renewed, vec![event(90, 95, LOSS)]);
    // Nor one that happened to another lock.
    violates("exclusion", holders(), vec![Event { key: Some(1), ..event(90, 95, LOSS) }]);
}

#[test]
fn no_hold_is_lost_before_its_lease_ends() {
    let lost = |at| {
        let mut holder = holder("a", 0, 1, 20_000);
        (holder.released, holder.refuted) = (None, Some(ms(at)));
        vec![holder]
    };
    violates("loss", lost(500), vec![]);
    assert_eq!(is_in_order(lost(500), vec![event(90, 95, LOSS)]).excused["loss"], 1);
    is_in_order(lost(10_000), vec![]);
}

fn given(owner: &str, requested: u64, known: u64, released: u64, number: i64) -> Attempt {
    let token = Token { number, requested: ms(requested), known: ms(known), lease: ms(10_000) };
    Attempt { tokens: vec![token], ..holder(owner, requested, known, released) }
}

#[test]
fn tokens_grow() {
    let tokens = |first, second| vec![given("a", 0, 1, 5, first), given("b", 10, 11, 15, second)];
    is_in_order(tokens(7, 8), vec![]);
    violates("token", tokens(8, 7), vec![]);
    assert_eq!(is_in_order(tokens(8, 7), vec![event(5, 6, LOSS)]).excused["token"], 1);
    // A fault that loses holds but not tokens excuses nothing.
    violates("token", tokens(8, 7), vec![event(5, 6, Harm { holds: true, ..Harm::default() })]);
}

/// A waiter asks long before it is served: its token must be larger than that of the holder before it.
#[test]
fn tokens_grow_in_the_order_of_the_hand_offs() {
    let tokens = |first, second| vec![given("a", 1, 10, 20, first), given("b", 0, 21, 30, second)];
    is_in_order(tokens(7, 8), vec![]);
    violates("token", tokens(8, 7), vec![]);
    // If the later lease may have ended before its owner knew of it, the order is unknown.
    let mut unknown = tokens(8, 7);
    unknown[1].tokens[0].lease = ms(15);
    is_in_order(unknown, vec![]);
}

/// A lock was granted by message and lost to FLUSHALL at once; its client read the message only after another had got the next
/// token.
#[test]
fn a_grant_that_was_lost_before_its_message_was_read_has_an_older_token() {
    let late = || vec![given("a", 6, 12, 13, 8), given("b", 0, 15, 15, 7)];
    assert_eq!(is_in_order(late(), vec![event(2, 5, LOSS)]).excused["token"], 1);
    violates("token", late(), vec![]);
}

#[test]
fn no_token_is_given_twice_or_behind_the_clock() {
    // Nothing is known of their order.
    let twice = vec![given("a", 0, 100, 5, 7), given("b", 0, 100, 115, 7)];
    let found = judged(twice, vec![]).violations;
    assert!(found.iter().any(|violation| violation.text == "a and b both have 7"), "{found:?}");
    let history = |number, ahead_ms| History {
        keys: vec!["lock".into()],
        attempts: vec![given("a", 20_000, 20_001, 20_005, number)],
        steps: vec![Step { at: ms(10_000), ahead_ms }],
        epoch_ms: 1_000_000,
        ..History::default()
    };
    assert_eq!(check(&history(1_020_000, 0)).violations, []);
    assert_eq!(check(&history(1_000_000, 0)).violations.len(), 1);
    assert_eq!(check(&history(1_000_000, -30_000)).violations, []);
}

#[test]
fn no_waiter_sleeps_while_the_lock_is_free() {
    let slept = |freed| vec![holder("a", 0, 1, freed), waiter("b", 10, 2_000, 2_010)];
    violates("wake-up", slept(1_000), vec![]);
    is_in_order(slept(1_600), vec![]);
    // A waiter that got the lock late missed a wake-up, too.
    let late = Attempt { limit: Some(Us::MAX), ..holder("b", 10, 2_000, 2_010) };
    violates("wake-up", vec![holder("a", 0, 1, 1_000), late], vec![]);
    // One of two permits was free.
    let permits = |until| {
        let others = [holder("c", 0, 1, 2_500), holder("a", 0, 1, until), waiter("b", 10, 2_000, 2_010)];
        others.map(|one| with_permit(2, one)).to_vec()
    };
    violates("wake-up", permits(1_000), vec![]);
    is_in_order(permits(1_600), vec![]);
    // Another owner held it meanwhile, or no owner could get it.
    let others = [slept(1_000), vec![holder("c", 1_400, 1_401, 1_600)]].concat();
    is_in_order(others, vec![]);
    is_in_order(slept(1_000), vec![event(1_000, 1_500, Harm::STALLS)]);
    // One that died has it until the end of its lease, which a clock that is set back puts off.
    let dead = || {
        let dead = Attempt { released: None, gone: ms(1_000), dead: true, ..holder("a", 0, 1, 0) };
        vec![dead, waiter("b", 10, 2_000, 2_010)]
    };
    violates("wake-up", dead(), vec![]);
    is_in_order(dead(), vec![event(500, 500, Harm { prolongs: ms(1_000), ..Harm::default() })]);
}

#[test]
fn the_rust_client_sleeps_only_where_its_connection_may_have_broken() {
    let slept =
        || vec![holder("a", 0, 1, 300), Attempt { line: Line::Client, ..waiter("b", 10, 2_000, 2_010) }];
    violates("wake-up", slept(), vec![]);
    is_in_order(slept(), vec![event(310, 311, Harm { places: true, ..Harm::default() })]);
    let lag = |until| event(310, until, Harm { lags: true, ..Harm::STALLS });
    violates("wake-up", slept(), vec![lag(400)]);
    assert_eq!(is_in_order(slept(), vec![lag(1_311)]).excused["wake-up noticed late"], 1);
}

#[test]
fn a_reader_joins_others_unless_a_writer_waits() {
    let reads = || vec![read(holder("a", 0, 1, 2_000)), read(waiter("b", 10, 1_900, 1_910))];
    violates("wake-up", reads(), vec![]);
    let writer = waiter("w", 5, 1_900, 1_905);
    is_in_order([reads(), vec![writer]].concat(), vec![]);
}

#[test]
fn dead_waiters_in_redissons_list_have_their_turn() {
    let fair = |line, mut attempt: Attempt| {
        attempt.line = line;
        attempt
    };
    let dead =
        Attempt { dead: true, outcome: Outcome::Denied, ..fair(Line::ForeignFair, waiter("d", 0, 50, 60)) };
    let slept = fair(Line::NativeFair, waiter("b", 10, 1_000, 1_010));
    is_in_order(vec![dead, slept.clone()], vec![]);
    violates("wake-up", vec![slept], vec![]);
}

/// A lease ended while a Redisson waiter slept until a later end, and another waiter came behind it.
#[test]
fn a_sleeper_in_redissons_list_keeps_its_turn() {
    let dead = Attempt { released: None, gone: ms(700), dead: true, ..holder("a", 0, 1, 0) };
    let fair = |attempt: Attempt| Attempt { line: Line::ForeignFair, outcome: Outcome::Denied, ..attempt };
    let (sleeper, behind) = (fair(waiter("b", 60, 5_000, 3_000)), fair(waiter("c", 1_000, 5_000, 3_010)));
    is_in_order(vec![dead.clone(), sleeper, behind.clone()], vec![]);
    violates("wake-up", vec![dead, behind], vec![]);
}

#[test]
fn no_owner_overtakes_a_waiter_in_the_queue() {
    let first = || {
        let mut first = holder("a", 0, 31, 40);
        first.queued = Some(ms(2));
        first.confirms[0].sent = ms(30);
        first
    };
    let second = |requested| holder("b", requested, 20, 25);
    violates("order", vec![first(), second(10)], vec![]);
    // It may have come first.
    is_in_order(vec![first(), second(1)], vec![]);
    // The queue was lost, or the other owner is a Redisson client.
    is_in_order(vec![first(), second(10)], vec![event(4, 5, LOSS)]);
    is_in_order(vec![first(), Attempt { line: Line::Foreign, ..second(10) }], vec![]);
    // Of two permits one becomes free after the other: the later waiter has one just before the first, or long before.
    let permit = |told: u64| {
        let mut first = with_permit(2, Attempt { answered: ms(400), ..first() });
        (first.confirms[0].sent, first.confirms[0].replied, first.released) =
            (ms(401), ms(402), Some(ms(500)));
        vec![first, with_permit(2, holder("b", 10, told, told + 1))]
    };
    violates("order", permit(100), vec![]);
    is_in_order(permit(250), vec![]);
    is_in_order(permit(100), vec![event(300, 301, Harm::STALLS)]);
    // Readers go together, but not past a writer.
    is_in_order(vec![read(first()), read(second(10))], vec![]);
    violates("order", vec![first(), read(second(10))], vec![]);
}

/// A fail-over may forget a release: the lock is free at the end of its lease.
#[test]
fn a_release_that_was_forgotten_leaves_the_lock_to_its_lease() {
    let slept = || vec![holder("a", 0, 1, 1_000), waiter("b", 10, 2_000, 2_010)];
    violates("wake-up", slept(), vec![event(1_050, 1_060, Harm { holds: true, ..Harm::default() })]);
    is_in_order(
        slept(),
        vec![event(1_050, 1_060, Harm { holds: true, forgets: ms(100), ..Harm::default() })],
    );
}

#[test]
fn nothing_is_granted_while_writes_are_paused() {
    let pause = || vec![event(100, 600, Harm { pauses: true, ..Harm::STALLS })];
    violates("pause", vec![holder("a", 50, 400, 700)], pause());
    is_in_order(vec![holder("a", 50, 110, 700)], pause());
    is_in_order(vec![holder("a", 50, 601, 700)], pause());
    // The answer may have been on its way for long.
    let lag = event(80, 120, Harm { lags: true, ..Harm::default() });
    is_in_order(vec![holder("a", 50, 400, 700)], [pause(), vec![lag]].concat());
}

#[test]
fn a_token_reveals_a_holder_past_its_lease() {
    let mut sleeper = given("a", 0, 1, 12_000, 7);
    sleeper.dead = true;
    let late = |number| judged(vec![sleeper.clone(), given("b", 5, 10_500, 11_000, number)], vec![]).late;
    assert_eq!(late(8), Late { overslept: 1, overtaken: 1, fenced: 1, refused: 1 });
    assert_eq!(late(6).refused, 0);
    let alone = judged(vec![sleeper.clone()], vec![]).late;
    assert_eq!(alone, Late { overslept: 1, ..Late::default() });
}
