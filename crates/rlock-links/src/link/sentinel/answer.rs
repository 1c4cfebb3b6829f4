//! The question to a Sentinel, and the choice among their answers.

use redis::{Cmd, Value, cmd};

use super::super::role::{field, text};
use super::super::transport::Connection;
use super::in_url;
use crate::error::Error;
use crate::refusal::{Refusal, answer};

/// What a Sentinel reports about a primary.
#[derive(Debug)]
pub(super) struct Answer {
    /// The Sentinel that answered.
    pub(super) sentinel: String,
    /// The configuration epoch; 0 where the user may not ask for it.
    pub(super) epoch: u64,
    /// `host:port` of the primary.
    pub(super) address: String,
    /// The other Sentinels, `host:port`.
    pub(super) others: Vec<String>,
}

impl Answer {
    /// Why this answer does not count.
    pub(super) fn outdated(&self) -> String {
        format!(
            "{}: its configuration is older than one before, and most Sentinels do not answer",
            self.sentinel
        )
    }
}

/// The answer that counts: the one with the highest epoch, and among equals the one whose address most Sentinels name.
///
/// `before` is the epoch that was believed before. A lower one counts only if most of the Sentinels answered: they
/// were set up anew. Otherwise a Sentinel that was cut off sent it.
pub(super) fn choose(answers: &[Answer], before: Option<u64>, known: usize) -> Option<&Answer> {
    let votes = |address: &str| answers.iter().filter(|answer| answer.address == address).count();
    let best = answers.iter().max_by_key(|answer| (answer.epoch, votes(&answer.address)))?;
    let is_older = before.is_some_and(|before| best.epoch < before);
    (!is_older || answers.len().saturating_mul(2) > known).then_some(best)
}

/// The question on one connection, without the parts that the user was refused: repeats would fill ACL LOG.
#[derive(Default)]
pub(super) struct Question {
    no_epoch: bool,
    no_others: bool,
}

impl Question {
    pub(super) async fn ask(
        &mut self,
        connection: &dyn Connection,
        sentinel: &str,
        service: &str,
    ) -> Result<Answer, Error> {
        let about = |word: &str| {
            let mut command = cmd("SENTINEL");
            command.arg(word).arg(service);
            command
        };
        // In this order: during a fail-over a Sentinel that names the old address must not name the new epoch.
        let mut commands: Vec<Cmd> = Vec::new();
        if !self.no_epoch {
            commands.push(about("MASTER"));
        }
        commands.push(about("GET-MASTER-ADDR-BY-NAME"));
        if !self.no_others {
            commands.push(about("SENTINELS"));
        }
        let replies = connection.send(commands).await.map_err(|why| Error::transport(sentinel, why))?;
        let mut replies = replies.into_iter().map(answer);
        let mut next = || replies.next().unwrap_or(Ok(Value::Nil));
        let epoch = if self.no_epoch { Value::Nil } else { allowed(next(), &mut self.no_epoch) };
        let address = next().map_err(|refusal| said_by_a_sentinel(Error::from(&refusal)))?;
        let others = if self.no_others { Value::Nil } else { allowed(next(), &mut self.no_others) };
        let unknown = || Error::transport(sentinel, format!("it knows no primary called {service}"));
        Ok(Answer {
            sentinel: sentinel.to_string(),
            epoch: field(&epoch, "config-epoch")
                .and_then(text)
                .and_then(|text| text.parse().ok())
                .unwrap_or(0),
            address: address_of(&address).ok_or_else(unknown)?,
            others: others_of(&others),
        })
    }
}

/// The reply; nothing where it is a refusal, with a note where the next will be refused as well.
fn allowed(reply: Result<Value, Refusal>, refused: &mut bool) -> Value {
    reply.unwrap_or_else(|refusal| {
        *refused |= matches!(Error::from(&refusal), Error::Permission { .. });
        Value::Nil
    })
}

/// Adds that a sentinel refused the user, so that it is clear which user is meant.
pub(super) fn said_by_a_sentinel(error: Error) -> Error {
    match error {
        Error::Permission { message } => Error::Permission {
            message: format!(
                "{message} (said by a sentinel: write its user and password at the end of the URL: \
                 ?sentinel_username=…&sentinel_password=…)"
            ),
        },
        error => error,
    }
}

fn address_of(reply: &Value) -> Option<String> {
    let Value::Array(words) = reply else { return None };
    let [host, port, ..] = words.as_slice() else { return None };
    Some(format!("{}:{}", in_url(text(host)?), text(port)?))
}

fn others_of(reply: &Value) -> Vec<String> {
    let Value::Array(sentinels) = reply else { return Vec::new() };
    let address = |sentinel: &Value| {
        let (host, port) = (text(field(sentinel, "ip")?)?, text(field(sentinel, "port")?)?);
        Some(format!("{}:{port}", in_url(host)))
    };
    sentinels.iter().filter_map(address).collect()
}

/// The new address in a message on `+switch-master` about this service: its name, the old host and port, the new ones.
pub(super) fn switched(message: &[u8], service: &str) -> Option<String> {
    let message = std::str::from_utf8(message).ok()?;
    let mut words = message.strip_prefix(service)?.strip_prefix(' ')?.split(' ').skip(2);
    let (host, port) = (words.next()?, words.next()?);
    Some(format!("{}:{port}", in_url(host)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(words: &[(u64, &str)]) -> Vec<Answer> {
        let answer = |(epoch, address): &(u64, &str)| Answer {
            sentinel: "one".into(),
            epoch: *epoch,
            address: address.to_string(),
            others: Vec::new(),
        };
        words.iter().map(answer).collect()
    }

    fn chosen(words: &[(u64, &str)], before: Option<u64>, known: usize) -> Option<String> {
        choose(&answers(words), before, known).map(|answer| answer.address.clone())
    }

    #[test]
    fn the_highest_epoch_counts_and_an_old_one_needs_most_of_the_sentinels() {
        let (old, new) = ((3, "old:1"), (4, "new:1"));
        assert_eq!(chosen(&[old, new, old], None, 3), Some("new:1".into()));
        assert_eq!(chosen(&[old], Some(3), 3), Some("old:1".into()));
        assert_eq!(chosen(&[old], Some(4), 3), None, "the word of one that was cut off");
        assert_eq!(chosen(&[old, old], Some(4), 3), Some("old:1".into()), "set up anew");
        assert_eq!(chosen(&[old, old], Some(4), 4), None, "half is not most");
        assert_eq!(chosen(&[(0, "a:1"), (0, "b:1"), (0, "b:1")], None, 3), Some("b:1".into()));
        assert_eq!(chosen(&[], None, 3), None);
    }

    #[test]
    fn messages_name_the_new_address_of_their_service() {
        let read = |message: &str| switched(message.as_bytes(), "main");
        assert_eq!(read("main 10.0.0.1 6379 10.0.0.2 6380"), Some("10.0.0.2:6380".into()));
        assert_eq!(read("main ::1 6379 ::2 6380"), Some("[::2]:6380".into()));
        for other in ["main2 a 1 b 2", "other a 1 b 2", "main a 1 b", "main", ""] {
            assert_eq!(read(other), None, "{other}");
        }
    }
}
