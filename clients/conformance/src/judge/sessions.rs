//! Rules about sessions: what ties holds to connections.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::Book;
use super::holds::text;
use crate::proxy::transcript::{Entry, What};
use crate::run::{Asked, Problem, Run};
use rlock_testkit::Frame;

pub(crate) fn judge(run: &Run<'_>, books: &[Book]) -> Result<(), Problem> {
    let graces = graces(run);
    for book in books {
        said_in_all_or_none(book, &graces)?;
        tied_before_anything_else(book, &graces)?;
    }
    Ok(())
}

/// An acquisition or adoption that was answered.
struct Grace {
    client: String,
    owner: String,
    /// When it was asked for.
    from: i64,
    /// `None` without a session.
    grace: Option<String>,
    /// When a release or detachment was asked for that leaves the hold in the server without a session.
    left: Option<i64>,
}

fn graces(run: &Run<'_>) -> Vec<Grace> {
    let asks = run.asked.iter().filter(|asked| ["acquire", "adopt"].contains(&text(asked, "do")));
    asks.filter_map(|asked| {
        let answer = asked.answer.as_ref().filter(|answer| answer.error.is_none())?;
        let owner = answer.fields.get("owner").or_else(|| asked.request.get("owner"))?.as_str()?.to_string();
        let at_least = asked.request.contains_key("at_least_ms");
        let leaves = |other: &&Asked| {
            let name = text(other, "do");
            let ends = name == "detach" || name == "release" && at_least;
            ends && text(other, "guard") == text(asked, "guard")
        };
        Some(Grace {
            client: text(asked, "client").to_string(),
            owner,
            from: asked.sent,
            grace: asked.request.get("session_ms").map(Value::to_string),
            left: run.asked.iter().find(leaves).map(|leave| leave.sent),
        })
    })
    .collect()
}

/// What the client last asked for about this owner.
fn grace<'a>(graces: &'a [Grace], book: &Book, owner: &str, at: i64) -> Option<&'a Grace> {
    let its = graces.iter().filter(|grace| grace.client == book.client && grace.owner == owner);
    its.filter(|grace| grace.from <= at).max_by_key(|grace| grace.from)
}

fn session(words: &[String]) -> Option<&String> {
    let place = words.iter().position(|word| word.eq_ignore_ascii_case("SESSION"))?;
    words.get(place + 1)
}

/// The owner of an ACQUIRE or RENEW, and the words that follow it.
fn tying(entry: &Entry) -> Option<(&String, &[String])> {
    let (words, _) = entry.command("RLOCK.ACQUIRE").or_else(|| entry.command("RLOCK.RENEW"))?;
    Some((words.get(2)?, words.get(3..)?))
}

/// Each ACQUIRE and RENEW of an owner says SESSION with its grace, or none does. The RENEW that leaves a hold in the server says none, and
/// one that follows a refusal as UNTIED on its connection. The next one there waits for its answer: both might come late together.
fn said_in_all_or_none(book: &Book, graces: &[Grace]) -> Result<(), Problem> {
    let (mut untied, mut asked) = (HashSet::new(), HashMap::new());
    for entry in &book.entries {
        let Some((owner, words)) = tying(entry) else { continue };
        let Some(hold) = grace(graces, book, owner, entry.at) else { continue };
        let (wanted, found) = (&hold.grace, session(words));
        let leaves = entry.name() == Some("RLOCK.RENEW") && hold.left.is_some_and(|left| entry.at >= left);
        let here = (owner, entry.connection);
        if is_untied(entry) {
            untied.insert(here);
        }
        if found.is_none() && (leaves || untied.remove(&here)) {
            asked.insert(here, answered_at(entry));
            continue;
        }
        if asked.remove(&here).is_some_and(|answered| answered.is_none_or(|answered| entry.at < answered)) {
            return Err(
                format!("rule SESSION: {owner} did not wait for the answer to {}", words.join(" ")).into()
            );
        }
        if found != wanted.as_ref() {
            let text = format!("rule SESSION: {owner} has {wanted:?}, and said {}", words.join(" "));
            return Err(text.into());
        }
    }
    Ok(())
}

fn answered_at(entry: &Entry) -> Option<i64> {
    let What::Request { reply: Some(reply), .. } = &entry.what else { return None };
    Some(reply.at)
}

fn is_untied(entry: &Entry) -> bool {
    let What::Request { reply: Some(reply), .. } = &entry.what else { return false };
    matches!(&reply.value, Frame::Error(why) if why.starts_with(b"UNTIED "))
}

/// On a new connection, holds are tied before any other command of a lock goes out.
fn tied_before_anything_else(book: &Book, graces: &[Grace]) -> Result<(), Problem> {
    // The connection on which the server last confirmed an owner, and the connections that carried something else.
    let (mut confirmed, mut others) = (HashMap::new(), HashSet::new());
    for entry in &book.entries {
        let Some(name) = entry.name().filter(|name| name.starts_with("RLOCK.")) else { continue };
        let Some((owner, words)) = tying(entry) else {
            // A command without arguments, by which a client finds the module, is about no lock.
            if matches!(&entry.what, What::Request { words, .. } if words.len() > 1) {
                others.insert(entry.connection);
            }
            continue;
        };
        // A server that names another one ties nothing.
        if matches!(&entry.what, What::Request { reply: Some(reply), .. } if matches!(reply.value, Frame::Error(_)))
        {
            continue;
        }
        let before = confirmed.get(owner).is_some_and(|connection| *connection != entry.connection);
        let late = name == "RLOCK.RENEW" && before && others.contains(&entry.connection);
        if late && session(words).is_some() && grace(graces, book, owner, entry.at).is_some() {
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
