//! Rules about sessions: what ties holds to connections.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::Book;
use crate::proxy::transcript::Entry;
use crate::run::{Problem, Run};

pub(crate) fn judge(run: &Run<'_>, books: &[Book]) -> Result<(), Problem> {
    let graces = graces(run);
    for book in books {
        said_in_all_or_none(book, &graces)?;
        tied_before_anything_else(book, &graces)?;
    }
    Ok(())
}

/// The owners whose acquisition was answered, and the grace of those with a session.
fn graces(run: &Run<'_>) -> HashMap<String, Option<String>> {
    let acquires = run.asked.iter().filter(|asked| asked.request.get("do") == Some(&"acquire".into()));
    acquires
        .filter_map(|asked| {
            let owner = asked.answer.as_ref()?.fields.get("owner")?.as_str()?.to_string();
            Some((owner, asked.request.get("session_ms").map(Value::to_string)))
        })
        .collect()
}

/// The owner of an ACQUIRE or RENEW, and the words that follow it.
fn tying(entry: &Entry) -> Option<(&String, &[String])> {
    let (words, _) = entry.command("RLOCK.ACQUIRE").or_else(|| entry.command("RLOCK.RENEW"))?;
    Some((words.get(2)?, words.get(3..)?))
}

/// Each ACQUIRE and RENEW of an owner says SESSION with its grace, or none does.
fn said_in_all_or_none(book: &Book, graces: &HashMap<String, Option<String>>) -> Result<(), Problem> {
    for entry in &book.entries {
        let Some((owner, words)) = tying(entry) else { continue };
        let Some(wanted) = graces.get(owner) else { continue };
        let place = words.iter().position(|word| word.eq_ignore_ascii_case("SESSION"));
        let found = place.and_then(|place| words.get(place + 1));
        if found != wanted.as_ref() {
            let text = format!("rule SESSION: {owner} has {wanted:?}, and said {}", words.join(" "));
            return Err(text.into());
        }
    }
    Ok(())
}

/// On a new connection, holds are tied before any other command of a lock goes out.
fn tied_before_anything_else(book: &Book, graces: &HashMap<String, Option<String>>) -> Result<(), Problem> {
    // The connection on which the server last confirmed an owner, and the connections that carried something else.
    let (mut confirmed, mut others) = (HashMap::new(), HashSet::new());
    for entry in &book.entries {
        let Some(name) = entry.name().filter(|name| name.starts_with("RLOCK.")) else { continue };
        let Some((owner, _)) = tying(entry) else {
            others.insert(entry.connection);
            continue;
        };
        let before = confirmed.get(owner).is_some_and(|connection| *connection != entry.connection);
        let late = name == "RLOCK.RENEW" && before && others.contains(&entry.connection);
        if late && graces.get(owner).is_some_and(Option::is_some) {
            let text = format!("rule SESSION: {owner} was tied to connection {} late", entry.connection);
            return Err(text.into());
        }
        if name != "RLOCK.RENEW" {
            others.insert(entry.connection);
        }
        if entry.is_answered() {
            confirmed.insert(owner.clone(), entry.connection);
        }
    }
    Ok(())
}
