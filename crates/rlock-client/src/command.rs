//! The module's commands and their replies.

use std::time::Duration;

use redis::{Cmd, Value};
use rlock_links::{Failed, NoAnswer, Refusal};

use crate::error::{Error, name};
use crate::message::{Claim, Mode};

/// The longest time that the server accepts, 2^43 ms.
pub(crate) const LONGEST: Duration = Duration::from_millis(1 << 43);

/// How to ask for a first hold.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ask<'a> {
    /// Ask once, without a place in the queue.
    Now,
    /// Wait in the server's queue, for this number of ms or, if 0, without a limit; the outcome arrives on this channel.
    Enqueue(i64, &'a [u8]),
}

/// What an acquisition wants besides the lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extras {
    /// A fencing token.
    pub(crate) fenced: bool,
    /// Wait in the order of the fair list.
    pub(crate) fair: bool,
    /// The number of permits of a semaphore, of which one is wanted.
    pub(crate) permits: Option<u32>,
    /// A tie to the connection, with this grace.
    pub(crate) session: Option<Duration>,
}

/// `RLOCK.ACQUIRE … HOLDS holds`, safe to repeat.
pub(crate) fn acquire(claim: &Claim, lease: Duration, holds: u64, extras: Extras, ask: Ask<'_>) -> Cmd {
    let mut command = of_claim("RLOCK.ACQUIRE", claim);
    command.arg(milliseconds(lease)).arg("HOLDS").arg(holds);
    add_mode(&mut command, claim.mode);
    if let Some(permits) = extras.permits {
        command.arg("PERMITS").arg(permits);
    }
    if extras.fair {
        command.arg("FAIR");
    }
    if extras.fenced {
        command.arg("FENCED");
    }
    add_session(&mut command, extras.session);
    if let Ask::Enqueue(wait, channel) = ask {
        command.arg("ENQUEUE").arg(wait).arg(channel);
    }
    command
}

/// `RLOCK.RELEASE … HOLDS holds`, safe to repeat.
pub(crate) fn release(claim: &Claim, holds: u64) -> Cmd {
    let mut command = of_claim("RLOCK.RELEASE", claim);
    command.arg("HOLDS").arg(holds);
    add_mode(&mut command, claim.mode);
    command
}

/// `RLOCK.RENEW`, which ties the hold to the connection where it has a session, and unties it where it has none.
pub(crate) fn renew(claim: &Claim, lease: Duration, session: Option<Duration>) -> Cmd {
    let mut command = of_claim("RLOCK.RENEW", claim);
    command.arg(milliseconds(lease));
    add_mode(&mut command, claim.mode);
    add_session(&mut command, session);
    command
}

fn of_claim(word: &str, claim: &Claim) -> Cmd {
    about(word, &claim.key, Some(&claim.owner))
}

fn add_mode(command: &mut Cmd, mode: Mode) {
    if let Some(word) = mode.word() {
        command.arg(word);
    }
}

fn add_session(command: &mut Cmd, session: Option<Duration>) {
    if let Some(grace) = session {
        command.arg("SESSION").arg(milliseconds(grace));
    }
}

/// A command about one key, with or without an owner.
pub(crate) fn about(word: &str, key: &[u8], owner: Option<&[u8]>) -> Cmd {
    let mut command = with_room(word, key, owner.unwrap_or_default());
    command.arg(key);
    if let Some(owner) = owner {
        command.arg(owner);
    }
    command
}

/// A command with room for all its words: to grow it word by word would cost more than the rest of making it.
fn with_room(word: &str, key: &[u8], owner: &[u8]) -> Cmd {
    const WORDS: usize = 12;
    const OTHERS: usize = 128;
    let names = key.len().saturating_add(owner.len());
    let mut command = Cmd::with_capacity(WORDS, names.saturating_add(OTHERS));
    command.arg(word);
    command
}

/// A duration in whole milliseconds, at least 1 and at most what the server accepts.
pub(crate) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.min(LONGEST).as_millis()).unwrap_or(u64::MAX).max(1)
}

/// Refuses a lease that leaves no time for renewals, or that the server does not accept.
pub(crate) fn check_lease(lease: Duration) -> Result<(), Error> {
    const SHORTEST: Duration = Duration::from_millis(100);
    if lease < SHORTEST {
        let message = format!(
            "a lease of {lease:?} leaves no time for a renewal, which takes a round trip; use {SHORTEST:?} or more"
        );
        return Err(Error::invalid(message));
    }
    if lease > LONGEST {
        return Err(Error::invalid(format!("a lease lasts at most {LONGEST:?}, not {lease:?}")));
    }
    Ok(())
}

/// Refuses a grace with which heartbeats cannot keep a session alive, or that the server does not accept.
pub(crate) fn check_grace(grace: Duration) -> Result<(), Error> {
    const SHORTEST: Duration = Duration::from_millis(100);
    if grace < SHORTEST || grace > LONGEST {
        let message = format!("a session's grace lasts from {SHORTEST:?} to {LONGEST:?}, not {grace:?}");
        return Err(Error::invalid(message));
    }
    Ok(())
}

/// Refuses a number of permits that the server does not accept.
pub(crate) fn check_permits(permits: u32) -> Result<(), Error> {
    const MOST: u32 = (1 << 31) - 1;
    if (1..=MOST).contains(&permits) {
        return Ok(());
    }
    Err(Error::invalid(format!("a semaphore has from 1 to {MOST} permits, not {permits}")))
}

/// What the server said to an ACQUIRE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acquired {
    /// The owner holds the lock, with this fencing token; 0 where none was asked for.
    Held(u64),
    /// The owner waits in the queue.
    Queued,
    /// Another owner holds the lock, or the holds that the client counted on are lost.
    Denied,
}

/// Whether the server is drained, as before a planned fail-over. A caller with time left waits until draining ends.
pub(crate) fn is_draining(refusal: &Refusal) -> bool {
    refusal.code == "ERR" && refusal.details.contains("rlock.accept is no")
}

/// Whether the server refused because the slot of the channel has left it, in a cluster.
pub(crate) fn is_of_channel(refusal: &Refusal) -> bool {
    refusal.code == "ERR" && refusal.details.contains("does not serve the channel's slot")
}

/// The error of a command about `key` that was refused.
pub(crate) fn refused(key: &[u8], refusal: &Refusal) -> Error {
    let (lock, message) = (name(key), refusal.message());
    match refusal.code.as_str() {
        "QUEUEFULL" => Error::QueueFull { lock, message },
        "WRONGTYPE" | "WRONGLOCK" => Error::NotALock { lock, message },
        "MOVED" | "ASK" => Error::Refused {
            message: format!("{message} (this server is one of a cluster: connect with redis+cluster://)"),
        },
        _ => rlock_links::Error::from(refusal).into(),
    }
}

/// The error of a request about `key` that has no reply.
pub(crate) fn failed(key: &[u8], failed: Failed) -> Error {
    match failed {
        Failed::Refused(refusal) => refused(key, &refusal),
        Failed::NoAnswer(NoAnswer::Unsent(error) | NoAnswer::Unanswered(error)) => error.into(),
    }
}

/// The error of a request that changes something and has no reply: it may have worked.
pub(crate) fn unless_known(key: &[u8], outcome: Failed) -> Error {
    match outcome {
        Failed::NoAnswer(NoAnswer::Unanswered(error)) => Error::unknown(key, error.into()),
        outcome => failed(key, outcome),
    }
}

/// Reads the reply of ACQUIRE: an array that may grow, or null.
pub(crate) fn acquired(value: &Value) -> Result<Acquired, Error> {
    match value {
        Value::Nil => Ok(Acquired::Denied),
        Value::Array(items) => match items.first() {
            Some(Value::Int(0)) => Ok(Acquired::Queued),
            Some(Value::Int(_)) => Ok(Acquired::Held(match items.get(2) {
                Some(Value::Int(token)) => u64::try_from(*token).unwrap_or(0),
                _ => 0,
            })),
            _ => Err(unexpected("RLOCK.ACQUIRE", value)),
        },
        _ => Err(unexpected("RLOCK.ACQUIRE", value)),
    }
}

/// Reads an integer or null.
pub(crate) fn integer(command: &str, value: &Value) -> Result<Option<i64>, Error> {
    match value {
        Value::Nil => Ok(None),
        Value::Int(number) => Ok(Some(*number)),
        _ => Err(unexpected(command, value)),
    }
}

pub(crate) fn unexpected(command: &str, value: &Value) -> Error {
    let message =
        format!("{command} was answered with {value:?}; update the server's module, or this client");
    Error::Unsupported { message }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(command: &Cmd) -> Vec<u8> {
        command.get_packed_command()
    }

    #[test]
    fn commands_carry_holds() {
        let second = Duration::from_secs(1);
        let text = |command: &Cmd| String::from_utf8(words(command)).unwrap().replace("\r\n", " ");
        let claim = |mode| Claim { key: b"k".to_vec(), owner: b"o".to_vec(), mode };
        let (plain, none) = (claim(Mode::Plain), Extras::default());
        let command = acquire(&plain, second, 1, none, Ask::Enqueue(2, b"c"));
        assert!(text(&command).ends_with("$5 HOLDS $1 1 $7 ENQUEUE $1 2 $1 c "), "{}", text(&command));
        let both = Extras { fenced: true, fair: true, permits: None, session: Some(second) };
        let command = acquire(&plain, second, 2, both, Ask::Enqueue(0, b"c"));
        assert!(
            text(&command).ends_with(
                "$4 1000 $5 HOLDS $1 2 $4 FAIR $6 FENCED $7 SESSION $4 1000 $7 ENQUEUE $1 0 $1 c "
            )
        );
        let command = acquire(&claim(Mode::Read), second, 1, none, Ask::Now);
        assert!(text(&command).ends_with("$4 1000 $5 HOLDS $1 1 $4 READ "));
        assert!(text(&release(&plain, 0)).ends_with("$13 RLOCK.RELEASE $1 k $1 o $5 HOLDS $1 0 "));
        assert!(text(&release(&claim(Mode::Write), 0)).ends_with("$5 HOLDS $1 0 $5 WRITE "));
        assert!(text(&renew(&claim(Mode::Write), second, None)).ends_with("$1 o $4 1000 $5 WRITE "));
        let tied = renew(&claim(Mode::Write), second, Some(second));
        assert!(text(&tied).ends_with("$1 o $4 1000 $5 WRITE $7 SESSION $4 1000 "));
    }

    #[test]
    fn replies_may_grow() {
        let array = |numbers: &[i64]| Value::Array(numbers.iter().copied().map(Value::Int).collect());
        assert_eq!(acquired(&array(&[1, 30_000, 0, 7])), Ok(Acquired::Held(0)));
        assert_eq!(acquired(&array(&[1, 30_000, 7])), Ok(Acquired::Held(7)));
        assert_eq!(acquired(&array(&[0, 0, 0])), Ok(Acquired::Queued));
        assert_eq!(acquired(&Value::Nil), Ok(Acquired::Denied));
        assert!(acquired(&array(&[])).is_err());
        assert!(acquired(&Value::Okay).is_err());
    }
}
