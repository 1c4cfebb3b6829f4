//! The rules that hold in every scenario.

mod backing;
mod grants;
mod holds;
mod lasting;
mod sessions;
mod transcript;

use std::ops::Range;

use serde_json::Value;

use crate::proxy::transcript::Entry;
use crate::run::Run;

pub(crate) use holds::judge as holds;
pub(crate) use sessions::judge as sessions;
pub(crate) use transcript::judge as transcript;

/// What each client sent so far.
pub(crate) fn books(run: &Run<'_>) -> Vec<Book> {
    run.parties.iter().map(|(name, party)| Book::of(run, name, party.proxy.entries())).collect()
}

/// What one client sent.
pub(crate) struct Book {
    pub(crate) client: String,
    pub(crate) entries: Vec<Entry>,
    /// When its close was answered.
    pub(crate) closed: Option<i64>,
    /// When its process stood still.
    pub(crate) stops: Vec<Range<i64>>,
}

impl Book {
    fn of(run: &Run<'_>, client: &str, entries: Vec<Entry>) -> Book {
        let close = run.asked.iter().find(|asked| {
            asked.request.get("do").and_then(Value::as_str) == Some("close")
                && asked.request.get("client").and_then(Value::as_str) == Some(client)
        });
        let closed = close.and_then(|asked| asked.answer.as_ref()).map(|answer| answer.at);
        let process = run.parties.get(client).map(|party| &party.process);
        let stops = run.stops.iter().filter(|(stopped, _)| Some(stopped) == process);
        let stops = stops.map(|(_, stop)| stop.clone()).collect();
        Book { client: client.to_string(), entries, closed, stops }
    }
}
