//! What `rlock top` shows: the servers and their locks, sorted and filtered.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::sample::{Counters, Lock, Sample};
use crate::args::Sort;
use crate::error::Error;
use crate::names;
use crate::owners;
use crate::server::Hindrance;

/// One server.
#[derive(Debug, Clone, Default)]
pub(super) struct Server {
    /// Its last two answers.
    last: Option<Sample>,
    before: Option<Sample>,
    /// Why it did not answer the last question.
    pub(super) error: Option<String>,
}

impl Server {
    /// The server has answered.
    pub(super) fn note(&mut self, sample: Sample) {
        self.before = self.last.replace(sample);
        self.error = None;
    }

    /// The server has not answered: its locks are unknown now.
    pub(super) fn fail(&mut self, error: &Error) {
        *self = Server { last: None, before: None, error: Some(error.to_string()) };
    }

    pub(super) fn rates(&self) -> Option<Counters> {
        self.last.as_ref()?.rates_since(self.before.as_ref()?)
    }

    pub(super) fn waiters(&self) -> Option<u64> {
        self.last.as_ref().map(|sample| sample.waiters)
    }

    /// Why a server that answers gives no locks now.
    pub(super) fn refuses(&self) -> Option<String> {
        self.last.as_ref()?.hindrance.as_ref().map(Hindrance::text)
    }

    pub(super) fn locks(&self) -> &[Lock] {
        self.last.as_ref().map_or(&[], |sample| &sample.locks)
    }
}

/// All servers, by their addresses.
pub(super) type Servers = BTreeMap<String, Server>;

/// The locks of all servers that match a filter, in order.
pub(super) fn rows<'a>(servers: &'a Servers, sort: Sort, filter: &str) -> Vec<&'a Lock> {
    let locks = servers.values().flat_map(Server::locks);
    let mut rows: Vec<&Lock> = locks.filter(|lock| matches(lock, filter)).collect();
    // A stable order: locks do not change their places without a reason.
    rows.sort_by(|a, b| (a.hot.db, &a.hot.key).cmp(&(b.hot.db, &b.hot.key)));
    match sort {
        Sort::Waited => rows.sort_by_key(|lock| Reverse(lock.hot.waited_ms)),
        Sort::Waiters => rows.sort_by_key(|lock| Reverse((lock.hot.waiters, lock.hot.waited_ms))),
        Sort::Longest => rows.sort_by_key(|lock| Reverse(lock.hot.longest_ms)),
        Sort::Waits => rows.sort_by_key(|lock| Reverse(lock.hot.waits)),
        Sort::Denied => rows.sort_by_key(|lock| Reverse(lock.hot.denied)),
        Sort::Name => {}
    }
    rows
}

/// Whether the name of a lock or its holder contains a text.
fn matches(lock: &Lock, filter: &str) -> bool {
    let in_owner = || lock.holder.as_ref().is_some_and(|holder| names::shown(&holder.owner).contains(filter));
    filter.is_empty() || lock_name(lock).contains(filter) || in_owner()
}

/// The name of a lock, with its database unless that is 0.
pub(super) fn lock_name(lock: &Lock) -> String {
    let name = names::shown(&lock.hot.key);
    if lock.hot.db == 0 { name } else { format!("[{}] {name}", lock.hot.db) }
}

/// The holder of a lock in a few words, and the number of others.
pub(super) fn holder(lock: &Lock) -> String {
    match (&lock.holder, lock.holders) {
        (None, Some(0)) => "free".to_string(),
        (None, None) => lock.holder_error.clone().unwrap_or("?".to_string()),
        (None, Some(count)) => format!("{count} holders"),
        (Some(holder), count) => match count.unwrap_or(1).saturating_sub(1) {
            0 => owners::short(&holder.owner),
            more => format!("{} +{more}", owners::short(&holder.owner)),
        },
    }
}

/// A time for a narrow column; `≤` where the server may have counted the time of another lock.
pub(super) fn waited(lock: &Lock) -> String {
    let time = time(lock.hot.waited_ms);
    if lock.hot.error_ms > 0 { format!("≤{time}") } else { time }
}

/// A time in ms.
pub(super) fn time(ms: u64) -> String {
    crate::duration::shown(i64::try_from(ms).unwrap_or(i64::MAX))
}

/// A rate per second; `–` where none is known yet.
pub(super) fn rate(rates: Option<Counters>, of: fn(&Counters) -> f64) -> String {
    rates.map_or("–".to_string(), |rates| format!("{:.1}", of(&rates)))
}

/// The columns of the table of servers after the address: title and value.
pub(super) fn server_columns(server: &Server) -> [String; 5] {
    let rates = server.rates();
    [
        rate(rates, |rates| rates.acquired),
        rate(rates, |rates| rates.denied),
        rate(rates, |rates| rates.hand_offs),
        rate(rates, |rates| rates.timeouts),
        server.waiters().map_or("–".to_string(), |waiters| waiters.to_string()),
    ]
}

/// The titles of [`server_columns`].
pub(super) const SERVER_TITLES: [&str; 5] =
    ["ACQUIRED/s", "DENIED/s", "HAND-OFFS/s", "TIME-OUTS/s", "WAITERS"];

/// The columns of a lock between its name and its holder.
pub(super) fn lock_columns(lock: &Lock) -> [String; 5] {
    [
        waited(lock),
        lock.hot.waiters.to_string(),
        time(lock.hot.longest_ms),
        lock.hot.waits.to_string(),
        lock.hot.denied.to_string(),
    ]
}

/// The titles of [`lock_columns`].
pub(super) const LOCK_TITLES: [&str; 5] = ["WAITED", "WAITERS", "LONGEST", "WAITS", "DENIED"];
