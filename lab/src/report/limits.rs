//! How far rlock is from what no module can avoid.

use super::prose::thousands;
use super::tables::{number, table};
use crate::limits::{Limits, Way};

/// The ways, by their stored names and for readers.
const WAYS: [(&str, &str); 5] = [
    ("pair", "acquire + release"),
    ("renewal", "renewal"),
    ("block", "hand-off, BLOCK"),
    ("enqueue-unconfirmed", "hand-off, ENQUEUE without the RENEW"),
    ("enqueue", "hand-off, ENQUEUE, confirmed by RENEW"),
];

/// One table of all servers, and what it was counted with.
pub(super) fn section(limits: &[Limits]) -> String {
    let Some(first) = limits.first() else { return "No results are stored.".into() };
    let head: Vec<&str> = std::iter::once("").chain(limits.iter().map(|one| one.server.as_str())).collect();
    let cell = |way: Option<&Way>| {
        way.map_or("-".into(), |Way { limit, rlock, own, .. }| {
            let (ratio, own) = (number(rlock / limit), thousands(*own));
            format!("**{ratio}** ({} to {}; {own} own)", thousands(*rlock), thousands(*limit))
        })
    };
    let rows = WAYS.map(|(name, label)| {
        let cells = limits.iter().map(|one| cell(one.way(name)));
        std::iter::once(label.to_string()).chain(cells).collect::<Vec<_>>().join(" | ")
    });
    format!(
        "{}\nCounted with {} in flight, hand-offs with {} waiters and one command at a time ({}, rlock {}).",
        table(&head.join(" | "), rows),
        first.in_flight,
        first.waiters,
        first.date,
        first.commit,
    )
}
