use super::*;
use crate::locks::DropReason;

/// The page that lists every error.
const PAGE: &str = include_str!("../../../docs/ERRORS.md");

#[expect(clippy::too_many_lines, reason = "a list of all errors")]
fn all() -> Vec<Error> {
    let keys = ["the key of the lock's fencing token", "the lease keys of the lock's readers"];
    let others = ["the keys of the lock's fair list", "the channel of ENQUEUE"];
    let forbidden = keys.into_iter().chain(others).map(Error::NoPermission);
    let reasons = [
        DropReason::Replaced,
        DropReason::Demoted,
        DropReason::Moved,
        DropReason::InDoubt,
        DropReason::Drained,
    ];
    let ended = reasons.into_iter().map(|reason| Error::Unblocked(reason.sentence()));
    let plain = [
        Error::BadName,
        Error::BadOwner,
        Error::BadLease,
        Error::BadHolds { least: 1 },
        Error::BadLimit { least: 1 },
        Error::BadCursor,
        Error::UnknownOption(b"SIDEWAYS".to_vec()),
        Error::FairMode,
        Error::FairListMigrating,
        Error::LeaseMigrating,
        Error::RepeatedOption("HOLDS"),
        Error::AllAndHolds,
        Error::LimitAndReset,
        Error::ReadAndWrite,
        Error::FencedRead,
        Error::MissingValue("HOLDS"),
        Error::BadWait("BLOCK"),
        Error::BadChannel,
        Error::ChannelNotServed,
        Error::BlockAndEnqueue,
        Error::QueueFull,
        Error::UserQueueFull,
        Error::UserHasTooManyTies,
        Error::TooManyTies,
        Error::TiedToAnother,
        Error::Untied,
        Error::NoSession,
        Error::BadGrace,
        Error::NotBlockable,
        Error::TooManyHolds,
        Error::NotAccepting,
        Error::CrossSlot,
        Error::WrongType,
        Error::NotALock,
        Error::ReadWriteLock,
        Error::Mutex,
        Error::NotPermits,
        Error::PermitsLock,
        Error::NoPermitsLock,
        Error::BadPermits,
        Error::PermitsWith,
        Error::Upgrade,
        Error::WhichMode,
        Error::TokenWrongType,
        Error::NotAToken,
        Error::NoTokenLeft,
        Error::TokenMigrating,
        Error::Internal("…"),
    ];
    plain.into_iter().chain(forbidden).chain(ended).collect()
}

#[test]
fn every_error_is_one_line_with_a_known_prefix() {
    let odd = [Error::Arity, Error::UnknownOption(b"\r\n\0\xff".to_vec()), Error::Internal("a test")];
    for error in all().into_iter().filter(|error| !matches!(error, Error::Internal(_))).chain(odd) {
        let line = error.to_string();
        let prefix = line.split(' ').next().unwrap_or_default();
        assert!(
            ["ERR", "WRONGTYPE", "WRONGLOCK", "QUEUEFULL", "UNBLOCKED", "NOPERM", "TRYAGAIN", "UNTIED"]
                .contains(&prefix),
            "{line}"
        );
        assert!(line.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{line:?}");
    }
}

#[test]
fn every_error_is_in_the_table_and_the_table_has_no_other() {
    let lines: Vec<String> = all().iter().map(|error| format!("| `{error}` |")).collect();
    for line in &lines {
        assert!(PAGE.contains(line.as_str()), "docs/ERRORS.md lacks {line}");
    }
    let rows = PAGE.lines().filter(|row| row.starts_with("| `")).count();
    // And one that the server words.
    assert_eq!(rows, lines.len() + 1);
}

#[test]
fn a_clients_own_bytes_are_cut_short() {
    let line = Error::UnknownOption(vec![b'x'; 10_000]).to_string();
    assert!(line.len() < 200, "{}", line.len());
}
