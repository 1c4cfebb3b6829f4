//! The suite decides only if it fails wrong clients: each is one difference to the reference driver, and the scenario
//! named here catches it, by the rule named here.

use std::path::PathBuf;

use rlock_conformance::{Choice, Launch, Wrong, suite};

/// The scenario that catches each, and a part of what it says.
fn caught_by(wrong: Wrong) -> (&'static str, &'static str) {
    match wrong {
        Wrong::LeaseFromReply => ("a_lease_counts_from_sending", "deadline: g says"),
        Wrong::NoConfirmation => ("a_grant_that_comes_too_late", "exclusion: h and i"),
        Wrong::NoRepeat => ("a_grant_that_is_never_heard", "Timeout, not ok"),
        Wrong::OwnerReused => ("two_tasks_with_one_client", "ok, not Denied"),
        Wrong::LostFlipsBack => ("a_fixed_lease_ends", "ok, not LockLost"),
        Wrong::RenewsAfterRelease => ("two_processes_exclude", "RLOCK.RENEW after the release"),
        Wrong::NoHolds => ("two_processes_exclude", "rule HOLDS"),
        Wrong::Polls => ("a_wait_of_300_ms_ends_then", "rule polling"),
        Wrong::LinkLeftOpen => ("two_processes_exclude", "connections"),
        Wrong::LateLoss => ("down_beyond_the_lease", "its loss was reported"),
        Wrong::NoCancel => ("cancel_in_the_queue", "not 0"),
        Wrong::LateTimeout => ("a_wait_of_300_ms_ends_then", "answered after"),
        Wrong::NoSession => ("one_heartbeat_for_all", "deadline: g"),
        Wrong::LeaseFromMessage => ("a_grant_counts_from_the_first_request", "deadline: h says"),
        Wrong::LeaseFromRepeat => ("a_grant_counts_from_the_first_request", "deadline: h says"),
        Wrong::LocksAsNamed => ("several_locks_are_awaited_in_order", "not 0"),
        Wrong::NeverConfirms => ("a_grant_is_confirmed_soon", "h was never confirmed"),
        Wrong::HoldsAfterABreak => ("confirmed_first_after_a_break", "confirmation: h is held"),
        Wrong::HoldsForANamedOwner => ("confirmed_first_for_a_named_owner", "confirmation: h is held"),
        Wrong::HoldsAnOldToken => ("confirmed_first_with_a_token_after_a_repeat", "confirmation: h is held"),
        Wrong::HoldsTooLate => ("confirmed_first_after_half_of_the_lease", "confirmation: h is held"),
        Wrong::ReleasesEarly => ("nothing_renews_what_is_kept", "ok, not Denied"),
        Wrong::RenewsForEver => ("renewals_end_at_max_hold", "no event lost"),
        Wrong::RenewsWhatItLeft => ("adopted_by_the_same_client", "left: g was left in the server"),
        Wrong::AdoptsByAcquiring => ("nothing_to_adopt", "ok, not LockLost"),
    }
}

/// How many run at a time: they mostly wait.
const AT_A_TIME: usize = 5;

#[test]
fn every_wrong_client_is_caught() {
    let all: Vec<Wrong> = Wrong::all().collect();
    std::thread::scope(|scope| {
        for some in all.chunks(all.len().div_ceil(AT_A_TIME)) {
            scope.spawn(|| some.iter().for_each(|wrong| is_caught(*wrong)));
        }
    });
}

fn is_caught(wrong: Wrong) {
    let driver = env!("CARGO_BIN_EXE_rlock-conformance-driver");
    let (scenario, rule) = caught_by(wrong);
    let command = vec![driver.to_string(), "--wrong".to_string(), wrong.switch().to_string()];
    let launch = Launch { command, dir: PathBuf::from(env!("CARGO_MANIFEST_DIR")) };
    let report = suite("rust", launch, Choice { only: Some(scenario), long: false }).unwrap();
    let found = report.failed.iter().any(|(name, why)| name.contains(scenario) && why.contains(rule));
    assert!(found, "{wrong:?}: {scenario} did not fail by {rule:?}: {:?}", report.failed);
}

/// And the right one passes them.
#[test]
fn the_reference_passes_what_catches_them() {
    let driver = env!("CARGO_BIN_EXE_rlock-conformance-driver");
    let mut scenarios: Vec<&str> = Wrong::all().map(|wrong| caught_by(wrong).0).collect();
    scenarios.sort_unstable();
    scenarios.dedup();
    for scenario in scenarios {
        let launch =
            Launch { command: vec![driver.to_string()], dir: PathBuf::from(env!("CARGO_MANIFEST_DIR")) };
        let report = suite("rust", launch, Choice { only: Some(scenario), long: false }).unwrap();
        assert!(report.failed.is_empty() && !report.passed.is_empty(), "{scenario}: {:?}", report.failed);
    }
}
