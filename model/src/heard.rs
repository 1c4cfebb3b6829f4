//! The answers and messages that clients receive.

use rlock_core::{Error, Mode, Reply};
use rlock_sim::{Message, World};

use crate::ghost::{InLine, Party};
use crate::scene;

/// Whether a waiter was granted the lock in this step.
pub(crate) fn is_served(world: &World, waiting: &InLine) -> bool {
    let client = waiting.ticket.and_then(|ticket| world.clients.get(&ticket));
    let answered = client.and_then(|client| client.answer.as_ref()).is_some_and(is_grant);
    let told = |message: &Message| said(message) == ("granted", waiting.party);
    answered || waiting.channel.is_some() && world.messages.iter().any(told)
}

pub(crate) fn is_grant(answer: &Result<Reply, Error>) -> bool {
    matches!(answer, Ok(Reply::Acquired { .. }))
}

/// The token of a grant.
pub(crate) fn token(message: &Message) -> i64 {
    let word =
        message.text.split(|byte| *byte == b' ').nth(6).and_then(|word| std::str::from_utf8(word).ok());
    word.and_then(|word| word.parse().ok()).unwrap_or(-1)
}

/// The first word of a message, and its owner, lock and mode.
pub(crate) fn said(message: &Message) -> (&str, Party) {
    let mut words = message.text.split(|byte| *byte == b' ');
    let word = words.next().and_then(|word| std::str::from_utf8(word).ok()).unwrap_or_default();
    let mode = match &message.text[..] {
        text if text.ends_with(b" read") => Mode::Read,
        text if text.ends_with(b" write") => Mode::Write,
        text if text.ends_with(b" permit") => Mode::Permit,
        _ => Mode::Mutex,
    };
    let mut numbers = words.skip(1).map(scene::number);
    let (owner, lock) = (numbers.next().unwrap_or(u8::MAX), numbers.next().unwrap_or(u8::MAX));
    (word, Party { owner, lock, mode })
}
